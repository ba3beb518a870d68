#!/usr/bin/env python3
"""Writes an ONNX model of float32 with all of its float32 tensors as float16 or bfloat16: narrow_model.py IN OUT float16|bfloat16"""

import os
import sys

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, numpy_helper, version_converter

TYPES = {"float16": (TensorProto.FLOAT16, np.float16), "bfloat16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16)}
BFLOAT16_OPSET = 22  # the first with Conv, Cos and others of bfloat16


def narrow(model, name):
    number, dtype = TYPES[name]
    graph = model.graph

    def tensor(t):
        if t.data_type == TensorProto.FLOAT:
            narrowed = onnx.TensorProto(name=t.name, data_type=number, dims=t.dims)
            values, limits = numpy_helper.to_array(t), ml_dtypes.finfo(dtype)
            # The least float32, as masks have it, would become infinity, and 0 times that NaN.
            finite = np.clip(values, float(limits.min), float(limits.max))
            narrowed.raw_data = np.where(np.isinf(values), values, finite).astype(dtype).tobytes()
            t.CopyFrom(narrowed)

    for initializer in graph.initializer:
        tensor(initializer)
    for value in [*graph.input, *graph.output, *graph.value_info]:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = number
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                tensor(attribute.t)
            elif node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = number


def main():
    source, target, name = sys.argv[1:]
    model = onnx.load(source)
    if name == "bfloat16" and model.opset_import[0].version < BFLOAT16_OPSET:
        model = version_converter.convert_version(model, BFLOAT16_OPSET)
    narrow(model, name)
    os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
    onnx.save(model, target)


if __name__ == "__main__":
    main()
