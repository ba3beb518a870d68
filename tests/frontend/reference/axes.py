"""Operators along an axis: softmax and its relatives, positions of extremes, running sums, losses."""

from functools import partial

import numpy as np
from reference_case import Case, a_shape, a_type, maybe, pick, sometimes, uniform, version

# ---- Softmax and its relatives


def over_axes(function, operator, rng, high=20.0):
    """Of all axes from `axis` on before version 13, of one since."""
    opset = version(rng, operator)
    x = uniform(rng, a_type(rng, operator, opset), a_shape(rng, 1, empty=False), -high, high)
    attributes, old = {}, opset < 13
    axis = maybe(rng, attributes, "axis", int(rng.integers(-x.ndim if opset >= 11 else 0, x.ndim)), 1 if old else -1)
    if axis >= x.ndim:
        axis = attributes["axis"] = 0
    axis %= x.ndim

    def expected(x):
        rows = x.reshape(int(np.prod(x.shape[:axis])), -1) if old else np.moveaxis(x, axis, -1)
        y = function(rows)
        return y.reshape(x.shape) if old else np.moveaxis(y, -1, axis)

    return Case(operator, opset, [x], attributes, expected=expected, dynamic=sometimes(rng, (0,)))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def log_softmax(x):
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def hardmax(x):
    return (np.arange(x.shape[-1]) == x.argmax(axis=-1)[..., None]).astype(x.dtype)


# ---- extremes and running sums


def arg_extreme(operator, function, rng):
    opset = version(rng, operator)
    x = uniform(rng, a_type(rng, operator, opset), a_shape(rng, 1, empty=False), -2, 2)
    if x.dtype.kind == "f" and rng.integers(5) == 0:
        x[tuple(rng.integers(0, x.shape))] = np.nan
    attributes = {}
    axis = maybe(rng, attributes, "axis", int(rng.integers(-x.ndim if opset >= 11 else 0, x.ndim)), 0)
    keep = maybe(rng, attributes, "keepdims", int(rng.integers(2)), 1)
    last = maybe(rng, attributes, "select_last_index", int(rng.integers(2)), 0) if opset >= 12 else 0

    def expected(x):
        position = function(np.flip(x, axis) if last else x, axis=axis)
        position = x.shape[axis] - 1 - position if last else position
        return np.expand_dims(position, axis) if keep else np.asarray(position)

    return Case(operator, opset, [x], attributes, expected=expected, dynamic=sometimes(rng, (0,)))


def cumulative(operator, rng):
    opset = version(rng, operator)
    x = uniform(rng, a_type(rng, operator, opset), a_shape(rng, 1, 3, high=6), -1.5, 1.5)
    axis = int(rng.integers(-x.ndim, x.ndim))
    attributes = {}
    exclusive = maybe(rng, attributes, "exclusive", int(rng.integers(2)), 0)
    reverse = maybe(rng, attributes, "reverse", int(rng.integers(2)), 0)

    def expected(x, _):
        lines = np.moveaxis(x, axis, 0)
        y = np.zeros_like(lines)
        total = np.full(lines.shape[1:], 1 if operator == "CumProd" else 0, lines.dtype)
        for k in reversed(range(len(lines))) if reverse else range(len(lines)):
            after = total * lines[k] if operator == "CumProd" else total + lines[k]
            y[k] = total if exclusive else after
            total = after
        return np.moveaxis(y, 0, axis)

    return Case(operator, opset, [x, np.array(axis, pick(rng, [np.int32, np.int64]))], attributes, constants=(1,),
                expected=expected, dynamic=sometimes(rng, (0,)))  # fmt: skip


# ---- losses


def loss(operator, rng):
    opset = version(rng, operator)
    dtype = a_type(rng, operator, opset)
    shape, classes = a_shape(rng, 1, 3, empty=False), int(rng.integers(2, 5))
    target = rng.integers(0, classes, shape).astype(pick(rng, [np.int32, np.int64]))
    attributes = {}
    reduction = maybe(rng, attributes, "reduction", pick(rng, ["none", "sum", "mean"]), "mean")
    ignored = None
    if rng.integers(3) == 0:
        ignored = attributes["ignore_index"] = int(rng.integers(0, classes))
        target[(0,) * target.ndim] = (ignored + 1) % classes  # a mean needs one that counts
    weight = uniform(rng, dtype, [classes], 0.2, 2) if rng.integers(2) else None
    outputs = 2 if operator == "SoftmaxCrossEntropyLoss" and rng.integers(2) else 1

    def expected(x, target, weight=None):
        log = np.moveaxis(log_softmax(np.moveaxis(x, 1, -1)), -1, 1) if operator == "SoftmaxCrossEntropyLoss" else x
        y, w = np.zeros(shape), np.zeros(shape)
        for at in np.ndindex(*shape):
            c = target[at]
            w[at] = 0 if c == ignored else 1 if weight is None else weight[c]
            y[at] = -log[(at[0], c, *at[1:])] * w[at]
        y = y if reduction == "none" else y.sum() / (w.sum() if reduction == "mean" else 1)
        return y, log

    x = uniform(rng, dtype, [shape[0], classes, *shape[1:]])
    dynamic = sometimes(rng, ((0, 0), (1, 0)))
    return Case(operator, opset, [x, target, weight], attributes, outputs=outputs, expected=expected, dynamic=dynamic)


OPERATORS = {
    "ArgMax": partial(arg_extreme, "ArgMax", np.argmax),
    "ArgMin": partial(arg_extreme, "ArgMin", np.argmin),
    "CumProd": partial(cumulative, "CumProd"),
    "CumSum": partial(cumulative, "CumSum"),
    "Hardmax": partial(over_axes, hardmax, "Hardmax", high=2.0),
    "LogSoftmax": partial(over_axes, log_softmax, "LogSoftmax"),
    "NegativeLogLikelihoodLoss": partial(loss, "NegativeLogLikelihoodLoss"),
    "Softmax": partial(over_axes, softmax, "Softmax"),
    "SoftmaxCrossEntropyLoss": partial(loss, "SoftmaxCrossEntropyLoss"),
}
