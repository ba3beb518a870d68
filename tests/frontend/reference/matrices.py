"""Products and properties of matrices."""

import itertools

import numpy as np
from onnx import helper
from reference_case import Case, a_shape, a_type, array, integers, maybe, pick, sometimes, uniform, version


def det(rng):
    opset = version(rng, "Det")
    n = int(rng.integers(1, 6))
    x = uniform(rng, a_type(rng, "Det", opset), [*a_shape(rng, 0, 2), n, n], -2, 2)

    def expected(x):
        total = np.zeros(x.shape[:-2])
        for order in itertools.permutations(range(n)):
            sign = (-1) ** sum(order[i] > order[j] for i in range(n) for j in range(i + 1, n))
            total = total + sign * np.prod([x[..., i, c] for i, c in enumerate(order)], axis=0)
        return total

    return Case("Det", opset, [x], expected=expected, dynamic=sometimes(rng, ((0, 0),) if x.ndim > 2 else ()))


def eye_like(rng):
    opset = version(rng, "EyeLike")
    x = uniform(rng, a_type(rng, "EyeLike", opset), a_shape(rng, 2, 2))
    attributes = {}
    k = maybe(rng, attributes, "k", int(rng.integers(-4, 5)), 0)
    dtype = x.dtype
    if rng.integers(2):
        dtype = np.dtype(a_type(rng, "EyeLike", opset))
        attributes["dtype"] = helper.np_dtype_to_tensor_dtype(dtype)
    return Case("EyeLike", opset, [x], attributes, dtype=dtype, dynamic=sometimes(rng, (0,)),
                expected=lambda x: np.array([[c - r == k for c in range(x.shape[1])] for r in range(x.shape[0])],
                                            dtype).reshape(x.shape))  # fmt: skip


def einsum(rng):
    opset = version(rng, "Einsum")
    dtype = a_type(rng, "Einsum", opset)
    letters = [chr(c) for c in rng.permutation([*range(ord("A"), ord("G")), *range(ord("a"), ord("g"))])[:4]]
    sizes = {letter: int(rng.integers(1, 4)) for letter in letters}
    if rng.integers(12) == 0:
        sizes[letters[0]] = 0
    ellipsis = integers(rng, 1, 3, rng.integers(0, 3)) if rng.integers(3) == 0 else None
    terms, shapes = [], []
    for _ in range(int(pick(rng, [1, 2, 2, 2, 3]))):
        term = [pick(rng, letters) for _ in range(int(rng.integers(0, 4)))]
        shape = [sizes[letter] for letter in term]
        if ellipsis is not None and rng.integers(4):
            # Axes of an ellipsis are broadcast, but each ellipsis has as many.
            own = [1 if rng.integers(4) == 0 else n for n in ellipsis]
            at = int(rng.integers(0, len(term) + 1))
            term, shape = [*term[:at], "...", *term[at:]], [*shape[:at], *own, *shape[at:]]
        terms.append("".join(term))
        shapes.append(shape)
    space = pick(rng, ["", "", " "])
    equation = f"{space},{space}".join(terms)
    if rng.integers(3):
        used = sorted({letter for term in terms for letter in term if letter != "."})
        kept = [str(letter) for letter in rng.permutation(used)[: rng.integers(0, len(used) + 1)]]
        if any("..." in term for term in terms):
            kept.insert(int(rng.integers(0, len(kept) + 1)), "...")
        equation += f"{space}->{space}" + "".join(kept)
    compute = equation.replace(" ", "")
    return Case("Einsum", opset, [array(rng, dtype, shape) for shape in shapes], dict(equation=equation),
                # A named size of an ellipsis would have to be equal in all operands.
                dynamic=sometimes(rng, tuple(range(len(shapes))) if "." not in equation else ()),
                expected=lambda *arrays: np.asarray(np.einsum(compute, *arrays, optimize=False)))  # fmt: skip


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

    return Case("MatMulInteger", 10, [a, b, zeros_a, zeros_b], expected=expected, dynamic=sometimes(rng, (0, 1)))


OPERATORS = {
    "Det": det,
    "Einsum": einsum,
    "EyeLike": eye_like,
    "MatMulInteger": matmul_integer,
}
