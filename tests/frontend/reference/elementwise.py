"""Operators on each element: functions of one value, with and without parameters, and bits."""

from functools import partial

import numpy as np
from onnx import helper
from reference_case import ALL_TYPES, Case, a_shape, a_type, is_float, maybe, pick, sometimes, uniform, version


def softplus(x):
    return np.logaddexp(0, x)


# operator: low, high, function of a value and the parameters, and each parameter's default and limits
FUNCTIONS = {
    "Acos": (-1, 1, np.arccos),
    "Acosh": (1, 9, np.arccosh),
    "Asin": (-1, 1, np.arcsin),
    "Asinh": (-4, 4, np.arcsinh),
    "Atan": (-4, 4, np.arctan),
    "Atanh": (-0.9, 0.9, np.arctanh),
    "Celu": (-4, 4, lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x / alpha)), dict(alpha=(1.0, 0.1, 3))),
    "Cosh": (-4, 4, np.cosh),
    "Elu": (-4, 4, lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)), dict(alpha=(1.0, -2, 2))),
    "HardSigmoid": (-4, 4, lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
                    dict(alpha=(0.2, -1, 1), beta=(0.5, -1, 1))),
    "HardSwish": (-5, 5, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "Mish": (-30, 30, lambda x: x * np.tanh(softplus(x))),
    "Selu": (-4, 4, lambda x, alpha, gamma: gamma * np.where(x > 0, x, alpha * np.expm1(x)),
             dict(alpha=(1.67326319217681884765625, -2, 2), gamma=(1.05070102214813232421875, -2, 2))),
    "Sinh": (-4, 4, np.sinh),
    "Softplus": (-80, 80, softplus),
    "Softsign": (-4, 4, lambda x: x / (1 + np.abs(x))),
    "Tan": (-1.4, 1.4, np.tan),
    "ThresholdedRelu": (-4, 4, lambda x, alpha: np.where(x > alpha, x, 0), dict(alpha=(1.0, -2, 2))),
}  # fmt: skip


def unary(operator, rng):
    low, high, function, *parameters = FUNCTIONS[operator]
    opset = version(rng, operator)
    attributes, values = {}, {}
    for name, (default, least, most) in (parameters[0] if parameters else {}).items():
        value = rng.uniform(least, most)
        if operator == "Celu" and rng.integers(2):
            value = -value
        values[name] = maybe(rng, attributes, name, value, default)
    x = uniform(rng, a_type(rng, operator, opset), a_shape(rng), low, high)
    return Case(operator, opset, [x], attributes, expected=partial(function, **values), dynamic=sometimes(rng, (0,)))


def shrink(rng):
    opset = version(rng, "Shrink")
    x = uniform(rng, a_type(rng, "Shrink", opset), a_shape(rng), -3, 3)
    attributes = {}
    lambd = maybe(rng, attributes, "lambd", rng.uniform(0, 2), 0.5)
    if is_float(x.dtype):
        bias = maybe(rng, attributes, "bias", rng.uniform(-2, 2), 0.0)
    else:
        bias = attributes["bias"] = float(rng.integers(0 if x.dtype.kind == "u" else -2, 2))

    def expected(x):
        moved = lambda sign: x + np.asarray(sign * bias).astype(x.dtype)
        value = x.astype(np.float64)
        return np.where(value < -lambd, moved(1), np.where(value > lambd, moved(-1), np.zeros_like(x)))

    return Case("Shrink", opset, [x], attributes, expected=expected, dynamic=sometimes(rng, (0,)))


def prelu(rng):
    opset = version(rng, "PRelu")
    dtype = a_type(rng, "PRelu", opset)
    x = uniform(rng, dtype, a_shape(rng, 1))
    slope = uniform(rng, dtype, broadcastable(rng, x.shape)[rng.integers(0, x.ndim + 1) :], -2, 2)
    return Case("PRelu", opset, [x, slope], constants=sometimes(rng, (1,), 2), expected=lambda x, s: np.where(x < 0, x * s, x))


# ---- bits


def broadcastable(rng, shape):
    return [1 if rng.integers(3) == 0 else n for n in shape]


def pair(rng, operator, opset):
    dtype, shape = a_type(rng, operator, opset), a_shape(rng)
    other = broadcastable(rng, shape)[rng.integers(0, len(shape) + 1) if rng.integers(3) == 0 else 0 :]
    shapes = [shape, other] if rng.integers(2) else [other, shape]
    return [uniform(rng, dtype, s) for s in shapes]


def bitwise(operator, function, rng):
    opset = version(rng, operator)
    return Case(operator, opset, pair(rng, operator, opset), expected=function)


def bit_not(rng):
    opset = version(rng, "BitwiseNot")
    return Case("BitwiseNot", opset, [uniform(rng, a_type(rng, "BitwiseNot", opset), a_shape(rng))], expected=np.invert)


def bit_shift(rng):
    opset = min(version(rng, "BitShift"), 27)  # 28 adds signed integers, which are not implemented
    x, count = pair(rng, "BitShift", opset)
    left = bool(rng.integers(2))
    if rng.integers(10) < 7:
        count = count % (2 * x.dtype.itemsize * 8)
    function = np.left_shift if left else np.right_shift
    return Case("BitShift", opset, [x, count], dict(direction="LEFT" if left else "RIGHT"), expected=function)


def bit_cast(rng):
    opset = version(rng, "BitCast")
    x = np.asarray(uniform(rng, a_type(rng, "BitCast", opset), a_shape(rng)))
    to = pick(rng, [t for t in ALL_TYPES[:-1] if np.dtype(t).itemsize == x.dtype.itemsize])
    attributes = dict(to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))
    expected = lambda _: np.ascontiguousarray(x).view(to).reshape(x.shape)
    return Case("BitCast", opset, [x], attributes, expected=expected, dtype=to)


OPERATORS = {
    **{operator: partial(unary, operator) for operator in FUNCTIONS},
    "BitCast": bit_cast,
    "BitShift": bit_shift,
    "BitwiseAnd": partial(bitwise, "BitwiseAnd", np.bitwise_and),
    "BitwiseNot": bit_not,
    "BitwiseOr": partial(bitwise, "BitwiseOr", np.bitwise_or),
    "BitwiseXor": partial(bitwise, "BitwiseXor", np.bitwise_xor),
    "PRelu": prelu,
    "Shrink": shrink,
}
