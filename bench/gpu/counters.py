"""Hardware counters of kernels by Nsight Compute (ncu): which, how, and what its output says."""

import csv
import io
import os
import re
import shutil

# Cases whose kernels are counted: ten, of which eight are the kernels of one kind each in f16.
COUNTED = (
    *(
        f"kernel_{name}_f16"
        for name in ("add", "gelu", "transpose", "row_sum", "column_sum", "softmax", "layer_norm")
    ),
    "kernel_transpose_f32",
    "kernel_product_f16",
    "kernel_batched_product_f16",
)

TIME = "gpu__time_duration.sum"
DRAM_READ, DRAM_WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
LOADS, STORES = (f"l1tex__t_{{}}_pipe_lsu_mem_global_op_{op}.sum" for op in ("ld", "st"))
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu.sum"
ISSUE = "smsp__issue_active.avg.pct_of_peak_sustained_active"
WARPS = "sm__warps_active.avg.pct_of_peak_sustained_active"
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
STALLS = (
    "barrier",
    "branch_resolving",
    "dispatch_stall",
    "drain",
    "imc_miss",
    "lg_throttle",
    "long_scoreboard",
    "math_pipe_throttle",
    "membar",
    "mio_throttle",
    "no_instruction",
    "not_selected",
    "short_scoreboard",
    "sleeping",
    "tex_throttle",
    "wait",
)
METRICS = (
    TIME,
    DRAM_READ,
    DRAM_WRITTEN,
    *(way.format(what) for way in (LOADS, STORES) for what in ("sectors", "requests")),
    CONFLICTS,
    ISSUE,
    WARPS,
    *map(STALL.format, STALLS),
)


def program():
    found = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    return found if os.access(found, os.X_OK) else None


def command(path, harness, case):
    """Clocks are left alone and caches emptied before each kernel, as in the timings. The harness brackets the step to profile."""
    options = ["--csv", "--page", "raw", "--print-units", "base", "--profile-from-start", "off"]
    options += ["--clock-control", "none", "--cache-control", "all", "--metrics", ",".join(METRICS)]
    return [path, *options, harness, "step", case]


def missing_permission(text):
    return "ERR_NVGPUCTRPERM" in text


def number(text):
    try:
        return float(text.replace(",", ""))
    except ValueError:  # n/a
        return None


def parse(text):
    """The kernels of ncu's CSV output, in their order: name, grid, block and metrics. Lines before the header are not ncu's table."""
    lines = text.splitlines()
    begin = next((k for k, line in enumerate(lines) if line.startswith('"ID"')), None)
    if begin is None:
        return []
    table = list(
        csv.DictReader(io.StringIO("\n".join(line for line in lines[begin:] if line.startswith('"'))))
    )
    kernels = []
    for row in table:
        if not row["ID"]:  # the line of units
            continue
        metrics = {name: number(row[name]) for name in METRICS if row.get(name)}
        name = re.sub(r"\(.*|<.*", "", row["Kernel Name"].replace("(anonymous namespace)::", ""))
        kernels.append(
            {"name": name, "grid": row.get("Grid Size"), "block": row.get("Block Size"), "metrics": metrics}
        )
    return kernels


def per_request(metrics, way):
    sectors, requests = (metrics.get(way.format(what)) for what in ("sectors", "requests"))
    return f"{sectors / requests:.1f}" if sectors is not None and requests else ""


def worst_stalls(metrics, count=2):
    ratios = {name: metrics.get(STALL.format(name)) or 0 for name in STALLS}
    worst = sorted(ratios, key=ratios.get, reverse=True)[:count]
    return ", ".join(f"{name} {ratios[name]:.1f}" for name in worst if ratios[name] > 0)


HEADER = (
    "case",
    "kernel",
    "us",
    "DRAM read, MB",
    "DRAM written, MB",
    "least, MB",
    "sectors per load",
    "per store",
    "bank conflicts",
    "issue active, %",
    "warps active, %",
    "stalls per issue",
)


def table_rows(case, kernels):
    """Cells below HEADER, one row per kernel."""

    def scaled(metrics, name, scale, digits=1):
        value = metrics.get(name)
        return "" if value is None else f"{value / scale:.{digits}f}"

    return [
        (
            case.id,
            kernel["name"],
            scaled(kernel["metrics"], TIME, 1e3),
            scaled(kernel["metrics"], DRAM_READ, 1e6),
            scaled(kernel["metrics"], DRAM_WRITTEN, 1e6),
            f"{case.bytes / 1e6:.1f}" if k == 0 else "",
            per_request(kernel["metrics"], LOADS),
            per_request(kernel["metrics"], STORES),
            scaled(kernel["metrics"], CONFLICTS, 1, 0),
            scaled(kernel["metrics"], ISSUE, 1),
            scaled(kernel["metrics"], WARPS, 1),
            worst_stalls(kernel["metrics"]),
        )
        for k, kernel in enumerate(kernels)
    ]
