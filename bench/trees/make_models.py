"""Writes models of scikit-learn, LightGBM and XGBoost as their converters write them, with rows to run them on:

    make_models.py DIR [--only NAME ...]

Each NAME becomes DIR/NAME/model.onnx and rows.npy. A library that is not installed is told on standard error, and its models
are left out. Data are made by scikit-learn with fixed seeds.
"""

import argparse
import importlib.util
import os
import sys

import numpy as np

TRAINED, RUN = 2000, 1000  # rows
FEATURES = 20


def data(kind, seed=0, features=FEATURES, missing=0.0, categories=0):
    """Rows and targets. Binary and multiclass targets are classes; of strings if the kind says so. `categories`: how many
    columns are whole numbers from 0 to 11.
    """
    from sklearn import datasets

    count = TRAINED + RUN
    if kind == "regression":
        x, y = datasets.make_regression(count, features, n_informative=features // 2, noise=1.0, random_state=seed)
    elif kind == "targets":
        x, y = datasets.make_regression(count, features, n_informative=features // 2, n_targets=3, random_state=seed)
    else:
        classes = 2 if kind.startswith("binary") else 5
        x, y = datasets.make_classification(count, features, n_informative=features // 2, n_classes=classes, random_state=seed)
        if kind.endswith("strings"):
            y = np.array([f"class {k}" for k in range(classes)])[y]
    x = x.astype(np.float32)
    for k in range(categories):
        x[:, k] = np.digitize(x[:, k], np.quantile(x[:, k], np.linspace(0, 1, 13)[1:-1]))
        x[:, k] = np.random.default_rng(k).permutation(12)[x[:, k].astype(int)]
    if missing:
        x[np.random.default_rng(seed).random(x.shape) < missing] = np.nan
    return x[:TRAINED], y[:TRAINED], x[TRAINED:]


def of_scikit_learn(model, kind, options=None, **more):
    def make():
        import skl2onnx
        from skl2onnx.common.data_types import FloatTensorType

        x, y, rows = data(kind, **more)
        model.fit(x, y)
        types = [("x", FloatTensorType([None, x.shape[1]]))]
        return skl2onnx.convert_sklearn(model, initial_types=types, options=options(model) if options else None,
                                        target_opset={"": 18, "ai.onnx.ml": 3}), rows  # fmt: skip

    return make


def of_onnxmltools(name, model, kind, fit={}, **more):
    def make():
        import onnxmltools
        from onnxmltools.convert.common.data_types import FloatTensorType

        x, y, rows = data(kind, **more)
        model.fit(x, y, **fit)
        types = [("x", FloatTensorType([None, x.shape[1]]))]
        convert = getattr(onnxmltools, f"convert_{name}")
        return convert(model, initial_types=types, target_opset=15), rows

    return make


def scikit_learn():
    from sklearn import ensemble, linear_model, neural_network, pipeline, preprocessing, svm, tree
    from sklearn.impute import SimpleImputer

    make = of_scikit_learn
    no_maps = lambda model: {id(model): {"zipmap": False}}
    forest, boosting = ensemble.RandomForestClassifier, ensemble.GradientBoostingClassifier
    return {
        "sk_tree_regressor": make(tree.DecisionTreeRegressor(max_depth=12, random_state=0), "regression"),
        "sk_tree_classifier": make(tree.DecisionTreeClassifier(random_state=0), "classes"),
        "sk_tree_targets": make(tree.DecisionTreeRegressor(max_depth=10, random_state=0), "targets"),
        "sk_forest_regressor": make(ensemble.RandomForestRegressor(100, random_state=0), "regression"),
        "sk_forest_targets": make(ensemble.RandomForestRegressor(50, max_depth=10, random_state=0), "targets"),
        "sk_forest_binary": make(forest(100, random_state=0), "binary"),
        "sk_forest_classes": make(forest(100, max_depth=8, random_state=0), "classes", no_maps),
        "sk_forest_strings": make(forest(30, max_depth=8, random_state=0), "classes strings"),
        "sk_extra_trees": make(ensemble.ExtraTreesClassifier(50, max_depth=10, random_state=0), "classes", no_maps),
        "sk_boosting_regressor": make(ensemble.GradientBoostingRegressor(n_estimators=200, random_state=0), "regression"),
        "sk_boosting_binary": make(boosting(n_estimators=100, random_state=0), "binary", no_maps),
        "sk_boosting_classes": make(boosting(n_estimators=50, random_state=0), "classes", no_maps),
        "sk_scaled_forest": make(pipeline.make_pipeline(preprocessing.StandardScaler(),
                                    ensemble.RandomForestClassifier(20, max_depth=6, random_state=0)), "binary"),  # fmt: skip
        "sk_linear": make(pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.Ridge()), "regression"),
        "sk_logistic_binary": make(linear_model.LogisticRegression(max_iter=500), "binary", no_maps),
        "sk_logistic_strings": make(pipeline.make_pipeline(SimpleImputer(), preprocessing.MinMaxScaler(),
                                    linear_model.LogisticRegression(max_iter=500)), "classes strings", missing=0.1),  # fmt: skip
        "sk_svr": make(svm.SVR(), "regression"),
        "sk_svc_linear": make(svm.LinearSVC(), "classes"),
        "sk_perceptron": make(neural_network.MLPClassifier((32,), max_iter=60, random_state=0), "classes", no_maps),
    }


def lightgbm():
    import lightgbm as l

    make = lambda *a, **k: of_onnxmltools("lightgbm", *a, **k)
    quiet = dict(verbose=-1, random_state=0, n_jobs=1)
    return {
        "lgbm_regressor": make(l.LGBMRegressor(**quiet), "regression"),
        "lgbm_regressor_missing": make(l.LGBMRegressor(n_estimators=300, **quiet), "regression", missing=0.1),
        "lgbm_binary": make(l.LGBMClassifier(**quiet), "binary"),
        "lgbm_classes": make(l.LGBMClassifier(**quiet), "classes"),
        "lgbm_categories": make(l.LGBMClassifier(min_child_samples=5, **quiet), "binary", dict(categorical_feature=[0, 1]), categories=2),
        "lgbm_deep": make(l.LGBMRegressor(num_leaves=255, n_estimators=100, **quiet), "regression"),
    }


def xgboost():
    import xgboost as x

    make = lambda *a, **k: of_onnxmltools("xgboost", *a, **k)
    quiet = dict(verbosity=0, random_state=0, n_jobs=1)
    return {
        "xgb_regressor": make(x.XGBRegressor(n_estimators=100, **quiet), "regression"),
        "xgb_binary": make(x.XGBClassifier(n_estimators=100, **quiet), "binary", missing=0.1),
        "xgb_classes": make(x.XGBClassifier(n_estimators=50, **quiet), "classes"),
        "xgb_deep": make(x.XGBRegressor(n_estimators=200, max_depth=10, **quiet), "regression"),
        "xgb_forest": make(x.XGBRFRegressor(n_estimators=100, max_depth=8, **quiet), "regression"),
    }


LIBRARIES = {"sklearn": scikit_learn, "lightgbm": lightgbm, "xgboost": xgboost}


def write(folder, made):
    model, rows = made
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "model.onnx"), "wb") as f:
        f.write(model.SerializeToString())
    np.save(os.path.join(folder, "rows.npy"), rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--only", nargs="+")
    options = parser.parse_args()
    for library, models in LIBRARIES.items():
        if importlib.util.find_spec(library) is None:
            print(f"skipped: {library} is not installed (bench/trees/requirements.txt)", file=sys.stderr)
            continue
        for name, make in models().items():
            if options.only and name not in options.only:
                continue
            try:
                write(os.path.join(options.folder, name), make())
            except Exception as error:  # a converter of another version
                print(f"skipped: {name}: {type(error).__name__}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
