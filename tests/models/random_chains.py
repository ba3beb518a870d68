"""Writes models of random chains of operators, with what NumPy computes:

    random_chains.py DIR [--models N] [--seed S]

A model has several chains, which begin at its inputs and may read each other's values. Integers of 64 bits lie beyond 2^31 and
2^53, and wrap; sizes are often 0 or 1; products are followed by views of views. Floats are small multiples of 1/8, so that most
sums are exact. Folder DIR/K is made of seed S + K, in the layout of ONNX's backend tests, with dims.json where dimensions are named.
"""

import argparse
import json
import os
import shutil

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSET = 18
INTEGERS = [np.int64, np.int64, np.int64, np.uint64, np.int32, np.uint8, np.int8]
FLOATS = [np.float32, np.float32, np.float64]
CHAINS, LONGEST, LARGEST = 8, 7, 400


def proto(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


class Chain:
    """A graph that grows; `values` are the arrays of its names."""

    def __init__(self, seed):
        self.rng = np.random.Generator(np.random.PCG64(seed))
        # Whether dimensions may have names. Sizes of 1 are never repeated then: what has a name is not broadcast.
        self.named = self.one_in(2)
        self.nodes, self.inits, self.inputs, self.values, self.dims = [], [], [], {}, {}
        self.count = 0

    # ---- choices

    def pick(self, choices):
        return choices[self.rng.integers(len(choices))]

    def one_in(self, n):
        return self.rng.integers(n) == 0

    def size(self):
        return int(self.pick([0, 1, 1, 1, 2, 2, 3, 4, 5]) if self.one_in(4) else self.pick([1, 1, 2, 3, 4, 5, 7]))

    def array(self, dtype, shape):
        dtype = np.dtype(dtype)
        if dtype == np.bool_:
            return self.rng.integers(0, 2, shape).astype(np.bool_)
        if dtype.kind == "f":
            return (self.rng.integers(-24, 25, shape) / 8).astype(dtype)
        limits = np.iinfo(dtype)
        small = self.rng.integers(max(-5, limits.min), 6, shape).astype(dtype)
        if dtype.itemsize < 8 or self.one_in(3):
            return small
        beyond = self.pick([31, 32, 33, 53, 54, 62, 63 if dtype.kind == "u" else 62])
        with np.errstate(over="ignore"):
            return (dtype.type(2) ** dtype.type(beyond) * self.rng.integers(0, 2, shape).astype(dtype) + small).astype(dtype)

    # ---- the graph

    def fresh(self):
        self.count += 1
        return f"v{self.count}"

    def constant(self, array):
        name = self.fresh()
        array = np.ascontiguousarray(array).reshape(np.shape(array))
        self.inits.append(numpy_helper.from_array(array, name))
        self.values[name] = array
        return name

    def input(self, array):
        name = self.fresh()
        self.values[name] = array
        shape = []
        for size in array.shape:
            if self.named and self.one_in(3):
                dim = f"n{len(self.dims)}"
                self.dims[dim] = [int(self.pick([0, min(size, 1)])), max(size, 8)]
                shape.append(dim)
            else:
                shape.append(size)
        self.inputs.append((name, helper.make_tensor_value_info(name, proto(array.dtype), shape)))
        return name

    def operand(self, array):
        """A constant or another input."""
        return self.constant(array) if self.one_in(2) else self.input(array)

    def add(self, operator, inputs, result, **attributes):
        name = self.fresh()
        self.nodes.append(helper.make_node(operator, inputs, [name], name=f"{operator}_{name}", **attributes))
        self.values[name] = np.asarray(result)
        return name


# ---- steps: from a value to another one; None where they do not apply


def broadcastable(c, shape):
    if c.named:
        return shape
    shape = [1 if c.one_in(4) else n for n in shape]
    return shape[c.rng.integers(0, len(shape) + 1) :] if c.one_in(3) else shape


def arithmetic(c, x):
    a = c.values[x]
    if a.dtype == np.bool_:
        return None
    b = c.array(a.dtype, broadcastable(c, a.shape))
    operator, f = c.pick([("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Max", np.maximum), ("Min", np.minimum)])
    if operator == "Mul" and a.dtype.kind == "f":
        b = np.sign(b)
    names = [x, c.operand(b)]
    if c.one_in(2):
        return c.add(operator, names, f(a, b))
    return c.add(operator, names[::-1], f(b, a))


def division(c, x):
    a = c.values[x]
    if a.dtype.kind not in "iu":
        return None
    b = c.array(a.dtype, broadcastable(c, a.shape))
    b = np.where(b == 0, np.asarray(3, a.dtype), b).astype(a.dtype)
    if a.dtype.kind == "i":
        b = np.where(b == -1, np.asarray(2, a.dtype), b).astype(a.dtype)
    y = c.constant(b)
    truncated = np.where((a % b != 0) & ((a < 0) != (b < 0)), a // b + np.asarray(1, a.dtype), a // b).astype(a.dtype)
    which = c.rng.integers(3)
    if which == 0:
        return c.add("Div", [x, y], truncated)
    if which == 1:
        return c.add("Mod", [x, y], np.mod(a, b))
    return c.add("Mod", [x, y], np.fmod(a, b), fmod=1)


def unary(c, x):
    a = c.values[x]
    choices = [("Identity", lambda v: v)]
    if a.dtype == np.bool_:
        choices.append(("Not", np.logical_not))
    else:
        choices += [("Abs", np.abs), ("Sign", np.sign)]
    if a.dtype.kind in "if":
        choices += [("Neg", np.negative), ("Relu", lambda v: np.maximum(v, 0).astype(v.dtype))] if a.dtype != np.bool_ else []
    if a.dtype.kind in "iu":
        choices.append(("BitwiseNot", np.invert))
    if a.dtype.kind == "f":
        choices += [("Floor", np.floor), ("Ceil", np.ceil)]
    operator, f = c.pick(choices)
    return c.add(operator, [x], f(a))


def power(c, x):
    a = c.values[x]
    if a.dtype not in (np.int64, np.int32):
        return None
    exponent = np.asarray(c.rng.integers(0, 5, broadcastable(c, a.shape)), np.int64)
    with np.errstate(over="ignore"):
        wide = np.power(a.astype(np.int64), exponent)
    return c.add("Pow", [x, c.operand(exponent)], wide.astype(a.dtype))


def bits(c, x):
    a = c.values[x]
    if a.dtype.kind not in "iu":
        return None
    b = c.array(a.dtype, broadcastable(c, a.shape))
    operator, f = c.pick([("BitwiseAnd", np.bitwise_and), ("BitwiseOr", np.bitwise_or), ("BitwiseXor", np.bitwise_xor)])
    if a.dtype.kind == "u" and c.one_in(2):
        b = (b % np.asarray(a.dtype.itemsize * 8, a.dtype)).astype(a.dtype)
        left = c.one_in(2)
        f = np.left_shift if left else np.right_shift
        return c.add("BitShift", [x, c.operand(b)], f(a, b), direction="LEFT" if left else "RIGHT")
    return c.add(operator, [x, c.operand(b)], f(a, b))


def comparison(c, x):
    a = c.values[x]
    if a.dtype == np.bool_:
        return None
    b = np.broadcast_to(a, a.shape).copy()
    flip = c.rng.integers(0, 3, a.shape)
    with np.errstate(over="ignore"):
        b = np.where(flip == 0, b, np.where(flip == 1, b + np.asarray(1, a.dtype), b - np.asarray(1, a.dtype))).astype(a.dtype)
    operator, f = c.pick([("Equal", np.equal), ("Less", np.less), ("Greater", np.greater), ("LessOrEqual", np.less_equal),
                          ("GreaterOrEqual", np.greater_equal)])  # fmt: skip
    y = c.operand(b)
    truth = c.add(operator, [x, y], f(a, b))
    return truth if c.one_in(2) else c.add("Where", [truth, x, y], np.where(f(a, b), a, b))


def cast(c, x):
    a = c.values[x]
    to = np.dtype(c.pick([*INTEGERS, *FLOATS, np.bool_]))
    if a.dtype.kind == "f" and to.kind in "iu":
        limits = np.iinfo(to)
        low, high = max(limits.min, -(2**62)), min(limits.max, 2**62)
        if a.size and not ((a >= low).all() and (a <= high).all()):
            return None
    if to.kind == "f" and a.size and np.abs(a.astype(np.float64)).max() > 2**24:
        to = np.dtype(np.float64)
    return c.add("Cast", [x], a.astype(to), to=proto(to))


def clip(c, x):
    a = c.values[x]
    if a.dtype == np.bool_:
        return None
    low, high = np.sort(c.array(a.dtype, (2,)))
    names = [x, c.constant(np.asarray(low)), c.constant(np.asarray(high))]
    return c.add("Clip", names, np.clip(a, low, high))


def reduction(c, x):
    a = c.values[x]
    if a.ndim == 0 or a.dtype not in (np.int64, np.uint64, np.int32, np.float32, np.float64):
        return None
    axes = sorted({int(k) for k in c.rng.integers(0, a.ndim, c.rng.integers(1, 3))})
    empty = any(a.shape[k] == 0 for k in axes)
    operator, f = c.pick([("ReduceSum", np.sum), ("ReduceMax", np.max), ("ReduceMin", np.min), ("ReduceProd", np.prod)])
    if empty and operator in ("ReduceMax", "ReduceMin"):
        return None
    if operator == "ReduceProd" and a.dtype.kind == "f":
        operator, f = "ReduceSum", np.sum
    keep = int(c.rng.integers(2))
    with np.errstate(over="ignore"):
        result = f(a, axis=tuple(axes), keepdims=bool(keep)).astype(a.dtype)
    axes = [k - a.ndim if c.one_in(2) else k for k in axes]
    return c.add(operator, [x, c.constant(np.asarray(axes, np.int64))], result, keepdims=keep)


def cumulative(c, x):
    a = c.values[x]
    if a.ndim == 0 or a.dtype not in (np.int64, np.int32, np.float32, np.float64):
        return None
    axis = int(c.rng.integers(a.ndim))
    reverse, exclusive = int(c.rng.integers(2)), int(c.rng.integers(2))
    b = np.flip(a, axis) if reverse else a
    s = np.cumsum(b, axis=axis, dtype=a.dtype)
    if exclusive:
        s = s - b
    if reverse:
        s = np.flip(s, axis)
    return c.add("CumSum", [x, c.constant(np.asarray(axis, np.int64))], s.astype(a.dtype), reverse=reverse, exclusive=exclusive)


def chosen(c, x):
    """ArgMax, or TopK with its largest or smallest elements."""
    a = c.values[x]
    if a.ndim == 0 or a.dtype == np.bool_ or a.dtype in (np.uint64, np.int8, np.uint8):
        return None
    axis = int(c.rng.integers(a.ndim))
    if a.shape[axis] == 0:
        return None
    if c.one_in(2):
        keep = int(c.rng.integers(2))
        return c.add("ArgMax", [x], np.argmax(a, axis).reshape([1 if k == axis else n for k, n in enumerate(a.shape) if keep or k != axis]).astype(np.int64),
                     axis=axis, keepdims=keep)  # fmt: skip
    k = int(c.rng.integers(0, a.shape[axis] + 1))
    order = np.argsort(a, axis, kind="stable")
    largest = int(c.rng.integers(2))
    if largest:
        order = np.flip(np.argsort(np.flip(a, axis), axis, kind="stable"), axis)
        order = a.shape[axis] - 1 - order
    order = np.take(order, range(k), axis)
    name, indices = c.fresh(), c.fresh()
    c.nodes.append(helper.make_node("TopK", [x, c.constant(np.asarray([k], np.int64))], [name, indices], axis=axis, largest=largest))
    c.values[name], c.values[indices] = np.take_along_axis(a, order, axis), order.astype(np.int64)
    return indices if c.one_in(3) else name


def product(c, x):
    a = c.values[x]
    if a.ndim == 0 or a.dtype not in (np.int64, np.uint64, np.int32, np.float32, np.float64):
        return None
    columns = c.size()
    with np.errstate(over="ignore"):
        if a.ndim == 2 and c.one_in(3):
            b, bias = c.array(a.dtype, (a.shape[1], columns)), c.array(a.dtype, broadcastable(c, [a.shape[0], columns]))
            turned = int(c.rng.integers(2))
            second = c.operand(np.ascontiguousarray(b.T) if turned else b)
            return c.add("Gemm", [x, second, c.operand(bias)], (a @ b + bias).astype(a.dtype), transB=turned)
        batch = [1 if c.one_in(3) and not c.named else n for n in a.shape[:-2]]
        b = c.array(a.dtype, [*batch[c.rng.integers(0, len(batch) + 1) :], a.shape[-1], columns])
        y = c.add("MatMul", [x, c.operand(b)], np.matmul(a, b).astype(a.dtype))
    # What products store is seen through views, and takes an epilogue.
    if c.one_in(2):
        y = arithmetic(c, y)
    for _ in range(c.rng.integers(0, 4)):
        y = c.pick([transpose, reshape, expand, slice_, unsqueeze])(c, y) or y
    return y


def transpose(c, x):
    a = c.values[x]
    if a.ndim == 0:
        return None
    perm = [int(k) for k in c.rng.permutation(a.ndim)]
    return c.add("Transpose", [x], np.transpose(a, perm), perm=perm)


def factors(c, n):
    if n == 0:
        return [0] + [c.size() for _ in range(c.rng.integers(0, 3))]
    shape = []
    while n > 1 and len(shape) < 4:
        f = c.pick([k for k in range(1, n + 1) if n % k == 0])
        shape.append(f)
        n //= f
    return shape + ([n] if n > 1 or c.one_in(4) else [])


def reshape(c, x):
    a = c.values[x]
    shape = factors(c, a.size)
    asked = list(shape)
    if asked and a.size and c.one_in(2):
        asked[c.rng.integers(len(asked))] = -1
    return c.add("Reshape", [x, c.constant(np.asarray(asked, np.int64))], a.reshape(shape), allowzero=int(0 in shape))


def expand(c, x):
    a = c.values[x]
    shape = [c.pick([1, 2, 3]) if n == 1 and c.one_in(2) and not c.named else n for n in a.shape]
    if c.one_in(3) and len(shape) < 5:
        shape = [c.pick([1, 2]), *shape]
    if int(np.prod(shape)) > LARGEST:
        return None
    asked = [1 if n > 1 and k >= len(shape) - a.ndim and c.one_in(3) and a.shape[k - len(shape)] == n else n for k, n in enumerate(shape)]
    return c.add("Expand", [x, c.constant(np.asarray(asked, np.int64))], np.broadcast_to(a, shape))


def tile(c, x):
    a = c.values[x]
    repeats = [int(c.pick([0, 1, 1, 2, 3])) for _ in a.shape]
    if a.size * int(np.prod(repeats)) > LARGEST:
        return None
    return c.add("Tile", [x, c.constant(np.asarray(repeats, np.int64))], np.tile(a, repeats))


def slice_(c, x):
    a = c.values[x]
    if a.ndim == 0:
        return None
    axis = int(c.rng.integers(a.ndim))
    step = int(c.pick([1, 1, 2, -1, -2, 2**31, -(2**33)]))
    start, end = (int(v) for v in c.rng.integers(-a.shape[axis] - 2, a.shape[axis] + 3, 2))
    if c.one_in(3):
        start, end = (0, 2**62) if step > 0 else (2**62, -(2**62))
    n = a.shape[axis]
    first, last = (v + n if v < 0 else v for v in (start, end))
    if step > 0:
        chosen_ = range(min(max(first, 0), n), min(max(last, 0), n), step)
    else:
        chosen_ = range(min(max(first, 0), n - 1), min(max(last, -1), n - 1), step) if n else range(0)
    names = [x, *(c.constant(np.asarray([v], np.int64)) for v in (start, end, axis, step))]
    return c.add("Slice", names, np.take(a, list(chosen_), axis) if len(chosen_) else np.take(a, np.zeros(0, np.int64), axis))


def unsqueeze(c, x):
    a = c.values[x]
    if a.ndim > 4:
        return None
    axis = int(c.rng.integers(0, a.ndim + 1))
    return c.add("Unsqueeze", [x, c.constant(np.asarray([axis], np.int64))], np.expand_dims(a, axis))


def squeeze(c, x):
    a = c.values[x]
    ones = [k for k, n in enumerate(a.shape) if n == 1]
    if not ones:
        return None
    axis = int(c.pick(ones))
    return c.add("Squeeze", [x, c.constant(np.asarray([axis - a.ndim], np.int64))], np.squeeze(a, axis))


def concat(c, x):
    a = c.values[x]
    if a.ndim == 0:
        return None
    axis = int(c.rng.integers(a.ndim))
    b = c.array(a.dtype, [c.size() if k == axis else n for k, n in enumerate(a.shape)])
    names, arrays = [x, c.operand(b)], [a, b]
    if c.one_in(3):
        names, arrays = [*names, x], [*arrays, a]
    return c.add("Concat", names, np.concatenate(arrays, axis), axis=axis)


def pad(c, x):
    a = c.values[x]
    if a.ndim == 0:
        return None
    mode = c.pick(["constant", "constant", "edge", "reflect", "wrap"])
    pads = c.rng.integers(0, 3, (2, a.ndim))
    for k, n in enumerate(a.shape):
        if mode != "constant" and n < 3:
            pads[:, k] = 0
    fill = c.array(a.dtype, ())
    width = [tuple(int(v) for v in pads[:, k]) for k in range(a.ndim)]
    result = np.pad(a, width, constant_values=fill) if mode == "constant" else np.pad(a, width, mode)
    if a.dtype == np.bool_ or result.size > LARGEST:
        return None
    names = [x, c.constant(pads.reshape(-1).astype(np.int64)), c.constant(fill)]
    return c.add("Pad", names, result, mode=mode) if mode != "wrap" else None


def gather(c, x):
    a = c.values[x]
    if a.ndim == 0:
        return None
    axis = int(c.rng.integers(a.ndim))
    n = a.shape[axis]
    shape = [c.size() for _ in range(c.rng.integers(0, 3))]
    if n == 0:
        shape = [0]
    index = c.rng.integers(-n, n, shape).astype(np.int64) if n else np.zeros(shape, np.int64)
    result = np.take(a, index, axis)
    if result.size > LARGEST:
        return None
    return c.add("Gather", [x, c.operand(index)], result, axis=axis)


def scatter(c, x):
    a = c.values[x]
    if a.ndim == 0 or a.dtype == np.bool_:
        return None
    axis = int(c.rng.integers(a.ndim))
    if a.shape[axis] == 0:
        return None
    count = int(c.rng.integers(0, a.shape[axis] + 1))
    shape = [count if k == axis else n for k, n in enumerate(a.shape)]
    order = np.argsort(c.rng.random(a.shape), axis)  # no index twice
    index = np.take(order, range(count), axis).astype(np.int64)
    update = c.array(a.dtype, shape)
    result = a.copy()
    np.put_along_axis(result, index, update, axis)
    return c.add("ScatterElements", [x, c.operand(index), c.operand(update)], result, axis=axis)


def one_hot(c, x):
    a = c.values[x]
    if a.ndim > 3 or a.size > 60:
        return None
    depth = c.size()
    if depth == 0:
        return None
    index = c.rng.integers(-depth, depth, a.shape).astype(np.int64)
    values = c.array(np.int64, (2,))
    hot = (np.arange(depth) == np.where(index < 0, index + depth, index)[..., None])
    y = c.add("OneHot", [c.operand(index), c.constant(np.asarray([depth], np.int64)), c.operand(values)],
              np.where(hot, values[1], values[0]))  # fmt: skip
    return y


def triangle(c, x):
    a = c.values[x]
    if a.ndim < 2 or a.dtype == np.bool_:
        return None
    k, upper = int(c.rng.integers(-3, 4)), int(c.rng.integers(2))
    return c.add("Trilu", [x, c.constant(np.asarray(k, np.int64))], np.triu(a, k) if upper else np.tril(a, k), upper=upper)


def einsum(c, x):
    a = c.values[x]
    if a.ndim != 2 or a.dtype not in (np.int64, np.uint64, np.int32, np.float32):
        return None
    b = c.array(a.dtype, (a.shape[1], c.size()))
    equation = c.pick(["ij,jk->ik", "ij,jk->ki", "ij,jk->k", "ij,jk->ijk"])
    with np.errstate(over="ignore"):
        result = np.einsum(equation, a, b)
    return c.add("Einsum", [x, c.operand(b)], np.asarray(result, a.dtype), equation=equation)


def softmax(c, x):
    a = c.values[x]
    if a.dtype != np.float32 or a.ndim == 0 or a.size == 0:
        return None
    axis = int(c.rng.integers(a.ndim))
    e = np.exp(a.astype(np.float64) - a.max(axis, keepdims=True))
    return c.add("Softmax", [x], (e / e.sum(axis, keepdims=True)).astype(np.float32), axis=axis)


STEPS = [arithmetic, arithmetic, division, unary, power, bits, comparison, cast, clip, reduction, reduction, cumulative, chosen,
         product, product, product, transpose, reshape, expand, tile, slice_, unsqueeze, squeeze, concat, pad, gather, scatter,
         one_hot, triangle, einsum]  # fmt: skip


def grow(c, x):
    for _ in range(c.rng.integers(2, LONGEST + 1)):
        step = c.pick(STEPS)
        y = step(c, x)
        if y is None:
            continue
        a = c.values[y]
        large = a.dtype.kind == "f" and a.size and not np.abs(a).max() < 2**18
        if a.size > LARGEST or a.ndim > 5 or large:
            break
        x = y
    last = softmax(c, x) if c.one_in(4) else None
    return last or x


def write(folder, seed):
    c = Chain(seed)
    ends = []
    with np.errstate(all="ignore"):
        for _ in range(CHAINS):
            if c.one_in(3) and ends:
                start = c.pick(sorted(c.values))
            else:
                dtype = c.pick([*INTEGERS, *FLOATS])
                start = c.input(c.array(dtype, [c.size() for _ in range(c.rng.integers(1, 4))]))
            ends.append(grow(c, start))
    ends = [e for e in dict.fromkeys(ends) if any(e in n.output for n in c.nodes)]
    outputs = [helper.make_tensor_value_info(e, proto(c.values[e].dtype), [None] * c.values[e].ndim) for e in ends]
    read = {name for node in c.nodes for name in node.input}
    inputs = [(name, info) for name, info in c.inputs if name in read]
    inits = [tensor for tensor in c.inits if tensor.name in read]
    graph = helper.make_graph(c.nodes, "chains", [info for _, info in inputs], outputs, inits)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = 8
    data = os.path.join(folder, "test_data_set_0")
    os.makedirs(data)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    for prefix, names in (("input", [name for name, _ in inputs]), ("output", ends)):
        for k, name in enumerate(names):
            array = np.ascontiguousarray(c.values[name]).reshape(c.values[name].shape)
            with open(os.path.join(data, f"{prefix}_{k}.pb"), "wb") as f:
                f.write(numpy_helper.from_array(array, name).SerializeToString())
    used = {d.dim_param for _, info in inputs for d in info.type.tensor_type.shape.dim if d.dim_param}
    with open(os.path.join(folder, "dims.json"), "w", encoding="utf-8") as f:
        json.dump({k: v for k, v in sorted(c.dims.items()) if k in used}, f)
    return len(ends)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--models", type=int, default=40)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("BRAID_TEST_SEED", "1")))
    arguments = parser.parse_args()
    shutil.rmtree(arguments.folder, ignore_errors=True)
    chains = 0
    for k in range(arguments.models):
        chains += write(os.path.join(arguments.folder, str(k)), arguments.seed + k)
    print(f"{arguments.models} models from seed {arguments.seed}, {chains} chains")


if __name__ == "__main__":
    main()
