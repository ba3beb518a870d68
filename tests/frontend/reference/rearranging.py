"""The same elements elsewhere: blocks, sequences, borders, ranges."""

import numpy as np
from reference_case import ALL_TYPES, Case, a_shape, a_type, array, pick, sometimes, uniform, version


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
    return Case("ReverseSequence", 10, [x, lengths], attributes, dynamic=(0,) if rng.integers(3) == 0 else (),
                runtime_version=10)  # fmt: skip


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


# ---- borders and ranges


def source_of(p, n, mode):
    """The position in an axis of n elements that stands at position p of its continuation; None: outside."""
    if 0 <= p < n:
        return p
    if mode == "edge":
        return 0 if p < 0 else n - 1
    if mode == "wrap":
        return p % n
    if mode == "reflect":
        p = p % (2 * n - 2) if n > 1 else 0
        return min(p, 2 * n - 2 - p)
    return None


def pad(rng):
    opset = version(rng, "Pad")
    mode = pick(rng, ["constant", "constant", "reflect", "edge"] + (["wrap"] if opset >= 19 else []))
    x = uniform(rng, a_type(rng, "Pad", opset), a_shape(rng, 1, 4, empty=mode == "constant"))
    axes = [int(a) for a in rng.permutation(x.ndim)[: rng.integers(1, x.ndim + 1)]] if opset >= 18 and rng.integers(2) else None
    order = list(range(x.ndim)) if axes is None else axes
    before, after = [0] * x.ndim, [0] * x.ndim
    for axis in order:
        most = x.shape[axis] - 1 if mode == "reflect" else 3
        for side in (before, after):
            side[axis] = int(rng.integers(0, most + 1))
        # Removes elements, but keeps one; reflections would be of what was there before or after, which ONNX does not say.
        if mode in ("constant", "edge") and rng.integers(4) == 0:
            pick(rng, [before, after])[axis] = -int(rng.integers(0, max(1, x.shape[axis])))
    pads = [side[axis] for side in (before, after) for axis in order]
    attributes = dict(mode=mode) if mode != "constant" or rng.integers(2) else {}
    value = uniform(rng, x.dtype, ()) if mode == "constant" and rng.integers(2) else None
    if opset < 11:
        value = None if value is None else np.float32(value)
        attributes |= dict(pads=pads) | ({} if value is None else dict(value=float(value)))
    fill = 0 if value is None else value.astype(np.float64) if x.dtype.kind not in "iub" else value

    def expected(x, *_):
        for axis in order:
            n = x.shape[axis]
            lines = np.moveaxis(x, axis, 0)
            sources = [source_of(p, n, mode) for p in range(-before[axis], n + after[axis])]
            rows = [np.full(lines.shape[1:], fill, x.dtype) if s is None else lines[s] for s in sources]
            x = np.moveaxis(np.stack(rows) if rows else lines[:0], 0, axis)
        return x

    inputs = [x] if opset < 11 else [x, np.array(pads), value]
    if axes is not None:
        inputs += [np.array([a - x.ndim if rng.integers(2) else a for a in axes])]
    return Case("Pad", opset, inputs, attributes, constants=(1, *sometimes(rng, (2,), 2), 3), expected=expected,
                dynamic=sometimes(rng, (0,) if mode != "reflect" and min(pads) >= 0 else ()))  # fmt: skip


def slices(rng):
    opset = version(rng, "Slice")
    x = uniform(rng, a_type(rng, "Slice", opset), a_shape(rng, 1, 4))
    axes = [int(a) for a in rng.permutation(x.ndim)[: rng.integers(1, x.ndim + 1)]]
    given = [a - x.ndim if opset >= 10 and rng.integers(2) else a for a in axes]
    leave_out = rng.integers(3) == 0
    if leave_out:
        axes = list(range(len(axes)))
    limit = 2**31 - 1
    bound = lambda n: int(pick(rng, [*range(-n - 2, n + 3), limit, -limit]))
    starts, ends = [bound(x.shape[a]) for a in axes], [bound(x.shape[a]) for a in axes]
    steps = [int(pick(rng, [1, 2, 3, -1, -2])) for _ in axes] if opset >= 10 and rng.integers(3) else None

    def expected(x, *_):
        for k, axis in enumerate(axes):
            n, step = x.shape[axis], 1 if steps is None else steps[k]
            start, end = (b + n if b < 0 else b for b in (starts[k], ends[k]))
            start = min(max(start, 0), n if step > 0 else n - 1)
            end = min(max(end, 0), n) if step > 0 else min(max(end, -1), n - 1)
            x = np.take(x, list(range(start, end, step)), axis)
        return x

    if opset < 10:
        attributes = dict(starts=starts, ends=ends) | ({} if leave_out else dict(axes=axes))
        return Case("Slice", opset, [x], attributes, expected=expected, dynamic=sometimes(rng, (0,)))
    kind = pick(rng, [np.int32, np.int64])
    as_input = lambda values: None if values is None else np.array(values, kind)
    inputs = [x, as_input(starts), as_input(ends), None if leave_out else as_input(given), as_input(steps)]
    return Case("Slice", opset, inputs, constants=(1, 2, 3, 4), expected=expected, dynamic=sometimes(rng, (0,)))


OPERATORS = {
    "CenterCropPad": center_crop_pad,
    "DepthToSpace": depth_to_space,
    "Pad": pad,
    "ReverseSequence": reverse_sequence,
    "Slice": slices,
    "SpaceToDepth": space_to_depth,
}
