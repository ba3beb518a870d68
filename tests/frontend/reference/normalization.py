"""Normalizations: over channels, groups, axes and neighbouring channels."""

import math

import numpy as np
from reference_case import Case, a_shape, a_type, allowed_types, integers, maybe, pick, sometimes, uniform, version


def on_channels(p, x):
    return p.reshape([-1] + [1] * (x.ndim - 2))


def normalized(x, axes, epsilon):
    return (x - x.mean(axis=axes, keepdims=True)) / np.sqrt(x.var(axis=axes, keepdims=True) + epsilon)


def epsilon_of(rng, attributes):
    return maybe(rng, attributes, "epsilon", rng.uniform(0.001, 0.1), 1e-5)


def batch_normalization(rng):
    opset = version(rng, "BatchNormalization")
    types = allowed_types("BatchNormalization", opset)
    x = uniform(rng, a_type(rng, "BatchNormalization", opset), a_shape(rng, 2, 5))
    attributes = {}
    spatial = maybe(rng, attributes, "spatial", int(rng.integers(2)), 1) if opset < 9 else 1
    shape = x.shape[1:2] if spatial else x.shape[1:]
    # Versions 14 and 15 let the statistics, and then the scale, have types of their own.
    of_mean = pick(rng, types) if opset >= 14 and rng.integers(3) == 0 else x.dtype
    of_scale = pick(rng, types) if opset >= 15 and rng.integers(3) == 0 else x.dtype
    epsilon = epsilon_of(rng, attributes)
    line = (lambda p, x: on_channels(p, x)) if spatial else (lambda p, x: p)

    def expected(x, scale, bias, mean, variance):
        return line(scale, x) * (x - line(mean, x)) / np.sqrt(line(variance, x) + epsilon) + line(bias, x)

    inputs = [x, uniform(rng, of_scale, shape, -2, 2), uniform(rng, of_scale, shape, -2, 2),
              uniform(rng, of_mean, shape, -2, 2), uniform(rng, of_mean, shape, 0.1, 2)]  # fmt: skip
    return Case("BatchNormalization", opset, inputs, attributes, expected=expected,
                constants=sometimes(rng, (1, 2, 3, 4), 2), dynamic=sometimes(rng, ((0, 0),)))  # fmt: skip


def instance_normalization(rng):
    opset = version(rng, "InstanceNormalization")
    x = uniform(rng, a_type(rng, "InstanceNormalization", opset), a_shape(rng, 3, 5, empty=False))
    attributes = {}
    epsilon = epsilon_of(rng, attributes)

    def expected(x, scale, bias):
        return on_channels(scale, x) * normalized(x, tuple(range(2, x.ndim)), epsilon) + on_channels(bias, x)

    inputs = [x, *(uniform(rng, x.dtype, x.shape[1:2], -2, 2) for _ in range(2))]
    return Case("InstanceNormalization", opset, inputs, attributes, expected=expected,
                constants=(*sometimes(rng, (1,), 2), *sometimes(rng, (2,), 2)),
                dynamic=sometimes(rng, tuple((0, d) for d in range(x.ndim) if d != 1)))  # fmt: skip


def group_normalization(rng):
    opset = version(rng, "GroupNormalization")
    shape, groups = a_shape(rng, 3, 5, empty=False), int(rng.integers(1, 4))
    shape[1] = groups * int(rng.integers(1, 4))
    x = uniform(rng, a_type(rng, "GroupNormalization", opset), shape)
    attributes = dict(num_groups=groups)
    epsilon = epsilon_of(rng, attributes)
    count = groups if opset < 21 else shape[1]

    def expected(x, scale, bias):
        y = normalized(x.reshape([shape[0], groups, -1]), (2,), epsilon).reshape(shape)
        per_channel = lambda p: on_channels(np.repeat(p, shape[1] // count), x)
        return per_channel(scale) * y + per_channel(bias)

    inputs = [x, *(uniform(rng, x.dtype, [count], -2, 2) for _ in range(2))]
    return Case("GroupNormalization", opset, inputs, attributes, expected=expected,
                constants=(*sometimes(rng, (1,), 2), *sometimes(rng, (2,), 2)), dynamic=sometimes(rng, ((0, 0),)))  # fmt: skip


def mean_variance_normalization(rng):
    opset = version(rng, "MeanVarianceNormalization")
    attributes = {}
    axes = tuple(maybe(rng, attributes, "axes", sorted(set(integers(rng, 0, 3, 3))), [0, 2, 3]))
    while True:
        x = uniform(rng, a_type(rng, "MeanVarianceNormalization", opset), a_shape(rng, 4, 4, empty=False))
        # With one element per group, numerator and denominator are rounding errors; with almost equal ones, nearly so.
        alone = np.prod([x.shape[a] for a in axes]) == 1
        if alone or x.astype(np.float64).std(axis=axes).min() > 0.1:
            break

    def expected(x):
        if alone:
            return np.zeros_like(x)
        return (x - x.mean(axis=axes, keepdims=True)) / (x.std(axis=axes, keepdims=True) + 1e-9)

    return Case("MeanVarianceNormalization", opset, [x], attributes, expected=expected, dynamic=sometimes(rng, ((0, 0),)))


def lp_normalization(rng):
    opset = version(rng, "LpNormalization")
    x = uniform(rng, a_type(rng, "LpNormalization", opset), a_shape(rng, 1))
    if rng.integers(5) == 0:
        x[...] = 0
    attributes = {}
    axis = maybe(rng, attributes, "axis", int(rng.integers(-x.ndim, x.ndim)), -1)
    p = maybe(rng, attributes, "p", int(rng.integers(1, 3)), 2)

    def expected(x):
        norm = (np.abs(x) ** p).sum(axis=axis, keepdims=True) ** (1 / p)
        return np.where(norm == 0, 0, x / np.where(norm == 0, 1, norm))

    return Case("LpNormalization", opset, [x], attributes, expected=expected, dynamic=sometimes(rng, (0,)))


def lrn(rng):
    opset = version(rng, "LRN")
    x = uniform(rng, a_type(rng, "LRN", opset), a_shape(rng, 2, 5))
    size = int(rng.integers(1, 8))
    attributes = dict(size=size)
    alpha, beta, bias = (maybe(rng, attributes, name, rng.uniform(0.1, 2), default)
                         for name, default in dict(alpha=0.0001, beta=0.75, bias=1.0).items())  # fmt: skip

    def expected(x):
        total = np.zeros_like(x)
        for c in range(x.shape[1]):
            low, high = max(0, c - (size - 1) // 2), min(x.shape[1] - 1, c + math.ceil((size - 1) / 2))
            total[:, c] = (x[:, low : high + 1] ** 2).sum(axis=1)
        return x / (bias + alpha / size * total) ** beta

    return Case("LRN", opset, [x], attributes, expected=expected, dynamic=sometimes(rng, ((0, 0),)))


def layer_normalization(rng, operator="LayerNormalization"):
    opset = version(rng, operator)
    x = uniform(rng, a_type(rng, operator, opset), a_shape(rng, 1, 4, empty=False))
    attributes = {}
    axis = maybe(rng, attributes, "axis", int(rng.integers(-x.ndim, x.ndim)), -1) % x.ndim
    epsilon = epsilon_of(rng, attributes)
    axes = tuple(range(axis, x.ndim))
    centred = operator == "LayerNormalization"
    scale = uniform(rng, x.dtype, x.shape[axis:], -2, 2)
    inputs = [x, scale, uniform(rng, x.dtype, x.shape[axis:], -2, 2)] if centred and rng.integers(2) else [x, scale]
    # Mean and inverse deviation are in single precision, whatever the input is.
    outputs = int(rng.integers(1, 4)) if centred and x.dtype == np.float32 else 1

    def expected(x, scale, bias=0):
        mean = x.mean(axis=axes, keepdims=True) if centred else np.zeros(1)
        inverse = 1 / np.sqrt(((x - mean) ** 2).mean(axis=axes, keepdims=True) + epsilon)
        return (x - mean) * inverse * scale + bias, mean, inverse

    return Case(operator, opset, inputs, attributes, outputs=outputs, expected=expected,
                constants=sometimes(rng, (1,), 2), dynamic=sometimes(rng, ((0, 0),) if axis > 0 else ()))  # fmt: skip


OPERATORS = {
    "BatchNormalization": batch_normalization,
    "GroupNormalization": group_normalization,
    "InstanceNormalization": instance_normalization,
    "LRN": lrn,
    "LayerNormalization": layer_normalization,
    "LpNormalization": lp_normalization,
    "MeanVarianceNormalization": mean_variance_normalization,
    "RMSNormalization": lambda rng: layer_normalization(rng, "RMSNormalization"),
}
