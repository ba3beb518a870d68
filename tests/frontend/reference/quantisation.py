"""Quantised tensors: linear quantisation, products and convolutions of integers, casts to and from small types, and the
operators of com.microsoft that ONNX Runtime's quantiser writes.

Quantities are computed as single-precision numbers, one operation after the other, as the operators define them.
"""

import ml_dtypes
import numpy as np
from convolution import convolved
from reference_case import Case, a_shape, array, integers, pick, sometimes, version
from windows import a_padded_window, output_size

MICROSOFT = "com.microsoft"
BYTES = [np.int8, np.uint8]
F8 = [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz]
SMALL_INTEGERS = [ml_dtypes.int4, ml_dtypes.uint4]
TWO_BITS = [ml_dtypes.int2, ml_dtypes.uint2]
F4 = ml_dtypes.float4_e2m1fn
TYPE_NUMBERS = {np.float32: 1, np.uint8: 2, np.int8: 3, np.uint16: 4, np.int16: 5, np.float16: 10, ml_dtypes.bfloat16: 16,
                ml_dtypes.uint4: 21, ml_dtypes.int4: 22, F4: 23, ml_dtypes.uint2: 25, ml_dtypes.int2: 26}  # fmt: skip
TYPE_NUMBERS |= {dtype: 17 + k for k, dtype in enumerate(F8)}


def limits(dtype):
    info = ml_dtypes.iinfo(dtype)
    return int(info.min), int(info.max)


def some_bytes(rng, dtype, shape):
    """Any integers of the type."""
    low, high = limits(dtype)
    return np.asarray(rng.integers(low, high + 1, shape)).astype(np.int32).astype(dtype)


def a_scale(rng, shape=(), dtype=np.float32, low=0.01, high=0.3):
    return np.asarray(rng.uniform(low, high, shape)).astype(dtype)


def spread(parameter, shape, axis, block):
    """A scale or zero point as an array of the tensor's shape, index by index."""
    parameter = np.asarray(parameter)
    out = np.empty(shape, parameter.dtype)
    for at in np.ndindex(*shape):
        if parameter.size == 1 and not block:
            out[at] = parameter.reshape(-1)[0]
        elif block:
            out[at] = parameter[tuple(i // block if d == axis else i for d, i in enumerate(at))]
        else:
            out[at] = parameter[at[axis]]
    return out


def rounded(number, zero, dtype):
    """Half to even, plus the zero point, into the range of the type."""
    low, high = limits(dtype)
    return np.clip(np.rint(np.asarray(number, np.float64)) + np.asarray(zero, np.float64), low, high).astype(np.int32).astype(dtype)


def parameters(rng, shape, one_only=False):
    """Shape of scale and zero point, attributes that say so, axis and block size."""
    kinds = ["one", "one", "axis", "block"] if shape and 0 not in shape else ["one"]
    kind = "one" if one_only else pick(rng, kinds)
    if kind == "one":
        return pick(rng, [(), (1,)]), {}, 0, 0
    axis = int(rng.integers(len(shape)))
    given = axis - len(shape) if rng.integers(2) else axis
    if kind == "axis":
        attributes = {} if given == 1 and rng.integers(2) else dict(axis=given)
        return (shape[axis],), attributes, axis, 0
    block = int(rng.integers(1, shape[axis] + 2))
    sizes = [-(-n // block) if d == axis else n for d, n in enumerate(shape)]
    return tuple(sizes), dict(axis=given, block_size=block), axis, block


def linear_version(rng, operator, dtype, block):
    """A version that has the type, and blocks if need be."""
    first = {np.int16: 21, np.uint16: 21, F4: 23}.get(dtype, 25 if dtype in TWO_BITS else 21 if dtype in SMALL_INTEGERS else 19 if dtype in F8 else 13)
    return version(rng, operator, max(first, 21 if block else first))


STORED = [np.int8, np.uint8, np.int8, np.uint8, np.int16, np.uint16, *SMALL_INTEGERS, *TWO_BITS, F4, *F8]


def is_small_float(dtype):
    return dtype in F8 or dtype == F4


def saturated(x, dtype):
    """NaN stays NaN; what is too large becomes the largest number."""
    info = ml_dtypes.finfo(dtype)
    return np.clip(x, float(info.min), float(info.max)).astype(dtype)


def quantize_linear(rng):
    dtype = pick(rng, STORED)
    shape = a_shape(rng, 0, 4)
    scale_shape, attributes, axis, block = parameters(rng, shape)
    opset = linear_version(rng, "QuantizeLinear", dtype, block)
    of_x = of_scale = np.float32
    if opset >= 23:
        of_x, of_scale = (pick(rng, [np.float32, np.float16, ml_dtypes.bfloat16]) for _ in range(2))
    elif opset >= 19:
        of_x = of_scale = pick(rng, [np.float32, np.float16, ml_dtypes.bfloat16])
    x = (array(rng, np.float32, shape) * pick(rng, [1, 10, 300])).astype(of_x)
    if rng.integers(5) == 0 and not 19 <= opset < 23:  # where x and its scale have one type
        of_x, x = np.int32, rng.integers(-1000, 1000, shape).astype(np.int32)
    scale = a_scale(rng, scale_shape, of_scale, 0.05, 2)
    if rng.integers(3) == 0:  # ties
        scale = np.full(scale_shape, pick(rng, [0.5, 1, 2]), of_scale)
        x = rng.integers(-60, 60, shape).astype(np.float32).astype(of_x)
    zero = None
    if dtype != np.uint8 or rng.integers(2):
        zero = np.zeros(scale_shape, np.float32).astype(dtype) if is_small_float(dtype) else some_bytes(rng, dtype, scale_shape)
    if opset >= 21 and rng.integers(2):
        attributes["output_dtype"] = TYPE_NUMBERS[dtype]
        zero = None if rng.integers(2) else zero
    precision = of_scale
    if opset >= 23 and rng.integers(3) == 0:
        precision = pick(rng, [np.float32, np.float16])
        attributes["precision"] = TYPE_NUMBERS[precision]
    saturate = True
    if dtype in F8 and rng.integers(2):
        saturate, attributes["saturate"] = False, 0

    def expected(x, scale, zero=None):
        scale = spread(scale.astype(of_scale), x.shape, axis, block)
        number = x.astype(of_x).astype(precision) / scale.astype(precision)
        if is_small_float(dtype):
            number = number.astype(np.float32)
            if dtype == F4 and zero is not None:
                number = number + np.float32(0)  # there are no zero points other than 0; negative zeros become positive
            return saturated(number, dtype) if saturate else number.astype(dtype)
        return rounded(number, 0 if zero is None else spread(zero, x.shape, axis, block).astype(np.int32), dtype)

    return Case("QuantizeLinear", opset, [x, scale, zero], attributes, expected=expected,
                constants=sometimes(rng, (1, 2), 2), dynamic=sometimes(rng, (0,) if scale.size == 1 and not block else ()))  # fmt: skip


def dequantize_linear(rng):
    dtype = pick(rng, [*STORED, np.int32])
    shape = a_shape(rng, 0, 4)
    scale_shape, attributes, axis, block = parameters(rng, shape)
    opset = linear_version(rng, "DequantizeLinear", dtype, block)
    of_scale = pick(rng, [np.float32, np.float16, ml_dtypes.bfloat16]) if opset >= 19 else np.float32
    x = array(rng, np.float32, shape).astype(dtype) if is_small_float(dtype) else some_bytes(rng, dtype, shape)
    if dtype == np.int32:
        x = rng.integers(-5000, 5000, shape).astype(np.int32)
    zero = None
    if rng.integers(3) and not is_small_float(dtype):
        zero = some_bytes(rng, dtype if dtype != np.int32 else np.int16, scale_shape).astype(dtype)
    scale = a_scale(rng, scale_shape, of_scale)
    out = of_scale
    if opset >= 23 and rng.integers(2):
        out = pick(rng, [np.float32, np.float16, ml_dtypes.bfloat16])
        attributes["output_dtype"] = TYPE_NUMBERS[out]

    def expected(x, scale, zero=None):
        scale = spread(scale.astype(np.float32), x.shape, axis, block)
        if is_small_float(dtype):
            return (x.astype(np.float32) * scale).astype(out)
        zero = 0 if zero is None else spread(zero, x.shape, axis, block).astype(np.int32)
        return ((x.astype(np.int32) - zero).astype(np.float32) * scale).astype(out)

    return Case("DequantizeLinear", opset, [x, scale, zero], attributes, expected=expected, dtype=out,
                constants=sometimes(rng, (0, 1, 2) if rng.integers(2) else (1, 2), 2),
                dynamic=sometimes(rng, (0,) if scale.size == 1 and not block else ()))  # fmt: skip


def dynamically_quantized(x):
    """Values, scale and zero point; computes in single precision."""
    x = np.asarray(x, np.float32)
    least, most = np.float32(min(0, x.min(initial=0))), np.float32(max(0, x.max(initial=0)))
    scale = (np.float32(1) if least == most else most - least) / np.float32(255)
    zero = rounded(np.float32(0) - least / scale, 0, np.uint8)
    return rounded(x / scale, zero, np.uint8), scale, zero


def dynamic_quantize_linear(rng):
    opset = version(rng, "DynamicQuantizeLinear")
    x = array(rng, np.float32, a_shape(rng, 0, 4)) * np.float32(pick(rng, [0, 1, 5]))
    x = np.abs(x) if rng.integers(3) == 0 else -np.abs(x) if rng.integers(3) == 0 else x
    return Case("DynamicQuantizeLinear", opset, [x], outputs=3, expected=dynamically_quantized, dynamic=sometimes(rng, (0,)))


# ---- products


def centred(x, zero):
    return x.astype(np.int64) - (0 if zero is None else np.asarray(zero).astype(np.int64))


def factor_of(*scales):
    """a * b / y in single precision."""
    a, b, *y = (np.asarray(s, np.float32) for s in scales)
    return a * b / y[0] if y else a * b


def requantized(sums, factor, zero, dtype):
    return rounded(np.asarray(sums, np.float32) * factor, np.asarray(zero, np.int32), dtype)


def a_product(rng):
    rows, inner, columns = (int(n) for n in rng.integers(1, 7, 3))
    of_a, of_b = (pick(rng, BYTES) for _ in range(2))
    return some_bytes(rng, of_a, (rows, inner)), some_bytes(rng, of_b, (inner, columns))


def qlinear_matmul(rng):
    opset = version(rng, "QLinearMatMul")
    a, b = a_product(rng)
    rows, columns = a.shape[0], b.shape[1]
    if rng.integers(3) == 0:
        a = np.stack([a, a[::-1]])
    # Scales of all of it, of each row or of each column.
    a_shape_, b_shape, y_shape = (pick(rng, [(), (1,), (n,)]) for n in (rows, columns, rows))
    to = pick(rng, BYTES)
    inputs = [a, a_scale(rng, a_shape_), some_bytes(rng, a.dtype.type, a_shape_), b, a_scale(rng, b_shape),
              some_bytes(rng, b.dtype.type, b_shape), a_scale(rng, y_shape, low=1, high=9), some_bytes(rng, to, y_shape)]  # fmt: skip
    of_rows = lambda p: np.asarray(p).reshape(-1, 1) if np.size(p) > 1 else np.reshape(p, ())

    def expected(a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero):
        sums = centred(a, of_rows(a_zero)) @ centred(b, b_zero)
        return requantized(sums, factor_of(of_rows(a_scale), b_scale, of_rows(y_scale)), of_rows(y_zero), to)

    return Case("QLinearMatMul", opset, inputs, expected=expected, constants=sometimes(rng, (1, 2, 3, 4, 5, 6, 7), 2),
                dynamic=sometimes(rng, ((0, a.ndim - 2),) if 1 in (len(a_shape_), len(y_shape)) else ((0, a.ndim - 2),)))  # fmt: skip


def qlinear_conv_case(rng, opset, domain=""):
    axes, group = int(pick(rng, [1, 2, 2])), int(rng.integers(1, 3))
    windows, size, attributes = a_padded_window(rng, axes)
    channels, filters = int(rng.integers(1, 3)), group * int(rng.integers(1, 3))
    of_x, of_w, to = (pick(rng, BYTES) for _ in range(3))
    x = some_bytes(rng, of_x, (int(rng.integers(1, 3)), channels * group, *size))
    w = some_bytes(rng, of_w, (filters, channels, *windows.kernel))
    per_filter = (filters,) if rng.integers(2) else ()
    bias = rng.integers(-3000, 3000, filters).astype(np.int32) if rng.integers(2) else None
    last = bool(domain) and bool(rng.integers(2))
    if last:
        attributes["channels_last"] = 1
        x = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    inputs = [x, a_scale(rng), some_bytes(rng, of_x, ()), w, a_scale(rng, per_filter), some_bytes(rng, of_w, per_filter),
              a_scale(rng, (), low=1, high=9), some_bytes(rng, to, ()), bias]  # fmt: skip
    attributes |= dict(group=group) if group > 1 or rng.integers(2) else {}

    def expected(x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias=None):
        x = np.moveaxis(x, -1, 1) if last else x
        along = lambda p, n: np.reshape(p, [-1] + [1] * n) if np.size(p) > 1 else np.reshape(p, ())
        sums = convolved(centred(x, x_zero), centred(w, along(w_zero, axes + 1)), windows, group, output_size(windows, size))
        if bias is not None:
            sums = sums + along(bias.astype(np.int64), axes)
        y = requantized(sums, factor_of(x_scale, along(w_scale, axes), y_scale), y_zero, to)
        return np.moveaxis(y, 1, -1) if last else y

    return Case("QLinearConv", opset, inputs, attributes, expected=expected, constants=sometimes(rng, (1, 2, 3, 4, 5, 6, 7, 8), 2),
                dynamic=sometimes(rng, ((0, 0),)), domain=domain)  # fmt: skip


def qlinear_conv(rng):
    return qlinear_conv_case(rng, version(rng, "QLinearConv"))


def microsoft_qlinear_conv(rng):
    return qlinear_conv_case(rng, 18, MICROSOFT)


def qgemm(rng):
    a, b = a_product(rng)
    trans_a, trans_b = int(rng.integers(2)), int(rng.integers(2))
    per_column = (b.shape[1],) if rng.integers(2) else ()
    alpha = float(np.float32(pick(rng, [1, 0.5, 1.7])))
    bias = rng.integers(-3000, 3000, pick(rng, [b.shape[1:], (a.shape[0], b.shape[1])])).astype(np.int32)
    as_number = bool(rng.integers(2))
    to = a.dtype.type
    inputs = [a.T.copy() if trans_a else a, a_scale(rng), some_bytes(rng, a.dtype.type, ()), b.T.copy() if trans_b else b,
              a_scale(rng, per_column), some_bytes(rng, b.dtype.type, per_column), bias if rng.integers(2) else None,
              None if as_number else a_scale(rng, (), low=1, high=9), None if as_number else some_bytes(rng, to, ())]  # fmt: skip

    def expected(a, a_scale, a_zero, b, b_scale, b_zero, bias=None, y_scale=None, y_zero=None):
        sums = centred(a.T if trans_a else a, a_zero) @ centred(b.T if trans_b else b, b_zero)
        sums = sums if bias is None else sums + bias
        factor = np.float32(alpha) * np.float32(a_scale) * np.asarray(b_scale, np.float32)
        if as_number:
            return np.asarray(sums, np.float32) * factor
        return requantized(sums, factor / np.float32(y_scale), y_zero, to)

    return Case("QGemm", 18, inputs, dict(transA=trans_a, transB=trans_b, alpha=alpha), expected=expected, domain=MICROSOFT,
                constants=sometimes(rng, (1, 2, 3, 4, 5, 6, 7, 8), 2))  # fmt: skip


def matmul_integer_to_float(rng):
    a, b = a_product(rng)
    per_column = (b.shape[1],) if rng.integers(2) else ()
    zeros = [some_bytes(rng, a.dtype.type, ()), some_bytes(rng, b.dtype.type, per_column)]
    bias = array(rng, np.float32, b.shape[1:]) if rng.integers(2) else None
    inputs = [a, b, a_scale(rng), a_scale(rng, per_column), *(z if rng.integers(3) else None for z in zeros), bias]

    def expected(a, b, a_scale, b_scale, a_zero=None, b_zero=None, bias=None):
        y = (centred(a, a_zero) @ centred(b, b_zero)) * factor_of(a_scale, b_scale).astype(np.float64)
        return y if bias is None else y + bias

    return Case("MatMulIntegerToFloat", 18, inputs, expected=expected, domain=MICROSOFT, constants=sometimes(rng, (1, 3, 4, 5, 6), 2),
                dynamic=sometimes(rng, ((0, 0),)))  # fmt: skip


def dynamic_quantize_matmul(rng):
    _, b = a_product(rng)
    a = array(rng, np.float32, (int(rng.integers(1, 5)), b.shape[0]))
    per_column = (b.shape[1],) if rng.integers(2) else ()
    bias = array(rng, np.float32, b.shape[1:]) if rng.integers(2) else None
    inputs = [a, b, a_scale(rng, per_column), some_bytes(rng, b.dtype.type, per_column) if rng.integers(3) else None, bias]

    def expected(a, b, b_scale, b_zero=None, bias=None):
        values, scale, zero = dynamically_quantized(a)
        y = (centred(values, zero) @ centred(b, b_zero)) * factor_of(scale, b_scale).astype(np.float64)
        return y if bias is None else y + bias

    return Case("DynamicQuantizeMatMul", 18, inputs, expected=expected, domain=MICROSOFT, constants=sometimes(rng, (1, 2, 3, 4), 2),
                dynamic=sometimes(rng, ((0, 0),)))  # fmt: skip


# ---- operators on numbers whose results are quantised again


def number(x, scale, zero):
    return np.asarray(centred(x, zero), np.float32) * np.float32(scale)


def decided(rng, inputs, scale_at, compute):
    """Inputs for which no result lies so near to the middle of two steps that the last digit of a function decides."""
    while True:
        given = [None if a is None else a.astype(np.float64) if a.dtype == np.float32 else a for a in inputs]
        steps = np.asarray(compute(*given), np.float64) / np.float64(inputs[scale_at])
        if np.all(np.abs(steps - np.floor(steps) - 0.5) > 1e-3):
            return inputs
        inputs = [*inputs]
        inputs[scale_at] = a_scale(rng, (), low=0.02, high=0.2)


def unary_case(rng, operator, x, compute, attributes=None, low=0.01, high=0.1, **more):
    """An operator with the inputs x, its scale and zero point, and those of the result."""
    dtype = x.dtype.type
    zeros = [some_bytes(rng, dtype, ()) if rng.integers(3) else None, some_bytes(rng, dtype, ())]
    inputs = [x, a_scale(rng), zeros[0], a_scale(rng, (), low=low, high=high), zeros[1]]
    of = lambda x, scale, zero, y_scale, y_zero: compute(number(x, scale, zero).astype(np.float64))
    inputs = decided(rng, inputs, 3, of)

    def expected(x, scale, zero, y_scale, y_zero):
        return rounded(of(x, scale, zero, y_scale, y_zero) / np.float64(y_scale), y_zero, dtype)

    return Case(operator, 18, inputs, attributes or {}, expected=expected, domain=MICROSOFT,
                constants=sometimes(rng, (1, 2, 3, 4), 2), **more)  # fmt: skip


def qlinear_sigmoid(rng):
    x = some_bytes(rng, pick(rng, BYTES), a_shape(rng, 1, 3))
    return unary_case(rng, "QLinearSigmoid", x, lambda v: 1 / (1 + np.exp(-v)), low=0.003, high=0.006, dynamic=sometimes(rng, (0,)))


def qlinear_leaky_relu(rng):
    x = some_bytes(rng, pick(rng, BYTES), a_shape(rng, 1, 3))
    attributes = {} if rng.integers(2) else dict(alpha=0.25)
    alpha = np.float64(np.float32(attributes.get("alpha", 0.01)))
    return unary_case(rng, "QLinearLeakyRelu", x, lambda v: np.where(v >= 0, v, alpha * v), attributes, dynamic=sometimes(rng, (0,)))


def qlinear_softmax(rng):
    x = some_bytes(rng, pick(rng, BYTES), a_shape(rng, 1, 3, empty=False))
    axis, opset = int(rng.integers(-x.ndim, x.ndim)), pick(rng, [11, 13])
    axes = (axis,) if opset >= 13 else tuple(range(axis % x.ndim, x.ndim))

    def compute(v):
        powers = np.exp(v - v.max(axes, keepdims=True))
        return powers / powers.sum(axes, keepdims=True)

    return unary_case(rng, "QLinearSoftmax", x, compute, dict(axis=axis, opset=opset), low=0.003, high=0.006)


def qlinear_reduce_mean(rng):
    x = some_bytes(rng, pick(rng, BYTES), a_shape(rng, 1, 4, empty=False))
    axes = tuple(int(a) for a in np.sort(rng.permutation(x.ndim)[: rng.integers(1, x.ndim + 1)]))
    keep = int(rng.integers(2))
    return unary_case(rng, "QLinearReduceMean", x, lambda v: v.mean(axes, keepdims=bool(keep)), dict(axes=axes, keepdims=keep))


def qlinear_global_average_pool(rng):
    axes = int(rng.integers(1, 3))
    x = some_bytes(rng, pick(rng, BYTES), integers(rng, 1, 5, axes + 2))
    last = int(rng.integers(2))
    of = tuple(range(1, 1 + axes)) if last else tuple(range(2, 2 + axes))
    return unary_case(rng, "QLinearGlobalAveragePool", x, lambda v: v.mean(of, keepdims=True), dict(channels_last=last))


def qlinear_average_pool(rng):
    axes = int(rng.integers(1, 3))
    windows, size, attributes = a_padded_window(rng, axes, dilated=False)
    attributes |= dict(kernel_shape=windows.kernel)
    attributes.pop("dilations", None)
    padded, last = bool(rng.integers(2)), bool(rng.integers(2))
    attributes |= dict(count_include_pad=1) if padded else {}
    attributes |= dict(channels_last=1) if last else {}
    x = some_bytes(rng, pick(rng, BYTES), (int(rng.integers(1, 3)), int(rng.integers(1, 4)), *size))

    def compute(v):
        v = np.moveaxis(v, -1, 1) if last else v
        out = output_size(windows, size)
        y = np.zeros((*v.shape[:2], *out))
        for at in np.ndindex(*out):
            sources = [source for _, source in windows.sources(at, size)]
            count = len(list(windows.sources(at, size, True))) if padded else len(sources)
            y[(slice(None), slice(None), *at)] = sum(v[(slice(None), slice(None), *s)] for s in sources) / max(count, 1)
        return np.moveaxis(y, 1, -1) if last else y

    return unary_case(rng, "QLinearAveragePool", np.ascontiguousarray(np.moveaxis(x, 1, -1)) if last else x, compute, attributes)


def qlinear_binary(operator, function):
    def make(rng):
        dtype = pick(rng, BYTES)
        shape = a_shape(rng, 1, 3)
        other = [1 if rng.integers(3) == 0 else n for n in shape]
        zeros = [some_bytes(rng, dtype, ()) if rng.integers(4) else None for _ in range(3)]
        inputs = [some_bytes(rng, dtype, shape), a_scale(rng), zeros[0], some_bytes(rng, dtype, other), a_scale(rng), zeros[1],
                  a_scale(rng, (), low=0.1, high=1), zeros[2]]  # fmt: skip
        of = lambda a, sa, za, b, sb, zb, sy, zy=None: function(number(a, sa, za), number(b, sb, zb)).astype(np.float64)
        inputs = decided(rng, inputs, 6, of)
        expected = lambda *given: rounded(of(*given) / np.float64(given[6]), 0 if len(given) < 8 or given[7] is None else given[7], dtype)
        return Case(operator, 18, inputs, expected=expected, domain=MICROSOFT, constants=sometimes(rng, (1, 2, 4, 5, 6, 7), 2))

    return make


def qlinear_where(rng):
    dtype = pick(rng, BYTES)
    shape = a_shape(rng, 1, 3)
    zeros = [some_bytes(rng, dtype, ()) for _ in range(3)]
    inputs = [array(rng, np.bool_, shape), some_bytes(rng, dtype, shape), a_scale(rng), zeros[0], some_bytes(rng, dtype, shape[-1:]),
              a_scale(rng), zeros[1], a_scale(rng, (), low=0.1, high=1), zeros[2]]  # fmt: skip
    of = lambda which, a, sa, za, b, sb, zb, sy, zy: np.where(which, number(a, sa, za), number(b, sb, zb)).astype(np.float64)
    inputs = decided(rng, inputs, 7, of)
    expected = lambda *given: rounded(of(*given) / np.float64(given[7]), given[8], dtype)
    return Case("QLinearWhere", 18, inputs, expected=expected, domain=MICROSOFT, constants=sometimes(rng, (2, 3, 5, 6, 7, 8), 2))


def qlinear_concat(rng):
    dtype = pick(rng, BYTES)
    shape = a_shape(rng, 1, 3, empty=False)
    axis = int(rng.integers(len(shape)))
    inputs = [a_scale(rng, (), low=0.1, high=1), some_bytes(rng, dtype, ())]
    for _ in range(int(rng.integers(1, 4))):
        part = [int(rng.integers(1, 4)) if d == axis else n for d, n in enumerate(shape)]
        same = rng.integers(3) == 0
        inputs += [some_bytes(rng, dtype, part), inputs[0] if same else a_scale(rng), inputs[1] if same else some_bytes(rng, dtype, ())]
    of = lambda scale, zero, *parts: np.concatenate(
        [number(x, s, z) for x, s, z in zip(parts[::3], parts[1::3], parts[2::3])], axis).astype(np.float64)  # fmt: skip
    first = inputs[0]
    inputs = decided(rng, inputs, 0, of)
    inputs = [inputs[0] if a is first else a for a in inputs]
    expected = lambda scale, zero, *parts: rounded(of(scale, zero, *parts) / np.float64(scale), zero, dtype)
    constants = tuple(k for k in range(len(inputs)) if k < 2 or (k - 2) % 3)
    return Case("QLinearConcat", 18, inputs, dict(axis=axis - len(shape) if rng.integers(2) else axis), expected=expected,
                domain=MICROSOFT, constants=sometimes(rng, constants, 2))  # fmt: skip


# ---- layers


def margin(steps):
    """How far the nearest of these is from the middle between two integers."""
    return np.min(np.abs(steps - np.floor(steps) - 0.5), initial=0.5)


def lstm(direction, x, w, r, bias, lengths, first_h, first_c, p, w_scale, w_zero, r_scale, r_zero):
    """Y, Y_h, Y_c, and the margin of what is rounded."""
    sigmoid = lambda v: 1 / (1 + np.exp(-v))
    values, scale, zero = dynamically_quantized(x)
    (steps, batch, _), (directions, hidden, _) = x.shape, r.shape
    y = np.zeros((steps, directions, batch, hidden))
    last_h, last_c = np.zeros((2, directions, batch, hidden))
    least = 0.5
    for d in range(directions):
        gates = (centred(values, zero) @ centred(w[d], w_zero[d])) * (np.float64(scale) * np.asarray(w_scale[d]))
        if bias is not None:
            gates = gates + bias[d, : 4 * hidden] + bias[d, 4 * hidden :]
        h = np.zeros((batch, hidden)) if first_h is None else first_h[d].copy()
        c = np.zeros((batch, hidden)) if first_c is None else first_c[d].copy()
        for step in range(steps):
            # All sequences of a step are quantised together.
            codes, h_scale, h_zero = dynamically_quantized(h)
            least = min(least, margin(h / h_scale), margin(min(0, h.min()) / h_scale))
            product = (centred(codes, h_zero) @ centred(r[d], r_zero[d])) * (np.float64(h_scale) * np.asarray(r_scale[d]))
            for b in range(batch):
                length = steps if lengths is None else lengths[b]
                if step >= length:
                    continue
                t = length - 1 - step if d == 1 or direction == "reverse" else step
                i, o, f, g = np.split(gates[t, b] + product[b], 4)
                c[b] = sigmoid(f) * c[b] + sigmoid(i) * np.tanh(g)
                h[b] = y[t, d, b] = sigmoid(o) * np.tanh(c[b])
        last_h[d], last_c[d] = h, c
    return y, last_h, last_c, least


def dynamic_quantize_lstm(rng):
    while True:
        directions, batch, steps, size, hidden = int(rng.integers(1, 3)), *(int(n) for n in rng.integers(1, 4, 4))
        dtype = pick(rng, BYTES)
        per_column = (directions, 4 * hidden) if rng.integers(2) else (directions,)
        state = (directions, batch, hidden)
        inputs = [array(rng, np.float32, (steps, batch, size)), some_bytes(rng, dtype, (directions, size, 4 * hidden)),
                  some_bytes(rng, dtype, (directions, hidden, 4 * hidden)),
                  array(rng, np.float32, (directions, 8 * hidden)) if rng.integers(2) else None,
                  rng.integers(1, steps + 1, batch).astype(np.int32) if rng.integers(3) == 0 else None,
                  array(rng, np.float32, state) if rng.integers(2) else None,
                  array(rng, np.float32, state) if rng.integers(2) else None, None,
                  a_scale(rng, per_column, high=0.02), some_bytes(rng, dtype, per_column), a_scale(rng, per_column, high=0.02),
                  some_bytes(rng, dtype, per_column)]  # fmt: skip
        attributes = dict(hidden_size=hidden, direction="bidirectional" if directions == 2 else pick(rng, ["forward", "reverse"]))
        compute = lambda *given, d=attributes["direction"]: lstm(d, *given)
        if compute(*inputs)[3] > 1e-3:
            return Case("DynamicQuantizeLSTM", 18, inputs, attributes, outputs=3, expected=compute, domain=MICROSOFT,
                        constants=sometimes(rng, (1, 2, 3, 8, 9, 10, 11), 2),
                        dynamic=sometimes(rng, ((0, 0),) if inputs[4] is None else ()))  # fmt: skip


def softmax(v):
    powers = np.exp(v - v.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def qattention(rng):
    batch, length, heads, width, size = (int(n) for n in rng.integers(1, 4, 5))
    dtype, of_w = pick(rng, BYTES), pick(rng, BYTES)
    past = int(rng.integers(0, 3))
    columns = 3 * heads * width
    total = past + length
    per_column = (columns,) if rng.integers(2) else ()
    mask = pick(rng, [None, rng.integers(1, total + 1, batch), rng.integers(0, 2, (batch, total)),
                      rng.integers(0, 2, (batch, length, total))])  # fmt: skip
    inputs = [some_bytes(rng, dtype, (batch, length, size)), some_bytes(rng, of_w, (size, columns)), array(rng, np.float32, columns),
              a_scale(rng, high=0.05), a_scale(rng, per_column, high=0.05), None if mask is None else mask.astype(np.int32),
              some_bytes(rng, dtype, ()) if rng.integers(3) else None, some_bytes(rng, of_w, per_column) if rng.integers(3) else None,
              array(rng, np.float32, (2, batch, heads, past, width)) if past else None]  # fmt: skip
    causal = int(rng.integers(2))

    def expected(x, w, bias, x_scale, w_scale, mask=None, x_zero=None, w_zero=None, before=None):
        all_columns = (centred(x, x_zero) @ centred(w, w_zero)) * factor_of(x_scale, w_scale).astype(np.float64) + bias
        parts = [part.reshape(batch, length, heads, width).transpose(0, 2, 1, 3) for part in np.split(all_columns, 3, -1)]
        query, key, value = parts
        if before is not None:
            key, value = np.concatenate([before[0], key], 2), np.concatenate([before[1], value], 2)
        y = np.zeros((batch, length, heads * width))
        for b in range(batch):
            for h in range(heads):
                scores = query[b, h] @ key[b, h].T / np.sqrt(width)
                for q in range(length):
                    for k in range(total):
                        seen = True
                        if mask is not None:
                            seen = k < mask[b] if mask.ndim == 1 else mask[b, k] > 0 if mask.ndim == 2 else mask[b, q, k] > 0
                        if not seen:  # in single precision, where little is left of the score
                            scores[q, k] = np.float32(scores[q, k]) + np.float32(-10000)
                        if causal and k > q + past:
                            scores[q, k] = -1e30
                y[b, :, h * width : (h + 1) * width] = softmax(scores) @ value[b, h]
        return y, np.stack([key, value])

    return Case("QAttention", 18, inputs, dict(num_heads=heads, unidirectional=causal), outputs=2, expected=expected,
                domain=MICROSOFT, constants=sometimes(rng, (1, 2, 3, 4, 6, 7), 2), dynamic=sometimes(rng, ((0, 1),) if mask is None else ()))  # fmt: skip


def qembed_layer_normalization(rng):
    batch, length, words, hidden = (int(n) for n in rng.integers(1, 5, 4))
    hidden += 3
    dtype = pick(rng, BYTES)
    with_segments, with_mask = bool(rng.integers(2)), bool(rng.integers(2))
    ids = rng.integers(0, words, (batch, length)).astype(np.int32)
    segments = rng.integers(0, 2, (batch, length)).astype(np.int32)
    tables = [some_bytes(rng, dtype, shape) for shape in ((words, hidden), (length + 1, hidden), (2, hidden), (hidden,), (hidden,))]
    absent = [] if with_segments else [2]
    inputs = [ids, segments if with_segments else None, *tables, rng.integers(0, 2, (batch, length)).astype(np.int32) if with_mask else None,
              *(a_scale(rng) for _ in tables), *(some_bytes(rng, dtype, ()) for _ in tables)]  # fmt: skip
    for k in absent:
        inputs[2 + k] = inputs[8 + k] = inputs[13 + k] = None

    def expected(ids, segments, word, position, segment, gamma, beta, mask, *parameters):
        parameters = [*parameters]
        of = lambda table, k: centred(table, parameters[5 + k]) * np.float64(parameters[k])
        y = of(word, 0)[ids] + of(position, 1)[np.arange(length)]
        if segments is not None:
            y = y + of(segment, 2)[segments]
        y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-12)
        count = np.zeros(batch) if mask is None else mask.sum(1)
        return y * of(gamma, 3) + of(beta, 4), count.astype(np.int32)

    return Case("QEmbedLayerNormalization", 18, inputs, outputs=2, expected=expected, domain=MICROSOFT,
                constants=sometimes(rng, tuple(k for k in range(2, 18) if k != 7), 2))  # fmt: skip


# ---- casts


def numbers(rng, shape):
    """Floats of all magnitudes, ties, and some that are no numbers."""
    x = array(rng, np.float32, shape) * np.float32(2.0) ** rng.integers(-20, 20, shape)
    ties = rng.integers(-64, 64, shape) * np.float32(2.0) ** rng.integers(-18, 6, shape)
    x = np.where(rng.integers(0, 2, shape) == 0, x, ties).astype(np.float32)
    special = np.asarray(pick(rng, [[0.0], [np.nan, np.inf, -np.inf, -0.0, 448, 464, 480, 57344, 61440, 65536, 240, 248]]), np.float32)
    return np.where(rng.integers(0, 4, shape) == 0, special[rng.integers(0, len(special), shape)], x).astype(np.float32)


def cast_values(x, dtype, saturate):
    """x to a small type."""
    if dtype in F8 and saturate:
        return saturated(np.asarray(x, np.float32), dtype)
    if is_small_float(dtype):
        return np.asarray(x, np.float32).astype(dtype)
    # Towards zero, and the low bits of the integer.
    bits, is_signed = ml_dtypes.iinfo(dtype).bits, ml_dtypes.iinfo(dtype).min < 0
    low = np.trunc(np.asarray(x, np.float64)).astype(np.int64) % 2**bits
    return np.where(is_signed & (low >= 2 ** (bits - 1)), low - 2**bits, low).astype(np.int32).astype(dtype)


def cast_to_small(rng, operator):
    dtype = pick(rng, [*F8, *F8, F4, *SMALL_INTEGERS, *TWO_BITS])
    opset = version(rng, operator, 25 if dtype in TWO_BITS else 23 if dtype == F4 else 21 if dtype in SMALL_INTEGERS else 19)
    shape = a_shape(rng, 0, 3, high=9)
    if is_small_float(dtype):
        x = numbers(rng, shape).astype(pick(rng, [np.float32, np.float16, ml_dtypes.bfloat16, np.float64]))
    elif rng.integers(2):
        x = np.asarray(rng.uniform(-40, 40, shape)).astype(pick(rng, [np.float32, np.float16, np.float64]))
    else:
        x = rng.integers(0, 100, shape).astype(pick(rng, [np.int8, np.uint8, np.int32, np.int64]))
    attributes = {}
    if dtype in F8 and rng.integers(2):
        attributes["saturate"] = int(rng.integers(2))
    compute = lambda x, *like: cast_values(x, dtype, attributes.get("saturate", 1))
    return dtype, opset, x, attributes, compute


def cast(rng):
    if rng.integers(2):
        dtype, opset, x, attributes, compute = cast_to_small(rng, "Cast")
        attributes["to"] = TYPE_NUMBERS[dtype]
        return Case("Cast", opset, [x], attributes, expected=compute, dynamic=sometimes(rng, (0,)), constants=sometimes(rng, (0,), 8))
    dtype = pick(rng, [*F8, F4, *SMALL_INTEGERS, *TWO_BITS])
    opset = version(rng, "Cast", 25 if dtype in TWO_BITS else 23 if dtype == F4 else 21 if dtype in SMALL_INTEGERS else 19)
    codes = rng.integers(0, 256, a_shape(rng, 0, 3, high=9)).astype(np.uint8)
    x = codes.view(dtype) if dtype in F8 else cast_values(codes, dtype, 0) if not is_small_float(dtype) else (codes % 16).view(F4)
    to = pick(rng, [np.float32, np.float16, ml_dtypes.bfloat16] + ([np.int32, np.int8] if not is_small_float(dtype) else []))
    attributes = dict(to={np.int32: 6, np.int8: 3}.get(to) or TYPE_NUMBERS[to])
    return Case("Cast", opset, [x], attributes, expected=lambda x: x.astype(np.float32).astype(to), dtype=to,
                dynamic=sometimes(rng, (0,)), constants=sometimes(rng, (0,), 8))  # fmt: skip


def cast_like(rng):
    dtype, opset, x, attributes, compute = cast_to_small(rng, "CastLike")
    like = np.zeros(2, np.float32).astype(dtype)
    return Case("CastLike", opset, [x, like], attributes, expected=compute, dynamic=sometimes(rng, (0,)))


OPERATORS = {
    "Cast": cast,
    "CastLike": cast_like,
    "DequantizeLinear": dequantize_linear,
    "DynamicQuantizeLinear": dynamic_quantize_linear,
    "DynamicQuantizeLSTM": dynamic_quantize_lstm,
    "DynamicQuantizeMatMul": dynamic_quantize_matmul,
    "MatMulIntegerToFloat": matmul_integer_to_float,
    "QAttention": qattention,
    "QEmbedLayerNormalization": qembed_layer_normalization,
    "QGemm": qgemm,
    "QLinearAdd": qlinear_binary("QLinearAdd", np.add),
    "QLinearAveragePool": qlinear_average_pool,
    "QLinearConcat": qlinear_concat,
    "QLinearConv": qlinear_conv,
    "QLinearConv_com_microsoft": microsoft_qlinear_conv,
    "QLinearGlobalAveragePool": qlinear_global_average_pool,
    "QLinearLeakyRelu": qlinear_leaky_relu,
    "QLinearMatMul": qlinear_matmul,
    "QLinearMul": qlinear_binary("QLinearMul", np.multiply),
    "QLinearReduceMean": qlinear_reduce_mean,
    "QLinearSigmoid": qlinear_sigmoid,
    "QLinearSoftmax": qlinear_softmax,
    "QLinearWhere": qlinear_where,
    "QuantizeLinear": quantize_linear,
}
