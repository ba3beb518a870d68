"""One-operator models with random attributes and shapes, and what ONNX's reference evaluator or NumPy says they compute.

A family is a module with a dict OPERATORS: name -> function of a numpy Generator that returns a Case. make_cases.py writes
the cases of all families; tests/frontend/reference_test.cc runs them. A case becomes a folder in the layout of ONNX's
backend tests, with dims.json where dimensions are named.
"""

import dataclasses
import json
import os
from collections.abc import Callable

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

FLOATS = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
NUMBERS = [*FLOATS, *INTEGERS]
ALL_TYPES = [*NUMBERS, np.bool_]
HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


@dataclasses.dataclass
class Case:
    operator: str
    opset: int
    inputs: list  # arrays; None: absent
    attributes: dict = dataclasses.field(default_factory=dict)
    constants: tuple = ()  # numbers of the inputs that are initializers
    outputs: int = 1
    # Inputs whose sizes become named dimensions, unless they are 0. One name is one size.
    dynamic: tuple = ()
    # Computes the outputs from the inputs; None: the reference evaluator does.
    expected: Callable | None = None
    # Attributes and version that the evaluator takes instead, if it does not know those of the case.
    evaluate_as: tuple | None = None


def pick(rng, choices):
    return choices[rng.integers(len(choices))]


def array(rng, dtype, shape):
    """Normal floats, small integers, fair booleans."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -50, 100, shape).astype(dtype)
    return rng.standard_normal(shape).astype(np.float32).astype(dtype)


def model_of(case, arrays, attributes, opset, outputs):
    """The case's model; `outputs` are arrays or None, which leaves out the type."""
    names = [f"x{k}" if a is not None else "" for k, a in enumerate(arrays)]
    while names and not names[-1]:
        names.pop()
    results = [f"y{k}" for k in range(case.outputs)]
    node = helper.make_node(case.operator, names, results, name="node", **attributes)
    values, initializers = [], []
    for k, a in enumerate(arrays):
        if a is None:
            continue
        if k in case.constants:
            initializers.append(numpy_helper.from_array(a, names[k]))
            continue
        shape = [f"n{size}" if k in case.dynamic and size > 0 else size for size in a.shape]
        values.append(helper.make_tensor_value_info(names[k], helper.np_dtype_to_tensor_dtype(a.dtype), shape))
    types = [
        (onnx.TensorProto.FLOAT, None)
        if a is None
        else (helper.np_dtype_to_tensor_dtype(a.dtype), [None] * a.ndim)
        for a in outputs
    ]
    declared = [helper.make_tensor_value_info(name, *t) for name, t in zip(results, types)]
    graph = helper.make_graph([node], case.operator, values, declared, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8 if opset < 19 else 10
    return model


def expected_outputs(case):
    """In float32 where the case has half types, rounded at the end."""
    halves = [a.dtype for a in case.inputs if a is not None and a.dtype in HALVES]
    arrays = [a.astype(np.float32) if a is not None and a.dtype in HALVES else a for a in case.inputs]
    if case.expected is not None:
        results = case.expected(*arrays)
        results = list(results) if isinstance(results, (tuple, list)) else [results]
    else:
        attributes, opset = case.evaluate_as or (case.attributes, case.opset)
        model = model_of(case, arrays, attributes, opset, [None] * case.outputs)
        feeds = {f"x{k}": a for k, a in enumerate(arrays) if a is not None and k not in case.constants}
        results = ReferenceEvaluator(model).run(None, feeds)
    results = [np.asarray(r) for r in results]
    if halves:
        results = [r.astype(halves[0]) if r.dtype.kind == "f" else r for r in results]
    return results


def write(case, folder):
    outputs = expected_outputs(case)
    data = os.path.join(folder, "test_data_set_0")
    os.makedirs(data)
    onnx.save(model_of(case, case.inputs, case.attributes, case.opset, outputs), os.path.join(folder, "model.onnx"))
    given = [a for k, a in enumerate(case.inputs) if a is not None and k not in case.constants]
    for prefix, arrays in (("input", given), ("output", outputs)):
        for k, a in enumerate(arrays):
            with open(os.path.join(data, f"{prefix}_{k}.pb"), "wb") as f:
                f.write(numpy_helper.from_array(np.ascontiguousarray(a).reshape(a.shape)).SerializeToString())
    sizes = {s for k in case.dynamic if case.inputs[k] is not None for s in case.inputs[k].shape if s > 0}
    if sizes:
        with open(os.path.join(folder, "dims.json"), "w", encoding="utf-8") as f:
            json.dump({f"n{s}": [1, max(s, 8)] for s in sizes}, f)
