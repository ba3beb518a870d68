"""Convolutions: products of windows with filters, and their transposes."""

import itertools

import numpy as np
from reference_case import FLOATS, NUMBERS, Case, a_type, array, integers, pick, sometimes, version
from windows import a_padded_window, a_window, output_size


def convolved(x, w, windows, group, size):
    """Sums over the taps of each window and the channels of the filter's group."""
    filters, channels = w.shape[:2]
    y = np.zeros((x.shape[0], filters, *size), x.dtype)
    for at in np.ndindex(*size):
        for tap, source in windows.sources(at, x.shape[2:]):
            for m in range(filters):
                first = m // (filters // group) * channels
                y[(slice(None), m, *at)] += x[(slice(None), slice(first, first + channels), *source)] @ w[(m, slice(None), *tap)]
    return y


def dynamic_sizes(rng, axes):
    """Batch and spatial sizes, the batch alone, or nothing."""
    return pick(rng, [(), (), ((0, 0),), ((0, 0), *((0, d) for d in range(2, 2 + axes)))])


def conv(rng):
    opset = version(rng, "Conv")
    axes, group = int(pick(rng, [1, 1, 2, 2, 2, 3])), int(rng.integers(1, 4))
    windows, size, attributes = a_padded_window(rng, axes)
    dtype = a_type(rng, "Conv", opset)
    channels, filters = int(rng.integers(1, 3)), group * int(rng.integers(1, 3))
    batch = int(rng.integers(0 if rng.integers(8) == 0 else 1, 4))
    inputs = [array(rng, dtype, (batch, channels * group, *size)), array(rng, dtype, (filters, channels, *windows.kernel)),
              array(rng, dtype, filters) if rng.integers(2) else None]  # fmt: skip
    attributes |= dict(group=group) if group > 1 or rng.integers(2) else {}
    attributes |= dict(kernel_shape=windows.kernel) if rng.integers(2) else {}

    def expected(x, w, bias=None):
        y = convolved(x, w, windows, group, output_size(windows, size))
        return y if bias is None else y + bias.reshape([-1] + [1] * axes)

    return Case("Conv", opset, inputs, attributes, expected=expected, constants=sometimes(rng, (1, 2), 2),
                dynamic=dynamic_sizes(rng, axes))  # fmt: skip


def conv_integer(rng):
    opset = version(rng, "ConvInteger")
    axes, group = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    windows, size, attributes = a_padded_window(rng, axes)
    channels, filters = int(rng.integers(1, 3)), group * int(rng.integers(1, 3))

    def some_bytes(dtype, shape):
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)

    of_x, of_w = (pick(rng, [np.int8, np.uint8]) for _ in range(2))
    x = some_bytes(of_x, (int(rng.integers(1, 3)), channels * group, *size))
    w = some_bytes(of_w, (filters, channels, *windows.kernel))
    inputs = [x, w, some_bytes(of_x, pick(rng, [(), (1,)])) if rng.integers(2) else None,
              some_bytes(of_w, pick(rng, [(), (1,), (filters,)])) if rng.integers(2) else None]  # fmt: skip
    attributes |= dict(group=group) if group > 1 or rng.integers(2) else {}

    def expected(x, w, x_zero=0, w_zero=0):
        x_zero, w_zero = (np.asarray(0 if z is None else z, np.int64).reshape(-1) for z in (x_zero, w_zero))
        w = w.astype(np.int64) - w_zero.reshape([-1] + [1] * (axes + 1))
        return convolved(x.astype(np.int64) - x_zero, w, windows, group, output_size(windows, size)).astype(np.int32)

    return Case("ConvInteger", opset, inputs, attributes, expected=expected, constants=sometimes(rng, (1, 2, 3), 2),
                dynamic=dynamic_sizes(rng, axes))  # fmt: skip


def conv_transpose(rng):
    opset = version(rng, "ConvTranspose")
    axes, group = int(pick(rng, [1, 1, 2, 2, 2, 3])), int(rng.integers(1, 4))
    windows = a_window(rng, axes)
    size = integers(rng, 1, 4 if axes < 3 else 3, axes)
    added = [int(rng.integers(0, max(s, i))) for s, i in zip(windows.strides, windows.dilations)]
    added = added if rng.integers(2) else [0] * axes
    full = [(size[d] - 1) * windows.strides[d] + windows.extent(d) + added[d] for d in range(axes)]
    changes = {}
    form = pick(rng, ["pads", "pads", "auto_pad", "output_shape", "both"])
    if form == "pads":
        windows.before = [int(rng.integers(0, min(3, n))) for n in full]
        windows.after = [int(rng.integers(0, min(3, n - b))) for n, b in zip(full, windows.before)]
    else:
        mode = pick(rng, ["SAME_UPPER", "SAME_LOWER", "VALID"]) if form != "output_shape" else "NOTSET"
        wanted = [int(rng.integers(max(1, n - 3), n + 1)) for n in full]
        if form == "auto_pad":
            wanted = [min(n * s, f) for n, s, f in zip(size, windows.strides, full)] if mode != "VALID" else full
        else:
            mode = "NOTSET" if mode == "VALID" else mode
            changes["output_shape"] = wanted
            # Before version 11, the text had the sides of odd paddings the other way round.
            opset = max(opset, 11)
        total = [n - w for n, w in zip(full, wanted)]
        windows.before = [t // 2 if mode == "SAME_UPPER" else t - t // 2 for t in total]
        windows.after = [t - b for t, b in zip(total, windows.before)]
        if mode != "NOTSET" or rng.integers(2):
            changes["auto_pad"] = mode
    attributes = windows.attributes(rng) | changes
    attributes |= dict(output_padding=added) if any(added) or rng.integers(2) else {}
    if form != "pads":
        attributes.pop("pads", None)
    attributes |= dict(group=group) if group > 1 or rng.integers(2) else {}
    attributes |= dict(kernel_shape=windows.kernel) if rng.integers(2) else {}
    dtype = a_type(rng, "ConvTranspose", opset)
    channels, filters = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    batch = int(rng.integers(0 if rng.integers(8) == 0 else 1, 4))
    inputs = [array(rng, dtype, (batch, channels * group, *size)),
              array(rng, dtype, (channels * group, filters, *windows.kernel)),
              array(rng, dtype, filters * group) if rng.integers(2) else None]  # fmt: skip

    def expected(x, w, bias=None):
        y = np.zeros((batch, filters * group, *full), x.dtype)
        for at in np.ndindex(*size):
            for tap in np.ndindex(*windows.kernel):
                to = tuple(a * s + t * i for a, s, t, i in zip(at, windows.strides, tap, windows.dilations))
                for c in range(channels * group):
                    first = c // channels * filters
                    y[(slice(None), slice(first, first + filters), *to)] += np.outer(
                        x[(slice(None), c, *at)], w[(c, slice(None), *tap)]
                    )
        inside = tuple(slice(b, n - a) for b, n, a in zip(windows.before, full, windows.after))
        y = y[(slice(None), slice(None), *inside)]
        return y if bias is None else y + bias.reshape([-1] + [1] * axes)

    return Case("ConvTranspose", opset, inputs, attributes, expected=expected, constants=sometimes(rng, (1, 2), 2),
                dynamic=dynamic_sizes(rng, axes) if "output_shape" not in changes else sometimes(rng, ((0, 0),)))  # fmt: skip


def bilinear(x, h, w):
    """The channels of x at a position between its elements; zero outside."""
    value = np.zeros(x.shape[0])
    for i, j in itertools.product((int(np.floor(h)), int(np.floor(h)) + 1), (int(np.floor(w)), int(np.floor(w)) + 1)):
        if 0 <= i < x.shape[1] and 0 <= j < x.shape[2]:
            value += x[:, i, j] * (1 - abs(h - i)) * (1 - abs(w - j))
    return value


def deform_conv(rng):
    opset = version(rng, "DeformConv")
    group, offset_groups = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    channels, filters = group * offset_groups * int(rng.integers(1, 3)), group * int(rng.integers(1, 3))
    windows = a_window(rng, 2)
    windows.before, windows.after = integers(rng, 0, 1, 2), integers(rng, 0, 1, 2)
    size = [max(1, windows.extent(d) - windows.before[d] - windows.after[d]) + int(rng.integers(0, 3)) for d in range(2)]
    out = output_size(windows, size)
    batch, dtype = int(rng.integers(1, 3)), a_type(rng, "DeformConv", opset)
    positions = offset_groups * int(np.prod(windows.kernel))
    inputs = [array(rng, dtype, (batch, channels, *size)), array(rng, dtype, (filters, channels // group, *windows.kernel)),
              array(rng, dtype, (batch, 2 * positions, *out)), array(rng, dtype, filters),
              array(rng, dtype, (batch, positions, *out))]  # fmt: skip
    for k in (3, 4):
        if rng.integers(2):
            inputs[k] = None
    attributes = windows.attributes(rng)
    for name, value in dict(group=group, offset_group=offset_groups).items():
        if value > 1 or rng.integers(2):
            attributes[name] = value
    if rng.integers(2):
        attributes["kernel_shape"] = windows.kernel

    def expected(x, w, offsets, bias=None, mask=None):
        offsets = offsets.reshape(batch, offset_groups, *windows.kernel, 2, *out)
        mask = np.ones((batch, positions, *out)) if mask is None else mask
        mask = mask.reshape(batch, offset_groups, *windows.kernel, *out)
        y = np.zeros((batch, filters, *out)) + (0 if bias is None else bias[:, None, None])
        for n, h, v in np.ndindex(batch, *out):
            for tap in np.ndindex(*windows.kernel):
                at = [p * windows.strides[d] - windows.before[d] + tap[d] * windows.dilations[d] for d, p in enumerate((h, v))]
                sampled = []
                for g, part in enumerate(np.split(x[n], offset_groups)):
                    dh, dw = offsets[(n, g, *tap, slice(None), h, v)]
                    sampled.append(bilinear(part, at[0] + dh, at[1] + dw) * mask[(n, g, *tap, h, v)])
                per_group = np.split(np.concatenate(sampled), group)
                for m in range(filters):
                    y[n, m, h, v] += per_group[m // (filters // group)] @ w[(m, slice(None), *tap)]
        return y

    return Case("DeformConv", opset, inputs, attributes, expected=expected, constants=sometimes(rng, (1, 3), 2),
                dynamic=sometimes(rng, tuple((k, 0) for k in (0, 2, 4) if inputs[k] is not None)))  # fmt: skip


def col2im(rng):
    axes = int(rng.integers(2, 4))
    block, strides, dilations = rng.integers(1, 4, axes), rng.integers(1, 3, axes), rng.integers(1, 3, axes)
    pads = rng.integers(0, 2, 2 * axes)
    image = (block - 1) * dilations + 1 + rng.integers(0, 4, axes)
    count = (image + pads[:axes] + pads[axes:] - (block - 1) * dilations - 1) // strides + 1
    shape = (*(int(n) for n in rng.integers(1, 3, 1)), int(rng.integers(1, 3)) * int(block.prod()), int(count.prod()))
    types = [t for t in NUMBERS if np.dtype(t).itemsize >= 4 or np.dtype(t).kind not in "iu"]
    attributes = dict(strides=[int(s) for s in strides], dilations=[int(d) for d in dilations], pads=[int(p) for p in pads])
    return Case("Col2Im", 18, [array(rng, pick(rng, types), shape), image, block], attributes, constants=(1, 2))


def causal_conv(rng):
    batch, channels, length, window = (int(k) for k in rng.integers(1, 6, 4))
    dtype = pick(rng, [t for t in FLOATS if t != np.float64])
    activation = pick(rng, ["none", "silu", "swish"])
    inputs = [array(rng, dtype, (batch, channels, length)), array(rng, dtype, (channels, 1, window)),
              array(rng, dtype, channels), array(rng, dtype, (batch, channels, window - 1))]  # fmt: skip
    for k in (2, 3):
        if rng.integers(2):
            inputs[k] = None

    def expected(x, w, bias=None, past=None):
        past = np.zeros((batch, channels, window - 1), x.dtype) if past is None else past
        all_ = np.concatenate([past, x], 2)
        y = sum(all_[:, :, j : j + length].astype(np.float64) * w[:, 0, j, None] for j in range(window))
        y = y if bias is None else y + bias[:, None]
        y = y if activation == "none" else y / (1 + np.exp(-y))
        return y.astype(x.dtype), all_[:, :, length:]

    return Case("CausalConvWithState", 27, inputs, dict(activation=activation), outputs=2, expected=expected)


OPERATORS = {
    "CausalConvWithState": causal_conv,
    "Col2Im": col2im,
    "Conv": conv,
    "ConvInteger": conv_integer,
    "ConvTranspose": conv_transpose,
    "DeformConv": deform_conv,
}
