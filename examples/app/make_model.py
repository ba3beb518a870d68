#!/usr/bin/env python3
"""Writes layer.onnx, y = Relu(x * w + b), and sum.onnx, y = AllReduce(x), with numbers small enough to check by head.

  scripts/python_run.sh examples/app/make_model.py
"""

import pathlib

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

BRAID_DOMAIN = "com.microsoft"


def write(name, nodes, sizes, weights, domains=()):
    """`sizes`: columns of x and of y, both [batch, columns]."""
    tensors = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", s]) for n, s in zip("xy", sizes)]
    weights = [numpy_helper.from_array(np.array(value, np.float32), n) for n, value in weights.items()]
    graph = helper.make_graph(nodes, name, tensors[:1], tensors[1:], weights)
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(d, 1) for d in domains)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="braid")
    save(model, pathlib.Path(__file__).with_name(f"{name}.onnx"))


def main():
    product = helper.make_node("Gemm", ["x", "w", "b"], ["t"], name="gemm")
    relu = helper.make_node("Relu", ["t"], ["y"], name="relu")
    write("layer", [product, relu], (3, 2), {"w": [[1, 0], [0, 1], [1, 1]], "b": [-1, 2]})
    total = helper.make_node("AllReduce", ["x"], ["y"], name="sum", domain=BRAID_DOMAIN)
    write("sum", [total], (2, 2), {}, [BRAID_DOMAIN])


if __name__ == "__main__":
    main()
