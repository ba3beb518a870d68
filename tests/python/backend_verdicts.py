#!/usr/bin/env python3
"""Runs ONNX's backend tests through braid.backend with ONNX's own runner, and `braid test` on the same cases, and compares the
verdicts, case by case.

  PYTHONPATH=build/release/python .venv/bin/python tests/python/backend_verdicts.py build/release/bin/braid build/release/onnx_cases
      [--target cpu|interpreter] [--every N]

The exit code is 1 if a verdict differs or a case is missing on one side, 77 if there are no cases. The light suite, whole
networks, always runs compiled. --every N takes each Nth case only.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import warnings

import numpy as np
import onnx.backend.test

import braid
import braid.backend

SUITES = {  # of the runner, and the folder of tests/models/make_onnx_cases.py
    "NodeModel": "node",
    "SimpleModel": "simple",
    "PyTorchConvertedModel": "pytorch-converted",
    "PyTorchOperatorModel": "pytorch-operator",
    "RealModel": "light",
}

OF_LARGEST = 1e-6  # Tolerance::of_largest of harness/compare.h


def test_name(folder):
    return folder.name.replace("light_", "test_")


class Verdicts(unittest.TestResult):
    """What became of each test, in the words of `braid test`."""

    def __init__(self):
        super().__init__()
        self.verdicts, self.reasons = {}, {}

    def note(self, test, verdict, reason=""):
        name = test._testMethodName.removesuffix("_cpu")
        self.verdicts[name], self.reasons[name] = verdict, reason

    def addSuccess(self, test):
        self.note(test, "passed")

    def addSkip(self, test, reason):
        self.note(test, "refused", reason)

    def addFailure(self, test, err):
        self.note(test, "failed", str(err[1]))

    def addError(self, test, err):
        # A model that no case of the suites has: an error of the package, such as braid.InternalError.
        self.note(test, "failed", f"{type(err[1]).__name__}: {err[1]}")


def tolerances(folder):
    """Those of `braid test`, as the runner's: its absolute one also depends on the largest element, and types
    with 16 bits have wider ones."""
    rtol, atol, largest = 1e-3, 1e-7, 0.0
    for path in folder.glob("test_data_set_*/output_*.pb"):
        tensor = onnx.load_tensor(path)
        try:
            values = onnx.numpy_helper.to_array(tensor).astype(np.float64)
        except (TypeError, ValueError):  # no tensor of numbers
            continue
        values = np.abs(values[np.isfinite(values)])
        largest = max(largest, values.max(initial=0.0))
        if tensor.data_type in (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16):
            rtol, atol = 1e-2, 1e-3
    return {"rtol": rtol, "atol": max(atol, OF_LARGEST * largest)}


def by_backend(cases, target):
    """{suite: {case: verdict}}, and the reasons. `cases`: {suite: [folder]}."""
    options = {}
    for suite, folders in cases.items():
        for folder in folders:
            target_of_suite = "cpu" if suite == "light" else target
            options[test_name(folder)] = {"target": target_of_suite, **tolerances(folder)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overflows that cases provoke
        runner = onnx.backend.test.BackendTest(braid.backend, __name__, options)
    verdicts, reasons = {}, {}
    for category, suite in SUITES.items():
        wanted = {test_name(folder) for folder in cases[suite]}
        test_case = runner.test_cases[f"OnnxBackend{category}Test"]
        names = [f"{name}_cpu" for name in sorted(wanted) if hasattr(test_case, f"{name}_cpu")]
        result = Verdicts()
        unittest.TestSuite(test_case(name) for name in names).run(result)
        verdicts[suite], reasons[suite] = result.verdicts, result.reasons
    return verdicts, reasons


def by_command(braid_program, cases, target):
    verdicts = {}
    for suite, folders in cases.items():
        with tempfile.TemporaryDirectory() as temporary:
            report = pathlib.Path(temporary) / "report.json"
            command = [
                braid_program,
                "test",
                "--bind-shapes",
                "--target",
                "cpu" if suite == "light" else target,
            ]
            subprocess.run(
                [*command, "-q", "--report", report, *folders],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            verdicts[suite] = {
                test_name(pathlib.Path(e["case"])): e["outcome"] for e in json.loads(report.read_text())
            }
    return verdicts


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("braid")
    parser.add_argument("cases", type=pathlib.Path)
    parser.add_argument("--target", default="interpreter")
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    if not (options.cases / "node").is_dir():
        print("SKIPPED: no cases; ctest -R models/make_onnx_cases writes them")
        return 77
    cases = {suite: sorted((options.cases / suite).iterdir())[:: options.every] for suite in SUITES.values()}
    with tempfile.TemporaryDirectory() as models:
        os.environ["ONNX_MODELS"] = models  # where the runner puts the light suite's data
        began = time.monotonic()
        mine, reasons = by_backend(cases, options.target)
        print(f"backend runner: {time.monotonic() - began:.0f} s")
    began = time.monotonic()
    theirs = by_command(options.braid, cases, options.target)
    print(f"braid test: {time.monotonic() - began:.0f} s")
    different = 0
    for suite, folders in cases.items():
        for name in sorted({test_name(folder) for folder in folders} | mine[suite].keys()):
            a, b = mine[suite].get(name, "missing"), theirs[suite].get(name, "missing")
            if a != b:
                different += 1
                print(
                    f"{suite}/{name}: {a} by the runner, {b} by braid test; {reasons[suite].get(name, '')[:300]}"
                )
        counts = {v: sum(x == v for x in mine[suite].values()) for v in ("passed", "failed", "refused")}
        print(f"{suite}: {len(folders)} cases, " + ", ".join(f"{n} {v}" for v, n in counts.items()))
    print(f"{different} verdicts differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
