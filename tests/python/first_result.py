"""What a new user's first script does, in an environment with nothing but braid: first_result.py MODEL REDUCE_MODEL

MODEL: y = x @ w + b (models.linear), REDUCE_MODEL: y is the sum of x over 2 ranks. Everything must come from the package's
own folder, and nothing may need MPI."""

import array
import os
import pathlib
import sys

import braid

package = pathlib.Path(braid.__file__).parent
model, reduce_model = sys.argv[1:]


def floats(values, *shape):
    return memoryview(array.array("f", values)).cast("B").cast("f", shape)


for target in ("cpu", "interpreter"):
    with braid.compile(model, dims={"batch": (1, 4)}, target=target).session() as session:
        y = session.run({"x": floats([1, 2, 3], 1, 3)})["y"]
    assert memoryview(y).tolist() == [[17.0, 21.0]], memoryview(y).tolist()

# A CUDA program, on the emulated device, which is in the package as well.
with braid.compile(model, dims={"batch": (1, 4)}, target="cuda").session(device="emulated") as session:
    y = session.run({"x": floats([1, 2, 3], 1, 3)})["y"]
assert memoryview(y).tolist() == [[17.0, 21.0]], memoryview(y).tolist()

with braid.compile(reduce_model, ranks=2).launch(threads=1) as ranks:
    for rank in ranks.run({"x": floats([1, 2, 3, 4], 4)}):
        assert memoryview(rank["y"]).tolist() == [2.0, 4.0, 6.0, 8.0]
assert len(braid.ops()) > 100

try:
    os.environ["CXX"] = "/bin/false"
    braid.compile(model, dims={"batch": (1, 5)})
except braid.Error as error:
    assert error.code == 603 and f"-I'{package}/include/braid'" in error.message, error
else:
    raise AssertionError("a compiler that fails gave a program")

mapped = {line.split(maxsplit=5)[5].strip() for line in open("/proc/self/maps") if "/" in line}
ours = ("libbraid.so", "libbraid_emulated", "libprotobuf", "libfmt", "libdnnl", "libOpenCL")
for path in mapped:
    name = pathlib.Path(path).name
    assert not name.startswith("libmpi"), path
    assert not name.startswith(ours) or pathlib.Path(path).is_relative_to(package / "lib"), path
assert "numpy" not in sys.modules
print("first result")
