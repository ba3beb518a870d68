"""Sampling between elements: grids and regions."""

import itertools

import numpy as np
from reference_case import FLOATS, Case, allowed_types, array, is_float, pick, sometimes, version


def reflected(x, low, high):
    """x mirrored at both ends until it lies between them."""
    while high > low and not low <= x <= high:
        x = 2 * low - x if x < low else 2 * high - x
    return x if high > low else 0


def keys(x, a=-0.75):
    x = abs(x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def taps_of(position, n, mode, padding, align):
    """Positions in an axis of n elements and their weights, for a position between -1 and 1."""
    low, high = (0, n - 1) if align else (-0.5, n - 0.5)
    x = (position + 1) / 2 * (n - 1) if align else ((position + 1) * n - 1) / 2
    x = np.rint(x) if mode == "nearest" else x
    if not low <= x <= high and padding != "zeros":
        x = min(max(x, 0), n - 1) if padding == "border" else reflected(x, low, high)
    first = int(np.floor(x))
    if mode == "nearest":
        taps = [(first, 1)]
    elif mode == "linear":
        taps = [(first, first + 1 - x), (first + 1, x - first)]
    else:
        taps = [(first + k, keys(first + k - x)) for k in (-1, 0, 1, 2)]
    if padding == "zeros":
        return [(t, weight) for t, weight in taps if 0 <= t < n]
    if padding == "border":
        return [(min(max(t, 0), n - 1), weight) for t, weight in taps]
    return [(int(reflected(t, low, high)), weight) for t, weight in taps]


def grid_sample(rng):
    opset = version(rng, "GridSample")
    axes = 2 if opset < 20 else int(rng.integers(1, 4))
    mode = pick(rng, ["nearest", "linear", "cubic"])
    types = [t for t in allowed_types("GridSample", opset) if mode == "nearest" or is_float(t)]
    batch, channels = (int(n) for n in rng.integers(1, 3, 2))
    x = array(rng, pick(rng, types), (batch, channels, *rng.integers(1, 5, axes)))
    of_grid = x.dtype if is_float(x.dtype) and rng.integers(2) else pick(rng, allowed_types("GridSample", opset, 1))
    shape = [int(n) for n in rng.integers(0 if rng.integers(10) == 0 else 1, 4, axes)]
    grid = (rng.standard_normal((batch, *shape, axes)) * 0.9).astype(of_grid)
    padding = pick(rng, ["zeros", "border", "reflection"])
    align = int(rng.integers(2))
    names = dict(nearest="nearest", linear="linear", cubic="cubic")
    if opset < 20:
        names |= dict(linear="bilinear", cubic="bicubic")
    attributes = dict(mode=names[mode], padding_mode=padding, align_corners=align)

    def expected(x, grid):
        y = np.zeros((batch, channels, *shape), np.float64 if is_float(x.dtype) else x.dtype)
        for n, *at in np.ndindex(batch, *shape):
            # The last axis is the first of a position.
            lines = [taps_of(p, s, mode, padding, align) for p, s in zip(grid[(n, *at)][::-1], x.shape[2:])]
            for taps in itertools.product(*lines):
                value = x[(n, slice(None), *(t for t, _ in taps))]
                y[(n, slice(None), *at)] += value if mode == "nearest" else value * np.prod([weight for _, weight in taps])
        return y

    return Case("GridSample", opset, [x, grid], attributes, expected=expected, dtype=x.dtype,
                dynamic=sometimes(rng, (0, 1), 4))  # fmt: skip


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
                known if opset >= 16 else attributes, evaluate_as=(known, 16 if opset < 16 else opset),
                runtime_version=min(opset, 16))  # fmt: skip


OPERATORS = {
    "AffineGrid": affine_grid,
    "GridSample": grid_sample,
    "RoiAlign": roi_align,
}
