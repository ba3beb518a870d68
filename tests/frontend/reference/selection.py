"""Choosing elements by their values."""

import numpy as np
from reference_case import ALL_TYPES, FLOATS, NUMBERS, Case, array, pick


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


OPERATORS = {
    "Compress": compress,
    "NonMaxSuppression": non_max_suppression,
    "NonZero": non_zero,
    "TopK": top_k,
    "Unique": unique,
}
