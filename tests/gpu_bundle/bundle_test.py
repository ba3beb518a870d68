#!/usr/bin/env python3
"""A small bundle is made, built for the emulated device and run: bundle_test.py BUILD_FOLDER EMULATED_DEVICE_LIBRARY WORK_FOLDER"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "gpu"))
import gpu_check


class Bundle(unittest.TestCase):
    """Every check is on the bundle that setUpClass makes."""

    build = device = work = None

    @classmethod
    def setUpClass(cls):
        shutil.rmtree(cls.work, ignore_errors=True)
        cls.work.mkdir(parents=True)
        cls.folder = cls.work / "bundle"
        subprocess.run(
            [ROOT / "scripts" / "gpu_bundle.sh", "--sample", cls.folder],
            check=True, env={**os.environ, "BRAID_BUILD": str(cls.build)},
        )  # fmt: skip
        options = [f"-DBRAID_EMULATED_LIBRARY={cls.device}"]
        if shutil.which("ccache"):
            options.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
        cls.first = cls.check(*(f"--cmake={option}" for option in options))
        cls.cases = gpu_check.read_cases(cls.folder / "cases.txt")

    @classmethod
    def check(cls, *words):
        return subprocess.run(
            [cls.folder / "run_gpu_check.sh", "--emulated", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )  # fmt: skip

    @classmethod
    def rows(cls, folder="results-emulated"):
        return json.loads((cls.folder / folder / "results.json").read_text())["rows"]

    def test_every_case_passes(self):
        self.assertEqual(self.first.returncode, 0, self.first.stdout)
        rows = self.rows()
        checked = {f"correct/{c.id}" for c in self.cases if c.kind != "timing"}
        self.assertEqual(set(rows), checked | {"build"})
        self.assertEqual({row["state"] for row in rows.values()}, {"pass"}, self.first.stdout)
        self.assertIn("model", {c.kind for c in self.cases})
        report = (self.folder / "results-emulated" / "RESULTS.md").read_text()
        self.assertNotIn("fail", report)

    def test_a_second_run_repeats_nothing(self):
        again = self.check()
        self.assertEqual(again.returncode, 0, again.stdout)
        self.assertEqual(again.stdout.strip(), f"{len(self.rows())} pass")

    def test_rows_are_of_one_bundle(self):
        data = self.folder / "cases.data"
        kept = data.read_bytes()
        data.write_bytes(kept + b"\0")
        try:
            again = self.check("--only", "correct/app_sum", "--results", str(self.copy_of_results()))
        finally:
            data.write_bytes(kept)
        self.assertIn("is of another bundle", again.stdout)
        self.assertIn("pass     correct/app_sum", again.stdout)

    def test_a_wrong_output_is_reported_with_its_place(self):
        case = next(c for c in self.cases if c.program == "app_layer" and c.kind != "timing")
        expected = self.expected_of(case.id)
        data = self.folder / "cases.data"
        kept = data.read_bytes()
        at = int(expected[6]) + 8  # the third element of f32
        data.write_bytes(kept[:at] + b"\0\0\x80\x42" + kept[at + 4 :])
        try:
            wrong = self.check(
                "--only", f"correct/{case.id}", "--results", str(self.folder / "results-wrong")
            )
        finally:
            data.write_bytes(kept)
        self.assertEqual(wrong.returncode, 1, wrong.stdout)
        row = self.rows("results-wrong")[f"correct/{case.id}"]
        self.assertEqual(row["state"], "fail")
        self.assertRegex(row["detail"], r"^rank 0, output 0, element 2: got \S+, expected 64\.0+$")
        self.assertIn(
            f"* `correct/{case.id}` (fail)", (self.folder / "results-wrong" / "RESULTS.md").read_text()
        )

    def test_an_unknown_case_fails_and_the_next_one_runs(self):
        done = subprocess.run(
            [self.folder / "build-emulated" / "bin" / "gpu_check", "run", "missing", self.cases[0].id],
            cwd=self.folder, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.assertEqual(done.returncode, 1)
        self.assertIn("END missing fail: there is no such case", done.stdout)
        self.assertIn(f"END {self.cases[0].id} pass", done.stdout)

    def copy_of_results(self):
        copy = self.folder / "results-copy"
        shutil.rmtree(copy, ignore_errors=True)
        return shutil.copytree(self.folder / "results-emulated", copy)

    def expected_of(self, id_):
        found = False
        for line in (self.folder / "cases.txt").read_text().splitlines():
            words = line.split()
            if words[0] == "case":
                found = words[1] == id_
            elif found and words[0] == "expected":
                return words
        raise AssertionError(f"{id_} has no output")


class Rows(unittest.TestCase):
    """How rows end, with a harness that plays the cases: their names say what they do."""

    work = None
    PLAY = """#!/bin/bash
shift
for id; do
  echo "BEGIN $id"
  case $id in
    stall*) sleep 100 & echo $! >stalled; wait ;;
    crash*) kill -SEGV $$ ;;
  esac
  echo "END $id pass"
done
"""

    def setUp(self):
        self.folder = self.work / "rows"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        for name in ("cases.txt", "cases.data"):
            (self.folder / name).touch()
        harness = self.folder / "play.sh"
        harness.write_text(self.PLAY)
        harness.chmod(0o755)
        self.check = gpu_check.Check(
            argparse.Namespace(
                cases=self.folder / "cases.txt", results=self.folder / "results", emulated=True
            )
        )
        self.check.bundle, self.check.harness = self.folder, harness

    def run_cases(self, *ids, limit=30):
        return self.check.run_cases(ids, self.folder / "log", limit=limit)[0]

    def test_a_case_that_stalls_is_ended_in_time(self):
        found = self.run_cases("a", "stall", "b", limit=2)
        self.assertEqual(found, {"a": ("pass", ""), "stall": ("fail", "not done in time")})
        child = (self.folder / "stalled").read_text().strip()
        self.assertFalse(
            pathlib.Path(f"/proc/{child}/cmdline").exists()
            and pathlib.Path(f"/proc/{child}/cmdline").read_text()
        )

    def test_a_case_that_ends_its_process_takes_no_other_along(self):
        found = self.run_cases("a", "crash", "b")
        self.assertEqual(found["crash"], ("fail", "the process ended with status -11"))
        self.assertEqual((found["a"], found["b"]), (("pass", ""), ("pass", "")))

    def test_a_build_that_ran_out_of_time_goes_on(self):
        builds = []
        self.check.options.seconds, self.check.options.only, self.check.options.again = None, None, False

        def build(row):
            builds.append(row.name)
            self.check.record(row.name, "timeout" if len(builds) == 1 else "pass", 1)

        self.check.build_all = build
        for _ in range(3):
            self.check.run()
        self.assertEqual(builds, ["build", "build"])


if __name__ == "__main__":
    Bundle.build, Bundle.device, Bundle.work = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    Rows.work = Bundle.work
    unittest.main(argv=sys.argv[:1])
