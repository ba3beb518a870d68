"""RESULTS.md: the rows of a check as a page."""

import collections

import counters
import rotation

NOT_YET = "not yet measured"


class Report:
    """`check` has the rows, the cases, and `state`; `is_current(name)` tells whether a result is of this bundle's programs."""

    def __init__(self, check):
        self.check, self.state, self.cases = check, check.state, check.cases
        self.rows = check.rows()

    def known(self, name):
        return self.state["rows"].get(name)

    def text_of(self, name, text=None):
        known = self.known(name)
        if not known:
            return NOT_YET
        if text and known["state"] == "pass":
            return text(known)
        return known["state"] + (f": {known['detail']}" if known["detail"] else "")

    def machine(self):
        return (self.known("machine") or {}).get("values", {})

    def text(self):
        parts = [self.head(), self.correctness(), self.sections()]
        if not self.check.options.emulated:
            parts += [self.timings(), self.counters()]
        parts += [self.failed(), self.earlier()]
        return "\n".join(line for part in parts for line in part) + "\n"

    def head(self):
        machine = self.machine()
        words = [
            self.state["machine"].get("date"),
            self.state["machine"].get("gpu") or machine.get("device"),
            f"CUDA {machine['runtime']}, NCCL {machine['nccl']}" if machine else "",
        ]
        build = self.text_of("build", lambda k: f"{k['seconds']:.0f} s")
        return [
            "# CUDA programs on a GPU",
            "",
            ", ".join(filter(None, words)) or f"GPU, driver, versions: {NOT_YET}.",
            "",
            "`scripts/gpu_bundle.sh` makes the bundle, `run_gpu_check.sh` in it runs these rows and writes this page.",
            "",
            *table(("row", "result"), [("build", build)]),
        ]

    def correctness(self):
        groups = collections.OrderedDict()
        for row in self.rows:
            if row.section == "correctness":
                groups.setdefault((row.cases[0].kind, row.cases[0].dtype), []).append(row.name)
        cells = []
        for (kind, dtype), names in groups.items():
            known = [k for k in map(self.known, names) if k]
            count = collections.Counter(k["state"] for k in known)
            result = ", ".join(f"{n} {state}" for state, n in count.items()) if known else NOT_YET
            if known and len(known) < len(names):
                result += f", {len(names) - len(known)} {NOT_YET}"
            cells.append((kind, dtype, len(names), result))
        title = [
            "",
            "## Correctness",
            "",
            "Outputs against those of the interpreter, by kind and element type.",
            "",
        ]
        return title + table(("kind", "type", "cases", "result"), cells)

    def sections(self):
        out = []
        for section, title in (
            ("sanitizer", "compute-sanitizer"),
            ("graphs", "CUDA graphs"),
            ("NCCL", "NCCL and peers' memory"),
        ):
            rows = [r for r in self.rows if r.section == section]
            cells = [
                (r.name, len(r.cases) or "", self.text_of(r.name, lambda k: k["detail"] or "pass"))
                for r in rows
            ]
            if cells:
                out += ["", f"## {title}", "", *table(("row", "cases", "result"), cells)]
        return out

    def timings(self):
        machine = self.machine()
        peaks = ("copy_gb_s", "gemm_tflop_s_f32", "gemm_tflop_s_f16", "gemm_tflop_s_bf16")
        numbers = f" of {machine['numbers']} numbers" if "numbers" in machine else ""
        return [
            "",
            "## Timings",
            "",
            "Medians in microseconds, between CUDA events. Inputs and outputs have copies that take turns, with a graph for each, so that"
            f" weights and copies together exceed {rotation.L2_MULTIPLE} times the L2 (at most {rotation.MOST_COPIES} copies): a step does"
            " not find in L2 what the one before has left there, but for weights that fit into it. PyTorch's rows do the same and have the"
            " same outputs. `limit` is the larger of two times: that of the least bytes of the step at the bandwidth of a copy, and that of"
            " the model's arithmetic, without conversions, comparisons and index arithmetic, at the peak of matrix products"
            f"{numbers}, measured in the same run. Of a kernel that is no product it is the first.",
            "",
            *table(peaks, [[machine.get(p, NOT_YET) for p in peaks]]),
            "",
            *table(
                (
                    "program",
                    "Braid",
                    "Braid, graph",
                    "PyTorch, graph",
                    "PyTorch, max-autotune",
                    "limit",
                    "Braid, graph: of the limit",
                ),
                [self.timing(c) for c in self.cases if c.kind == "timing"],
            ),
        ]

    def limit_us(self, case):
        machine = self.machine()
        peak = machine.get(f"gemm_tflop_s_{case.dtype}")
        if not machine.get("copy_gb_s") or not peak:
            return None
        computes = "product" in case.id or "kernel_" not in case.id
        return max(case.bytes / machine["copy_gb_s"] / 1e3, case.flops / peak / 1e6 if computes else 0)

    def timing(self, case):
        def us(name, *path):
            return self.text_of(name, lambda k: f"{value(k, path):.1f}")

        limit, share = self.limit_us(case), NOT_YET
        own = self.known(f"time/{case.id}")
        if limit is not None and own and own["state"] == "pass":
            share = f"{100 * limit / own['values']['graph']['median_us']:.0f}%"
        return (
            case.id,
            us(f"time/{case.id}", "eager", "median_us"),
            us(f"time/{case.id}", "graph", "median_us"),
            us(f"torch_graph/{case.id}", "median_us"),
            us(f"torch_compile/{case.id}", "median_us"),
            NOT_YET if limit is None else f"{limit:.1f}",
            share,
        )

    def counters(self):
        cells = []
        for row in (r for r in self.rows if r.section == "counters"):
            known = self.known(row.name)
            if known and known["state"] == "pass":
                cells += counters.table_rows(row.cases[0], known["values"]["kernels"])
            else:
                cells.append((row.cases[0].id, self.text_of(row.name), *[""] * (len(counters.HEADER) - 2)))
        return [
            "",
            "## Hardware counters",
            "",
            "By Nsight Compute, of one step after a first one, with empty caches and clocks as they are. Sectors have 32 bytes: a warp's"
            " request of 4, 8 or 16 bytes per lane without gaps has 4, 8 or 16. Stalls are warps per issued instruction that wait for this"
            " reason, the two most frequent ones.",
            "",
            *table(counters.HEADER, cells),
        ]

    def failed(self):
        results = [(row.name, self.known(row.name)) for row in self.rows]
        failed = [(n, k) for n, k in results if k and k["state"] in ("fail", "timeout")]
        lines = [f"* `{n}` ({k['state']}): {k['detail'][:400]}" for n, k in failed]
        return ["", "## Failed rows", "", *lines] if lines else []

    def earlier(self):
        """Rows that were measured on another bundle: those whose programs have changed since by name, the others by their number."""
        older = [
            r.name for r in self.rows if (k := self.known(r.name)) and k.get("bundle") != self.state["bundle"]
        ]
        changed = [name for name in older if not self.check.is_current(name)]
        same = collections.Counter(name.split("/")[0] for name in older if self.check.is_current(name))
        out = []
        if same:
            count = ", ".join(f"{n} {kind}" for kind, n in same.items())
            out += [
                "",
                "## Measured on an earlier bundle, with the same program, runtime and cases",
                "",
                count,
            ]
        if changed:
            out += [
                "",
                "## Measured on an earlier bundle",
                "",
                "What these rows depend on has changed since.",
                "",
            ]
            out += [f"* `{n}`" for n in changed]
        return out


def value(known, path):
    found = known["values"]
    for key in path:
        found = found[key]
    return found


def table(header, rows):
    lines = [" | ".join(map(str, header)), *(" | ".join(map(str, row)) for row in rows)]
    return [f"| {lines[0]} |", "|" + "---|" * len(header), *(f"| {line} |" for line in lines[1:])]
