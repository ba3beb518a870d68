#!/usr/bin/env python3
"""Writes scores.onnx: the three best of eight scores per row, with the operator of row_sort.cc.

  scripts/python_run.sh examples/plugin/make_model.py
"""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def scores() -> onnx.ModelProto:
    """y[rows, 3] of x[rows, 4]; deterministic."""
    weights = (np.arange(32, dtype=np.float32).reshape(4, 8) * 7 % 11 - 5) / 4
    constants = [numpy_helper.from_array(weights, "weights"),
                 numpy_helper.from_array(np.array([0], np.int64), "first"),
                 numpy_helper.from_array(np.array([3], np.int64), "last"),
                 numpy_helper.from_array(np.array([1], np.int64), "axis")]
    nodes = [helper.make_node("MatMul", ["x", "weights"], ["all"], name="/MatMul"),
             helper.make_node("RowSort", ["all"], ["sorted"], name="/RowSort", domain="com.example", descending=1),
             helper.make_node("Slice", ["sorted", "first", "last", "axis"], ["y"], name="/Slice")]
    graph = helper.make_graph(nodes, "scores",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 3])], constants)
    return helper.make_model(graph, ir_version=8, producer_name="braid",
                             opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)])


if __name__ == "__main__":
    onnx.save(scores(), pathlib.Path(__file__).parent / "scores.onnx")
