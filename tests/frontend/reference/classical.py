"""Features, categories, linear models and support vectors of ai.onnx.ml."""

import numpy as np
from onnx import numpy_helper
from reference_case import pick, sometimes
from trees import TRANSFORMS, case, logistic, numbers, transformed

FEATURE_TYPES = [np.float32, np.float32, np.float64, np.int32, np.int64]


def reals(rng, count):
    return [float(np.float32(v)) for v in rng.normal(size=count)]


def features(rng, columns=None, vector=True):
    shape = [int(pick(rng, [0, 1, 3, 7])), columns or int(rng.integers(1, 5))]
    return numbers(rng, pick(rng, FEATURE_TYPES), shape[1:] if vector and rng.integers(4) == 0 else shape)


def finite(x):
    return np.where(np.isfinite(x), x, 2).astype(x.dtype)


def confirmed(x):
    """ONNX Runtime computes cases of single precision."""
    return dict(runtime_version=18 if x.dtype == np.float32 and x.size else None)


def scaler(rng):
    x = features(rng)
    counts = [int(pick(rng, [1, x.shape[-1]]))] * 2
    offset, scale = (reals(rng, n) for n in counts)
    return case("Scaler", 1, [x], dict(offset=offset, scale=scale), expected=lambda x: (x - np.array(offset)) * np.array(scale),
                dynamic=sometimes(rng, (0,)) if len(offset) == 1 else (), **confirmed(x))  # fmt: skip


def normalizer(rng):
    x = finite(features(rng))
    norm = pick(rng, ["MAX", "L1", "L2"])

    def expected(x):
        rows = np.atleast_2d(x).astype(np.float64)
        divisors = dict(MAX=lambda r: r.max(), L1=lambda r: abs(r).sum(), L2=lambda r: np.sqrt((r * r).sum()))
        y = [row / divisors[norm](row) if divisors[norm](row) != 0 else row for row in rows]
        return np.array(y, np.float64).reshape(x.shape)

    return case("Normalizer", 1, [x], dict(norm=norm), expected=expected, dynamic=sometimes(rng, (0,)), **confirmed(x))


def imputer(rng):
    x = features(rng)
    count = int(pick(rng, [1, x.shape[-1]]))
    if x.dtype.kind == "i":
        replaced, values = int(rng.integers(-3, 4)), [int(v) for v in rng.integers(-9, 9, count)]
        attributes = dict(replaced_value_int64=replaced, imputed_value_int64s=values)
    else:
        replaced, values = float(pick(rng, [np.nan, 0.0, 1.5])), reals(rng, count)
        attributes = dict(replaced_value_float=replaced, imputed_value_floats=values)
    hit = lambda x: np.isnan(x) if replaced != replaced else x == replaced
    return case("Imputer", 1, [x], attributes, expected=lambda x: np.where(hit(x), np.array(values), x).astype(x.dtype),
                dtype=None, **confirmed(x))  # fmt: skip


def binarizer(rng):
    x = finite(features(rng))  # ONNX Runtime refuses NaN
    threshold = float(rng.integers(-6, 7) / 2)
    return case("Binarizer", 1, [x], dict(threshold=threshold), dtype=None, dynamic=sometimes(rng, (0,)),
                expected=lambda x: (x > threshold).astype(x.dtype), **confirmed(x))  # fmt: skip


def feature_vectorizer(rng):
    rows = int(rng.integers(1, 5))
    parts = [numbers(rng, np.float32, (rows, int(rng.integers(1, 4)))) for _ in range(rng.integers(1, 4))]
    widths = [int(rng.integers(1, 5)) for _ in parts]
    fit = lambda x, n: np.pad(x, ((0, 0), (0, max(0, n - x.shape[1]))))[:, :n]
    expected = lambda *parts: np.concatenate([fit(x, n) for x, n in zip(parts, widths, strict=True)], axis=1)
    return case("FeatureVectorizer", 1, parts, dict(inputdimensions=widths), expected=expected, runtime_version=18)


def array_feature_extractor(rng):
    x = features(rng)
    indices = rng.integers(0, x.shape[-1], [int(n) for n in rng.integers(1, 4, rng.integers(1, 3))])
    expected = lambda x, y: np.atleast_2d(x)[..., y.reshape(-1)]
    return case("ArrayFeatureExtractor", 1, [x, indices], {}, expected=expected, dtype=None, constants=sometimes(rng, (1,)),
                **confirmed(x))  # fmt: skip


def one_of(rng, kind, count):
    """Distinct keys, or values, of an element type."""
    spread = int(pick(rng, [3, 2000]))
    return (rng.permutation(3 * count)[:count] * spread - spread).astype(kind) / (2 if np.dtype(kind).kind == "f" else 1)


def label_encoder(rng):
    version = int(pick(rng, [2, 4]))
    names = {np.float32: "floats", np.int64: "int64s"}
    types = list(names) if version == 2 else [np.float32, np.int64, np.float64, np.int32, np.int16]
    key, value = pick(rng, types), pick(rng, types)
    count = int(rng.integers(1, 7))
    keys, values = one_of(rng, key, count).astype(key), one_of(rng, value, count).astype(value)
    if np.dtype(key).kind == "f" and version == 4 and rng.integers(2):
        keys[0] = np.nan
    other = value(7)
    given = lambda name, kind, array: {f"{name}_{names[kind]}": array.tolist()}
    if version == 4 and (key not in names or value not in names or rng.integers(2)):
        attributes = dict(keys_tensor=numpy_helper.from_array(keys), values_tensor=numpy_helper.from_array(values),
                          default_tensor=numpy_helper.from_array(np.array([other])))  # fmt: skip
    else:
        attributes = given("keys", key, keys) | given("values", value, values)
        attributes |= dict(default_float=7.0) if value == np.float32 else dict(default_int64=7)
    x = np.where(rng.integers(0, 3, (3, 4)) == 0, key(5), keys[rng.integers(0, count, (3, 4))]).astype(key)

    def found(element):
        for k, v in zip(keys, values, strict=True):
            if k == element or (k != k and element != element):
                return v
        return other

    expected = lambda x: np.array([found(e) for e in x.reshape(-1)], value).reshape(x.shape)
    return case("LabelEncoder", version, [x], attributes, expected=expected, dtype=value, dynamic=sometimes(rng, (0,)))


def one_hot_encoder(rng):
    categories = [int(c) for c in rng.permutation(9)[: rng.integers(1, 6)] - 3]
    zeros = int(rng.integers(2))
    dtype = pick(rng, FEATURE_TYPES)
    low = [c for c in range(-3, 6)] if zeros else categories
    x = np.array(low)[rng.integers(0, len(low), [int(n) for n in rng.integers(1, 4, rng.integers(1, 3))])].astype(dtype)
    expected = lambda x: (x.astype(np.int64)[..., None] == np.array(categories)).astype(np.float32)
    return case("OneHotEncoder", 1, [x], dict(cats_int64s=categories, zeros=zeros), expected=expected,
                dynamic=sometimes(rng, (0,)), **confirmed(x))  # fmt: skip


# ---- models


def linear_regressor(rng):
    x = finite(features(rng))
    targets, transform = int(rng.integers(1, 4)), pick(rng, TRANSFORMS)
    weights, bias = rng.normal(size=(targets, x.shape[-1])).astype(np.float32), rng.normal(size=targets).astype(np.float32)
    attributes = dict(coefficients=weights.reshape(-1).tolist(), targets=targets, post_transform=transform)
    with_bias = rng.integers(3)
    attributes |= dict(intercepts=bias.tolist()) if with_bias else {}

    def expected(x):
        scores = np.atleast_2d(x) @ weights.T.astype(np.float64) + (bias if with_bias else 0)
        return np.array([transformed(row, transform) for row in scores]).reshape(scores.shape) if targets > 1 else scores

    return case("LinearRegressor", 1, [x], attributes, expected=expected, **confirmed(x))


def linear_classifier(rng):
    x = finite(features(rng))
    classes = int(rng.integers(2, 5))
    scores = int(pick(rng, [1, 2])) if classes == 2 else classes
    transform = pick(rng, TRANSFORMS)
    weights, bias = rng.normal(size=(scores, x.shape[-1])).astype(np.float32), rng.normal(size=scores).astype(np.float32)
    labels = pick(rng, [list(range(classes)), [7, 5, 9, -1][:classes]])
    attributes = dict(coefficients=weights.reshape(-1).tolist(), intercepts=bias.tolist(), classlabels_ints=labels,
                      post_transform=transform)  # fmt: skip

    def one(row):
        if scores > 1:
            return labels[int(np.argmax(row))], transformed(row, transform)
        second = logistic(row[0]) if transform == "LOGISTIC" else row[0]
        return labels[bool(row[0] > 0)], [1 - second, second]

    def expected(x):
        results = [one(row) for row in np.atleast_2d(x) @ weights.T.astype(np.float64) + bias]
        return (np.array([label for label, _ in results], np.int64),
                np.array([row for _, row in results], np.float64).reshape(len(results), classes))  # fmt: skip

    return case("LinearClassifier", 1, [x], attributes, outputs=2, expected=expected, **confirmed(x))


def vector_kernel(rng):
    """Attributes, and the kernel of two vectors."""
    kind = pick(rng, ["LINEAR", "POLY", "RBF", "SIGMOID"])
    gamma, offset, degree = (float(np.float32(v)) for v in (rng.uniform(0.1, 1), rng.normal(), rng.integers(1, 4)))
    kernels = dict(LINEAR=lambda a, b: a @ b, POLY=lambda a, b: (gamma * (a @ b) + offset) ** degree,
                   RBF=lambda a, b: np.exp(-gamma * ((a - b) ** 2).sum()),
                   SIGMOID=lambda a, b: np.tanh(gamma * (a @ b) + offset))  # fmt: skip
    return dict(kernel_type=kind, kernel_params=[gamma, offset, degree]), kernels[kind]


def svm_regressor(rng):
    x = finite(features(rng))
    attributes, kernel = vector_kernel(rng)
    count = int(rng.integers(0, 6))
    vectors = rng.normal(size=(count, x.shape[-1])).astype(np.float32).astype(np.float64)
    weights, rho = np.array(reals(rng, count or x.shape[-1])), reals(rng, 1)
    one_class = int(rng.integers(4) == 0)
    attributes |= dict(coefficients=weights.tolist(), rho=rho, n_supports=count, one_class=one_class)
    attributes |= dict(support_vectors=vectors.reshape(-1).tolist()) if count else {}

    def one(row):
        y = sum(w * kernel(row, v) for w, v in zip(weights, vectors, strict=True)) if count else row @ weights
        return [np.where(y + rho[0] > 0, 1.0, -1.0) if one_class else y + rho[0]]

    expected = lambda x: np.array([one(row) for row in np.atleast_2d(x)], np.float64).reshape(-1, 1)
    return case("SVMRegressor", 1, [x], attributes, expected=expected, **confirmed(x))


def svm_classifier(rng):
    x = finite(features(rng))
    attributes, kernel = vector_kernel(rng)
    classes = int(rng.integers(2, 5))
    labels, transform = pick(rng, [list(range(classes)), [7, 5, 9, -1][:classes]]), pick(rng, TRANSFORMS)
    attributes |= dict(classlabels_ints=labels, post_transform=transform)
    if rng.integers(4) == 0:
        return linear_svm(rng, x, classes, labels, transform, attributes)
    per_class = [int(n) for n in rng.integers(1, 4, classes)]
    count, starts = sum(per_class), np.cumsum([0, *per_class])
    vectors = rng.normal(size=(count, x.shape[-1])).astype(np.float32).astype(np.float64)
    weights = rng.normal(size=(classes - 1, count)).astype(np.float32).astype(np.float64)
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    rho = reals(rng, len(pairs))
    attributes |= dict(coefficients=weights.reshape(-1).tolist(), rho=rho, vectors_per_class=per_class,
                       support_vectors=vectors.reshape(-1).tolist())  # fmt: skip

    chances = [reals(rng, len(pairs)) for _ in range(2)] if rng.integers(3) == 0 else None
    attributes |= dict(prob_a=chances[0], prob_b=chances[1]) if chances else {}

    def one(row):
        kernels = [kernel(row, v) for v in vectors]
        votes, scores = np.zeros(classes), []
        for (i, j), r in zip(pairs, rho, strict=True):
            own = lambda k, line: sum(weights[line, v] * kernels[v] for v in range(starts[k], starts[k + 1]))  # noqa: B023
            scores.append(own(i, j - 1) + own(j, i) + r)
            votes[i if scores[-1] > 0 else j] += 1
        label = labels[int(np.argmax(votes))]
        if chances:
            return label, transformed(coupled(classes, pairs, scores, *chances), transform)
        if classes > 2:
            return label, transformed(scores, transform)
        s = scores[0]
        if transform == "LOGISTIC":
            return label, [logistic(-s), logistic(s)]
        return label, [-s, s] if transform == "NONE" else [1 - s, s]

    return case("SVMClassifier", 1, [x], attributes, outputs=2, expected=labels_and_scores(one), **confirmed(x))


def coupled(classes, pairs, scores, a, b):
    """Probabilities of classes from those of pairs, as LIBSVM iterates, in its precision."""
    f = np.float32
    r = np.zeros((classes, classes), f)
    for (i, j), score, slope, offset in zip(pairs, scores, a, b, strict=True):
        r[i, j] = np.clip(1 - logistic(f(score) * f(slope) + f(offset)), f(1e-7), f(1 - 1e-7))
        r[j, i] = 1 - r[i, j]
    q = -r.T * r
    np.fill_diagonal(q, (r * r).sum(axis=0))
    p = np.full(classes, 1 / classes, f)
    for _ in range(100):
        qp = q @ p
        pqp = p @ qp
        if abs(qp - pqp).max() < 0.005 / classes:
            break
        for t in range(classes):
            d = (pqp - qp[t]) / q[t, t]
            p[t] += d
            pqp = (pqp + d * (d * q[t, t] + 2 * qp[t])) / (1 + d) / (1 + d)
            qp = (qp + d * q[t]) / (1 + d)
            p /= 1 + d
    return p


def linear_svm(rng, x, classes, labels, transform, attributes):
    weights, rho = rng.normal(size=(classes, x.shape[-1])).astype(np.float32), reals(rng, 1)
    weights = abs(weights) if rng.integers(2) else weights
    positive = bool((weights >= 0).all())
    attributes = attributes | dict(coefficients=weights.reshape(-1).tolist(), rho=rho)

    def one(row):
        scores = weights.astype(np.float64) @ row + rho[0]
        label = int(np.argmax(scores))
        if classes == 2 and (scores.max() >= 0.5 if positive else scores.max() > 0):
            label = 1
        return labels[label], transformed(scores, transform)

    return case("SVMClassifier", 1, [x], attributes, outputs=2, expected=labels_and_scores(one), **confirmed(x))


def labels_and_scores(one):
    def expected(x):
        results = [one(row) for row in np.atleast_2d(x).astype(np.float64)]
        width = len(one(np.ones(x.shape[-1]))[1])
        return (np.array([label for label, _ in results], np.int64),
                np.array([scores for _, scores in results], np.float64).reshape(len(results), width))  # fmt: skip

    return expected


OPERATORS = {
    "ArrayFeatureExtractor": array_feature_extractor,
    "Binarizer": binarizer,
    "FeatureVectorizer": feature_vectorizer,
    "Imputer": imputer,
    "LabelEncoder": label_encoder,
    "LinearClassifier": linear_classifier,
    "LinearRegressor": linear_regressor,
    "Normalizer": normalizer,
    "OneHotEncoder": one_hot_encoder,
    "SVMClassifier": svm_classifier,
    "SVMRegressor": svm_regressor,
    "Scaler": scaler,
}
