"""Reading and writing at positions that are data."""

from functools import partial

import numpy as np
from reference_case import ALL_TYPES, Case, a_shape, a_type, array, maybe, pick, sometimes, uniform, version

INDEX_TYPES = [np.int32, np.int64]
REDUCTIONS = dict(add=np.add, mul=np.multiply, max=np.maximum, min=np.minimum)


def indices_into(rng, sizes, shape):
    """Random positions along axes of these sizes, which are broadcast to `shape`; some count from the end."""
    at = rng.integers(0, np.broadcast_to(sizes, shape))
    return np.where(rng.integers(0, 3, shape) == 0, at - sizes, at)


def gather(rng):
    opset = version(rng, "Gather")
    x = uniform(rng, a_type(rng, "Gather", opset), a_shape(rng, 1, 4, empty=False))
    attributes = {}
    axis = maybe(rng, attributes, "axis", int(rng.integers(-x.ndim, x.ndim)), 0)
    indices = indices_into(rng, x.shape[axis], a_shape(rng, 0, 3, 4)).astype(pick(rng, INDEX_TYPES))
    indices = indices % x.shape[axis] if opset < 11 else indices

    def expected(x, indices):
        first = axis % x.ndim
        y = np.zeros([*x.shape[:first], *indices.shape, *x.shape[first + 1 :]], x.dtype)
        for at in np.ndindex(*indices.shape):
            y[(*[slice(None)] * first, *at)] = x[(*[slice(None)] * first, indices[at])]
        return y

    return Case("Gather", opset, [x, indices], attributes, expected=expected, constants=sometimes(rng, (1,)),
                dynamic=sometimes(rng, (0, 1)))  # fmt: skip


def gather_elements(rng):
    opset = version(rng, "GatherElements")
    x = uniform(rng, a_type(rng, "GatherElements", opset), a_shape(rng, 1, 4, empty=False))
    attributes = {}
    axis = maybe(rng, attributes, "axis", int(rng.integers(-x.ndim, x.ndim)), 0) % x.ndim
    shape = [int(rng.integers(0 if rng.integers(10) == 0 else 1, n + 1)) for n in x.shape]
    shape[axis] = int(rng.integers(1, 6))
    indices = indices_into(rng, x.shape[axis], shape).astype(pick(rng, INDEX_TYPES))

    def expected(x, indices):
        y = np.zeros(shape, x.dtype)
        for at in np.ndindex(*shape):
            y[at] = x[(*at[:axis], indices[at], *at[axis + 1 :])]
        return y

    return Case("GatherElements", opset, [x, indices], attributes, expected=expected, constants=sometimes(rng, (1,)),
                dynamic=sometimes(rng, (0, 1)))  # fmt: skip


def gather_nd(rng):
    opset = version(rng, "GatherND")
    x = uniform(rng, a_type(rng, "GatherND", opset), a_shape(rng, 1, 4, empty=False))
    attributes = {}
    batched = maybe(rng, attributes, "batch_dims", int(rng.integers(0, x.ndim)), 0) if opset >= 12 else 0
    k = int(rng.integers(1, x.ndim - batched + 1))
    shape = [*x.shape[:batched], *a_shape(rng, 0, 2, 4), k]
    indices = indices_into(rng, np.array(x.shape[batched : batched + k]), shape)

    def expected(x, indices):
        y = np.zeros([*shape[:-1], *x.shape[batched + k :]], x.dtype)
        for at in np.ndindex(*shape[:-1]):
            y[at] = x[(*at[:batched], *indices[at])]
        return y

    return Case("GatherND", opset, [x, indices], attributes, expected=expected, constants=sometimes(rng, (1,)),
                dynamic=sometimes(rng, (0, *((1, d) for d in range(indices.ndim - 1)))))  # fmt: skip


# ---- writing


def a_reduction(rng, attributes, operator, opset, dtype):
    """None for plain writes; others take numbers only."""
    names = ["none"] + (["add", "mul"] if opset >= 16 else []) + (["max", "min"] if opset >= 18 else [])
    if dtype == np.bool_:
        names = names[:1]
    name = pick(rng, names)
    if name != "none" or (opset >= 16 and rng.integers(2)):
        attributes["reduction"] = name
    return REDUCTIONS.get(name)


def distinct_lines(rng, x, axis, shape):
    """Positions along the axis, distinct within each line."""
    return np.argsort(rng.random(x.shape), axis)[tuple(slice(0, s) for s in shape)]


def scatter_elements(operator, rng):
    opset = version(rng, operator, 9) if operator != "Scatter" else int(pick(rng, [9, 10]))
    dtype = a_type(rng, operator, opset)
    x = array(rng, dtype, a_shape(rng, 1, 4, empty=False))
    attributes = {}
    axis = maybe(rng, attributes, "axis", int(rng.integers(-x.ndim, x.ndim)), 0) % x.ndim
    reduction = a_reduction(rng, attributes, operator, opset, dtype)
    shape = [int(rng.integers(0 if rng.integers(10) == 0 else 1, s + 1)) for s in x.shape]
    if reduction is None and rng.integers(2):
        indices = distinct_lines(rng, x, axis, shape)
    else:  # several updates of one element come in order
        shape[axis] = int(rng.integers(1, 7))
        indices = rng.integers(0, x.shape[axis], shape)
    if opset >= 11:
        indices = np.where(rng.integers(0, 3, shape) == 0, indices - x.shape[axis], indices)

    def expected(x, indices, updates):
        y = x.copy()
        for at in np.ndindex(*shape):
            to = (*at[:axis], indices[at], *at[axis + 1 :])
            y[to] = updates[at] if reduction is None else reduction(y[to], updates[at])
        return y

    inputs = [x, indices.astype(pick(rng, INDEX_TYPES)), array(rng, dtype, shape)]
    return Case(operator, opset, inputs, attributes, expected=expected, constants=sometimes(rng, (1,)),
                dynamic=sometimes(rng, (0, 1, 2)))  # fmt: skip


def scatter_nd(rng):
    opset = version(rng, "ScatterND")
    dtype = a_type(rng, "ScatterND", opset)
    x = array(rng, dtype, a_shape(rng, 1, 4, empty=False))
    attributes = {}
    reduction = a_reduction(rng, attributes, "ScatterND", opset, dtype)
    k = int(rng.integers(1, x.ndim + 1))
    places = int(np.prod(x.shape[:k]))
    outer = a_shape(rng, 0, 2, 3)
    count = int(np.prod(outer))
    distinct = reduction is None and count <= places and rng.integers(2)
    chosen = rng.permutation(places)[:count] if distinct else rng.integers(0, places, count)
    indices = np.stack(np.unravel_index(chosen, x.shape[:k]), -1).reshape(*outer, k)
    indices = np.where(rng.integers(0, 3, indices.shape) == 0, indices - np.array(x.shape[:k]), indices)

    def expected(x, indices, updates):
        y = x.copy()
        for at in np.ndindex(*outer):
            to = tuple(indices[at])
            y[to] = updates[at] if reduction is None else reduction(y[to], updates[at])
        return y

    inputs = [x, indices, array(rng, dtype, [*outer, *x.shape[k:]])]
    return Case("ScatterND", opset, inputs, attributes, expected=expected, constants=sometimes(rng, (1,)),
                dynamic=sometimes(rng, (0, *((1, d) for d in range(indices.ndim - 1)), 2)))  # fmt: skip


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


OPERATORS = {
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Scatter": partial(scatter_elements, "Scatter"),
    "ScatterElements": partial(scatter_elements, "ScatterElements"),
    "ScatterND": scatter_nd,
    "TensorScatter": tensor_scatter,
}
