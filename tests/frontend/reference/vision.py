"""Operators of images, signals and positions: resizing, sampling, rearranging, selecting, transforming."""

import numpy as np
from reference_case import ALL_TYPES, FLOATS, INTEGERS, NUMBERS, Case, array, pick

# ---- Resize


def coordinate(mode, x, scale, size_in, size_out, roi):
    """ONNX's formulas, on doubles."""
    width = scale * size_in
    if mode == "align_corners":
        return 0.0 if width == 1 else x * (size_in - 1) / (width - 1)
    if mode == "asymmetric":
        return x / scale
    if mode == "tf_half_pixel_for_nn":
        return (x + 0.5) / scale
    if mode == "tf_crop_and_resize":
        start, end = roi
        inner = (end - start) * (size_in - 1) / 2 if width == 1 else x * (end - start) * (size_in - 1) / (width - 1)
        return inner + start * (size_in - 1)
    if mode == "pytorch_half_pixel":
        return -0.5 if width == 1 else (x + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        return size_in / 2 * (1 - size_out / width) + (x + 0.5) / scale - 0.5
    return (x + 0.5) / scale - 0.5


def nearest(mode, x, scale):
    if mode == "simple":
        return np.ceil(x) if scale < 1 else np.floor(x)
    if mode == "floor":
        return np.floor(x)
    if mode == "ceil":
        return np.ceil(x)
    whole, fraction = np.floor(x), x - np.floor(x)
    up = fraction > 0.5 if mode == "round_prefer_floor" else fraction >= 0.5
    return whole + 1 if up else whole


def hat(x):
    return max(0.0, 1 - abs(x))


def keys(x, a):
    x = abs(x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def resize_axis(data, axis, size_out, scale, o, roi):
    """`data` with one axis resized: o holds the attributes."""
    size_in = data.shape[axis]
    moved = np.moveaxis(data, axis, 0)
    result = np.zeros((size_out, *moved.shape[1:]), data.dtype)
    for x in range(size_out):
        at = coordinate(o["coordinates"], x, scale, size_in, size_out, roi)
        if o["coordinates"] == "tf_crop_and_resize" and (at < 0 or at > size_in - 1):
            result[x] = o["extrapolation"]
            continue
        if o["mode"] == "nearest":
            result[x] = moved[int(np.clip(nearest(o["nearest_mode"], at, scale), 0, size_in - 1))]
            continue
        shrink = min(scale, 1.0) if o["antialias"] else 1.0
        reach = (1 if o["mode"] == "linear" else 2) / shrink
        taps = range(int(np.floor(at - reach)) - 1, int(np.ceil(at + reach)) + 2)
        kernel = hat if o["mode"] == "linear" else lambda t: keys(t, o["a"])
        weights = np.array([kernel((t - at) * shrink) for t in taps])
        if o["antialias"]:
            weights /= weights.sum()
        if o["exclude_outside"]:
            weights *= [0 <= t < size_in for t in taps]
            weights /= weights.sum()
        result[x] = sum(w * moved[min(max(t, 0), size_in - 1)] for w, t in zip(weights, taps))
    return np.moveaxis(result, 0, axis)


def resized(data, axes, sizes, scales, rois, o):
    result = data if o["mode"] == "nearest" else data.astype(np.float64)
    for axis, size, scale, roi in zip(axes, sizes, scales, rois):
        if size == data.shape[axis] and scale == 1 and tuple(roi) == (0, 1):
            continue
        result = resize_axis(result, axis, size, scale, o, roi)
    if data.dtype.kind in "iu" and o["mode"] != "nearest":
        limits = np.iinfo(data.dtype)
        result = np.clip(np.round(result), limits.min, limits.max)
    return result.astype(data.dtype)


def plain_options(**changes):
    o = dict(mode="nearest", coordinates="half_pixel", nearest_mode="round_prefer_floor", antialias=False)
    return o | dict(exclude_outside=False, a=-0.75, extrapolation=0.0) | changes


def resize(rng):
    opset = int(pick(rng, [11, 12, 13, 17, 18, 19, 22]))
    rank = int(rng.integers(1, 5))
    mode = pick(rng, ["nearest", "linear", "cubic"])
    types = ALL_TYPES if mode == "nearest" else NUMBERS
    types = [t for t in types if opset >= 13 or np.dtype(t).name != "bfloat16"]
    data = array(rng, pick(rng, types), rng.integers(1, 7, rank))
    coordinates = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"]
    coordinates += ["half_pixel_symmetric"] if opset >= 19 else []
    coordinates += ["tf_half_pixel_for_nn"] if opset < 13 else []
    o = plain_options(mode=mode, coordinates=pick(rng, coordinates), a=float(np.float32(pick(rng, [-0.75, -0.5]))))
    attributes = dict(mode=mode, coordinate_transformation_mode=o["coordinates"])
    if mode == "nearest":
        o["nearest_mode"] = pick(rng, ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
        attributes["nearest_mode"] = o["nearest_mode"]
    elif rng.integers(2):
        o["exclude_outside"] = bool(rng.integers(2)) and o["coordinates"] != "tf_crop_and_resize"
        attributes["exclude_outside"] = int(o["exclude_outside"])
    if mode == "cubic":
        attributes["cubic_coeff_a"] = o["a"]
    if opset >= 18 and mode != "nearest":
        o["antialias"] = bool(rng.integers(2))
        attributes["antialias"] = int(o["antialias"])
    axes = list(range(rank))
    if opset >= 18 and rng.integers(2):
        axes = [int(a) for a in rng.permutation(rank)[: rng.integers(1, rank + 1)]]
        attributes["axes"] = [a - rank if rng.integers(2) else a for a in axes]
    rois = [(0.0, 1.0)] * len(axes)
    roi = np.array([], np.float32)
    if o["coordinates"] == "tf_crop_and_resize":
        o["extrapolation"] = float(rng.integers(0, 2) * 10)
        attributes["extrapolation_value"] = o["extrapolation"]
        starts, ends = rng.integers(-1, 3, len(axes)) / 4, rng.integers(2, 6, len(axes)) / 4
        roi = np.concatenate([starts, ends]).astype(np.float32)
        rois = list(zip(starts, ends))
    scales = sizes = None
    shape = [data.shape[a] for a in axes]
    if rng.integers(2):
        scales = pick(rng, [[0.5, 2.0, 3.0, 1.0, 1.5], [0.3, 0.6, 0.8, 1.3, 2.7]])
        scales = np.array([pick(rng, scales) for _ in axes], np.float32)
        factors = [float(s) for s in scales]
        wanted = [int(np.floor(n * f)) for n, f in zip(shape, factors)]
    else:
        sizes = rng.integers(1, 10, len(axes))
        wanted, factors = [int(s) for s in sizes], [float(s) / n for s, n in zip(sizes, shape)]
        policy = pick(rng, ["stretch", "not_larger", "not_smaller"]) if opset >= 18 else "stretch"
        if policy != "stretch":
            attributes["keep_aspect_ratio_policy"] = policy
            factor = min(factors) if policy == "not_larger" else max(factors)
            factors = [factor] * len(axes)
            wanted = [int(np.floor(factor * n + 0.5)) for n in shape]
    dynamic = (0,) if not o["antialias"] and "keep_aspect_ratio_policy" not in attributes and rng.integers(3) == 0 else ()
    if mode != "nearest" and data.dtype.kind in "iu":
        exact = resized(data.astype(np.float64), axes, wanted, factors, rois, o)
        if np.any(np.abs(exact - np.floor(exact) - 0.5) < 1e-6):  # the order of additions would decide
            data = data.astype(np.float32)
    return Case(
        "Resize",
        opset,
        [data, roi, scales if scales is not None else (np.array([], np.float32) if opset < 13 else None), sizes],
        attributes,
        constants=(1, 2, 3),
        dynamic=dynamic,
        expected=lambda x, *_: resized(x, axes, wanted, factors, rois, o),
    )


def resize_by_scales(rng, operator):
    rank = int(rng.integers(1, 5))
    mode = pick(rng, ["nearest", "linear"])
    old = operator == "Upsample" and bool(rng.integers(2))
    types = FLOATS[:3] if old else ALL_TYPES if mode == "nearest" else NUMBERS
    if old:
        types = [np.float32, np.float64, np.float16, *([np.bool_, np.int32, np.uint8] if mode == "nearest" else [])]
    types = [t for t in types if np.dtype(t).name != "bfloat16"]  # since version 13
    data = array(rng, pick(rng, types), rng.integers(1, 7, rank))
    choices = [1.0, 2.0, 3.0, 1.5, 2.6] + ([] if operator == "Upsample" else [0.5, 0.7])
    scales = np.array([pick(rng, choices) for _ in range(rank)], np.float32)
    factors = [float(s) for s in scales]
    wanted = [int(np.floor(n * f)) for n, f in zip(data.shape, factors)]
    o = plain_options(mode=mode, coordinates="asymmetric", nearest_mode="simple")
    if mode == "linear" and data.dtype.kind in "iu":
        exact = resized(data.astype(np.float64), range(rank), wanted, factors, [(0, 1)] * rank, o)
        if np.any(np.abs(exact - np.floor(exact) - 0.5) < 1e-6):
            data = data.astype(np.float32)
    return Case(
        operator,
        10 if operator == "Resize" else 7 if old else 9,
        [data] if old else [data, scales],
        dict(mode=mode) | (dict(scales=factors) if old else {}),
        constants=(1,),
        expected=lambda x, *_: resized(x, range(rank), wanted, factors, [(0, 1)] * rank, o),
    )


# ---- sampling


def grid_sample(rng):
    opset = int(pick(rng, [16, 20, 22]))
    axes = 2 if opset < 20 else int(rng.integers(1, 4))
    mode = pick(rng, ["nearest", "linear", "cubic"])
    batch, channels = rng.integers(1, 3, 2)
    types = (FLOATS if opset >= 22 else FLOATS[:3]) + ([np.int32, np.uint8, np.bool_] if mode == "nearest" else [])
    x = array(rng, pick(rng, types),
              (batch, channels, *rng.integers(1 if axes < 3 else 2, 5, axes)))  # fmt: skip
    position = np.float64 if x.dtype == np.float64 else np.float32
    grid = (rng.standard_normal((batch, *rng.integers(1, 4, axes), axes)) * 0.9).astype(position)
    align = int(rng.integers(2)) if min(x.shape[2:]) > 1 else 0
    attributes = dict(mode=mode, padding_mode=pick(rng, ["zeros", "border", "reflection"]), align_corners=align)
    evaluate_as = None
    if opset < 20:
        evaluate_as = (attributes, 20)
        attributes = attributes | dict(mode=dict(nearest="nearest", linear="bilinear", cubic="bicubic")[mode])
    if opset >= 22 and x.dtype.kind == "f" and x.dtype.itemsize == 2:
        grid = grid.astype(x.dtype)
    return Case("GridSample", opset, [x, grid], attributes, evaluate_as=evaluate_as, dynamic=(0, 1) if rng.integers(4) == 0 else ())


def affine_grid(rng):
    axes = int(rng.integers(2, 4))
    batch = int(rng.integers(1, 4))
    align = int(rng.integers(2))
    sizes = rng.integers(1, 6, axes)
    theta = array(rng, pick(rng, FLOATS), (batch, axes, axes + 1))

    def expected(theta, _):
        lines = []
        for size in sizes:
            if align:
                lines.append(np.linspace(-1, 1, size) if size > 1 else np.zeros(1))
            else:
                lines.append((2 * np.arange(size) + 1) / size - 1)
        mesh = np.meshgrid(*lines, indexing="ij")[::-1]
        base = np.stack([*mesh, np.ones(tuple(sizes))], axis=-1)
        return np.einsum("nij,...j->n...i", theta.astype(np.float64), base).astype(theta.dtype)

    shape = np.array([batch, int(rng.integers(1, 4)), *sizes])
    return Case("AffineGrid", 20, [theta, shape], dict(align_corners=align), constants=(1,), expected=expected)


def roi_align(rng):
    opset = int(pick(rng, [10, 15, 16, 22]))
    x = array(rng, pick(rng, FLOATS if opset >= 22 else FLOATS[:3]), (*rng.integers(1, 4, 2), *rng.integers(2, 9, 2)))
    count = int(rng.integers(1, 5))
    corners = rng.uniform(-2, 8, (count, 2))
    rois = np.concatenate([corners, corners + rng.uniform(-0.5, 7, (count, 2))], 1).astype(np.float32).astype(x.dtype)
    attributes = dict(mode=pick(rng, ["avg", "max"]), output_height=int(rng.integers(1, 5)),
                      output_width=int(rng.integers(1, 5)), sampling_ratio=int(rng.integers(0, 4)),
                      spatial_scale=float(pick(rng, [1.0, 0.5])))  # fmt: skip
    mode = pick(rng, ["half_pixel", "output_half_pixel"]) if opset >= 16 else "output_half_pixel"
    known = attributes | dict(coordinate_transformation_mode=mode)
    return Case("RoiAlign", opset, [x, rois, rng.integers(0, x.shape[0], count)],
                known if opset >= 16 else attributes, evaluate_as=(known, 16 if opset < 16 else opset))  # fmt: skip


def deform_conv(rng):
    groups, offset_groups = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    channels = groups * offset_groups * int(rng.integers(1, 3))
    kernel, strides, dilations = rng.integers(1, 3, 2), rng.integers(1, 3, 2), rng.integers(1, 3, 2)
    pads = rng.integers(0, 2, 4)
    size = rng.integers(3, 6, 2)
    out = (size + pads[:2] + pads[2:] - (kernel - 1) * dilations - 1) // strides + 1
    opset = int(pick(rng, [19, 22]))
    batch, dtype = int(rng.integers(1, 3)), pick(rng, FLOATS if opset >= 22 else FLOATS[:3])
    filters = groups * int(rng.integers(1, 3))
    positions = offset_groups * int(kernel.prod())
    inputs = [array(rng, dtype, (batch, channels, *size)), array(rng, dtype, (filters, channels // groups, *kernel)),
              array(rng, dtype, (batch, 2 * positions, *out)), array(rng, dtype, filters),
              array(rng, dtype, (batch, positions, *out))]  # fmt: skip
    for k in (3, 4):
        if rng.integers(2):
            inputs[k] = None
    attributes = dict(group=groups, offset_group=offset_groups, strides=[int(s) for s in strides],
                      dilations=[int(d) for d in dilations], pads=[int(p) for p in pads])  # fmt: skip
    if rng.integers(2):
        attributes["kernel_shape"] = [int(k) for k in kernel]
    return Case("DeformConv", opset, inputs, attributes)


# ---- rearranging


def depth_to_space(rng):
    opset = int(pick(rng, [7, 11, 13, 22]))
    block = int(rng.integers(1, 4))
    shape = (int(rng.integers(1, 3)), int(rng.integers(1, 3)) * block * block, *rng.integers(1, 4, 2))
    types = [t for t in ALL_TYPES if opset >= 13 or np.dtype(t).name != "bfloat16"]
    mode = pick(rng, ["DCR", "CRD"]) if opset >= 11 else "DCR"

    def expected(x):
        n, c, h, w = x.shape
        d = c // block**2
        if mode == "DCR":
            y = x.reshape(n, block, block, d, h, w).transpose(0, 3, 4, 1, 5, 2)
        else:
            y = x.reshape(n, d, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
        return y.reshape(n, d, h * block, w * block)

    attributes = dict(blocksize=block) | (dict(mode=mode) if opset >= 11 else {})
    return Case("DepthToSpace", opset, [array(rng, pick(rng, types), shape)], attributes, expected=expected)


def space_to_depth(rng):
    opset = int(pick(rng, [7, 13, 22]))
    block = int(rng.integers(1, 4))
    shape = (*rng.integers(1, 4, 2), *(rng.integers(1, 3, 2) * block))
    types = [t for t in ALL_TYPES if opset >= 13 or np.dtype(t).name != "bfloat16"]

    def expected(x):
        n, c, h, w = x.shape
        y = x.reshape(n, c, h // block, block, w // block, block).transpose(0, 3, 5, 1, 2, 4)
        return y.reshape(n, c * block * block, h // block, w // block)

    return Case("SpaceToDepth", opset, [array(rng, pick(rng, types), shape)], dict(blocksize=block), expected=expected)


def reverse_sequence(rng):
    types = [t for t in ALL_TYPES if np.dtype(t).name != "bfloat16"]
    x = array(rng, pick(rng, types), rng.integers(1, 6, rng.integers(2, 5)))
    time = int(rng.integers(2))
    lengths = rng.integers(1, x.shape[time] + 1, x.shape[1 - time])
    attributes = dict(time_axis=time, batch_axis=1 - time)
    return Case("ReverseSequence", 10, [x, lengths], attributes, dynamic=(0,) if rng.integers(3) == 0 else ())


def center_crop_pad(rng):
    x = array(rng, pick(rng, ALL_TYPES), rng.integers(1, 7, rng.integers(1, 5)))
    axes = list(range(x.ndim))
    attributes = {}
    if rng.integers(2):
        axes = [int(a) for a in rng.permutation(x.ndim)[: rng.integers(1, x.ndim + 1)]]
        attributes["axes"] = [a - x.ndim if rng.integers(2) else a for a in axes]
    sizes = rng.integers(1, 9, len(axes))

    def expected(x, _):
        for axis, size in zip(axes, sizes):
            have = x.shape[axis]
            if size <= have:
                x = np.take(x, np.arange((have - size) // 2, (have - size) // 2 + size), axis)
            else:
                before = (size - have) // 2
                x = np.pad(x, [(before, size - have - before) if a == axis else (0, 0) for a in range(x.ndim)])
        return x

    return Case("CenterCropPad", 18, [x, sizes], attributes, constants=(1,), expected=expected,
                dynamic=(0,) if rng.integers(3) == 0 else ())  # fmt: skip


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
    return Case("MaxUnpool", int(pick(rng, [9, 11, 22])), [x, indices.reshape(x.shape), sizes], attributes, constants=(2,))


# ---- selecting


def top_k(rng):
    opset = int(pick(rng, [7, 10, 11, 23, 24]))
    types = FLOATS[:3] if opset < 11 else [t for t in NUMBERS if opset >= 24 or np.dtype(t).name != "bfloat16"]
    x = array(rng, pick(rng, types), rng.integers(1, 9, rng.integers(1, 5)))
    if x.dtype.kind in "iu" or rng.integers(2):
        x = (x % 4).astype(x.dtype) if x.dtype.kind in "iu" else np.round(x.astype(np.float32)).astype(x.dtype)  # ties
    if x.dtype.kind == "f" and rng.integers(3) == 0:
        x[rng.integers(0, 4, x.shape) == 0] = np.nan
    axis = int(rng.integers(-x.ndim, x.ndim))
    k = int(rng.integers(1, x.shape[axis] + 1))
    largest = int(rng.integers(2)) if opset >= 11 else 1
    attributes = dict(axis=axis) | (dict(largest=largest, sorted=1) if opset >= 11 else {})
    attributes |= dict(k=k) if opset < 10 else {}

    def order(row):
        def rank(i):
            v = row[i]
            missing = bool(v != v)
            value = 0 if missing else (float(v) if v.dtype.kind == "f" else int(v))
            return (not missing, -value, i) if largest else (missing, value, i)

        return np.array(sorted(range(len(row)), key=rank)[:k], np.int64)

    def expected(x, *_):
        positions = np.apply_along_axis(order, axis, x)
        return np.take_along_axis(x, positions, axis), positions

    return Case("TopK", opset, [x] if opset < 10 else [x, np.array([k])], attributes, constants=(1,), outputs=2,
                expected=expected, dynamic=(0,) if rng.integers(4) == 0 and k == 1 else ())  # fmt: skip


def compress(rng):
    types = [t for t in ALL_TYPES if np.dtype(t).name != "bfloat16"]
    x = array(rng, pick(rng, types), rng.integers(1, 6, rng.integers(1, 4)))
    axis = int(rng.integers(-x.ndim, x.ndim)) if rng.integers(3) else None
    length = int(rng.integers(1, (x.size if axis is None else x.shape[axis]) + 1))
    condition = rng.integers(0, 2, length).astype(np.bool_)
    return Case("Compress", int(pick(rng, [9, 11])), [x, condition], {} if axis is None else dict(axis=axis), constants=(1,),
                expected=lambda x, c: np.compress(c, x, axis))  # fmt: skip


def non_zero(rng):
    types = [t for t in ALL_TYPES if np.dtype(t).name != "bfloat16"]
    x = array(rng, pick(rng, types), rng.integers(1, 6, rng.integers(1, 4)))
    x[rng.integers(0, 2, x.shape) == 0] = 0
    return Case("NonZero", int(pick(rng, [9, 13])), [x], constants=(0,), expected=lambda x: np.array(np.nonzero(x), np.int64))


def non_max_suppression(rng):
    batch, classes, n = (int(k) for k in rng.integers(1, 5, 3))
    boxes = rng.uniform(0, 1, (batch, n, 4)).astype(np.float32)
    scores = rng.uniform(0, 1, (batch, classes, n)).astype(np.float32)
    inputs = [boxes, scores, np.array([int(rng.integers(1, 5))]), np.array([0.3], np.float32), np.array([0.2], np.float32)]
    return Case("NonMaxSuppression", int(pick(rng, [10, 11])), inputs, dict(center_point_box=int(rng.integers(2))),
                constants=(0, 1, 2, 3, 4))  # fmt: skip


def unique(rng):
    types = [t for t in NUMBERS if np.dtype(t).name != "bfloat16"]
    x = (array(rng, pick(rng, types), rng.integers(1, 5, rng.integers(1, 4))) % 2).astype(np.int64)
    x = x.astype(pick(rng, types))
    attributes = dict(sorted=int(rng.integers(2)))
    if rng.integers(2):
        attributes["axis"] = int(rng.integers(-x.ndim, x.ndim))

    def expected(x):
        axis = attributes.get("axis")
        y, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
        inverse = inverse.reshape(-1)
        if not attributes["sorted"]:
            order = np.argsort(first)
            y, first, counts = np.take(y, order, 0 if axis is None else axis), first[order], counts[order]
            inverse = np.argsort(order)[inverse]
        return y, *(a.astype(np.int64) for a in (first, inverse, counts))

    return Case("Unique", 11, [x], attributes, constants=(0,), outputs=4, expected=expected)


# ---- caches


def scatter(rng):
    types = [t for t in ALL_TYPES if np.dtype(t).name != "bfloat16"]
    x = array(rng, pick(rng, types), rng.integers(1, 6, rng.integers(1, 4)))
    axis = int(rng.integers(-x.ndim, x.ndim))
    shape = [int(rng.integers(1, s + 1)) for s in x.shape]
    lines = np.argsort(rng.random(x.shape), axis)  # distinct positions along the axis
    indices = lines[tuple(slice(0, s) for s in shape)]

    def expected(x, indices, updates):
        y = x.copy()
        for at in np.ndindex(*shape):
            to = list(at)
            to[axis] = indices[at]
            y[tuple(to)] = updates[at]
        return y

    return Case("Scatter", 9, [x, indices, array(rng, x.dtype, shape)], dict(axis=axis), expected=expected)


def tensor_scatter(rng):
    rank = int(rng.integers(2, 5))
    axis = int(rng.integers(1, rank))
    shape = rng.integers(1, 6, rank)
    update = shape.copy()
    update[axis] = rng.integers(1, shape[axis] + 1)
    dtype = pick(rng, ALL_TYPES)
    mode = pick(rng, ["linear", "circular"])
    last = shape[axis] - update[axis] + 1 if mode == "linear" else shape[axis]
    positions = rng.integers(0, last, shape[0]) if rng.integers(3) else None
    attributes = dict(mode=mode, axis=axis - rank if rng.integers(2) else axis)

    def expected(cache, update, begins=None):
        y = cache.copy()
        for b in range(cache.shape[0]):
            for t in range(update.shape[axis]):
                to, from_ = [slice(None)] * rank, [slice(None)] * rank
                to[0] = from_[0] = b
                to[axis], from_[axis] = ((0 if begins is None else begins[b]) + t) % cache.shape[axis], t
                y[tuple(to)] = update[tuple(from_)]
        return y

    return Case("TensorScatter", 24, [array(rng, dtype, shape), array(rng, dtype, update), positions], attributes,
                expected=expected, dynamic=(0,) if rng.integers(4) == 0 and tuple(shape) == tuple(update) else ())  # fmt: skip


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


# ---- signals and integers


def window(operator):
    terms = dict(HannWindow=(0.5, -0.5), HammingWindow=(25 / 46, -21 / 46), BlackmanWindow=(0.42, -0.5, 0.08))[operator]

    def make(rng):
        size, periodic = int(rng.integers(2, 30)), int(rng.integers(2))
        dtype, number = pick(rng, [(np.float32, 1), (np.float64, 11), (np.float16, 10)])
        phase = 2 * np.pi * np.arange(size) / (size if periodic else size - 1)
        value = sum(a * np.cos(k * phase) for k, a in enumerate(terms)).astype(dtype)
        return Case(operator, 17, [np.array(size, pick(rng, [np.int32, np.int64]))],
                    dict(periodic=periodic, output_datatype=number), constants=(0,), expected=lambda _: value)  # fmt: skip

    return make


def dft(rng):
    opset = int(pick(rng, [17, 20, 22]))
    shape = [int(n) for n in rng.integers(1, 8, rng.integers(2, 4))]
    axis = int(rng.integers(0, len(shape)))
    inverse = int(rng.integers(2))
    parts = int(rng.integers(1, 3))
    onesided = int(rng.integers(2)) if parts == 1 and not inverse else 0
    length = int(rng.integers(1, 10)) if rng.integers(2) else None
    dtype = pick(rng, [np.float32, np.float64, np.float16])
    x = array(rng, dtype, (*shape, parts))

    def expected(x, *_):
        signal = x[..., 0] + (1j * x[..., 1] if parts == 2 else 0)
        n = length or shape[axis]
        y = (np.fft.ifft if inverse else np.fft.fft)(signal.astype(np.complex128), n, axis)
        y = np.take(y, np.arange(n // 2 + 1 if onesided else n), axis)
        return np.stack([y.real, y.imag], -1).astype(x.dtype)

    count = None if length is None else np.array(length)
    attributes = dict(inverse=inverse, onesided=onesided)
    given = axis - len(shape) - 1 if rng.integers(2) else axis
    if opset < 20:
        return Case("DFT", opset, [x, count], attributes | dict(axis=given), constants=(1,), expected=expected)
    return Case("DFT", opset, [x, count, np.array(given)], attributes, constants=(1, 2), expected=expected)


def stft(rng):
    parts = int(rng.integers(1, 3))
    length, step = int(rng.integers(1, 9)), int(rng.integers(1, 5))
    onesided = int(rng.integers(2)) if parts == 1 else 0
    dtype = pick(rng, [np.float32, np.float64, np.float16])
    x = array(rng, dtype, (int(rng.integers(1, 3)), length + int(rng.integers(0, 9)), parts))
    win = array(rng, dtype, length) if rng.integers(2) else None
    given = np.array(length) if win is None or rng.integers(2) else None

    def expected(x, step, win=None, given=None):
        signal = (x[..., 0] + (1j * x[..., 1] if parts == 2 else 0)).astype(np.complex128)
        frames = 1 + (x.shape[1] - length) // int(step)
        pieces = np.stack([signal[:, f * int(step) : f * int(step) + length] for f in range(frames)], 1)
        y = np.fft.fft(pieces * (1 if win is None else win), length, -1)[..., : length // 2 + 1 if onesided else length]
        return np.stack([y.real, y.imag], -1).astype(x.dtype)

    return Case("STFT", 17, [x, np.array(step), win, given], dict(onesided=onesided), constants=(1, 3), expected=expected)


def mel_weight_matrix(rng):
    length = int(rng.integers(8, 64))
    rate = int(pick(rng, [8000, 16000, 22050]))
    dtype, number = pick(rng, [(np.float32, 1), (np.float64, 11)])
    low, high = float(rng.integers(0, rate // 8)), float(rng.integers(rate // 4, rate // 2 - rate // 8))
    inputs = [np.array(int(rng.integers(1, 12))), np.array(length), np.array(rate), np.array(low, np.float64),
              np.array(high, np.float64)]  # fmt: skip
    inputs[3], inputs[4] = (a.astype(np.float32) for a in inputs[3:])
    low, high = float(inputs[3]), float(inputs[4])

    def expected(bins, *_):
        bins = int(bins)
        mel = [2595 * np.log10(1 + f / 700) for f in (low, high)]
        hertz = 700 * (10 ** ((mel[0] + np.arange(bins + 2) * (mel[1] - mel[0]) / (bins + 2)) / 2595) - 1)
        edge = np.floor((length + 1) * hertz / rate + 1e-9).astype(int)
        y = np.zeros((length // 2 + 1, bins))
        for m in range(bins):
            left, center, right = edge[m : m + 3]
            for j in range(left, center + 1):
                y[j, m] = 1 if left == center else (j - left) / (center - left)
            for j in range(center, right):
                y[j, m] = (right - j) / (right - center)
        return y.astype(dtype)

    return Case("MelWeightMatrix", 17, inputs, dict(output_datatype=number), constants=(0, 1, 2, 3, 4), expected=expected)


def matmul_integer(rng):
    rows, inner, columns = (int(n) for n in rng.integers(1, 6, 3))
    batch = tuple(int(n) for n in rng.integers(1, 4, rng.integers(0, 3)))
    types = [np.int8, np.uint8]
    a = rng.integers(0, 128, (*batch, rows, inner)).astype(pick(rng, types))
    b = rng.integers(0, 128, (*(batch if rng.integers(2) else ()), inner, columns)).astype(pick(rng, types))
    zeros_a = rng.integers(0, 50, [(), (1,), (rows,)][rng.integers(3)]).astype(a.dtype) if rng.integers(3) else None
    zeros_b = rng.integers(0, 50, [(), (1,), (columns,)][rng.integers(3)]).astype(b.dtype) if rng.integers(3) else None

    def expected(a, b, za=None, zb=None):
        za = np.zeros(1) if za is None else za
        za = za.reshape(-1, 1) if za.size > 1 else za
        zb = np.zeros(1) if zb is None else zb
        return (a.astype(np.int32) - za.astype(np.int32)) @ (b.astype(np.int32) - zb.astype(np.int32))

    return Case("MatMulInteger", 10, [a, b, zeros_a, zeros_b], expected=expected)


OPERATORS = {
    "AffineGrid": affine_grid,
    "BlackmanWindow": window("BlackmanWindow"),
    "CausalConvWithState": causal_conv,
    "CenterCropPad": center_crop_pad,
    "Col2Im": col2im,
    "Compress": compress,
    "DFT": dft,
    "DeformConv": deform_conv,
    "DepthToSpace": depth_to_space,
    "GridSample": grid_sample,
    "HammingWindow": window("HammingWindow"),
    "HannWindow": window("HannWindow"),
    "MatMulInteger": matmul_integer,
    "MaxUnpool": max_unpool,
    "MelWeightMatrix": mel_weight_matrix,
    "NonMaxSuppression": non_max_suppression,
    "NonZero": non_zero,
    "Resize": resize,
    "Resize_10": lambda rng: resize_by_scales(rng, "Resize"),
    "ReverseSequence": reverse_sequence,
    "RoiAlign": roi_align,
    "STFT": stft,
    "Scatter": scatter,
    "SpaceToDepth": space_to_depth,
    "TensorScatter": tensor_scatter,
    "TopK": top_k,
    "Unique": unique,
    "Upsample": lambda rng: resize_by_scales(rng, "Upsample"),
}
