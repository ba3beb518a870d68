"""Cases of tests/corpus/architectures: real architectures, exported small by export_architectures.py.

    NAME/model.onnx.gz  large weights have no data: their doc_string says which random numbers they are, see `fill`
    NAME/case.json      bounds of the named dimensions, the inputs, and the sizes of each data set
    NAME/outputs.npz    what ONNX Runtime computed for each data set

`write_cases` makes folders in the layout of ONNX's backend tests of them.
"""

import gzip
import json
import pathlib
import zlib

import numpy as np
import onnx
from onnx import numpy_helper

import case_writer  # first: it makes the example's modules known
from test_vectors import write_data_set

CORPUS = pathlib.Path(__file__).resolve().parent.parent / "corpus" / "architectures"


def generator(*words):
    return np.random.Generator(np.random.PCG64([zlib.crc32(str(w).encode()) for w in words]))


def fill(model):
    """Gives data to the initializers that have only a recipe: "normal MEAN DEVIATION" or "uniform LOW HIGH"."""
    for tensor in model.graph.initializer:
        if not tensor.doc_string:
            continue
        kind, *parameters = tensor.doc_string.split()
        values = getattr(generator(tensor.name), kind)(*map(float, parameters), list(tensor.dims))
        tensor.CopyFrom(numpy_helper.from_array(values.astype(np.float32), tensor.name))


def random_inputs(inputs, sizes, seed):
    """Values by name. `inputs`: name -> (shape in names and numbers, "normal" | "mask" | limit of integers)."""
    result = {}
    for name, (shape, kind) in inputs.items():
        shape = [sizes.get(s, s) for s in shape]
        if kind == "normal":
            result[name] = generator(name, seed).standard_normal(shape, np.float32)
        elif kind == "mask":
            result[name] = np.ones(shape, np.int64)
            result[name][-1, -1] = 0
        else:
            result[name] = generator(name, seed).integers(0, kind, shape)
    return result


def write_cases(root):
    for folder in sorted(CORPUS.iterdir()):
        case = json.loads((folder / "case.json").read_text())
        model = onnx.load_model_from_string(gzip.decompress((folder / "model.onnx.gz").read_bytes()))
        fill(model)
        target = pathlib.Path(root) / folder.name
        target.mkdir(parents=True, exist_ok=True)
        onnx.save(model, target / "model.onnx")
        case_writer.write_dims(target, case["dims"])
        outputs = np.load(folder / "outputs.npz")
        for k, sizes in enumerate(case["sizes"]):
            expected = {o.name: outputs[f"{k}/{o.name}"] for o in model.graph.output}
            write_data_set(target / f"test_data_set_{k}", random_inputs(case["inputs"], sizes, k), expected)
