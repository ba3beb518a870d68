#!/usr/bin/env python3
"""A small bundle is made, built for the emulated device and run: bundle_test.py BUILD_FOLDER EMULATED_DEVICE_LIBRARY WORK_FOLDER"""

import argparse
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import time
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "gpu"))
import counters
import device_description
import gpu_check
import rotation
import sanitizer
import tool_outputs


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

    def test_only_rows_whose_program_has_changed_run_again(self):
        text = self.folder / "cases.txt"
        kept = text.read_text()
        source = next(c.source for c in self.cases if c.program == "app_sum")
        self.assertRegex(source, "^[0-9a-f]{16}$")
        text.write_text(kept.replace(source, "0" * 16))
        try:
            again = self.check("--only", "correct/", "--results", str(self.copy_of_results()))
        finally:
            text.write_text(kept)
        rows = len(self.rows())
        self.assertIn(f"is of another bundle: {rows - 2} of its {rows} rows are still", again.stdout)
        ran = [line.split()[1] for line in again.stdout.splitlines() if line.startswith("pass")]
        self.assertEqual(ran, ["build", *(f"correct/{c.id}" for c in self.cases if c.program == "app_sum")])

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


class Folder(unittest.TestCase):
    """A folder as a bundle, with a harness that plays the cases: their names say what they do."""

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
        self.check = self.made(emulated=True)
        self.check.harness = harness

    def made(self, **options):
        defaults = {"cases": self.folder / "cases.txt", "results": self.folder / "results", "emulated": False}
        defaults.update(seconds=None, only=None, again=False, keep=None, cmake=None)
        check = gpu_check.Check(argparse.Namespace(**{**defaults, **options}))
        check.bundle = self.folder
        return check


class Rows(Folder):
    """How rows end."""

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

        def build(row):
            builds.append(row.name)
            self.check.record(row.name, "timeout" if len(builds) == 1 else "pass", 1)

        self.check.build_all = build
        for _ in range(3):
            self.check.run()
        self.assertEqual(builds, ["build", "build"])


class Order(Folder):
    """Which rows run, and when. Rows only are recorded, as if each had passed."""

    CASE = """case {id}
program {library} {program} {source}
about {kind} {dtype} 1 0
work {bytes} 0
dims 1
expected 0 0 f32 2 1 {offset}
"""
    VALUES = {"runtime": 13000, "nccl": 22803, "copy_gb_s": 4000, "gemm_tflop_s_f16": 700, "numbers": "normal",
              "graph": {"median_us": 1}, "eager": {"median_us": 2}, "median_us": 3, "kernels": []}  # fmt: skip
    KERNEL = {"library": "kernels", "program": "kernel_add_f16", "kind": "timing", "dtype": "f16"}

    def write_cases(self, *cases):
        """`cases` are changes of a case in f32 of the kind gemm."""
        defaults = {
            "library": "cases",
            "source": "1",
            "kind": "gemm",
            "dtype": "f32",
            "bytes": 8,
            "offset": 0,
        }
        text = "".join(self.CASE.format(**{**defaults, "program": c["id"], **c}) for c in cases)
        (self.folder / "cases.txt").write_text(text)
        (self.folder / "cases.data").write_bytes(bytes(range(64)))

    def recorded(self, check):
        """The rows that a call runs, in this order."""
        names = []

        def passes(row):
            names.append(row.name)
            check.record(row.name, "pass", 1, values=self.VALUES)

        check.build_all = check.machine = check.time_case = check.count = check.peer_kernels = passes
        check.correctness = lambda batch: [passes(row) for row in batch]
        check.group = lambda row, words=(), prefix=(), judge=None: passes(row)
        check.torch = lambda mode, rows: [passes(row) for row in rows]
        check.sanitize = lambda tool, api_errors, row: passes(row)
        check.harness = self.folder / "play.sh"
        check.load()
        check.run()
        check.pack()
        return names

    def test_the_most_telling_rows_run_first(self):
        self.write_cases(
            {"id": "gemm_f32", "library": "forms"}, {"id": "kernel_add_f16@rows=8", **self.KERNEL}
        )
        names = self.recorded(self.made())
        order = "build correct machine time torch_graph counters memcheck memcheck_api racecheck synccheck initcheck"
        order += " torch_compile graph nccl peers"
        self.assertEqual(list(dict.fromkeys(name.split("/")[0] for name in names)), order.split())

    def test_initcheck_runs_on_f32_only(self):
        self.write_cases(
            {"id": "gemm_f32"},
            {"id": "gemm_f16", "dtype": "f16"},
            {"id": "half", "dtype": "f16", "kind": "half"},
        )
        rows = {row.name: [c.id for c in row.cases] for row in self.made().rows()}
        self.assertEqual(rows["initcheck/gemm"], ["gemm_f32"])
        self.assertEqual(rows["memcheck/gemm"], ["gemm_f32", "gemm_f16"])
        self.assertIn("memcheck/half", rows)
        self.assertNotIn("initcheck/half", rows)

    def test_sanitizers_take_small_cases_first(self):
        large = [{"id": f"large_{k}", "bytes": gpu_check.SMALL + 1} for k in range(gpu_check.SANITIZED)]
        self.write_cases(*large, {"id": "small"})
        rows = {row.name: [c.id for c in row.cases] for row in self.made().rows()}
        self.assertEqual(rows["racecheck/gemm"][0], "small")

    def test_a_call_takes_eight_minutes_unless_told_otherwise(self):
        self.assertAlmostEqual(self.made().left(), 480 - gpu_check.RESERVE, delta=5)
        self.assertAlmostEqual(self.made(seconds=100).left(), 100 - gpu_check.RESERVE, delta=5)
        self.assertEqual(self.made(seconds=0).left(), math.inf)
        self.assertEqual(self.made(emulated=True).left(), math.inf)
        self.assertLess(max(gpu_check.LIMITS.values()), 480 - gpu_check.RESERVE)

    def test_no_row_begins_that_may_outlast_the_call(self):
        self.write_cases({"id": "gemm_f32"}, {"id": "kernel_add_f16@rows=8", **self.KERNEL})
        check = self.made()
        check.deadline = (
            time.monotonic() + gpu_check.LIMITS["timings"] + 5
        )  # less than rows of other sections may take
        names = self.recorded(check)
        self.assertEqual(
            names, ["build", "machine", "time/kernel_add_f16@rows=8", "torch_graph/kernel_add_f16@rows=8"]
        )

    def test_results_are_kept_by_row(self):
        self.write_cases({"id": "a"}, {"id": "b", "offset": 8})
        first = self.recorded(self.made())
        self.assertIn("correct/a", first)
        # Another program of its library comes, its data move, and b's program changes.
        self.write_cases(
            {"id": "new"}, {"id": "a", "library": "cases_2"}, {"id": "b", "source": "2", "offset": 8}
        )
        check = self.made()
        second = self.recorded(check)
        self.assertNotIn("correct/a", second)
        self.assertNotIn("machine", second)
        for name in ("build", "correct/new", "correct/b", "memcheck/gemm"):
            self.assertIn(name, second)
        report = (self.folder / "results" / "RESULTS.md").read_text()
        self.assertIn("on an earlier bundle, with the same program, runtime and cases", report)
        self.assertNotIn("## Measured on an earlier bundle\n", report)
        self.assertEqual(self.recorded(self.made()), [])

    def test_a_row_that_was_not_repeated_is_marked(self):
        self.write_cases({"id": "a"}, {"id": "kernel_add_f16@rows=8", **self.KERNEL})
        self.recorded(self.made())
        self.write_cases({"id": "a"}, {"id": "kernel_add_f16@rows=8", "source": "2", **self.KERNEL})
        names = self.recorded(self.made(keep="time/"))
        self.assertNotIn("time/kernel_add_f16@rows=8", names)
        self.assertIn("counters/kernel_add_f16@rows=8", names)
        report = (self.folder / "results" / "RESULTS.md").read_text()
        self.assertIn("## Measured on an earlier bundle\n", report)
        self.assertIn("* `time/kernel_add_f16@rows=8`", report)

    def test_expected_bytes_count_and_their_place_does_not(self):
        self.write_cases({"id": "a"})
        before = self.made().expected["correct/a"]
        self.write_cases({"id": "a", "offset": 8})
        self.assertNotEqual(self.made().expected["correct/a"], before)
        (self.folder / "cases.data").write_bytes(bytes(8) + bytes(range(8)))
        self.assertEqual(self.made().expected["correct/a"], before)

    def test_the_runtime_that_a_program_includes_counts(self):
        self.write_cases({"id": "a"})
        for folder in ("programs", "runtime"):
            (self.folder / folder).mkdir()
        (self.folder / "programs" / "cases.cu").write_text('#include "runtime/used.h"\n')
        for name in ("used", "unused"):
            (self.folder / "runtime" / f"{name}.h").touch()
        before = self.made().expected["correct/a"]
        (self.folder / "runtime" / "unused.h").write_text("int x;")
        self.assertEqual(self.made().expected["correct/a"], before)
        (self.folder / "runtime" / "used.h").write_text("int x;")
        self.assertNotEqual(self.made().expected["correct/a"], before)


class Sanitized(Folder):
    """Rows of compute-sanitizer, with a tool that prints what a test wants about one case that passes."""

    def row(self, output, api_errors, status=sanitizer.EXIT_CODE):
        check = self.made()
        script = self.folder / "compute-sanitizer"
        script.write_text(
            f"#!/bin/bash\necho BEGIN gemm_f32\ncat <<'END'\n{output}\nEND\necho END gemm_f32 pass\nexit {status}\n"
        )
        script.chmod(0o755)
        row = gpu_check.Row("memcheck/gemm", "sanitizer", [argparse.Namespace(id="gemm_f32")], None, "")
        with unittest.mock.patch.object(sanitizer, "program", lambda: script if output else None):
            check.sanitize("memcheck", api_errors, row)
        found = check.state["rows"]["memcheck/gemm"]
        return found["state"], found["detail"]

    def test_expected_errors_of_calls_pass(self):
        self.assertEqual(self.row(tool_outputs.LIBRARY_CALLS_FAIL, True), ("pass", "1 of 1"))

    def test_other_errors_of_calls_fail(self):
        state, detail = self.row(tool_outputs.OUR_CALL_FAILS, True)
        self.assertEqual(state, "fail")
        self.assertIn("calls failed that are not expected to", detail)

    def test_findings_fail_whatever_the_status(self):
        self.assertEqual(self.row(tool_outputs.HAZARDS, False, status=0), ("fail", "1 of 1 pass; 3 findings"))

    def test_no_findings_pass(self):
        self.assertEqual(self.row(tool_outputs.NO_ERRORS, False, status=0), ("pass", "1 of 1"))

    def test_without_the_tool_the_row_is_skipped(self):
        self.assertEqual(self.row("", False), ("skip", "compute-sanitizer is not installed"))


class Torch(Folder):
    """Rows of PyTorch that share processes, with a script that plays PyTorch."""

    PLAY = """import json, os, sys
for id in sys.argv[2:]:
    if id == "crash":
        os.abort()
    print("{ a line of the library }")
    print(json.dumps({"id": id, "error": "no"} if id == "error" else {"id": id, "median_us": 1}), flush=True)
"""

    def states(self, *ids, script=PLAY):
        (self.folder / "torch_rows.py").write_text(script)
        check = self.made()
        rows = [
            gpu_check.Row(f"torch_graph/{id_}", "torch", [argparse.Namespace(id=id_)], None, "")
            for id_ in ids
        ]
        with unittest.mock.patch.object(gpu_check, "HARNESS", self.folder):
            check.torch("graph", rows)
        return {name.split("/")[1]: row["state"] for name, row in check.state["rows"].items()}

    def test_a_row_that_ends_the_process_takes_no_other_along(self):
        found = self.states("a", "crash", "error", "b")
        self.assertEqual(found, {"a": "pass", "crash": "fail", "error": "fail", "b": "pass"})

    def test_without_pytorch_all_are_skipped(self):
        script = "print('SKIP PyTorch is not installed'); raise SystemExit(3)"
        self.assertEqual(self.states("a", "b", script=script), {"a": "skip", "b": "skip"})


class Tools(unittest.TestCase):
    """What the outputs of tools say."""

    def test_calls_that_libraries_let_fail_are_expected(self):
        errors = sanitizer.api_errors(tool_outputs.LIBRARY_CALLS_FAIL)
        self.assertEqual([(e.call, e.library) for e in errors],
                         [("cudaFuncGetAttributes", "libnccl.so.2"), ("cuMemCreate", "libnccl.so.2")])  # fmt: skip
        self.assertEqual(sanitizer.verdict(tool_outputs.LIBRARY_CALLS_FAIL, True), "")

    def test_a_failing_call_of_ours_is_a_fault(self):
        why = sanitizer.verdict(tool_outputs.OUR_CALL_FAILS, True)
        self.assertIn("cudaFuncGetAttributes in libbraid_cuda_runtime.so: cudaErrorInvalidValue", why)

    def test_findings_beside_errors_of_calls_are_faults(self):
        self.assertEqual(
            sanitizer.verdict(tool_outputs.MEMORY_ERROR, True), "1 findings that are no errors of API calls"
        )

    def test_summaries_are_read(self):
        for text, count in (
            (tool_outputs.NO_ERRORS, 0),
            (tool_outputs.MANY_ERRORS, 1100),
            (tool_outputs.NO_HAZARDS, 0),
            (tool_outputs.HAZARDS, 3),
            ("no summary", None),
        ):
            self.assertEqual(sanitizer.findings(text), count)
            self.assertEqual(sanitizer.verdict(text, False) == "", count == 0)

    def test_command_lines(self):
        self.assertEqual(sanitizer.command("cs", "racecheck")[-2:], ["--racecheck-report", "all"])
        self.assertEqual(sanitizer.command("cs", "memcheck")[-2:], ["--report-api-errors", "no"])
        self.assertEqual(sanitizer.command("cs", "memcheck", True)[-2:], ["--report-api-errors", "explicit"])
        for tool in sanitizer.TOOLS:
            words = sanitizer.command("cs", tool)
            self.assertEqual(words[1:5], ["--tool", tool, "--error-exitcode", sanitizer.EXIT_CODE])

    def test_counters_are_read(self):
        kernels = counters.parse(tool_outputs.COUNTED)
        self.assertEqual([k["name"] for k in kernels], ["void softmax_kernel", "copy_kernel"])
        metrics = kernels[0]["metrics"]
        self.assertEqual(metrics[counters.DRAM_READ], 134217728)
        self.assertEqual(counters.per_request(metrics, counters.LOADS), "16.0")
        self.assertEqual(counters.worst_stalls(metrics), "long_scoreboard 7.2, barrier 0.5")
        case = argparse.Namespace(id="kernel_softmax_f16@rows=65536", bytes=268435456)
        rows = counters.table_rows(case, kernels)
        self.assertEqual(rows[0][2:7], ("68.5", "134.2", "130.0", "268.4", "16.0"))
        self.assertEqual(rows[1][4], "")  # not available
        self.assertEqual({len(row) for row in rows}, {len(counters.HEADER)})
        self.assertEqual(counters.parse("no table"), [])

    def test_a_description_of_the_device_has_the_keys_of_a_machine(self):
        machine = json.loads((ROOT / "analysis" / "costs" / "machines" / "h200.json").read_text())["gpu"]
        properties = {name: 2000 for name, _ in device_description.FROM_PROPERTIES.values()}
        values = {"properties": {**properties, "architecture": "sm_90"}, "copy_gb_s": 4000}
        found = device_description.description(values)["gpu"]
        fitted = {"l2_gb_s", "dram_latency_us", "l2_latency_us", "l1_latency_us"}
        self.assertEqual(set(found) | set(device_description.NOT_ASKED) | fitted, set(machine))
        self.assertEqual(found["clock_mhz"]["value"], 2)
        source = (ROOT / "bench" / "gpu" / "device_properties.cc").read_text()
        for name, _ in device_description.FROM_PROPERTIES.values():
            self.assertIn(f'{{"{name}", cudaDevAttr', source)

    def test_copies_are_those_of_the_harness(self):
        # The numbers of Rotation in model_flops_test.cc.
        for arguments, copies in (
            ((0, 100, 60, 1000000), 3),
            ((0, 240, 60, 1000000), 1),
            ((200, 10, 60, 1000000), 4),
            ((300, 10, 60, 1000000), 1),
            ((0, 1, 60, 1000000), 16),
            ((0, 50, 60, 400), 4),
            ((0, 50, 60, 10), 1),
            ((0, 0, 60, 1000000), 16),
        ):
            self.assertEqual(rotation.copies(*arguments), copies)


class Counters(Folder):
    """Rows of hardware counters, with an ncu that prints what a test wants."""

    def counted(self, output, status=0):
        check = self.made()
        script = self.folder / "ncu"
        script.write_text(f"#!/bin/bash\ncat <<'END'\n{output}\nEND\nexit {status}\n")
        script.chmod(0o755)
        case = argparse.Namespace(id="kernel_softmax_f16@rows=8")
        row = gpu_check.Row("counters/softmax", "counters", [case], None, "")
        with unittest.mock.patch.object(counters, "program", lambda: script if output else None):
            check.count(row)
        return check.state["rows"]["counters/softmax"]

    def test_they_are_kept(self):
        row = self.counted(tool_outputs.COUNTED)
        self.assertEqual((row["state"], row["detail"]), ("pass", "2 kernels"))

    def test_without_ncu_the_row_is_skipped(self):
        row = self.counted("")
        self.assertEqual((row["state"], row["detail"]), ("skip", "ncu (Nsight Compute) is not installed"))

    def test_without_permission_the_row_is_skipped(self):
        row = self.counted(tool_outputs.NOT_PERMITTED, status=1)
        self.assertEqual(row["state"], "skip")
        self.assertIn("ERR_NVGPUCTRPERM", row["detail"])

    def test_other_failures_are_failures(self):
        self.assertEqual(self.counted("==ERROR== Failed to find metric", status=1)["state"], "fail")


if __name__ == "__main__":
    Bundle.build, Bundle.device, Bundle.work = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    Folder.work = Bundle.work
    unittest.main(argv=sys.argv[:1])
