"""Trees and linear models of ai.onnx.ml. Where ONNX leaves scores of classes open, ONNX Runtime confirms what is written here."""

import numpy as np
from onnx import numpy_helper
from reference_case import Case, pick, sometimes

ML = "ai.onnx.ml"
# PROBIT, whose approximation cancels near 1/2, has a test in tests/frontend/tree_ensemble_test.cc.
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER"]


def case(operator, version, inputs, attributes, **more):
    more.setdefault("dtype", np.float32)
    return Case(operator, 18, inputs, attributes, domain=ML, domain_version=version, **more)


# ---- scores


def logistic(x):
    return 1 / (1 + np.exp(-x))


def transformed(row, transform):
    row = np.asarray(row, np.float64)
    if transform == "LOGISTIC":
        return logistic(row)
    if transform == "NONE":
        return row
    counts = np.ones(len(row), bool) if transform == "SOFTMAX" else abs(row) > 1e-7
    parts = np.where(counts, np.exp(row - row.max()), row * np.exp(-row.max()))
    return parts / parts[counts].sum()


# ---- trees


def numbers(rng, dtype, shape):
    """Few different ones, so that they meet thresholds."""
    if np.dtype(dtype).kind == "i":
        return rng.integers(-3, 4, shape).astype(dtype)
    x = (rng.integers(-6, 7, shape) / 2).astype(dtype)
    special = rng.integers(0, 12, shape)
    x[special == 0] = np.nan
    x[special == 1] = np.inf
    x[special == 2] = -0.0
    return x


def grow(rng, features, modes, leaves):
    """A tree: (mode, feature, threshold or set, missing, true, false), or a leaf's number."""
    if leaves == 1:
        return None
    left = int(rng.integers(1, leaves))
    mode = pick(rng, modes)
    member = [float(m) for m in rng.integers(-6, 7, rng.integers(1, 5)) / 2]
    value = member if mode == "BRANCH_MEMBER" else float(rng.integers(-6, 7) / 2)
    below = [grow(rng, features, modes, n) for n in (left, leaves - left)]
    return [mode, int(rng.integers(features)), value, int(rng.integers(2)), *below]


TESTS = {
    "BRANCH_LEQ": lambda x, t: x <= t,
    "BRANCH_LT": lambda x, t: x < t,
    "BRANCH_GTE": lambda x, t: x >= t,
    "BRANCH_GT": lambda x, t: x > t,
    "BRANCH_EQ": lambda x, t: x == t,
    "BRANCH_NEQ": lambda x, t: x != t,
    "BRANCH_MEMBER": lambda x, t: x in t,
}


def reached(tree, row, missing):
    while isinstance(tree, list):
        mode, feature, value, track, on_true, on_false = tree
        x = row[feature]
        tree = on_true if TESTS[mode](x, value) or (missing and track and np.isnan(x)) else on_false
    return tree


def with_weights(rng, tree, weights):
    """The tree with a list of pairs of target and weight in place of each leaf."""
    if tree is None:
        return tuple(weights(rng))
    return [*tree[:4], with_weights(rng, tree[4], weights), with_weights(rng, tree[5], weights)]


def leaves_of(tree):
    return leaves_of(tree[4]) + leaves_of(tree[5]) if isinstance(tree, list) else [tree]


def forest(rng, features, modes, weights):
    """Some trees, of which one has a weight."""
    while True:
        trees = [with_weights(rng, grow(rng, features, modes, int(rng.integers(1, 9))), weights) for _ in range(rng.integers(1, 6))]
        if any(leaf for tree in trees for leaf in leaves_of(tree)):
            return trees


def sums(trees, row, missing, targets):
    """For each target the weights of the leaves that a row reaches, in the order of the trees. A leaf without a weight for the
    only target has 0."""
    found = [[] for _ in range(targets)]
    for tree in trees:
        for target, weight in reached(tree, row, missing) or ([(0, 0.0)] if targets == 1 else []):
            found[target].append(np.float64(np.float32(weight)))
    return found


def lists(trees, prefix, missing):
    """As attributes of versions 1 and 3."""
    names = ["nodeids", "treeids", "modes", "featureids", "values", "truenodeids", "falsenodeids"]
    nodes = {name: [] for name in [*names, "missing_value_tracks_true"]}
    leaves = {name: [] for name in ("ids", "nodeids", "treeids", "weights")}

    def add(tree, number, count):
        def row(mode, feature, value, track, on_true=0, on_false=0):
            values = (here, number, mode, feature, value, on_true, on_false, track)
            for name, v in zip(nodes, values, strict=True):
                nodes[name].append(v)

        here = count[0]
        count[0] += 1
        if not isinstance(tree, list):
            row("LEAF", 0, 0.0, 0)
            for target, weight in tree:
                for name, v in zip(leaves, (target, here, number, weight), strict=True):
                    leaves[name].append(v)
            return here
        at = len(nodes["nodeids"])
        row(*tree[:4])
        nodes["truenodeids"][at] = add(tree[4], number, count)
        nodes["falsenodeids"][at] = add(tree[5], number, count)
        return here

    for number, tree in enumerate(trees):
        add(tree, number, [0])
    if not missing:
        del nodes["missing_value_tracks_true"]
    return {f"nodes_{k}": v for k, v in nodes.items()} | {f"{prefix}_{k}": v for k, v in leaves.items()}


def rows(rng, features):
    dtype = pick(rng, [np.float32, np.float32, np.float64, np.int32, np.int64])
    return numbers(rng, dtype, (int(pick(rng, [0, 1, 3, 9, 20])), features + int(rng.integers(2))))


def in_single(x):
    """As trees compare it: integers become single precision."""
    return x.astype(np.float32).astype(np.float64) if x.dtype.kind == "i" else x


def tree_regressor(rng):
    features, targets = (int(k) for k in rng.integers(1, 4, 2))
    some = rng.integers(2)
    chosen = lambda rng: [k for k in range(targets) if not some or rng.integers(3)]
    trees = forest(rng, features, MODES[:6] if rng.integers(2) else MODES[:1],
                   lambda rng: [(k, float(np.float32(rng.normal()))) for k in chosen(rng)])  # fmt: skip
    missing = int(rng.integers(2))
    aggregate, transform = pick(rng, ["SUM", "AVERAGE", "MIN", "MAX"]), pick(rng, TRANSFORMS)
    base = [float(np.float32(b)) for b in rng.normal(size=int(pick(rng, [0, targets])))]
    attributes = lists(trees, "target", missing)
    attributes |= dict(n_targets=targets, aggregate_function=aggregate, post_transform=transform)
    attributes |= dict(base_values=base) if base else {}
    x = rows(rng, features)

    def one(row):
        values = []
        for k, found in enumerate(sums(trees, row, missing, targets)):
            fold = dict(SUM=sum, AVERAGE=lambda w: sum(w) / len(trees), MIN=min, MAX=max)[aggregate]
            value = fold(found) if found else 0.0
            value = value + base[k] if base else value
            values.append(value if found or targets == 1 else 0.0)
        if targets == 1:
            return values
        return transformed(values, transform)

    expected = lambda x: np.array([one(row) for row in in_single(x)], np.float64).reshape(len(x), targets)
    return case("TreeEnsembleRegressor", int(pick(rng, [1, 3])), [x], attributes, expected=expected,
                dynamic=sometimes(rng, ((0, 0),)), runtime_version=18 if len(x) and x.dtype == np.float32 else None)  # fmt: skip


def classes_of(rng, classes):
    """Which classes leaves have weights for."""
    style = pick(rng, ["all", "first", "last", "some"])
    return {
        "all": lambda rng: range(classes),
        "first": lambda rng: [0],
        "last": lambda rng: [classes - 1],
        "some": lambda rng: [k for k in range(classes) if rng.integers(3)],
    }[style]


def two_classes(found, base, weights, transform):
    """The winner and the scores; None for a score that is undefined."""
    first, second = (sum(f) for f in found)
    has_first, has_second = (bool(f) for f in found)
    one_weighted = len({k for k, _ in weights}) == 1
    positive = one_weighted and all(w >= 0 for _, w in weights)
    if len(base) == 2:
        if has_second:
            second = base[1] + first
            first = -second
        else:
            first, second = first + base[0], second + base[1]
    elif len(base) == 1:
        first += base[0]
    first, second = first if has_first else 0.0, second if has_second else 0.0
    score = second if has_second else first
    wins = bool(score > (0.5 if positive else 0))
    if len(base) == 2 or has_second:
        return wins, transformed([first, second], transform)
    if transform == "LOGISTIC":
        return wins, [logistic(-first), logistic(first)]
    return wins, [1 - first, first] if positive else [-first, first]


def tree_classifier(rng):
    classes, features = int(pick(rng, [2, 2, 3, 5])), int(rng.integers(1, 4))
    chosen, sign = classes_of(rng, classes), int(rng.integers(2))
    weight = lambda rng: float(np.float32(abs(rng.normal()) * 0.4 if sign else rng.normal()))
    trees = forest(rng, features, MODES[:6] if rng.integers(2) else MODES[:1], lambda rng: [(k, weight(rng)) for k in chosen(rng)])
    missing = int(rng.integers(2))
    attributes = lists(trees, "class", missing)
    weights = list(zip(attributes["class_ids"], attributes["class_weights"], strict=True))
    one_weighted = len({k for k, _ in weights}) == 1
    base = [float(np.float32(b)) for b in rng.normal(size=int(pick(rng, [0, 1, 2] if classes == 2 else [0, classes])))]
    transform = pick(rng, TRANSFORMS)
    # The first score of two classes is undefined if there is a base and both have weights.
    if classes == 2 and len(base) == 1 and not one_weighted:
        base = []
    labels = pick(rng, [list(range(classes)), [7, 5, 9, -1, 3][:classes]])
    attributes |= dict(classlabels_int64s=labels, post_transform=transform) | (dict(base_values=base) if base else {})
    x = rows(rng, features)

    def one(row):
        found = sums(trees, row, missing, classes)
        if classes == 2:
            wins, scores = two_classes(found, base, weights, transform)
            return (labels if one_weighted else [0, 1])[wins], scores
        scores = [sum(f) + (base[k] if base else 0) for k, f in enumerate(found)]
        ranked = [s if f or base else -np.inf for s, f in zip(scores, found, strict=True)]
        return labels[int(np.argmax(ranked))], transformed(scores, transform)

    def expected(x):
        results = [one(row) for row in in_single(x)]
        return (np.array([label for label, _ in results], np.int64),
                np.array([scores for _, scores in results], np.float64).reshape(len(x), classes))  # fmt: skip

    return case("TreeEnsembleClassifier", int(pick(rng, [1, 3])), [x], attributes, outputs=2, expected=expected,
                dynamic=sometimes(rng, ((0, 0),)), runtime_version=18 if len(x) and x.dtype == np.float32 else None)  # fmt: skip


def tree_ensemble(rng):
    features, targets = (int(k) for k in rng.integers(1, 4, 2))
    dtype = pick(rng, [np.float32, np.float64])
    trees = forest(rng, features, MODES, lambda rng: [(int(rng.integers(targets)), float(np.float32(rng.normal())))])
    aggregate, transform = int(rng.integers(4)), int(rng.integers(4))
    names = ["nodes_featureids", "nodes_missing_value_tracks_true", "nodes_truenodeids", "nodes_trueleafs", "nodes_falsenodeids",
             "nodes_falseleafs", "leaf_targetids"]  # fmt: skip
    out = {name: [] for name in names}
    modes, splits, members, leaf_weights = [], [], [], []

    def add(tree):
        if not isinstance(tree, list):
            out["leaf_targetids"].append(tree[0][0])
            leaf_weights.append(tree[0][1])
            return len(leaf_weights) - 1
        at = len(modes)
        modes.append(MODES.index(tree[0]))
        is_set = tree[0] == "BRANCH_MEMBER"
        splits.append(0.0 if is_set else tree[2])
        members.extend([*tree[2], np.nan] if is_set else [])
        out["nodes_featureids"].append(tree[1])
        out["nodes_missing_value_tracks_true"].append(tree[3])
        for side, below in (("true", tree[4]), ("false", tree[5])):
            out[f"nodes_{side}leafs"].append(int(not isinstance(below, list)))
            out[f"nodes_{side}nodeids"].append(0)
        for side, below in (("true", tree[4]), ("false", tree[5])):
            out[f"nodes_{side}nodeids"][at] = add(below)
        return at

    # A tree that is a leaf is a node with this leaf twice.
    trees = [t if isinstance(t, list) else ["BRANCH_LEQ", 0, 0.0, 0, t, t] for t in trees]
    attributes = dict(tree_roots=[add(t) for t in trees]) | out
    tensor = lambda values, kind=dtype: numpy_helper.from_array(np.array(values, kind))
    attributes |= dict(nodes_modes=tensor(modes, np.uint8), nodes_splits=tensor(splits), leaf_weights=tensor(leaf_weights))
    attributes |= dict(membership_values=tensor(members)) if members else {}
    attributes |= dict(n_targets=targets, aggregate_function=aggregate, post_transform=transform)
    x = numbers(rng, dtype, (int(pick(rng, [0, 1, 3, 9])), features))

    def one(row):
        values = []
        for found in sums(trees, row, True, targets):
            fold = [lambda w: sum(w) / len(trees), sum, min, max][aggregate]
            values.append(fold(found) if found else 0.0)
        if targets == 1:
            return values
        return transformed(values, TRANSFORMS[transform])

    expected = lambda x: np.array([one(row) for row in x], np.float64).reshape(len(x), targets)
    return case("TreeEnsemble", 5, [x], attributes, expected=expected, dtype=dtype, dynamic=sometimes(rng, ((0, 0),)))


OPERATORS = {"TreeEnsemble": tree_ensemble, "TreeEnsembleClassifier": tree_classifier, "TreeEnsembleRegressor": tree_regressor}
