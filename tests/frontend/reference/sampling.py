"""Sampling between elements: grids and regions."""

import numpy as np
from reference_case import FLOATS, Case, array, pick


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


OPERATORS = {
    "AffineGrid": affine_grid,
    "GridSample": grid_sample,
    "RoiAlign": roi_align,
}
