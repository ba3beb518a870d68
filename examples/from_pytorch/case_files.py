"""Test cases of several ranks on disk, and a check of them that knows nothing of PyTorch: ONNX's reference evaluator."""

import json
import os
import sys

import numpy as np
import onnx
from onnx import numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tensor_parallel"))
import lockstep  # noqa: E402


def write_case(folder, rank, data_sets, bounds):
    """This rank's inputs and expected outputs, a pair of dictionaries per data set; rank 0 also writes the bounds."""
    for k, arrays in enumerate(data_sets):
        target = os.path.join(folder, f"test_data_set_{k}", f"rank{rank}")
        os.makedirs(target, exist_ok=True)
        for kind, values in zip(("input", "output"), arrays):
            for i, (name, array) in enumerate(values.items()):
                with open(os.path.join(target, f"{kind}_{i}.pb"), "wb") as file:
                    tensor = numpy_helper.from_array(np.asarray(array, order="C"), name)
                    file.write(tensor.SerializeToString(deterministic=True))
    if bounds and rank == 0:
        with open(os.path.join(folder, "dims.json"), "w") as file:
            json.dump({name: list(limits) for name, limits in bounds.items()}, file)
            file.write("\n")


def read_tensors(folder, kind, names):
    result = {}
    for i, name in enumerate(names):
        with open(os.path.join(folder, f"{kind}_{i}.pb"), "rb") as file:
            result[name] = numpy_helper.to_array(onnx.TensorProto.FromString(file.read()))
    return result


def check_files(folder, ranks, data_sets):
    """Runs all ranks' files in lock-step and compares with the expected outputs."""
    paths = [os.path.join(folder, f"model.rank{rank}.onnx") for rank in range(ranks)]
    graph = onnx.load(paths[0]).graph
    inputs, outputs = [v.name for v in graph.input], [v.name for v in graph.output]
    for k in range(data_sets):
        at = [os.path.join(folder, f"test_data_set_{k}", f"rank{rank}") for rank in range(ranks)]
        found = lockstep.run_ranks(paths, [read_tensors(each, "input", inputs) for each in at])
        for rank, each in enumerate(at):
            for name, array in read_tensors(each, "output", outputs).items():
                np.testing.assert_allclose(
                    found[rank][name], array, atol=1e-5, rtol=1e-4, err_msg=f"{folder}, set {k}, rank {rank}"
                )
