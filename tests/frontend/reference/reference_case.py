"""One-operator models with random attributes and shapes, and what ONNX's reference evaluator or NumPy says they compute.
ONNX Runtime confirms some of what the evaluator says.

A family is a module with a dict OPERATORS: name -> function of a numpy Generator that returns a Case. make_cases.py writes
the cases of all families; tests/frontend/reference_test.cc runs them. A case becomes a folder in the layout of ONNX's
backend tests, with dims.json where dimensions are named.

Definitions in NumPy are written out, slow and obvious: they must share no idea with the compiler.
"""

import dataclasses
import functools
import json
import os
from collections.abc import Callable

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

# Of the file, from an operator set on: newer ones have more element types.
IR_VERSIONS = [(25, 13), (24, 12), (23, 11), (19, 10), (1, 8)]
NEWEST = min(28, onnx.defs.onnx_opset_version())
FLOATS = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
NUMBERS = [*FLOATS, *INTEGERS]
ALL_TYPES = [*NUMBERS, np.bool_]
HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
TYPE_NAMES = {"float32": "float", "float64": "double"}  # ONNX's, where NumPy has others


class Single(np.ndarray):
    """A result in single precision, whatever the inputs are."""

    def __new__(cls, values):
        return np.asarray(values, np.float32).view(cls)


@dataclasses.dataclass
class Case:
    operator: str
    opset: int
    inputs: list  # arrays; None: absent
    attributes: dict = dataclasses.field(default_factory=dict)
    constants: tuple = ()  # numbers of the inputs that are initializers
    outputs: int = 1
    absent: tuple = ()  # numbers of the outputs that are left out
    # Inputs, or pairs of an input and an axis, whose sizes become named dimensions, unless they are 0. One name is one size.
    dynamic: tuple = ()
    # Computes the outputs, or more, from the inputs, of which floats come in double precision; None: the reference
    # evaluator does.
    expected: Callable | None = None
    # Attributes and version that the evaluator takes instead, if it does not know those of the case.
    evaluate_as: tuple | None = None
    # ONNX Runtime must compute the same in this version of the operator; None: it is not asked.
    runtime_version: int | None = None
    dtype: type | None = None  # of float results; None: that of the first float input
    domain: str = ""  # of the operator
    domain_version: int = 1  # if the domain is not ONNX's own
    # Sets what is undefined in a list of outputs to one value, before they are compared with ONNX Runtime's.
    defined: Callable | None = None

    def __post_init__(self):
        self.inputs = [None if a is None else np.asarray(a) for a in self.inputs]


def is_float(dtype):
    return np.dtype(dtype) in [np.dtype(t) for t in FLOATS]


# ---- choices


def pick(rng, choices):
    return choices[rng.integers(len(choices))]


def integers(rng, low, high, count):
    """`count` numbers from low to high, both inclusive, as an attribute takes them."""
    return [int(n) for n in rng.integers(low, high + 1, count)]


def sometimes(rng, value, one_in=3):
    """For `dynamic` and `constants`: the tuple, or an empty one."""
    return value if rng.integers(one_in) == 0 else ()


def maybe(rng, attributes, name, value, default):
    """Sets the attribute, or leaves it to its default; returns what holds."""
    if isinstance(value, float):  # attributes are in single precision
        value, default = float(np.float32(value)), float(np.float32(default))
    if rng.integers(10) < 7:
        attributes[name] = value
        return value
    return default


@functools.lru_cache
def first_version(operator):
    return min(s.since_version for s in onnx.defs.get_all_schemas_with_history() if (s.domain, s.name) == ("", operator))


def version(rng, operator, first=7):
    return int(rng.integers(max(first, first_version(operator)), NEWEST + 1))


def allowed_types(operator, opset, k=0):
    """The types that the schema has for input k."""
    types = onnx.defs.get_schema(operator, opset).inputs[k].types
    return [t for t in ALL_TYPES if f"tensor({TYPE_NAMES.get(np.dtype(t).name, np.dtype(t).name)})" in types]


def a_type(rng, operator, opset, k=0):
    """One of them: half of the time single precision, if it is one."""
    types = allowed_types(operator, opset, k)
    return np.float32 if np.float32 in types and rng.integers(2) else pick(rng, types)


def a_shape(rng, low_rank=0, high_rank=4, high=5, empty=True):
    """Sizes from 1 on; of every tenth one is 0 if it may be `empty`."""
    sizes = integers(rng, 1, high, rng.integers(low_rank, high_rank + 1))
    if empty and sizes and rng.integers(10) == 0:
        sizes[rng.integers(len(sizes))] = 0
    return sizes


def array(rng, dtype, shape):
    """Normal floats, integers that are small or, of 64 bits, around a power of two from 2^31 on in some arrays, fair booleans."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.kind in "iu":
        small = rng.integers(0 if dtype.kind == "u" else -50, 100, shape).astype(dtype)
        if dtype.itemsize < 8 or rng.integers(3):
            return small
        return small + dtype.type(2) ** dtype.type(pick(rng, [31, 32, 53, 62])) * rng.integers(0, 2, shape).astype(dtype)
    return np.asarray(rng.standard_normal(shape)).astype(np.float32).astype(dtype)


def uniform(rng, dtype, shape, low=-4.0, high=4.0):
    """Floats in [low, high]; integers that are small or, in some arrays, any."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if rng.integers(3) == 0:
            return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
        return rng.integers(max(-9, limits.min), 9, shape).astype(dtype)
    if is_float(dtype):
        return np.asarray(rng.uniform(low, high, shape)).astype(dtype)
    return array(rng, dtype, shape)


# ---- models


def declared_shape(case, k):
    """Sizes, and names of those that are dynamic."""
    named = lambda d: k in case.dynamic or (k, d) in case.dynamic
    return [f"n{size}" if named(d) and size > 0 else size for d, size in enumerate(case.inputs[k].shape)]


def model_of(case, arrays, attributes, opset, outputs):
    """The case's model; `outputs` are arrays or None, which leaves out the type."""
    names = [f"x{k}" if a is not None else "" for k, a in enumerate(arrays)]
    while names and not names[-1]:
        names.pop()
    results = [f"y{k}" if k not in case.absent else "" for k in range(case.outputs)]
    node = helper.make_node(case.operator, names, results, name="node", domain=case.domain, **attributes)
    values, initializers = [], []
    for k, a in enumerate(arrays):
        if a is None:
            continue
        if k in case.constants:
            initializers.append(numpy_helper.from_array(a, names[k]))
            continue
        number = helper.np_dtype_to_tensor_dtype(a.dtype)
        values.append(helper.make_tensor_value_info(names[k], number, declared_shape(case, k)))
    sizes = lambda a: [None] * a.ndim if case.dynamic else a.shape
    types = [
        (onnx.TensorProto.FLOAT, None) if a is None else (helper.np_dtype_to_tensor_dtype(a.dtype), sizes(a))
        for a in outputs
    ]
    declared = [helper.make_tensor_value_info(name, *t) for name, t in zip(filter(None, results), types)]
    graph = helper.make_graph([node], case.operator, values, declared, initializers)
    imports = [helper.make_opsetid("", opset)]
    if case.domain:
        imports.append(helper.make_opsetid(case.domain, case.domain_version))
    model = helper.make_model(graph, opset_imports=imports)
    model.ir_version = next(ir for first, ir in IR_VERSIONS if opset >= first)
    return model


def evaluated(case):
    """What the reference evaluator computes, which knows no bfloat16: half types are evaluated in single precision."""
    arrays = [a.astype(np.float32) if a is not None and a.dtype in HALVES else a for a in case.inputs]
    attributes, opset = case.evaluate_as or (case.attributes, case.opset)
    model = model_of(case, arrays, attributes, opset, [None] * (case.outputs - len(case.absent)))
    feeds = {f"x{k}": a for k, a in enumerate(arrays) if a is not None and k not in case.constants}
    return ReferenceEvaluator(model).run(None, feeds)


def expected_outputs(case):
    """Those that are not absent, computed in higher precision and rounded once."""
    floats = [a.dtype for a in case.inputs if a is not None and is_float(a.dtype)]
    if case.expected is None:
        results = evaluated(case)
    else:
        wide = [a.astype(np.float64) if a is not None and is_float(a.dtype) else a for a in case.inputs]
        results = case.expected(*wide)
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        results = [r for k, r in enumerate(results[: case.outputs]) if k not in case.absent]
    results = [r if isinstance(r, Single) else np.asarray(r) for r in results]
    if len(results) < case.outputs - len(case.absent):
        raise ValueError(f"{case.operator}: {len(results)} results for {case.outputs} outputs")
    dtype = case.dtype or (floats[0] if floats else None)
    rounded = lambda r: dtype is not None and is_float(r.dtype) and not isinstance(r, Single)
    return [r.astype(dtype) if rounded(r) else np.asarray(r) for r in results]


def check_with_runtime(case, outputs):
    """Raises AssertionError unless ONNX Runtime computes the outputs. It has few types: floats are in single precision."""
    arrays = [a.astype(np.float32) if a is not None and is_float(a.dtype) else a for a in case.inputs]
    model = model_of(case, arrays, case.attributes, case.runtime_version, outputs)
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in model.graph.node[0].output if name)
    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {f"x{k}": a for k, a in enumerate(arrays) if a is not None and k not in case.constants}
    results = session.run(None, feeds)
    if case.defined is not None:
        outputs, results = case.defined(outputs), case.defined(results)
    for ours, theirs in zip(outputs, results, strict=True):
        half = ours.dtype in HALVES
        both = [a.astype(np.float64) if is_float(a.dtype) else a for a in (theirs, ours)]
        np.testing.assert_allclose(*both, rtol=1e-2 if half else 1e-4, atol=1e-3 if half else 1e-5)


def write(case, folder):
    outputs = expected_outputs(case)
    if case.runtime_version is not None:
        check_with_runtime(case, outputs)
    data = os.path.join(folder, "test_data_set_0")
    os.makedirs(data)
    model = model_of(case, case.inputs, case.attributes, case.opset, outputs)
    with open(os.path.join(folder, "model.onnx"), "wb") as f:
        f.write(model.SerializeToString(deterministic=True))
    given = [a for k, a in enumerate(case.inputs) if a is not None and k not in case.constants]
    for prefix, arrays in (("input", given), ("output", outputs)):
        for k, a in enumerate(arrays):
            with open(os.path.join(data, f"{prefix}_{k}.pb"), "wb") as f:
                f.write(numpy_helper.from_array(np.ascontiguousarray(a).reshape(a.shape)).SerializeToString())
    variable = [k for k, a in enumerate(case.inputs) if a is not None and k not in case.constants]
    names = {n: s for k in variable for n, s in zip(declared_shape(case, k), case.inputs[k].shape) if n != s}
    if names:
        with open(os.path.join(folder, "dims.json"), "w", encoding="utf-8") as f:
            json.dump({n: [1, max(s, 8)] for n, s in sorted(names.items())}, f)
