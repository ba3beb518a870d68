#!/usr/bin/env python3
"""Checks and times Braid's CUDA programs on this machine's GPU, row by row, and reports.

    run_gpu_check.sh                     rows that have no result yet, into results/, for at most 8 minutes; the next call goes on
    run_gpu_check.sh --seconds 900       for at most 900 seconds, building and reporting included; 0, and with --emulated: no limit
    run_gpu_check.sh --again             failed rows too
    run_gpu_check.sh --keep time/        rows that begin so keep their results although their programs have changed; the report says so
    run_gpu_check.sh --only time/,torch  rows whose name begins with one of these
    run_gpu_check.sh --emulated          builds for the emulated device: only the build and correctness
    run_gpu_check.sh --report            writes the report of what there is

A row begins only if the time that it may take is left. Its result and log are kept with a fingerprint of what they depend on: the
program's source, the runtime that it includes, the case, and the harness where it measures. A row is run again when that changes, also if
results/ was brought from an earlier bundle or from another machine with the same kind of GPU. results/results.json has everything,
results/RESULTS.md is the table, results/device.json describes the device, results/logs.tar.gz has all logs. Needs Python 3.8, CMake and
nvcc; PyTorch for the rows that compare with it; compute-sanitizer and ncu for their rows.
"""

import argparse
import collections
import concurrent.futures
import datetime
import functools
import itertools
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time

import counters
import device_description
import sanitizer
from bundle_files import HARNESS, Fingerprints, read_cases, short_hash
from report import Report

CALL = 480  # seconds that a call may take
RESERVE = 15  # of it, for ending processes and writing the report
BUILD = 600  # seconds that a build may take, if the call has them
BATCH = 20  # cases that one process runs
AT_ONCE = max(
    1, min(12, (os.cpu_count() or 1) - 2)
)  # rows that are not timed: most of their time is a process's start
SANITIZED = 10  # cases of a kind that run under each tool of compute-sanitizer
SMALL = 4 << 20  # bytes of a case that is small

# Seconds that a row may take, by section. The longest is what a call must have.
LIMITS = {"correctness": 120, "machine": 90, "timings": 90, "torch": 150, "counters": 120, "sanitizer": 240}
LIMITS.update({"compile": 300, "graphs": 240, "NCCL": 240})
# The most telling rows first.
ORDER = ("correctness", "machine", "timings", "torch", "counters", "sanitizer", "compile", "graphs", "NCCL")
ALONE = ("machine", "timings", "torch", "counters", "compile")  # they measure
TIMED_BY = ("gpu_check.cc", "rank_run.cc", "rank_run.h", "rotation.h", "machine.cc")
EMULATED = 600  # seconds that a batch of cases may take on the emulated device
TORCH_EACH = 15  # seconds for a row of a process of PyTorch after the first one

Row = collections.namedtuple("Row", "name section cases run fingerprint")


class Check:
    def __init__(self, options):
        self.options = options
        self.bundle = HARNESS.parent
        root = options.cases.parent if options.cases else self.bundle
        self.cases = read_cases(options.cases or self.bundle / "cases.txt")
        suffix = "-emulated" if options.emulated else ""
        self.build = self.bundle / ("build" + suffix)
        self.results = pathlib.Path(options.results or self.bundle / ("results" + suffix))
        self.harness = self.build / "bin" / "gpu_check"
        self.prints = Fingerprints(root, HARNESS, options.emulated)
        seconds = options.seconds
        if seconds is None:
            seconds = 0 if options.emulated else CALL
        self.limits = {**LIMITS, "correctness": EMULATED} if options.emulated else LIMITS
        self.deadline = time.monotonic() + seconds - RESERVE if seconds > 0 else math.inf
        self.state = {"bundle": self.prints.bundle(), "machine": {}, "rows": {}}
        self.expected = {row.name: row.fingerprint for row in self.rows()}
        self.lock = threading.Lock()  # of self.state

    # ---- results

    def load(self):
        path = self.results / "results.json"
        if not path.exists():
            return
        kept = json.loads(path.read_text(encoding="utf-8"))
        self.state.update(machine=kept["machine"], rows=kept["rows"])
        if kept.get("bundle") != self.state["bundle"]:
            current = sum(self.is_current(name) for name in kept["rows"])
            print(
                f"{path} is of another bundle: {current} of its {len(kept['rows'])} rows are still of these programs"
            )

    def is_current(self, name):
        """Whether the row's result is of the present programs, runtime and cases."""
        known = self.state["rows"].get(name, {})
        return "fingerprint" in known and known["fingerprint"] == self.expected.get(name)

    def save(self):
        self.results.mkdir(parents=True, exist_ok=True)
        part = self.results / "results.json.part"
        part.write_text(json.dumps(self.state, indent=1) + "\n", encoding="utf-8")
        part.replace(self.results / "results.json")

    def record(self, name, state, seconds, detail="", **more):
        with self.lock:
            self.state["rows"][name] = {
                "state": state,
                "seconds": round(seconds, 1),
                "detail": detail,
                "bundle": self.state["bundle"],
                "fingerprint": self.expected.get(name),
                **more,
            }
            self.save()
            print(f"{state:8} {name}  {seconds:.1f} s  {detail[:200]}", flush=True)

    def log_path(self, name):
        path = self.results / "logs" / (re.sub(r"[^A-Za-z0-9_.=-]+", "_", name) + ".log")
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def new_log(self, name):
        path = self.log_path(name)
        path.unlink(missing_ok=True)
        return path

    def wanted(self, name):
        def begins(option):
            return name.startswith(tuple(part for part in (option or "").split(",") if part))

        known = self.state["rows"].get(name)
        if known and (self.is_current(name) or begins(self.options.keep)):
            if not (self.options.again and known["state"] not in ("pass", "skip")):
                return False
        return not self.options.only or begins(self.options.only)

    # ---- running

    def left(self):
        return self.deadline - time.monotonic()

    def command(self, words, log, limit, env=None):
        """Returns status (None: it ran out of time), output and seconds. The process and its children end with it."""
        begin = time.monotonic()
        with open(log, "a", encoding="utf-8", errors="replace") as file:
            file.write("$ " + " ".join(map(str, words)) + "\n")
            file.flush()
            process = subprocess.Popen(
                list(map(str, words)),
                cwd=self.bundle,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
            try:
                output, _ = process.communicate(timeout=None if math.isinf(limit) else max(1, limit))
                status = process.returncode
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output, _ = process.communicate()
                status = None
            text = output.decode(errors="replace")
            file.write(text + f"[status {'time-out' if status is None else status}]\n")
        return status, text, time.monotonic() - begin

    def run_cases(self, ids, log, words=(), prefix=(), limit=math.inf):
        """Each id's (state, why), as far as the time goes. A case that ends its process does not take the others along."""
        found, left, end, clean = {}, list(ids), time.monotonic() + limit, True
        while left and time.monotonic() < end:
            status, text, _ = self.command(
                [*prefix, self.harness, "run", *words, *left[:BATCH]], log, end - time.monotonic()
            )
            clean = clean and status == 0
            begun = re.findall(r"^BEGIN (\S+)$", text, re.M)
            for id_, state, why in re.findall(r"^END (\S+) (pass|fail|skip)(?:: (.*))?$", text, re.M):
                found[id_] = (state, why)
            if begun and begun[-1] not in found:
                why = "not done in time" if status is None else f"the process ended with status {status}"
                found[begun[-1]] = ("fail", why)
            elif not begun:
                found[left[0]] = ("fail", (text.strip() or "no output")[-300:])
            left = [id_ for id_ in left if id_ not in found]
        return found, clean

    def build_all(self, row):
        jobs = str(os.cpu_count() or 1)
        log = self.new_log(row.name)
        limit = min(BUILD, self.left())
        configure = [
            "cmake",
            "-G",
            "Unix Makefiles",
            "-S",
            ".",
            "-B",
            self.build,
            *(self.options.cmake or []),
        ]
        if self.options.emulated:
            configure.append("-DBRAID_EMULATED=ON")
        build = ["cmake", "--build", self.build, "-j", jobs]
        status, text, seconds = self.command(configure, log, limit)
        if status == 0:
            status, more, building = self.command(build, log, limit - seconds)
            text, seconds = text + more, seconds + building
            if status is not None and status != 0:  # what can be built is run
                self.command([*build, "--", "-k"], log, limit - seconds)
        errors = [line for line in text.splitlines() if re.search(r"error|Error", line)]
        state = "pass" if status == 0 else "timeout" if status is None else "fail"
        self.record(row.name, state, seconds, "" if status == 0 else " ".join(errors)[:500])

    def together(self, rows):
        """Rows that are not timed, several at a time. Those of single cases share processes."""
        single = [row for row in rows if row.run is None]
        batches = [single[k : k + BATCH] for k in range(0, len(single), BATCH)]
        work = [
            (self.limits["correctness"], lambda batch=batch: self.correctness(batch)) for batch in batches
        ]
        work += [
            (self.limits[row.section], lambda row=row: row.run(row)) for row in rows if row.run is not None
        ]

        def begin(limit, run):
            if limit <= self.left():
                run()

        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for done in [pool.submit(begin, limit, run) for limit, run in work]:
                done.result()

    def correctness(self, batch):
        log = self.new_log(batch[0].name)
        begin = time.monotonic()
        found, _ = self.run_cases([row.cases[0].id for row in batch], log, limit=self.limits["correctness"])
        each = (time.monotonic() - begin) / len(batch)
        for row in batch:
            if row.cases[0].id in found:
                state, why = found[row.cases[0].id]
                self.record(row.name, state, each, why)

    def group(self, row, words=(), prefix=(), judge=None):
        """A row of several cases. `judge` says of the whole output what is wrong with it, where the status of the process does not."""
        log = self.new_log(row.name)
        begin = time.monotonic()
        found, clean = self.run_cases([c.id for c in row.cases], log, words, prefix, self.limits[row.section])
        seconds = time.monotonic() - begin
        by_state = collections.Counter(state for state, _ in found.values())
        bad = [f"{id_}: {why}" for id_, (state, why) in found.items() if state == "fail"]
        if judge and len(found) == len(row.cases):
            bad += filter(None, [judge(log.read_text(errors="replace"))])
        elif len(found) == len(row.cases) and not bad and not clean:
            bad.append("the process ended with an error")
        count = f"{by_state['pass']} of {len(row.cases)}"
        if bad:
            self.record(row.name, "fail", seconds, f"{count} pass; " + "; ".join(bad[:5]))
        elif len(found) < len(row.cases):
            self.record(row.name, "timeout", seconds, f"{count} within {self.limits[row.section]} s")
        elif by_state["skip"] == len(found):
            self.record(row.name, "skip", seconds, next(iter(found.values()))[1])
        else:
            skipped = [why for state, why in found.values() if state == "skip"]
            why = f"; {len(skipped)} skip: {skipped[0]}" if skipped else ""
            self.record(row.name, "pass", seconds, f"{count}{why}")

    def group_of(self, words, row):
        self.group(row, words)

    def sanitize(self, tool, api_errors, row):
        program = sanitizer.program()
        if program is None:
            self.record(row.name, "skip", 0, "compute-sanitizer is not installed")
            return
        prefix = sanitizer.command(program, tool, api_errors)
        self.group(row, prefix=prefix, judge=lambda text: sanitizer.verdict(text, api_errors))

    def json_row(self, row, words):
        """A row whose command prints one line of JSON."""
        clocks = self.clocks()
        status, text, seconds = self.command(words, self.new_log(row.name), self.limits[row.section])
        lines = json_lines(text)
        if status == 0 and lines:
            self.record(row.name, "pass", seconds, values=lines[-1], clocks=clocks)
        elif status == 3:
            self.record(row.name, "skip", seconds, text.strip().splitlines()[-1])
        else:
            self.record(row.name, "timeout" if status is None else "fail", seconds, text.strip()[-300:])

    def count(self, row):
        """Hardware counters of the kernels of a step."""
        program = counters.program()
        if program is None:
            self.record(row.name, "skip", 0, "ncu (Nsight Compute) is not installed")
            return
        words = counters.command(program, self.harness, row.cases[0].id)
        status, text, seconds = self.command(words, self.new_log(row.name), self.limits[row.section])
        kernels = counters.parse(text)
        if counters.missing_permission(text):
            why = "ncu may not read the counters here (ERR_NVGPUCTRPERM)"
            self.record(row.name, "skip", seconds, why)
        elif status == 0 and kernels:
            self.record(row.name, "pass", seconds, f"{len(kernels)} kernels", values={"kernels": kernels})
        else:
            self.record(row.name, "timeout" if status is None else "fail", seconds, text.strip()[-300:])

    def torch(self, mode, rows):
        """Rows that share processes, most of whose time is the start of PyTorch. A row that ends its process does not take others along."""
        script, rows = HARNESS / "torch_rows.py", list(rows)
        section = rows[0].section
        while rows and self.left() >= self.limits[section]:
            fitting = (
                1 + max(0, int((self.left() - self.limits[section]) // TORCH_EACH))
                if section == "torch"
                else 1
            )
            batch = rows[:fitting]
            limit = min(self.left(), self.limits[section] + TORCH_EACH * (len(batch) - 1))
            clocks, log = self.clocks(), self.new_log(batch[0].name)
            ids = [row.cases[0].id for row in batch]
            status, text, seconds = self.command([sys.executable, script, mode, *ids], log, limit)
            found = {values["id"]: values for values in json_lines(text) if "id" in values}
            done = [row for row in batch if row.cases[0].id in found]
            each = seconds / max(1, len(done))
            for row in done:
                values = found[row.cases[0].id]
                if "error" in values:
                    self.record(row.name, "fail", each, values["error"][:300])
                else:
                    self.record(row.name, "pass", each, values=values, clocks=clocks)
            missing = [row for row in batch if row not in done]
            if status == 3:  # neither will the others
                for row in rows:
                    self.record(row.name, "skip", 0, text.strip().splitlines()[-1])
                return
            if missing:  # the first one was running
                state = "timeout" if status is None else "fail"
                self.record(missing[0].name, state, each, text.strip()[-300:])
                done.append(missing[0])
            rows = [row for row in rows if row not in done]

    def torch_row(self, mode, row):
        self.torch(mode, [row])

    def peer_kernels(self, row):
        words = [self.build / "bin" / "peer_check"]
        status, text, seconds = self.command(words, self.new_log(row.name), self.limits[row.section])
        bad = re.findall(r"^END (\S+ fail: .*)$", text, re.M)
        passed = len(re.findall(r"^END \S+ pass", text, re.M))
        state = "pass" if status == 0 else "timeout" if status is None else "fail"
        why = [] if status == 0 else bad[:3] or [text[-200:]]
        self.record(row.name, state, seconds, f"{passed} pass; " + "; ".join(why))

    def clocks(self):
        fields = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,temperature.gpu,power.draw"
        if not shutil.which("nvidia-smi"):
            return ""
        done = subprocess.run(
            ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else ""

    # ---- rows

    def of_cases(self, name, section, cases, run, files=()):
        """A row whose result depends on cases, and on these files of the harness."""
        parts = [name, *sorted(c.id + self.prints.case(c) for c in cases), self.prints.files(*files)]
        return Row(name, section, cases, run, short_hash(*parts))

    def of_files(self, name, section, cases, run, *files):
        """A row whose result depends on nothing of the bundle but files of the harness."""
        return Row(name, section, cases, run, short_hash(name, self.prints.files(*files)))

    def rows(self):
        """All of them, in the order of ORDER."""
        checked = [c for c in self.cases if c.kind != "timing"]
        rows = [Row("build", "build", [], self.build_all, self.state["bundle"])]
        rows += [self.of_cases(f"correct/{c.id}", "correctness", [c], None) for c in checked]
        if not self.options.emulated:
            single = [c for c in checked if c.ranks == 1]
            rows += self.timed_rows() + self.sanitizer_rows(single) + self.graph_rows(single)
            rows += self.nccl_rows(checked, single)
        rank = {section: k for k, section in enumerate(("build", *ORDER))}
        return sorted(rows, key=lambda row: rank[row.section])

    def timed_rows(self):
        timed = [c for c in self.cases if c.kind == "timing"]
        rows = [self.of_files("machine", "machine", [], self.machine, "machine.cc", "device_properties.cc")]
        for c in timed:
            rows.append(self.of_cases(f"time/{c.id}", "timings", [c], self.time_case, TIMED_BY))
            for mode, section in (("graph", "torch"), ("compile", "compile")):
                run = functools.partial(self.torch_row, mode)
                rows.append(
                    self.of_files(f"torch_{mode}/{c.id}", section, [c], run, "torch_rows.py", "rotation.py")
                )
            if c.program in counters.COUNTED:
                rows.append(self.of_cases(f"counters/{c.id}", "counters", [c], self.count, ["counters.py"]))
        return rows

    def sanitizer_rows(self, single):
        rows, files = [], ["sanitizer.py"]

        def add(name, cases, tool, api_errors=False):
            run = functools.partial(self.sanitize, tool, api_errors)
            if cases:
                rows.append(self.of_cases(name, "sanitizer", cases, run, files))

        for tool in sanitizer.TOOLS:
            for kind in kinds(single):
                cases = small_first(sanitizer.checked_by(tool, of_kind(single, kind)))
                add(f"{tool}/{kind}", cases[:SANITIZED], tool)
                if tool == "memcheck" and kind in sanitizer.API_KINDS:
                    add(f"memcheck_api/{kind}", cases[:1], tool, api_errors=True)
        return rows

    def graph_rows(self, single):
        run = functools.partial(self.group_of, ["--graph"])
        return [self.of_cases(f"graph/{k}", "graphs", of_kind(single, k), run) for k in kinds(single)]

    def nccl_rows(self, checked, single):
        alone = [c for c in single if c.library.startswith(("forms", "collectives"))]
        pairs = [c for c in checked if c.ranks == 2 and c.kind != "peers"]
        rows = [self.of_cases("nccl/one_rank", "NCCL", alone, self.group)] if alone else []
        for way, words in (
            ("two_processes", ["--processes"]),
            ("two_processes_graph", ["--processes", "--graph"]),
        ):
            run = functools.partial(self.group_of, words)
            for kind in kinds(pairs):
                rows.append(self.of_cases(f"nccl/{way}/{kind}", "NCCL", of_kind(pairs, kind), run))
        peers = self.prints.harness_with_runtime("peer_check.cu")
        rows.append(Row("peers/two_ranks_on_one_gpu", "NCCL", [], self.peer_kernels, peers))
        return rows

    def machine(self, row):
        self.json_row(row, [self.harness, "machine"])

    def time_case(self, row):
        self.json_row(row, [self.harness, "time", row.cases[0].id])

    def is_built(self, row):
        # A build is no result that another machine could have brought. One that ran out of time goes on. Of other programs it would
        # give results to the wrong ones, so --only and --keep do not matter.
        unfinished = self.state["rows"].get(row.name, {}).get("state") == "timeout"
        if not self.harness.exists() or unfinished or not self.is_current(row.name) or self.wanted(row.name):
            self.build_all(row)
        return self.harness.exists() and self.state["rows"].get(row.name, {}).get("state") != "timeout"

    def run(self):
        build, *rows = self.rows()
        if not self.is_built(build):
            print("not built: the next call goes on")
            return
        self.state["machine"] = {"date": datetime.date.today().isoformat(), "gpu": self.clocks()}
        for section, of_section in itertools.groupby(rows, key=lambda row: row.section):
            wanted = [row for row in of_section if self.wanted(row.name)]
            if not wanted:
                continue
            if section not in ALONE:
                self.together(wanted)
            elif section == "torch":
                self.torch("graph", wanted)
            else:
                for row in wanted:
                    if self.limits[section] <= self.left():
                        row.run(row)
        if left := [row for row in rows if self.wanted(row.name) and not self.is_current(row.name)]:
            least = max(self.limits[row.section] for row in left) + RESERVE
            print(f"{len(left)} rows are left: the next call goes on, if it has {least} seconds")

    # ---- the report

    def report(self):
        return Report(self).text()

    def pack(self):
        (self.results / "RESULTS.md").write_text(self.report(), encoding="utf-8")
        if machine := self.state["rows"].get("machine", {}).get("values"):
            text = json.dumps(device_description.description(machine), indent=1)
            (self.results / "device.json").write_text(text + "\n", encoding="utf-8")
        if (self.results / "logs").is_dir():
            with tarfile.open(self.results / "logs.tar.gz", "w:gz") as tar:
                tar.add(self.results / "logs", "logs")


def json_lines(text):
    """The lines that are JSON objects; tools print others."""
    found = []
    for line in text.splitlines():
        try:
            found += [json.loads(line)] if line.startswith("{") else []
        except ValueError:
            pass
    return found


def kinds(cases):
    return sorted({c.kind for c in cases})


def of_kind(cases, kind):
    return [c for c in cases if c.kind == kind]


def small_first(cases):
    return sorted(cases, key=lambda c: c.bytes > SMALL)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", help="folder of the results (default: results/ in the bundle)")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--only", help="beginnings of names of rows, separated by commas")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--keep", help="beginnings of names of rows whose results are kept")
    parser.add_argument("--emulated", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument(
        "--cases", type=pathlib.Path, help=argparse.SUPPRESS
    )  # to report on a bundle that is elsewhere
    parser.add_argument("--cmake", action="append", help="an option for cmake")
    check = Check(parser.parse_args())
    check.load()
    if not check.options.report:
        check.run()
        check.save()
    if check.options.report and check.options.cases:
        print(check.report(), end="")
        return 0
    check.results.mkdir(parents=True, exist_ok=True)
    check.pack()
    states = collections.Counter(row["state"] for row in check.state["rows"].values())
    print(", ".join(f"{n} {state}" for state, n in states.items()) or "nothing was run")
    return 1 if states["fail"] + states["timeout"] else 0


if __name__ == "__main__":
    sys.exit(main())
