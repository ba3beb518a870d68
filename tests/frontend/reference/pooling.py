"""Pools: over windows, over everything, and the inverse of the maximum."""

from functools import partial

import numpy as np
from reference_case import FLOATS, Case, a_shape, a_type, array, maybe, pick, uniform, version
from windows import a_padded_window, output_size


def windows_of_pool(rng, operator, opset):
    """Windows, a spatial size, the attributes and whether ceil_mode is set."""
    dilated = opset >= dict(MaxPool=10, AveragePool=19, LpPool=18)[operator]
    while True:
        axes = int(pick(rng, [1, 1, 2, 2, 2, 3]))
        windows, size, attributes = a_padded_window(rng, axes, dilated)
        attributes["kernel_shape"] = windows.kernel
        if not dilated:
            attributes.pop("dilations", None)
        ceil_mode = False
        # The text computes sizes for VALID with ceil_mode that shape inference and other implementations do not.
        if opset >= dict(MaxPool=10, AveragePool=10, LpPool=18)[operator] and attributes.get("auto_pad") != "VALID":
            ceil_mode = bool(maybe(rng, attributes, "ceil_mode", int(rng.integers(2)), 0))
        result = output_size(windows, size, ceil_mode)
        # Windows of nothing but padding have no defined value.
        if all(any(windows.sources(at, size)) for at in np.ndindex(*result)):
            return windows, size, attributes, result


def pooled(x, windows, size, function):
    """The function of the elements [batch, channels, elements] of each window, and of its output position."""
    y = np.zeros((*x.shape[:2], *size), x.dtype)
    for at in np.ndindex(*size):
        elements = [x[(slice(None), slice(None), *source)] for _, source in windows.sources(at, x.shape[2:])]
        y[(slice(None), slice(None), *at)] = function(np.stack(elements, -1), at)
    return y


def batch_and_channels(rng):
    return (int(rng.integers(0 if rng.integers(8) == 0 else 1, 4)), int(rng.integers(1, 4)))


def dynamic_sizes(rng, x):
    """Nothing, the batch alone, or all sizes."""
    return pick(rng, [(), (), ((0, 0),), (0,)])


def max_pool(rng):
    opset = version(rng, "MaxPool")
    windows, size, attributes, result = windows_of_pool(rng, "MaxPool", opset)
    dtype = a_type(rng, "MaxPool", opset)
    x = array(rng, dtype, (*batch_and_channels(rng), *size))
    outputs = int(rng.integers(1, 3)) if opset >= 8 else 1
    if outputs == 2 or rng.integers(4) == 0:
        column_major = maybe(rng, attributes, "storage_order", int(rng.integers(2)), 0) if opset >= 8 else 0

    def expected(x):
        y = pooled(x, windows, result, lambda elements, _: elements.max(-1))
        if outputs == 1:
            return y
        indices = np.zeros(y.shape, np.int64)
        for n, c, *at in np.ndindex(*y.shape):
            sources = [source for _, source in windows.sources(at, size)]
            best = sources[int(np.argmax([x[(n, c, *source)] for source in sources]))]  # the first of equal ones
            within = np.ravel_multi_index(best, size, order="F" if column_major else "C")
            indices[(n, c, *at)] = (n * x.shape[1] + c) * int(np.prod(size)) + within
        return y, indices

    return Case("MaxPool", opset, [x], attributes, outputs=outputs, expected=expected, dynamic=dynamic_sizes(rng, x))


def average_pool(rng):
    opset = version(rng, "AveragePool")
    windows, size, attributes, result = windows_of_pool(rng, "AveragePool", opset)
    x = array(rng, a_type(rng, "AveragePool", opset), (*batch_and_channels(rng), *size))
    pads_too = maybe(rng, attributes, "count_include_pad", int(rng.integers(2)), 0)

    def average(elements, at):
        return elements.sum(-1) / len(list(windows.sources(at, size, padded=pads_too)))

    return Case("AveragePool", opset, [x], attributes, expected=lambda x: pooled(x, windows, result, average),
                dynamic=dynamic_sizes(rng, x))  # fmt: skip


def lp_pool(rng):
    opset = version(rng, "LpPool")
    windows, size, attributes, result = windows_of_pool(rng, "LpPool", opset)
    x = array(rng, a_type(rng, "LpPool", opset), (*batch_and_channels(rng), *size))
    p = maybe(rng, attributes, "p", int(rng.integers(1, 5)), 2)

    def norm(elements, _):
        return (np.abs(elements) ** p).sum(-1) ** (1 / p)

    return Case("LpPool", opset, [x], attributes, expected=lambda x: pooled(x, windows, result, norm),
                dynamic=dynamic_sizes(rng, x))  # fmt: skip


# ---- over everything


def global_pool(operator, function, rng):
    opset = version(rng, operator)
    x = uniform(rng, a_type(rng, operator, opset), a_shape(rng, 3, 5, empty=False))
    attributes = {}
    p = maybe(rng, attributes, "p", int(rng.integers(1, 5)), 2) if operator == "GlobalLpPool" else None
    axes = tuple(range(2, x.ndim))
    return Case(operator, opset, [x], attributes, expected=lambda x: function(x, axes, p), dynamic=dynamic_sizes(rng, x))


def global_norm(x, axes, p):
    return (np.abs(x) ** p).sum(axis=axes, keepdims=True) ** (1 / p)


# ---- the inverse


def max_unpool(rng):
    axes = int(rng.integers(1, 4))
    kernel, strides = rng.integers(1, 4, axes), rng.integers(1, 4, axes)
    pads = np.minimum(rng.integers(0, 2, 2 * axes), np.concatenate([kernel, kernel]) // 2)
    x = array(rng, pick(rng, FLOATS[:3]), (*rng.integers(1, 3, 2), *rng.integers(2, 4, axes)))
    inner = [*x.shape[:2], *((np.array(x.shape[2:]) - 1) * strides + kernel - pads[:axes] - pads[axes:])]
    range_ = int(np.prod(inner))
    indices = rng.permutation(range_)[: x.size] if range_ >= x.size else rng.integers(0, range_, x.size)
    attributes = dict(kernel_shape=[int(k) for k in kernel], strides=[int(s) for s in strides], pads=[int(p) for p in pads])
    sizes = np.array(inner) + np.array([0, 0, *rng.integers(0, 3, axes)]) if rng.integers(2) else None
    # ONNX's evaluator and test data count indices through the sizes that follow from the attributes and put the result into
    # a corner of the sizes given; ONNX Runtime counts through the sizes given.
    opset = int(pick(rng, [9, 11, 22]))
    agreed = sizes is None or list(sizes) == inner
    return Case("MaxUnpool", opset, [x, indices.reshape(x.shape), sizes], attributes, constants=(2,),
                runtime_version=opset if agreed else None)  # fmt: skip


OPERATORS = {
    "AveragePool": average_pool,
    "GlobalAveragePool": partial(global_pool, "GlobalAveragePool", lambda x, axes, _: x.mean(axis=axes, keepdims=True)),
    "GlobalLpPool": partial(global_pool, "GlobalLpPool", global_norm),
    "GlobalMaxPool": partial(global_pool, "GlobalMaxPool", lambda x, axes, _: x.max(axis=axes, keepdims=True)),
    "LpPool": lp_pool,
    "MaxPool": max_pool,
    "MaxUnpool": max_unpool,
}
