"""Resizing, with the formulas of ONNX on doubles."""

import numpy as np
from reference_case import ALL_TYPES, FLOATS, NUMBERS, Case, array, pick, sometimes


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
        # Which matters to tf_half_pixel_for_nn only; others do the same.
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
    coordinates += ["tf_half_pixel_for_nn"] if opset < 13 and mode == "nearest" else []
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
    needs_sizes = o["antialias"] or "keep_aspect_ratio_policy" in attributes
    dynamic = () if needs_sizes else sometimes(rng, (0,))
    if mode != "nearest":
        exact = resized(data.astype(np.float64), axes, wanted, factors, rois, o)
        if np.any(np.isnan(exact)):  # all weights are excluded
            o["exclude_outside"] = False
            attributes["exclude_outside"] = 0
            exact = resized(data.astype(np.float64), axes, wanted, factors, rois, o)
        if data.dtype.kind in "iu" and np.any(np.abs(exact - np.floor(exact) - 0.5) < 1e-6):
            data = data.astype(np.float32)  # the order of additions would decide
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


OPERATORS = {
    "Resize": resize,
    "Resize_10": lambda rng: resize_by_scales(rng, "Resize"),
    "Upsample": lambda rng: resize_by_scales(rng, "Upsample"),
}
