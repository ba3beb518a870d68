#!/usr/bin/env python3
"""Writes random cases of single operators: attributes, shapes, types and versions from a seed.

  random_ops.py DIR

    DIR/OPERATOR/SEED/    a case in the layout of case_writer.py

Expected results are computed here with NumPy in double precision from the operators' definitions. BRAID_TEST_SEED is the first seed, BRAID_RANDOM_SCALE times two
the number of cases of each operator.
"""

import argparse
import itertools
import math
import os
import shutil
import sys

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

NEWEST = min(27, onnx.defs.onnx_opset_version())
DTYPES = {
    "tensor(float)": np.dtype(np.float32), "tensor(double)": np.dtype(np.float64),
    "tensor(float16)": np.dtype(np.float16), "tensor(bfloat16)": np.dtype(ml_dtypes.bfloat16),
    "tensor(int8)": np.dtype(np.int8), "tensor(int16)": np.dtype(np.int16),
    "tensor(int32)": np.dtype(np.int32), "tensor(int64)": np.dtype(np.int64),
    "tensor(uint8)": np.dtype(np.uint8), "tensor(uint16)": np.dtype(np.uint16),
    "tensor(uint32)": np.dtype(np.uint32), "tensor(uint64)": np.dtype(np.uint64), "tensor(bool)": np.dtype(bool),
}  # fmt: skip


class Draw:
    """The random choices of one case of an operator."""

    def __init__(self, op, seed):
        self.op = op
        self.rng = np.random.Generator(np.random.PCG64([seed, sum(op.encode())]))
        self.opset = self.integer(self.first_opset(), NEWEST)
        self.schema = onnx.defs.get_schema(op, self.opset)
        self.attributes = {}
        self.inputs = []
        self.constant = []  # whether input k is an initializer

    def first_opset(self):
        versions = [s.since_version for s in onnx.defs.get_all_schemas_with_history()
                    if s.domain == "" and s.name == self.op]  # fmt: skip
        return max(7, min(versions))

    def integer(self, low, high):
        """From low to high, both inclusive."""
        return int(self.rng.integers(low, high + 1))

    def choice(self, values):
        return values[self.integer(0, len(values) - 1)]

    def chance(self, p=0.5):
        return bool(self.rng.random() < p)

    def number(self, low, high):
        return float(np.float32(self.rng.uniform(low, high)))

    def dtype(self, k=0):
        """One of the types that the schema has for input k."""
        allowed = sorted(t for t in self.schema.inputs[k].types if t in DTYPES)
        if "tensor(float)" in allowed and self.chance():
            return DTYPES["tensor(float)"]
        return DTYPES[self.choice(allowed)]

    def shape(self, low_rank=0, high_rank=4, low=1, high=5):
        return [self.integer(low, high) for _ in range(self.integer(low_rank, high_rank))]

    def array(self, shape, dtype, low=-4.0, high=4.0):
        dtype = np.dtype(dtype)
        if dtype.kind == "b":
            return self.rng.integers(0, 2, shape).astype(bool)
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            if self.chance(0.3):
                return self.rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
            return self.rng.integers(max(-9, info.min), 9, shape).astype(dtype)
        return np.asarray(self.rng.uniform(low, high, shape)).astype(dtype)

    def add(self, array, constant=False):
        self.inputs.append(np.asarray(array))
        self.constant.append(constant)
        return self.inputs[-1]

    def maybe(self, name, value):
        """Sets the attribute, or leaves it to its default; returns what holds."""
        if self.chance(0.7):
            self.attributes[name] = value
            return value
        default = self.schema.attributes[name].default_value
        return helper.get_attribute_value(default)

    def node(self):
        names = [f"x{k}" for k in range(len(self.inputs))]
        return helper.make_node(self.op, names, ["y"], name="node", **self.attributes)

    def model(self, outputs):
        """The case's model, whose outputs have the shapes of these arrays."""
        info = lambda name, a: helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        inputs = [info(f"x{k}", a) for k, a in enumerate(self.inputs) if not self.constant[k]]
        weights = [numpy_helper.from_array(a, f"x{k}") for k, a in enumerate(self.inputs) if self.constant[k]]
        graph = helper.make_graph([self.node()], "random", inputs, [info("y", a) for a in outputs], weights)
        imports = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8 if self.opset < 19 else 10)


def wide(x):
    return np.asarray(x).astype(np.float64)


# ---- elementwise


def elementwise(function, low=-4.0, high=4.0):
    def make(d):
        x = d.add(d.array(d.shape(), d.dtype(), low, high))
        return function(d, wide(x)).astype(x.dtype)

    return make


def plain(function, low=-4.0, high=4.0):
    return elementwise(lambda d, x: function(x), low, high)


def softplus(x):
    return np.logaddexp(0, x)


def elu(d, x):
    alpha = d.maybe("alpha", d.number(-2, 2))
    return np.where(x > 0, x, alpha * np.expm1(x))


def celu(d, x):
    alpha = d.maybe("alpha", d.choice([-1, 1]) * d.number(0.1, 3))
    return np.where(x > 0, x, alpha * np.expm1(x / alpha))


def selu(d, x):
    alpha, gamma = d.maybe("alpha", d.number(-2, 2)), d.maybe("gamma", d.number(-2, 2))
    return gamma * np.where(x > 0, x, alpha * np.expm1(x))


def hard_sigmoid(d, x):
    alpha, beta = d.maybe("alpha", d.number(-1, 1)), d.maybe("beta", d.number(-1, 1))
    return np.clip(alpha * x + beta, 0, 1)


def thresholded_relu(d, x):
    # Half of a unit away from what any type may hold.
    alpha = d.maybe("alpha", d.number(-2, 2))
    return np.where(x > alpha, x, 0)


def shrink(d):
    x = d.add(d.array(d.shape(), d.dtype(), -3, 3))
    bias, lambd = d.maybe("bias", d.number(-2, 2)), d.maybe("lambd", d.number(0, 2))
    if x.dtype.kind in "iu":
        bias = d.attributes["bias"] = float(d.integer(0, 1)) if x.dtype.kind == "u" else float(round(bias))
        moved = lambda sign: x + np.asarray(sign * bias).astype(x.dtype)
    else:
        moved = lambda sign: (wide(x) + sign * bias).astype(x.dtype)
    return np.where(wide(x) < -lambd, moved(1), np.where(wide(x) > lambd, moved(-1), np.zeros_like(x)))


def prelu(d):
    shape = d.shape(1, 4)
    dtype = d.dtype()
    x = d.add(d.array(shape, dtype))
    own = [1 if d.chance() else n for n in shape][d.integer(0, len(shape)):]
    slope = d.add(d.array(own, dtype, -2, 2), d.chance())
    if dtype.kind in "iu":
        return np.where(x < 0, x * slope, x)
    return np.where(wide(x) < 0, wide(x) * wide(slope), wide(x)).astype(dtype)


def broadcast_pair(d, dtype):
    shape = d.shape(0, 4)
    other = [1 if d.chance(0.3) else n for n in shape][d.integer(0, len(shape)) if d.chance(0.3) else 0:]
    pair = [shape, other] if d.chance() else [other, shape]
    return [d.add(d.array(s, dtype)) for s in pair]


def bitwise(function):
    def make(d):
        return function(*broadcast_pair(d, d.dtype()))

    return make


def bit_not(d):
    return ~d.add(d.array(d.shape(), d.dtype()))


def bit_shift(d):
    a, b = broadcast_pair(d, d.dtype())
    left = d.chance()
    d.attributes["direction"] = "LEFT" if left else "RIGHT"
    if d.chance(0.7):
        b = d.inputs[1] = b % (2 * a.dtype.itemsize * 8)
    return (np.left_shift if left else np.right_shift)(a, b)


def bit_cast(d):
    x = d.array(d.shape(), d.dtype())
    same = [t for t in DTYPES.values() if t.itemsize == x.dtype.itemsize and t.kind != "b"]
    x = d.add(x)
    to = d.choice(same)
    d.attributes["to"] = helper.np_dtype_to_tensor_dtype(to)
    return np.ascontiguousarray(x).view(to).reshape(x.shape)


# ---- along axes


def axes_since_13(d, rank):
    """The axes of Softmax and its relatives: all from `axis` on before version 13."""
    axis = d.maybe("axis", d.integer(-rank, rank - 1) if d.opset >= 11 else d.integer(0, rank - 1))
    if axis < -rank or axis >= rank:
        axis = d.attributes["axis"] = 0
    axis %= rank
    return (axis,) if d.opset >= 13 else tuple(range(axis, rank))


def softmax(d, logarithm=False):
    x = d.add(d.array(d.shape(1, 4), d.dtype(), -20, 20))
    axes = axes_since_13(d, x.ndim)
    shifted = wide(x) - wide(x).max(axis=axes, keepdims=True)
    total = np.exp(shifted).sum(axis=axes, keepdims=True)
    return (shifted - np.log(total) if logarithm else np.exp(shifted) / total).astype(x.dtype)


def hardmax(d):
    x = d.add(d.array(d.shape(1, 4), d.dtype(), -2, 2))
    axes = axes_since_13(d, x.ndim)
    flat = wide(x).reshape(int(np.prod(x.shape[: axes[0]])), -1) if d.opset < 13 else np.moveaxis(wide(x), axes[0], -1)
    marked = np.arange(flat.shape[-1]) == flat.argmax(axis=-1)[..., None]
    marked = marked.reshape(x.shape) if d.opset < 13 else np.moveaxis(marked, -1, axes[0])
    return marked.astype(x.dtype)


def arg_extreme(function):
    def make(d):
        x = d.array(d.shape(1, 4), d.dtype(), -2, 2)
        if x.dtype.kind == "f" and d.chance(0.2):
            x[tuple(d.integer(0, n - 1) for n in x.shape)] = np.nan
        x = d.add(x)
        axis = d.maybe("axis", d.integer(0, x.ndim - 1))
        keep = d.maybe("keepdims", d.integer(0, 1))
        last = d.opset >= 12 and d.maybe("select_last_index", d.integer(0, 1))
        y = wide(x) if x.dtype.kind not in "iu" else x
        if last:
            y = np.flip(y, axis)
        position = function(y, axis=axis)
        if last:
            position = x.shape[axis] - 1 - position
        return np.expand_dims(position, axis) if keep else np.asarray(position)

    return make


def cumulative(d):
    x = d.add(d.array(d.shape(1, 3, 1, 6), d.dtype(), -1.5, 1.5))
    axis = d.integer(-x.ndim, x.ndim - 1)
    d.add(np.array(axis, d.choice([np.int32, np.int64])), True)
    exclusive, reverse = d.maybe("exclusive", d.integer(0, 1)), d.maybe("reverse", d.integer(0, 1))
    y = wide(x) if x.dtype.kind not in "iu" else x
    function, start = (np.cumprod, 1) if d.op == "CumProd" else (np.cumsum, 0)
    y = np.moveaxis(np.flip(y, axis) if reverse else y, axis, -1)
    result = function(y, axis=-1, dtype=y.dtype)
    if exclusive:
        result = np.concatenate([np.full_like(result[..., :1], start), result[..., :-1]], axis=-1)
    result = np.moveaxis(result, -1, axis)
    return (np.flip(result, axis) if reverse else result).astype(x.dtype)


# ---- normalisation


def on_channels(p, x):
    return wide(p).reshape([-1] + [1] * (x.ndim - 2))


def batch_normalization(d):
    x = d.add(d.array(d.shape(2, 5), d.dtype()))
    image = x.shape[1:] if d.opset < 9 and d.maybe("spatial", d.integer(0, 1)) == 0 else x.shape[1:2]
    others = [DTYPES[t] for t in d.schema.inputs[0].types if t in DTYPES]
    # Versions 14 and 15 let the statistics, and then the scale, have types of their own.
    of_scale = d.choice(others) if d.opset >= 15 and d.chance(0.3) else x.dtype
    of_mean = d.choice(others) if d.opset >= 14 and d.chance(0.3) else x.dtype
    epsilon = d.maybe("epsilon", d.number(0.001, 0.1))
    known = d.chance(0.6)
    scale, bias = (d.add(d.array(image, of_scale, -2, 2), known) for _ in range(2))
    average, variance = (d.add(d.array(image, of_mean, low, 2), known) for low in (-2, 0.1))
    line = wide if len(image) > 1 else lambda p: on_channels(p, x)
    y = line(scale) * (wide(x) - line(average)) / np.sqrt(line(variance) + epsilon) + line(bias)
    return y.astype(x.dtype)


def normalize(x, axes, epsilon):
    return (x - x.mean(axis=axes, keepdims=True)) / np.sqrt(x.var(axis=axes, keepdims=True) + epsilon)


def instance_normalization(d):
    x = d.add(d.array(d.shape(3, 5), d.dtype()))
    epsilon = d.maybe("epsilon", d.number(0.001, 0.1))
    scale, bias = (d.add(d.array(x.shape[1:2], x.dtype, -2, 2), d.chance()) for _ in range(2))
    axes = tuple(range(2, x.ndim))
    return (on_channels(scale, x) * normalize(wide(x), axes, epsilon) + on_channels(bias, x)).astype(x.dtype)


def group_normalization(d):
    shape, groups, dtype = d.shape(3, 5), d.integer(1, 3), d.dtype()
    shape[1] = groups * d.integer(1, 3)
    x = d.add(d.array(shape, dtype))
    d.attributes["num_groups"] = groups
    epsilon = d.maybe("epsilon", d.number(0.001, 0.1))
    n = groups if d.opset < 21 else shape[1]
    scale, bias = (d.add(d.array([n], dtype, -2, 2), d.chance()) for _ in range(2))
    grouped = normalize(wide(x).reshape([shape[0], groups, -1]), (2,), epsilon).reshape(shape)
    per_channel = lambda p: on_channels(np.repeat(wide(p), shape[1] // n), x)
    return (per_channel(scale) * grouped + per_channel(bias)).astype(dtype)


def mean_variance_normalization(d):
    x = d.add(d.array(d.shape(4, 4), d.dtype()))
    axes = d.maybe("axes", sorted(set(d.integer(0, x.ndim - 1) for _ in range(3))))
    y = wide(x)
    deviation = y.std(axis=tuple(axes), keepdims=True)
    # With one element per group, numerator and denominator are rounding errors.
    if np.prod([x.shape[a] for a in axes]) == 1:
        return np.zeros_like(x)
    return ((y - y.mean(axis=tuple(axes), keepdims=True)) / (deviation + 1e-9)).astype(x.dtype)


def lp_normalization(d):
    x = d.array(d.shape(1, 4), d.dtype())
    if d.chance(0.2):
        x[...] = 0
    x = d.add(x)
    axis, p = d.maybe("axis", d.integer(-x.ndim, x.ndim - 1)), d.maybe("p", d.integer(1, 2))
    norm = np.linalg.norm(wide(x), ord=p, axis=axis, keepdims=True)
    return np.where(norm == 0, 0, wide(x) / np.where(norm == 0, 1, norm)).astype(x.dtype)


def lrn(d):
    x = d.add(d.array(d.shape(2, 5), d.dtype()))
    size = d.attributes["size"] = d.integer(1, 7)
    alpha, beta, bias = (d.maybe(n, d.number(0.1, 2)) for n in ("alpha", "beta", "bias"))
    total = np.zeros(x.shape)
    for c in range(x.shape[1]):
        low, high = max(0, c - (size - 1) // 2), min(x.shape[1] - 1, c + math.ceil((size - 1) / 2))
        total[:, c] = (wide(x)[:, low : high + 1] ** 2).sum(axis=1)
    return (wide(x) / (bias + alpha / size * total) ** beta).astype(x.dtype)


def global_pool(function):
    def make(d):
        x = d.add(d.array(d.shape(3, 5), d.dtype()))
        return function(d, wide(x), tuple(range(2, x.ndim))).astype(x.dtype)

    return make


def lp_pool(d, x, axes):
    p = d.maybe("p", d.integer(1, 4))
    return (np.abs(x) ** p).sum(axis=axes, keepdims=True) ** (1 / p)


# ---- others


def det(d):
    n = d.integer(1, 5)
    x = d.add(d.array([*d.shape(0, 2), n, n], d.dtype(), -2, 2))
    permutations = list(itertools.permutations(range(n)))
    total = np.zeros(x.shape[:-2])
    for order in permutations:
        sign = (-1) ** sum(order[i] > order[j] for i in range(n) for j in range(i + 1, n))
        total = total + sign * np.prod([wide(x)[..., i, c] for i, c in enumerate(order)], axis=0)
    return np.asarray(total).astype(x.dtype)


def eye_like(d):
    x = d.add(d.array(d.shape(2, 2), d.dtype()))
    k, dtype = d.maybe("k", d.integer(-4, 4)), x.dtype
    if d.chance():
        dtype = DTYPES[d.choice(sorted(t for t in d.schema.outputs[0].types if t in DTYPES))]
        d.attributes["dtype"] = helper.np_dtype_to_tensor_dtype(dtype)
    return np.eye(*x.shape, k=k).astype(dtype)


def loss(d):
    shape, classes = d.shape(1, 3), d.integer(2, 4)
    x = d.add(d.array([shape[0], classes, *shape[1:]], np.float32))
    target = d.rng.integers(0, classes, shape).astype(d.choice([np.int32, np.int64]))
    weighted = d.chance()
    d.attributes["reduction"] = d.choice(["none", "sum", "mean"])
    if d.chance(0.3):
        d.attributes["ignore_index"] = d.integer(0, classes - 1)
        target[(0,) * target.ndim] = (d.attributes["ignore_index"] + 1) % classes  # a mean needs one that counts
    d.add(target)
    if weighted:
        d.add(d.array([classes], np.float32, 0.2, 2))
    if d.op == "SoftmaxCrossEntropyLoss":
        y = wide(x) - wide(x).max(axis=1, keepdims=True)
        y = y - np.log(np.exp(y).sum(axis=1, keepdims=True))
    else:
        y = wide(x)
    weight = wide(d.inputs[2])[target] if weighted else np.ones(shape)
    if "ignore_index" in d.attributes:
        weight = np.where(target == d.attributes["ignore_index"], 0, weight)
    result = -np.take_along_axis(y, np.expand_dims(target, 1).astype(np.int64), 1).squeeze(1) * weight
    reduction = d.attributes["reduction"]
    result = result if reduction == "none" else result.sum() / (weight.sum() if reduction == "mean" else 1)
    return np.asarray(result).astype(np.float32)


OPERATORS = {
    "Acos": plain(np.arccos, -1, 1),
    "Acosh": plain(np.arccosh, 1, 9),
    "ArgMax": arg_extreme(np.argmax),
    "ArgMin": arg_extreme(np.argmin),
    "Asin": plain(np.arcsin, -1, 1),
    "Asinh": plain(np.arcsinh),
    "Atan": plain(np.arctan),
    "Atanh": plain(np.arctanh, -0.9, 0.9),
    "BatchNormalization": batch_normalization,
    "BitCast": bit_cast,
    "BitShift": bit_shift,
    "BitwiseAnd": bitwise(np.bitwise_and),
    "BitwiseNot": bit_not,
    "BitwiseOr": bitwise(np.bitwise_or),
    "BitwiseXor": bitwise(np.bitwise_xor),
    "Celu": elementwise(celu),
    "Cosh": plain(np.cosh),
    "CumProd": cumulative,
    "CumSum": cumulative,
    "Det": det,
    "Elu": elementwise(elu),
    "EyeLike": eye_like,
    "GlobalAveragePool": global_pool(lambda d, x, axes: x.mean(axis=axes, keepdims=True)),
    "GlobalLpPool": global_pool(lp_pool),
    "GlobalMaxPool": global_pool(lambda d, x, axes: x.max(axis=axes, keepdims=True)),
    "GroupNormalization": group_normalization,
    "HardSigmoid": elementwise(hard_sigmoid),
    "HardSwish": plain(lambda x: x * np.clip(x / 6 + 0.5, 0, 1), -5, 5),
    "Hardmax": hardmax,
    "InstanceNormalization": instance_normalization,
    "LRN": lrn,
    "LogSoftmax": lambda d: softmax(d, logarithm=True),
    "LpNormalization": lp_normalization,
    "MeanVarianceNormalization": mean_variance_normalization,
    "Mish": plain(lambda x: x * np.tanh(softplus(x)), -30, 30),
    "NegativeLogLikelihoodLoss": loss,
    "PRelu": prelu,
    "Selu": elementwise(selu),
    "Shrink": shrink,
    "Sinh": plain(np.sinh),
    "Softmax": softmax,
    "SoftmaxCrossEntropyLoss": loss,
    "Softplus": plain(softplus, -80, 80),
    "Softsign": plain(lambda x: x / (1 + np.abs(x))),
    "Tan": plain(np.tan, -1.4, 1.4),
    "ThresholdedRelu": elementwise(thresholded_relu),
}


def write(folder, op, seed):
    draw = Draw(op, seed)
    with np.errstate(all="ignore"):
        result = OPERATORS[op](draw)
    data = os.path.join(folder, "test_data_set_0")
    os.makedirs(data)
    with open(os.path.join(folder, "model.onnx"), "wb") as file:
        file.write(draw.model([result]).SerializeToString(deterministic=True))
    given = [a for k, a in enumerate(draw.inputs) if not draw.constant[k]]
    for kind, arrays in (("input", given), ("output", [result])):
        for k, array in enumerate(arrays):
            with open(os.path.join(data, f"{kind}_{k}.pb"), "wb") as file:
                file.write(numpy_helper.from_array(np.asarray(array), kind).SerializeToString())


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", metavar="DIR")
    root = parser.parse_args().output
    first = int(os.environ.get("BRAID_TEST_SEED", "1"))
    count = max(1, int(2 * float(os.environ.get("BRAID_RANDOM_SCALE", "1"))))
    shutil.rmtree(root, ignore_errors=True)
    for op in OPERATORS:
        for seed in range(first, first + count):
            write(os.path.join(root, op, str(seed)), op, seed)
    print(f"seeds {first} to {first + count - 1} of {len(OPERATORS)} operators")


if __name__ == "__main__":
    sys.exit(main())
