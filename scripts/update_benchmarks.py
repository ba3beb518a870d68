#!/usr/bin/env python3
"""Writes docs/benchmarks.md: one line for each page of bench/, computed from its tables.

  update_benchmarks.py            writes it
  update_benchmarks.py --check    fails if it differs
"""

import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"


class Results:
    """A page of bench/: what stands above its tables, and their rows as dictionaries."""

    def __init__(self, path):
        self.path = path
        self.text = (ROOT / "bench" / path).read_text(encoding="utf-8")
        found = re.search(r"^(.*?)(?:, \d+ processors)?; load average .*commit (\w+)", self.text, re.MULTILINE)
        self.machine, self.commit = found.groups() if found else ("", "")
        self.machine = self.machine.replace("(R)", "").replace(" Processor", "")
        self.tables, header = [], None
        for line in self.text.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if not line.startswith("|"):
                header = None
            elif header is None:
                header = cells
                self.tables.append([])
            elif not re.fullmatch(r"[\s|:-]+", line):
                self.tables[-1].append(dict(zip(header, cells)))

    def numbers(self, column, where=lambda row: True):
        """The numbers of a column in all tables that have it; of "22.8 (0.61)" the one in brackets."""
        rows = [row for table in self.tables for row in table if column in row and where(row)]
        found = [re.search(r"(?<=\()[\d.]+(?=\))", row[column]) or re.search(r"[\d.]+", row[column]) for row in rows]
        return [float(match[0]) for match in found if match]


def geomean(numbers):
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


def ratios(results, column, where=lambda row: True):
    numbers = results.numbers(column, where)
    return f"{geomean(numbers):.2f} ({min(numbers):.2f} to {max(numbers):.2f}, {len(numbers)} rows)"


def speed_ups(results):
    rows = [row for table in results.tables for row in table if "speed-up" in row]
    return "; ".join(f"{row['']} {row['of that by hand']}" for row in rows)


# What is compared, its page, and its result.
ROWS = (
    ("transformers: time over ONNX Runtime's", "onnxruntime/RESULTS.md", lambda r: ratios(r, "ratio")),
    ("the same beside a busy process", "onnxruntime/BUSY.md", lambda r: ratios(r, "ratio")),
    ("vision and recurrent networks: time over ONNX Runtime's", "onnxruntime/NETWORKS.md", lambda r: ratios(r, "ratio")),
    ("published files, static dimensions: time over ONNX Runtime's", "published/RESULTS.md",
     lambda r: ratios(r, "ratio", lambda row: row["dimensions"] == "static")),
    ("the same, dynamic dimensions", "published/RESULTS.md", lambda r: ratios(r, "ratio", lambda row: row["dimensions"] == "dynamic")),
    ("operators alone: time over ONNX Runtime's", "operators/RESULTS.md", lambda r: ratios(r, "ratio")),
    ("peak memory over ONNX Runtime's", "onnxruntime/MEMORY.md", lambda r: ratios(r, "ratio")),
    ("`--precision bf16`: time over that of f32", "precision/RESULTS.md", lambda r: ratios(r, "bf16 (ratio)")),
    ("`--precision int8`: time over that of f32", "precision/RESULTS.md", lambda r: ratios(r, "int8 (ratio)")),
    ("quantised files: time over ONNX Runtime's", "precision/RESULTS.md", lambda r: ratios(r, "ratio", lambda row: "form" in row)),
    ("trees and classical models, 1 row: time over ONNX Runtime's", "trees/RESULTS.md", lambda r: ratios(r, "ratio, 1")),
    ("the same, 1,000 rows", "trees/RESULTS.md", lambda r: ratios(r, "ratio, 1,000")),
    ("a step through Python beyond the C ABI, us", "python/RESULTS.md", lambda r: r.tables[0][1]["beyond the C ABI, us"]),
    ("collectives of two processes: time over Open MPI's", "collectives/RESULTS.md", lambda r: ratios(r, "copies / MPI")),
    ("the same in the segment: time over MPI-3 shared windows", "collectives/RESULTS.md", lambda r: ratios(r, "no copies / windows")),
    ("`--devices 2`: speed-up over that of a split by hand", "tensor_parallel/RESULTS.md", speed_ups),
    ("chosen splits: simulated step over that by hand", "auto_parallel/PAIRS.md", lambda r: ratios(r, "chosen / by hand")),
    ("chosen splits, simulated: gap to the bound", "auto_parallel/PAIRS.md", lambda r: re.search(r"Gap: (.*)\.", r.text)[1]),
    ("choosing among all splits of 32 layers on 8 devices, s", "auto_parallel/SEARCH.md",
     lambda r: ratios(r, "s", lambda row: "--devices 8" in row["meshes"])),
    ("published auto-sharding problems proved optimal", "auto_parallel/RESULTS.md",
     lambda r: f"{sum(row['gap'] == 'optimal' for row in r.tables[0])} of {len(r.tables[0])}"),
    ("memory plans of 1,000 collectives: bytes over the bound", "comm_plan/RESULTS.md", lambda r: ratios(r, "ratio")),
    ("`braid_schedule` above the lower bound, simulated", "overlap/TABLE.md",
     lambda r: re.search(r"geometric mean of makespan / bound - 1 = (.*?), worst (\S+ %)", r.text).expand(r"\1 on average, \2 at most")),
    ("schedules executed: measured makespan over simulated", "paced/RESULTS.md", lambda r: ratios(r, "measured / simulated")),
    ("pipeline schedules: ns per action", "pipeline/RESULTS.md", lambda r: ratios(r, "ns per action")),
    ("GPT-2 small, ONNX to source", "compile/RESULTS.md", lambda r: re.search(r"prefill: (\d+ ms)", r.text)[1]),
    ("ONNX to library with an empty cache, s", "compile/RESULTS.md", lambda r: ratios(r, "file to library, empty cache, s")),
)  # fmt: skip


def page():
    lines = [
        "# Benchmarks",
        "",
        "Written by `scripts/update_benchmarks.py` from the pages of `bench/`; do not edit it. Ratios below 1 mean that Braid takes less: the",
        "geometric mean, and in brackets the range. Machines are shared and have two processors; each page says how it was measured.",
        "GPU results stand on a page of their own: [measured](../bench/gpu/RESULTS.md), [predicted](../bench/gpu/PREDICTED.md).",
        "",
        "| compared | result | machine | commit |",
        "|---|---|---|---|",
    ]
    for what, path, result in ROWS:
        results = Results(path)
        machine = results.machine or ("simulated" if "simulated" in what else "any")
        lines.append(f"| [{what}](../bench/{path}) | {result(results)} | {machine} | {results.commit} |")
    return "\n".join(lines) + "\n"


def main():
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == page() else "docs/benchmarks.md differs: run scripts/update_benchmarks.py")
    PAGE.write_text(page(), encoding="utf-8")


main()
