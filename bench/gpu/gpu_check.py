#!/usr/bin/env python3
"""Checks and times Braid's CUDA programs on this machine's GPU, row by row, and reports.

    run_gpu_check.sh                     all rows that have no result yet, into results/
    run_gpu_check.sh --seconds 500       no row is begun later than that; the next call goes on
    run_gpu_check.sh --again             failed rows too
    run_gpu_check.sh --keep time/        results of another bundle are kept for rows that begin so, and named in the report
    run_gpu_check.sh --only time/,torch  rows whose name begins with one of these
    run_gpu_check.sh --emulated          builds for the emulated device: only the build and correctness
    run_gpu_check.sh --report            writes the report of what there is

A row takes at most 10 minutes. Its result and log are kept, so that a finished row is not run again, also if results/ was brought
from another machine with the same kind of GPU. results/results.json has everything, results/RESULTS.md is the table,
results/logs.tar.gz all logs. Needs Python 3.8, CMake and nvcc; PyTorch for the rows that compare with it.
"""

import argparse
import collections
import concurrent.futures
import datetime
import hashlib
import json
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

LIMIT = 600  # seconds that a row may take
BATCH = 20  # cases that one process runs
AT_ONCE = max(1, min(12, (os.cpu_count() or 1) - 2))  # rows that are not timed: most of their time is a process's start
SANITIZED = 10  # cases of a kind that run under each tool of compute-sanitizer
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
NOT_YET = "not yet measured"
TORCH_MODES = ("graph", "compile")

Case = collections.namedtuple("Case", "id library program kind dtype ranks bytes flops")
Row = collections.namedtuple("Row", "name section cases run")


def read_cases(path):
    cases, current = [], {}
    for line in path.read_text(encoding="utf-8").splitlines():
        words = line.split()
        if words[0] == "case":
            current = {"id": words[1]}
        elif words[0] == "program":
            current.update(library=words[1], program=words[2])
        elif words[0] == "about":
            current.update(kind=words[1], dtype=words[2], ranks=int(words[3]))
        elif words[0] == "work":
            cases.append(Case(bytes=int(words[1]), flops=int(words[2]), **current))
    return cases


class Check:
    def __init__(self, options):
        self.options = options
        self.bundle = pathlib.Path(__file__).resolve().parent.parent
        self.cases = read_cases(options.cases or self.bundle / "cases.txt")
        suffix = "-emulated" if options.emulated else ""
        self.build = self.bundle / ("build" + suffix)
        self.results = pathlib.Path(options.results or self.bundle / ("results" + suffix))
        self.harness = self.build / "bin" / "gpu_check"
        self.begun = time.monotonic()
        self.state = {"bundle": self.fingerprint(), "machine": {}, "rows": {}}
        self.lock = threading.Lock()  # of self.state

    def fingerprint(self):
        """Of all that decides a result but the machine and the harness."""
        root = self.options.cases.parent if self.options.cases else self.bundle
        digest = hashlib.sha256()
        sources = [
            path
            for folder in ("programs", "runtime")
            for path in (root / folder).rglob("*")
            if path.is_file()
        ]
        for path in sorted([root / "cases.txt", root / "cases.data", *sources]):
            digest.update(f"{path.relative_to(root)} {path.stat().st_size}\n".encode())
            digest.update(path.read_bytes())
        return digest.hexdigest()[:16]

    # ---- results

    def load(self):
        path = self.results / "results.json"
        if path.exists():
            kept = json.loads(path.read_text(encoding="utf-8"))
            if kept.get("bundle") == self.state["bundle"]:
                self.state = kept
            else:  # PyTorch's rows run nothing of it
                keep = ("torch_", *(part for part in (self.options.keep or "").split(",") if part))
                self.state["rows"] = {n: r for n, r in kept["rows"].items() if n.startswith(keep)}
                print(f"{path} is of another bundle: its rows are measured again but for {len(self.state['rows'])}")

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
                **more,
            }
            self.save()
            print(f"{state:8} {name}  {seconds:.1f} s  {detail[:200]}", flush=True)

    def log_path(self, name):
        path = self.results / "logs" / (re.sub(r"[^A-Za-z0-9_.=-]+", "_", name) + ".log")
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def wanted(self, name):
        known = self.state["rows"].get(name)
        if known and not (self.options.again and known["state"] not in ("pass", "skip")):
            return False
        only = [part for part in (self.options.only or "").split(",") if part]
        return not only or name.startswith(tuple(only))

    # ---- running

    def command(self, words, log, limit=LIMIT, env=None):
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
                output, _ = process.communicate(timeout=max(1, limit))
                status = process.returncode
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output, _ = process.communicate()
                status = None
            text = output.decode(errors="replace")
            file.write(text + f"[status {'time-out' if status is None else status}]\n")
        return status, text, time.monotonic() - begin

    def run_cases(self, ids, log, words=(), prefix=(), limit=LIMIT):
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
        log = self.log_path(row.name)
        log.unlink(missing_ok=True)
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
        status, text, seconds = self.command(configure, log)
        if status == 0:
            status, more, building = self.command(
                ["cmake", "--build", self.build, "-j", jobs], log, LIMIT - seconds
            )
            text, seconds = text + more, seconds + building
            if status is not None and status != 0:  # what can be built is run
                self.command(["cmake", "--build", self.build, "-j", jobs, "--", "-k"], log, LIMIT - seconds)
        errors = [line for line in text.splitlines() if re.search(r"error|Error", line)]
        state = "pass" if status == 0 else "timeout" if status is None else "fail"
        self.record(row.name, state, seconds, "" if status == 0 else " ".join(errors)[:500])

    def together(self, rows):
        """Rows that are not timed, several at a time. Those of single cases share processes."""
        single = [row for row in rows if row.run is None]
        batches = [single[k : k + BATCH] for k in range(0, len(single), BATCH)]
        work = [lambda batch=batch: self.correctness(batch) for batch in batches]
        work += [lambda row=row: row.run(row) for row in rows if row.run is not None]
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for done in [pool.submit(lambda begin=begin: self.in_time() and begin()) for begin in work]:
                done.result()

    def correctness(self, batch):
        log = self.log_path(batch[0].name)
        log.unlink(missing_ok=True)
        begin = time.monotonic()
        found, _ = self.run_cases([row.cases[0].id for row in batch], log)
        each = (time.monotonic() - begin) / len(batch)
        for row in batch:
            if row.cases[0].id in found:
                self.record(row.name, *found[row.cases[0].id][:1], each, found[row.cases[0].id][1])

    def group(self, row, words=(), prefix=()):
        log = self.log_path(row.name)
        log.unlink(missing_ok=True)
        begin = time.monotonic()
        found, clean = self.run_cases([c.id for c in row.cases], log, words, prefix)
        seconds = time.monotonic() - begin
        by_state = collections.Counter(state for state, _ in found.values())
        bad = [f"{id_}: {why}" for id_, (state, why) in found.items() if state == "fail"]
        if prefix and not bad and not clean:
            summary = re.findall(r"ERROR SUMMARY: .*|RACECHECK SUMMARY: .*", log.read_text(errors="replace"))
            bad = [f"{prefix[0]}: {summary[-1] if summary else 'see the log'}"]
        if bad:
            self.record(
                row.name,
                "fail",
                seconds,
                f"{by_state['pass']} of {len(row.cases)} pass; " + "; ".join(bad[:5]),
            )
        elif len(found) < len(row.cases):
            self.record(
                row.name, "timeout", seconds, f"{by_state['pass']} of {len(row.cases)} within {LIMIT} s"
            )
        elif by_state["skip"] == len(found):
            self.record(row.name, "skip", seconds, next(iter(found.values()))[1])
        else:
            skipped = [why for state, why in found.values() if state == "skip"]
            why = f"; {len(skipped)} skip: {skipped[0]}" if skipped else ""
            self.record(row.name, "pass", seconds, f"{by_state['pass']} of {len(row.cases)}{why}")

    def sanitize(self, tool, row):
        program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        if not os.access(program, os.X_OK):
            self.record(row.name, "skip", 0, "compute-sanitizer is not installed")
            return
        # NCCL asks for kernels and memory that a GPU may not have, and goes on without; Braid checks what its own calls return.
        options = ("--report-api-errors", "no") if tool == "memcheck" else ()
        self.group(row, prefix=(program, "--tool", tool, *options, "--error-exitcode", "9"))

    def json_row(self, row, words, **more):
        """A row whose command prints one line of JSON."""
        log = self.log_path(row.name)
        log.unlink(missing_ok=True)
        clocks = self.clocks()
        status, text, seconds = self.command(words, log)
        lines = [line for line in text.splitlines() if line.startswith("{")]
        if status == 0 and lines:
            self.record(row.name, "pass", seconds, values=json.loads(lines[-1]), clocks=clocks, **more)
        elif status == 3:
            self.record(row.name, "skip", seconds, text.strip().splitlines()[-1])
        else:
            self.record(row.name, "timeout" if status is None else "fail", seconds, text.strip()[-300:])

    def torch(self, mode, rows):
        """Rows of one process, most of whose time is the start of PyTorch."""
        log = self.log_path(rows[0].name)
        log.unlink(missing_ok=True)
        clocks = self.clocks()
        script = self.bundle / "harness" / "torch_rows.py"
        ids = [row.cases[0].id for row in rows]
        status, text, seconds = self.command([sys.executable, script, mode, *ids], log)
        found = {}
        for line in text.splitlines():
            if line.startswith("{"):
                values = json.loads(line)
                found[values["id"]] = values
        for row in rows:
            values = found.get(row.cases[0].id)
            each = seconds / len(rows)
            if values is not None and "error" in values:
                self.record(row.name, "fail", each, values["error"][:300])
            elif values is not None:
                self.record(row.name, "pass", each, values=values, clocks=clocks)
            elif status == 3:
                self.record(row.name, "skip", each, text.strip().splitlines()[-1])
            else:
                self.record(row.name, "timeout" if status is None else "fail", each, text.strip()[-300:])

    def peer_kernels(self, row):
        log = self.log_path(row.name)
        log.unlink(missing_ok=True)
        status, text, seconds = self.command([self.build / "bin" / "peer_check"], log)
        bad = re.findall(r"^END (\S+ fail: .*)$", text, re.M)
        passed = len(re.findall(r"^END \S+ pass", text, re.M))
        state = "pass" if status == 0 else "timeout" if status is None else "fail"
        self.record(
            row.name,
            state,
            seconds,
            f"{passed} pass; " + "; ".join(bad[:3] or [] if status == 0 else bad[:3] or [text[-200:]]),
        )

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

    def rows(self):
        checked = [c for c in self.cases if c.kind != "timing"]
        single = [c for c in checked if c.ranks == 1]
        pairs = [c for c in checked if c.ranks == 2 and c.kind != "peers"]

        def kinds(cases):
            return sorted({c.kind for c in cases})

        def of(cases, kind):
            return [c for c in cases if c.kind == kind]

        rows = [Row("build", "build", [], self.build_all)]
        rows += [Row(f"correct/{c.id}", "correctness", [c], None) for c in checked]
        if self.options.emulated:
            return rows
        for tool in TOOLS:
            for kind in kinds(single):
                cases = [c for c in of(single, kind)][:SANITIZED]
                rows.append(
                    Row(f"{tool}/{kind}", "sanitizer", cases, lambda row, tool=tool: self.sanitize(tool, row))
                )
        for kind in kinds(single):
            rows.append(
                Row(f"graph/{kind}", "graphs", of(single, kind), lambda row: self.group(row, ["--graph"]))
            )
        alone = [c for c in single if c.library.startswith(("forms", "collectives"))]
        rows.append(Row("nccl/one_rank", "NCCL", alone, self.group))
        for way, words in (("two_processes", ["--processes"]), ("two_processes_graph", ["--processes", "--graph"])):
            for kind in kinds(pairs):
                rows.append(
                    Row(
                        f"nccl/{way}/{kind}",
                        "NCCL",
                        of(pairs, kind),
                        lambda row, words=words: self.group(row, words),
                    )
                )
        rows.append(Row("peers/two_ranks_on_one_gpu", "NCCL", [], self.peer_kernels))
        rows.append(Row("machine", "timings", [], self.machine))
        for c in (c for c in self.cases if c.kind == "timing"):
            rows.append(
                Row(
                    f"time/{c.id}",
                    "timings",
                    [c],
                    lambda row: self.json_row(row, [self.harness, "time", row.cases[0].id]),
                )
            )
            for mode in TORCH_MODES:
                rows.append(
                    Row(f"torch_{mode}/{c.id}", "timings", [c], lambda row, mode=mode: self.torch(mode, [row]))
                )
        return rows

    def machine(self, row):
        self.json_row(row, [self.harness, "machine"])

    def in_time(self):
        return self.options.seconds is None or time.monotonic() - self.begun < self.options.seconds

    def run(self):
        rows = self.rows()
        together = [r for r in rows if r.section not in ("build", "timings") and self.wanted(r.name)]
        for row in rows:
            if not self.in_time():
                print("out of time: the next call goes on")
                break
            if row.name == "build":
                # A build is no result that another machine could have brought. One that ran out of time goes on.
                unfinished = self.state["rows"].get(row.name, {}).get("state") == "timeout"
                if not self.harness.exists() or unfinished or self.wanted(row.name):
                    self.build_all(row)
                if (
                    not self.harness.exists()
                    or self.state["rows"].get(row.name, {}).get("state") == "timeout"
                ):
                    print("not built: the next call goes on")
                    break
                self.state["machine"] = {"date": datetime.date.today().isoformat(), "gpu": self.clocks()}
            elif row.section != "timings":
                self.together(together)
                together = []
            elif row.name.startswith("torch_graph/"):
                if graphed := [r for r in rows if r.name.startswith("torch_graph/") and self.wanted(r.name)]:
                    self.torch("graph", graphed)
            elif self.wanted(row.name):
                row.run(row)

    # ---- the report

    def text_of(self, name, text=None):
        known = self.state["rows"].get(name)
        if not known:
            return NOT_YET
        return (
            text(known)
            if text and known["state"] == "pass"
            else known["state"] + (f": {known['detail']}" if known["detail"] else "")
        )

    def report(self):
        rows = self.rows()
        machine = self.state["rows"].get("machine", {}).get("values", {})
        out = ["# CUDA programs on a GPU", ""]
        where = ", ".join(
            filter(
                None,
                [
                    self.state["machine"].get("date"),
                    self.state["machine"].get("gpu") or machine.get("device"),
                    f"CUDA {machine['runtime']}, NCCL {machine['nccl']}" if machine else "",
                ],
            )
        )
        out += [where or f"GPU, driver, versions: {NOT_YET}.", ""]
        out += [
            "`scripts/gpu_bundle.sh` makes the bundle, `run_gpu_check.sh` in it runs these rows and writes this page.",
            "",
        ]
        out += [
            "| row | result |",
            "|---|---|",
            f"| build | {self.text_of('build', lambda k: f'''{k['seconds']:.0f} s''')} |",
            "",
        ]
        out += [
            "## Correctness",
            "",
            "Outputs against those of the interpreter, by kind and element type.",
            "",
        ]
        out += ["| kind | type | cases | result |", "|---|---|---|---|"]
        groups = collections.OrderedDict()
        for row in rows:
            if row.section == "correctness":
                groups.setdefault((row.cases[0].kind, row.cases[0].dtype), []).append(row.name)
        for (kind, dtype), names in groups.items():
            known = [self.state["rows"][n] for n in names if n in self.state["rows"]]
            count = collections.Counter(k["state"] for k in known)
            result = ", ".join(f"{n} {state}" for state, n in count.items()) if known else NOT_YET
            if known and len(known) < len(names):
                result += f", {len(names) - len(known)} {NOT_YET}"
            out.append(f"| {kind} | {dtype} | {len(names)} | {result} |")
        for section, title in (
            ("sanitizer", "compute-sanitizer"),
            ("graphs", "CUDA graphs"),
            ("NCCL", "NCCL and peers' memory"),
        ):
            if any(r.section == section for r in rows):
                out += ["", f"## {title}", "", "| row | cases | result |", "|---|---|---|"]
                out += [
                    f"| {r.name} | {len(r.cases) or ''} | {self.text_of(r.name, lambda k: k['detail'] or 'pass')} |"
                    for r in rows
                    if r.section == section
                ]
        out += self.timing_tables(machine) if not self.options.emulated else []
        results = [(row.name, self.state["rows"].get(row.name)) for row in rows]
        failed = [(n, k) for n, k in results if k and k["state"] in ("fail", "timeout")]
        if failed:
            out += ["", "## Failed rows", ""]
            out += [f"* `{n}` ({k['state']}): {k['detail'][:400]}" for n, k in failed]
        older = [
            n
            for n, k in results
            if k and not n.startswith("torch_") and k.get("bundle") != self.state["bundle"]
        ]
        if older:
            out += ["", "## Measured on an earlier bundle", ""]
            out += [f"* `{n}`" for n in older]
        return "\n".join(out) + "\n"

    def timing_tables(self, machine):
        out = [
            "",
            "## Timings",
            "",
            "Medians in microseconds, between CUDA events; `limit` is what the least bytes and the flops of the step take at"
            " the bandwidth of a copy and the peak of matrix products, measured in the same run.",
            "",
        ]
        peaks = ("copy_gb_s", "gemm_tflop_s_f32", "gemm_tflop_s_f16", "gemm_tflop_s_bf16")
        out += ["| " + " | ".join(peaks) + " |", "|" + "---|" * len(peaks)]
        out += ["| " + " | ".join(str(machine.get(p, NOT_YET)) for p in peaks) + " |", ""]
        out += [
            "| program | Braid | Braid, graph | PyTorch, graph | PyTorch, max-autotune | limit | Braid, graph: of the limit |",
            "|---|---|---|---|---|---|---|",
        ]

        def us(name, *path):
            return self.text_of(name, lambda k: f"{self.value(k, path):.1f}")

        for c in (c for c in self.cases if c.kind == "timing"):
            limit, share = NOT_YET, NOT_YET
            peak = machine.get(f"gemm_tflop_s_{c.dtype}")
            if machine.get("copy_gb_s") and peak:
                limit_us = max(
                    c.bytes / machine["copy_gb_s"] / 1e3,
                    c.flops / peak / 1e6 if "product" in c.id or "kernel_" not in c.id else 0,
                )
                limit = f"{limit_us:.1f}"
                own = self.state["rows"].get(f"time/{c.id}")
                if own and own["state"] == "pass":
                    share = f"{100 * limit_us / own['values']['graph']['median_us']:.0f}%"
            out.append(
                f"| {c.id} | {us('time/' + c.id, 'eager', 'median_us')} | {us('time/' + c.id, 'graph', 'median_us')} | "
                f"{us('torch_graph/' + c.id, 'median_us')} | {us('torch_compile/' + c.id, 'median_us')} | {limit} | {share} |"
            )
        return out

    @staticmethod
    def value(known, path):
        value = known["values"]
        for key in path:
            value = value[key]
        return value

    def pack(self):
        (self.results / "RESULTS.md").write_text(self.report(), encoding="utf-8")
        if (self.results / "logs").is_dir():
            with tarfile.open(self.results / "logs.tar.gz", "w:gz") as tar:
                tar.add(self.results / "logs", "logs")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", help="folder of the results (default: results/ in the bundle)")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--only", help="beginnings of names of rows, separated by commas")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--keep", help="beginnings of names of rows whose results of another bundle are kept")
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
