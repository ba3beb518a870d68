#!/usr/bin/env python3
"""Writes ONNX's backend test cases in the layout that `braid test` reads; the same bytes every time.

  make_onnx_cases.py DIR

    DIR/node/NAME/                  one operator, also expanded into its function body; from 1.23 on the package holds
                                    programs that make these cases, no files
    DIR/SUITE/NAME/                 simple, pytorch-converted and pytorch-operator, which the package holds as files
    DIR/light/NAME/                 nine image classifiers with generated weights; ONNX's runner makes their inputs

A case is NAME/model.onnx and NAME/test_data_set_<i>/input_<j>.pb, output_<j>.pb, which hold the message of the
value's type: TensorProto, SequenceProto or OptionalProto. Nothing is written again where DIR is up to date.
"""

import argparse
import hashlib
import importlib.metadata
import os
import shutil
import sys
import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

DATA = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data")
COPIED_SUITES = ("simple", "pytorch-converted", "pytorch-operator")
SUITES = ("node", "light", *COPIED_SUITES)


def write(path, message):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(message.SerializeToString(deterministic=True))


def value_message(value, declared):
    """The message that holds `value`, of the type that the graph declares."""
    kind = declared.type.WhichOneof("value")
    if kind == "map_type":
        return numpy_helper.from_dict(value, declared.name)
    if kind == "sequence_type":
        return numpy_helper.from_list(value, declared.name)
    if kind == "optional_type":
        return numpy_helper.from_optional(value, declared.name)
    return value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(value, declared.name)


def write_node_cases(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overflows that cases provoke
        cases = collect_testcases(None)
    for case in cases:
        write(os.path.join(folder, case.name, "model.onnx"), case.model)
        for i, values in enumerate(case.data_sets):
            for stem, given, declared in zip(
                ("input", "output"), values, (case.model.graph.input, case.model.graph.output)
            ):
                for j, value in enumerate(given):
                    path = os.path.join(folder, case.name, f"test_data_set_{i}", f"{stem}_{j}.pb")
                    write(path, value_message(value, declared[j]))


def ramp(declared):
    """What ONNX's runner feeds to the light models: 0 to 1 in equal steps."""
    shape = [d.dim_value if d.HasField("dim_value") else 1 for d in declared.type.tensor_type.shape.dim]
    count = int(np.prod(shape))
    return (np.arange(count).reshape(shape) / count).astype(np.float32)


def write_light_cases(folder):
    source = os.path.join(DATA, "light")
    for file in sorted(os.listdir(source)):
        name, extension = os.path.splitext(file)
        if extension != ".onnx":
            continue
        model = onnx.load(os.path.join(source, file))
        initializers = {i.name for i in model.graph.initializer}
        inputs = [value for value in model.graph.input if value.name not in initializers]
        data = os.path.join(folder, name, "test_data_set_0")
        for j, declared in enumerate(inputs):
            write(os.path.join(data, f"input_{j}.pb"), numpy_helper.from_array(ramp(declared), declared.name))
        shutil.copyfile(os.path.join(source, file), os.path.join(folder, name, "model.onnx"))
        shutil.copyfile(os.path.join(source, f"{name}_output_0.pb"), os.path.join(data, "output_0.pb"))


def fingerprint():
    """A hash of all that decides the output: this script, ONNX and NumPy."""
    with open(os.path.abspath(__file__), "rb") as file:
        digest = hashlib.sha256(file.read())
    for package in ("onnx", "numpy", "ml_dtypes"):
        digest.update(f"{package} {importlib.metadata.version(package)}\n".encode())
    return digest.hexdigest()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", metavar="DIR")
    root = parser.parse_args().output
    stamp, current = os.path.join(root, "fingerprint"), fingerprint()
    if os.path.exists(stamp) and open(stamp).read() == current:
        return
    for suite in SUITES:
        shutil.rmtree(os.path.join(root, suite), ignore_errors=True)
    write_node_cases(os.path.join(root, "node"))
    write_light_cases(os.path.join(root, "light"))
    for suite in COPIED_SUITES:
        shutil.copytree(os.path.join(DATA, suite), os.path.join(root, suite))
    with open(stamp, "w") as file:
        file.write(current)


if __name__ == "__main__":
    sys.exit(main())
