"""Operators of com.microsoft that stand for several of ONNX's: normalisations with a residual, activations with a bias, products and
convolutions with more, and products with block-quantised weights."""

import itertools
import math

import ml_dtypes
import numpy as np
from reference_case import FLOATS, Case, Single, array, integers, maybe, pick, sometimes, uniform

DOMAIN = "com.microsoft"
OPSET = 17
TYPES = [np.float32, np.float32, np.float16, ml_dtypes.bfloat16]
erf = np.vectorize(math.erf, otypes=[np.float64])


def or_zero(x):
    return 0.0 if x is None else x


def case(operator, inputs, attributes, expected, runtime=True, **more):
    return Case(operator, OPSET, inputs, attributes, expected=expected, domain=DOMAIN,
                runtime_version=OPSET if runtime else None, **more)  # fmt: skip


# ---- normalisations


def skip_inputs(rng, dtype, with_beta):
    batch, length, hidden = integers(rng, 1, 4, 3)
    shape = (batch, length, hidden) if rng.integers(4) else (length, hidden)
    skips = [shape, shape[-2:], *([(1, length, hidden)] if len(shape) == 3 else [])]
    vectors = [array(rng, dtype, (hidden,)) if k == 0 or rng.integers(2) else None for k in range(3 if with_beta else 2)]
    return [array(rng, dtype, shape), array(rng, dtype, pick(rng, skips)), *vectors]


def skip_outputs(rng, outputs):
    """How many, and those that are left out."""
    last = int(pick(rng, [0, *outputs]))
    return last + 1, tuple(k for k in range(1, last) if k not in outputs or rng.integers(2))


def skip_layer_normalization(rng):
    attributes = {}
    epsilon = maybe(rng, attributes, "epsilon", float(rng.uniform(0.001, 0.1)), 1e-12)
    inputs = skip_inputs(rng, pick(rng, TYPES), True)
    count, absent = skip_outputs(rng, [1, 2, 3])

    def expected(x, skip, gamma, beta=None, bias=None):
        s = x + skip + (0 if bias is None else bias)
        mean, variance = s.mean(axis=-1, keepdims=True), s.var(axis=-1, keepdims=True)
        inverse = 1 / np.sqrt(variance + epsilon)
        y = (s - mean) * inverse * gamma + (0 if beta is None else beta)
        return y, Single(mean), Single(inverse), s

    # Without a variance, the rounding of the mean decides.
    return case("SkipLayerNormalization", inputs, attributes, expected, epsilon > 1e-6 and count != 2 and count != 3,
                outputs=count, absent=absent, constants=sometimes(rng, (2,), 2), dynamic=sometimes(rng, ((0, 0),)
                if inputs[0].shape[0] != inputs[1].shape[0] else ()))  # fmt: skip


def skip_simplified_layer_normalization(rng):
    attributes = {}
    epsilon = maybe(rng, attributes, "epsilon", float(rng.uniform(0.001, 0.1)), 1e-12)
    inputs = skip_inputs(rng, pick(rng, TYPES), False)
    count, absent = skip_outputs(rng, [2, 3])

    def expected(x, skip, gamma, bias=None):
        s = x + skip + (0 if bias is None else bias)
        inverse = 1 / np.sqrt((s * s).mean(axis=-1, keepdims=True) + epsilon)
        return s * inverse * gamma, np.zeros(()), Single(inverse), s

    return case("SkipSimplifiedLayerNormalization", inputs, attributes, expected, count in (1, 4) and 2 in (*absent, count),
                outputs=count, absent=absent, constants=sometimes(rng, (2,), 2))  # fmt: skip


def group_norm(operator, skips):
    def make(rng):
        dtype, of_gamma = (pick(rng, [np.float32, np.float32, np.float16]) for _ in range(2))
        batch, height, width, group, groups = integers(rng, 1, 3, 5)
        channels = group * groups
        attributes = dict(groups=groups, activation=int(rng.integers(2)))
        last = maybe(rng, attributes, "channels_last", int(rng.integers(2)), 1)
        epsilon = maybe(rng, attributes, "epsilon", float(rng.uniform(0.001, 0.1)), 1e-5)
        place = lambda x: x if last or x.ndim != 4 else np.moveaxis(x, -1, 1)
        shape = (batch, height, width, channels)
        inputs = [place(array(rng, dtype, shape)), *(array(rng, of_gamma, (channels,)) for _ in range(2))]
        if skips:
            inputs.append(place(array(rng, dtype, pick(rng, [shape, (batch, 1, 1, channels), (batch, channels)]))))
            inputs.append(array(rng, dtype, (channels,)) if rng.integers(2) else None)

        def expected(x, gamma, beta, skip=None, bias=None):
            unplace = lambda x: x if last else np.moveaxis(x, 1, -1)
            s = unplace(x) + or_zero(bias)
            if skip is not None:
                s = s + (skip[:, None, None] if skip.ndim == 2 else unplace(skip))
            y = s.copy()
            for b, g in np.ndindex(batch, groups):
                part = (b, slice(None), slice(None), slice(g * group, (g + 1) * group))
                y[part] = (s[part] - s[part].mean()) / np.sqrt(s[part].var() + epsilon)
            y = y * gamma + beta
            return place(y / (1 + np.exp(-y)) if attributes["activation"] else y), place(s)

        return case(operator, inputs, attributes, expected, runtime=False, dtype=dtype,
                    outputs=2 if skips and rng.integers(2) else 1)  # fmt: skip

    return make


def embed_layer_normalization(rng):
    dtype = pick(rng, [np.float32, np.float32, np.float16])
    batch, length, hidden = integers(rng, 1, 4, 3)
    words, positions, segments = integers(rng, 4, 9, 3)
    attributes = {}
    epsilon = maybe(rng, attributes, "epsilon", float(rng.uniform(0.001, 0.1)), 1e-12)
    if rng.integers(2):
        attributes["mask_index_type"] = int(rng.integers(2))
    ids = lambda rows, shape=(batch, length): rng.integers(0, rows, shape).astype(np.int32)
    with_segments = rng.integers(2) == 0
    table = lambda rows: array(rng, dtype, (rows, hidden))
    inputs = [ids(words), ids(segments) if with_segments else None, table(words), table(positions),
              table(segments) if with_segments else None, array(rng, dtype, (hidden,)), array(rng, dtype, (hidden,)),
              ids(2) if rng.integers(2) else None,
              ids(positions, (batch if rng.integers(2) else 1, length)) if rng.integers(2) else None]  # fmt: skip

    def expected(ids, segment_ids, word, position, segment, gamma, beta, mask=None, position_ids=None):
        s = np.zeros((batch, length, hidden))
        for b, t in np.ndindex(batch, length):
            s[b, t] = word[ids[b, t]]
            s[b, t] += position[t if position_ids is None else position_ids[b if len(position_ids) > 1 else 0, t]]
            if segment is not None:
                s[b, t] += segment[segment_ids[b, t]]
        y = (s - s.mean(axis=-1, keepdims=True)) / np.sqrt(s.var(axis=-1, keepdims=True) + epsilon) * gamma + beta
        counts = np.zeros(batch) if mask is None else (mask == 1).sum(axis=1)
        return y, counts.astype(np.int32), s

    count = int(rng.integers(2, 4))
    return case("EmbedLayerNormalization", inputs, attributes, expected, epsilon > 1e-6, outputs=count,
                constants=sometimes(rng, (2, 3), 2), dtype=dtype)  # fmt: skip


# ---- activations


def gelu(x):
    return x / 2 * (1 + erf(x / np.sqrt(2)))


def gelu_by_tanh(x):
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def biased(operator, function, types, optional):
    def make(rng):
        x = uniform(rng, pick(rng, types), integers(rng, 1, 5, rng.integers(1, 5)))
        bias = None if optional and rng.integers(2) else uniform(rng, x.dtype, x.shape[-1:])
        return case(operator, [x, bias], {}, lambda x, bias: function(x + or_zero(bias)), dynamic=sometimes(rng, (0,) if bias is None
                    else tuple((0, d) for d in range(x.ndim - 1))), constants=sometimes(rng, (1,), 2))  # fmt: skip

    return make


def plain_gelu(rng):
    return case("Gelu", [uniform(rng, pick(rng, FLOATS), integers(rng, 1, 5, rng.integers(0, 5)))], {}, gelu)


def quick_gelu(rng):
    attributes = {}
    alpha = maybe(rng, attributes, "alpha", float(rng.uniform(0.5, 3)), 1.702)
    x = uniform(rng, pick(rng, FLOATS), integers(rng, 1, 5, rng.integers(0, 5)))
    return case("QuickGelu", [x], attributes, lambda x: x / (1 + np.exp(-alpha * x)), dynamic=sometimes(rng, (0,)))


def bias_add(rng):
    shape, dtype = integers(rng, 1, 5, 3), pick(rng, [np.float32, np.float16])
    inputs = [array(rng, dtype, shape), array(rng, dtype, shape[2:]), array(rng, dtype, shape)]
    return case("BiasAdd", inputs, {}, lambda x, bias, skip: x + bias + skip, runtime=False)


def bias_split_gelu(rng):
    batch, length, half = integers(rng, 1, 5, 3)
    dtype = pick(rng, [np.float32, np.float16])
    inputs = [array(rng, dtype, (batch, length, 2 * half)), array(rng, dtype, (2 * half,))]
    split = lambda x, bias: np.split(x + bias, 2, axis=-1)
    return case("BiasSplitGelu", inputs, {}, lambda x, bias: split(x, bias)[0] * gelu(split(x, bias)[1]), runtime=False)


# ---- products


def fused_matmul(rng):
    dtype = pick(rng, FLOATS)
    rows, inner, columns = integers(rng, 1, 5, 3)
    batch = integers(rng, 1, 3, rng.integers(0, 3))
    attributes = {}
    alpha = maybe(rng, attributes, "alpha", float(rng.uniform(0.1, 2)), 1.0)

    def operand(name, sizes, own_batch):
        transposed = maybe(rng, attributes, f"trans{name}", int(rng.integers(2)), 0)
        batch_transposed = maybe(rng, attributes, f"transBatch{name}", int(rng.integers(2)), 0)
        first, last = sizes[::-1] if transposed else sizes
        return [first, *own_batch, last] if batch_transposed else [*own_batch, first, last], transposed, batch_transposed

    shape_a, trans_a, batch_a = operand("A", [rows, inner], batch)
    shape_b, trans_b, batch_b = operand("B", [inner, columns], batch if rng.integers(2) or batch_a else [])

    def plain(x, transposed, batch_transposed):
        x = np.moveaxis(x, 0, -2) if batch_transposed else x
        return np.swapaxes(x, -1, -2) if transposed else x

    def expected(a, b):
        return alpha * np.matmul(plain(a, trans_a, batch_a), plain(b, trans_b, batch_b))

    # ONNX Runtime takes batches that are transposed only of both operands, and only of equal ones.
    runtime = not (batch_a or batch_b) or (batch_a and batch_b and len(shape_a) == len(shape_b) > 2)
    return case("FusedMatMul", [array(rng, dtype, shape_a), array(rng, dtype, shape_b)], attributes, expected, runtime,
                constants=sometimes(rng, (1,), 2), dynamic=sometimes(rng, ((0, 0),)))  # fmt: skip


# Parameters (alpha, beta, gamma) and function.
ACTIVATIONS = {
    "": ((), lambda x: x),
    "Relu": ((), lambda x: np.maximum(x, 0)),
    "Sigmoid": ((), lambda x: 1 / (1 + np.exp(-x))),
    "Tanh": ((), np.tanh),
    "Softplus": ((), lambda x: np.log(1 + np.exp(x))),
    "Softsign": ((), lambda x: x / (1 + np.abs(x))),
    "LeakyRelu": ((0,), lambda x, a: np.where(x < 0, a * x, x)),
    "Elu": ((0,), lambda x, a: np.where(x < 0, a * (np.exp(x) - 1), x)),
    "Celu": ((0,), lambda x, a: np.maximum(x, 0) + np.minimum(0, a * (np.exp(x / a) - 1))),
    "ThresholdedRelu": ((0,), lambda x, a: np.where(x > a, x, 0)),
    "HardSigmoid": ((0, 1), lambda x, a, b: np.clip(a * x + b, 0, 1)),
    "ScaledTanh": ((0, 1), lambda x, a, b: a * np.tanh(b * x)),
    "ParametricSoftplus": ((0, 1), lambda x, a, b: a * np.log(1 + np.exp(b * x))),
    "Selu": ((0, 2), lambda x, a, g: g * np.where(x < 0, a * (np.exp(x) - 1), x)),
}
CONVOLUTION_ACTIVATIONS = {
    **{name: ACTIVATIONS[name] for name in ("", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid")},
    "Clip": ((0, 1), lambda x, low, high: np.minimum(np.maximum(x, low), high)),
    "HardSwish": ((), lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
}


def fused_gemm(rng):
    dtype = pick(rng, [np.float32, np.float32, np.float64, np.float16])
    rows, inner, columns = integers(rng, 1, 5, 3)
    name = pick(rng, list(ACTIVATIONS))
    wanted, function = ACTIVATIONS[name]
    attributes = {"activation": name} if name or rng.integers(2) else {}
    parameters = []
    for k in wanted:
        parameters.append(float(np.float32(rng.uniform(0.1, 1))))
        attributes[["activation_alpha", "activation_beta", "activation_gamma"][k]] = parameters[-1]
    alpha = maybe(rng, attributes, "alpha", float(rng.uniform(0.5, 2)), 1.0)
    beta = maybe(rng, attributes, "beta", float(rng.uniform(0.5, 2)), 1.0)
    trans_a = maybe(rng, attributes, "transA", int(rng.integers(2)), 0)
    trans_b = maybe(rng, attributes, "transB", int(rng.integers(2)), 0)
    shape_c = pick(rng, [None, (columns,), (rows, columns), (1, columns), (rows, 1)])
    inputs = [array(rng, dtype, (inner, rows) if trans_a else (rows, inner)),
              array(rng, dtype, (columns, inner) if trans_b else (inner, columns)),
              None if shape_c is None else array(rng, dtype, shape_c)]  # fmt: skip

    def expected(a, b, c):
        product = alpha * (a.T if trans_a else a) @ (b.T if trans_b else b) + beta * or_zero(c)
        return function(product, *parameters)

    return case("FusedGemm", inputs, attributes, expected, runtime=bool(name), constants=sometimes(rng, (1, 2), 2))


def gemm_fast_gelu(rng):
    dtype = pick(rng, TYPES)
    batch, rows, inner, columns = integers(rng, 1, 5, 4)
    inputs = [array(rng, dtype, (batch, rows, inner)), array(rng, dtype, (inner, columns)),
              array(rng, dtype, (columns,)) if rng.integers(2) else None]  # fmt: skip
    return case("GemmFastGelu", inputs, {}, lambda x, w, bias: gelu_by_tanh(x @ w + or_zero(bias)), runtime=False)


def convolved(x, w, bias, group, strides, dilations, pads):
    """Of channels first: every element of the result a sum over its window."""
    spatial, window = x.shape[2:], w.shape[2:]
    n = len(spatial)
    sizes = [(spatial[d] + pads[d] + pads[d + n] - dilations[d] * (window[d] - 1) - 1) // strides[d] + 1 for d in range(n)]
    y = np.zeros((x.shape[0], w.shape[0], *sizes))
    filters, channels = w.shape[0] // group, w.shape[1]
    for b, m, *at in np.ndindex(*y.shape):
        total = 0.0 if bias is None else bias[m]
        for c, *tap in itertools.product(range(channels), *map(range, window)):
            source = [at[d] * strides[d] - pads[d] + tap[d] * dilations[d] for d in range(n)]
            if all(0 <= source[d] < spatial[d] for d in range(n)):
                total += x[(b, m // filters * channels + c, *source)] * w[(m, c, *tap)]
        y[(b, m, *at)] = total
    return y


def fused_conv(operator, channels_last, activations):
    def make(rng):
        dtype = pick(rng, [np.float32, np.float32, np.float16])
        n = 2 if channels_last or operator != "FusedConv" else int(rng.integers(1, 3))
        batch, channels, filters, group = integers(rng, 1, 2, 4)
        window = integers(rng, 1, 3, n)
        attributes = {}
        strides = maybe(rng, attributes, "strides", integers(rng, 1, 2, n), [1] * n)
        dilations = maybe(rng, attributes, "dilations", integers(rng, 1, 2, n), [1] * n)
        pads = maybe(rng, attributes, "pads", integers(rng, 0, 2, 2 * n), [0] * 2 * n)
        if group > 1:
            attributes["group"] = group
        if rng.integers(2):
            attributes["kernel_shape"] = window
        spatial = [dilations[d] * (window[d] - 1) + 1 + int(rng.integers(0, 4)) for d in range(n)]
        name = pick(rng, list(activations))
        wanted, function = activations[name]
        parameters = sorted(float(np.float32(p)) for p in rng.uniform(0.1, 1, len(wanted)))
        if name:
            attributes["activation"] = name
        if parameters:
            attributes["activation_params"] = parameters
        x = array(rng, dtype, (batch, channels * group, *spatial))
        w = array(rng, dtype, (filters * group, channels, *window))
        bias = array(rng, dtype, w.shape[:1]) if rng.integers(2) else None
        shape = convolved(x.astype(np.float64), w.astype(np.float64), None, group, strides, dilations, pads).shape
        # ONNX Runtime wants a bias in front of the residual.
        z = array(rng, dtype, shape) if operator != "NhwcConv" and rng.integers(3) == 0 else None

        def expected(x, w, bias, z):
            first = lambda a: np.moveaxis(a, -1, 1) if channels_last and a is not None else a
            w = np.moveaxis(w, -1, 1) if operator == "NhwcConv" else w
            y = function(convolved(first(x), w, bias, group, strides, dilations, pads) + or_zero(first(z)), *parameters)
            return np.moveaxis(y, 1, -1) if channels_last else y

        if operator == "NhwcConv":
            w = np.moveaxis(w, 1, -1)
        if channels_last:
            x, z = np.moveaxis(x, 1, -1), None if z is None else np.moveaxis(z, 1, -1)
        return case(operator, [x, w, bias, z], attributes, expected, runtime=not channels_last,
                    constants=sometimes(rng, (1, 2), 2))  # fmt: skip

    return make


# ---- block-quantised weights


def packed(values, bits):
    """Numbers packed along the last axis, the first in the lowest bits; the last byte is filled with zeros."""
    per_byte = 8 // bits
    shape = values.shape[:-1]
    values = values.reshape(-1, values.shape[-1])
    out = np.zeros((len(values), -(-values.shape[1] // per_byte)), np.uint8)
    for r, k in np.ndindex(*values.shape):
        out[r, k // per_byte] |= np.uint8(int(values[r, k]) << (k % per_byte * bits))
    return out.reshape(*shape, out.shape[-1])


def matmul_nbits(rng):
    dtype = pick(rng, TYPES)
    bits, block = int(pick(rng, [4, 4, 8, 2])), int(pick(rng, [16, 32]))
    rows, inner = int(rng.integers(1, 6)), int(rng.integers(1, 70))
    blocks = -(-inner // block)
    shape = [*integers(rng, 1, 3, rng.integers(0, 3)), inner]
    q = rng.integers(0, 2**bits, (rows, blocks * block))
    zero_kind = pick(rng, [None, "packed", "floats"])
    zeros = rng.integers(0, 2**bits, (rows, blocks)) if zero_kind else np.full((rows, blocks), 2 ** (bits - 1))
    scales = uniform(rng, dtype, (rows, blocks), 0.1, 1)
    attributes = dict(K=inner, N=rows, block_size=block)
    if bits != 4 or rng.integers(2):
        attributes["bits"] = bits
    if rng.integers(3) == 0:
        attributes["accuracy_level"] = 1
    groups = rng.permutation(np.arange(inner) // block).astype(np.int32) if rng.integers(5) == 0 else None
    given = {None: None, "packed": packed(zeros, bits), "floats": zeros.astype(dtype)}[zero_kind]
    weights = packed(q.reshape(rows, blocks, block), bits)
    flat = rng.integers(4) == 0  # older models have vectors
    if flat:
        given = None if given is None else given.reshape(-1)
    inputs = [array(rng, dtype, shape), weights, scales.reshape(-1) if flat else scales, given, groups,
              array(rng, dtype, (rows,)) if rng.integers(3) == 0 else None]  # fmt: skip

    def expected(x, weights, scales, given, groups, bias):
        scales = scales.reshape(rows, blocks)
        block_of = np.arange(inner) // block if groups is None else groups
        w = np.zeros((inner, rows))
        for k, n in np.ndindex(inner, rows):
            w[k, n] = (q[n, k] - zeros[n, block_of[k]]) * scales[n, block_of[k]]
        return x @ w + or_zero(bias)

    return case("MatMulNBits", inputs, attributes, expected, groups is None and not flat and bits != 2 and (bits, zero_kind) != (8, "floats"),
                constants=(1, 2, *(k for k in (3, 4) if inputs[k] is not None)) if rng.integers(3) else ())  # fmt: skip


def gather_block_quantized(rng):
    dtype = pick(rng, [np.float32, np.float32, np.float16])
    bits, block = int(pick(rng, [4, 4, 8])), 16
    rows, blocks = integers(rng, 2, 6, 2)
    size = blocks * block - int(pick(rng, [0, 0, 8]))
    q = rng.integers(0, 2**bits, (rows, size))
    zeros = rng.integers(0, 2**bits, (rows, blocks)) if rng.integers(2) else None
    indices = rng.integers(-rows, rows, integers(rng, 1, 3, rng.integers(1, 3))).astype(pick(rng, [np.int32, np.int64]))
    attributes = dict(block_size=block, bits=bits, gather_axis=0, quantize_axis=int(pick(rng, [1, -1])))
    inputs = [packed(q, bits), indices, uniform(rng, dtype, (rows, blocks), 0.1, 1),
              None if zeros is None else packed(zeros, bits)]  # fmt: skip

    def expected(data, indices, scales, given):
        origin = np.full((rows, blocks), 2 ** (bits - 1)) if zeros is None else zeros
        table = np.array([[(q[r, k] - origin[r, k // block]) * scales[r, k // block] for k in range(size)] for r in range(rows)])
        return table[indices]

    return case("GatherBlockQuantized", inputs, attributes, expected, constants=sometimes(rng, (0, 2), 2), dtype=dtype)


OPERATORS = {
    "BiasAdd": bias_add,
    "BiasGelu": biased("BiasGelu", gelu, FLOATS, False),
    "BiasSplitGelu": bias_split_gelu,
    "EmbedLayerNormalization": embed_layer_normalization,
    "FastGelu": biased("FastGelu", gelu_by_tanh, FLOATS, True),
    "FusedConv": fused_conv("FusedConv", False, CONVOLUTION_ACTIVATIONS),
    "FusedGemm": fused_gemm,
    "FusedMatMul": fused_matmul,
    "GatherBlockQuantized": gather_block_quantized,
    "GemmFastGelu": gemm_fast_gelu,
    "GroupNorm": group_norm("GroupNorm", False),
    "MatMulNBits": matmul_nbits,
    "MicrosoftGelu": plain_gelu,
    "NhwcConv": fused_conv("NhwcConv", True, {"": ACTIVATIONS[""]}),
    "NhwcFusedConv": fused_conv("NhwcFusedConv", True, CONVOLUTION_ACTIVATIONS),
    "QuickGelu": quick_gelu,
    "SkipGroupNorm": group_norm("SkipGroupNorm", True),
    "SkipLayerNormalization": skip_layer_normalization,
    "SkipSimplifiedLayerNormalization": skip_simplified_layer_normalization,
}
