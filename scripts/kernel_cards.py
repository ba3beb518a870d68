#!/usr/bin/env python3
"""What nvcc makes of the kernels of CUDA programs: a card for each, read from machine code. No GPU is needed.

    braid compile MODEL.onnx -o OUT --target cuda --emit source
    scripts/python_run.sh scripts/kernel_cards.py [--machine NAME|FILE.json] [--block N] [--json] OUT|FILE.cu...

docs/cuda.md ("Kernel cards") walks through one. Exit code 77 where nvcc or nvdisasm is missing.
"""

import argparse
import dataclasses
import json
import pathlib
import re
import sys

import cubin
import sass
from kernel_launches import Launch, launches, with_tile_names
from machine_file import UserError, load_gpu

SKIPPED = 77
COLUMNS = ("registers", "spilled", "stack", "shared", "threads", "loads", "stores", "loop", "instructions", "loads ahead",
           "bytes ahead", "KiB ahead per SM", "of 16 bytes", "instructions per 16 bytes", "calls in loops",
           "HMMA/LDSM/LDGSTS", "instructions per HMMA")  # fmt: skip
_TENSOR = ("HMMA", "IMMA", "DMMA", "QMMA", "HGMMA", "IGMMA", "QGMMA")
_REGISTER_UNIT, _SCHEDULERS, _WARP = 256, 4, 32  # of sm_80 and later
_SHARED_UNIT, _SHARED_OF_SYSTEM = 128, 1024


@dataclasses.dataclass
class Region:
    """A loop that moves bytes, one round of it for one thread, or a kernel without such a loop."""

    kind: str  # loop, tail, kernel
    instructions: int
    loads: int  # of global memory
    stores: int
    load_bytes: int
    store_bytes: int
    wide_bytes: int  # by accesses of 16 bytes
    loads_ahead: int  # global loads that are under way when the first of them is used
    bytes_ahead: int
    calls: list
    matrix: dict

    @property
    def bytes(self):
        return self.load_bytes + self.store_bytes


@dataclasses.dataclass
class Card:
    program: str
    kernel: str
    registers: int
    spilled: int  # bytes that ptxas spills and loads back
    stack: int
    shared: int  # static
    dynamic: int | None  # shared memory of a launch; None where only the run knows it
    local: dict  # LDL and STL
    widths: dict  # of global loads and stores: {"load": {"U16": 1}, "store": ..}
    atomics: int
    barriers: int  # of blocks
    instructions: int
    threads: int  # of a block
    threads_from: str  # launch, most, option
    resident: int  # threads of a multiprocessor
    regions: list  # the one that moves the most first


def kernel_name(mangled, readable):
    """(program, kernel) without parameters: ("gpt2", "softmax_kernel<true>")."""
    text = with_tile_names(re.sub(r"^void ", "", readable).replace("(anonymous namespace)::", ""))
    depth, end = 0, len(text)
    for k, c in enumerate(text):
        depth += (c == "<") - (c == ">")
        if c == "(" and depth == 0:
            end = k
            break
    text = text[:end]
    match = re.match(r"braid_cuda_(\w+)::(.*)", text)
    return (match[1], match[2]) if match else ("", text or mangled)


def _global(instructions, direction=None):
    return [
        i for i in instructions if i.access and i.access[0] == "global" and direction in (None, i.access[1])
    ]


def _bytes(instructions):
    return sum(i.access[2] for i in instructions)


def ahead(instructions, rounds):
    """(loads, bytes) that are under way at most. A load ends when an instruction names a register of it, and all before it with it;
    an asynchronous copy when a wait covers its group."""
    pending, groups, most = [], [], (0, 0)
    for i in instructions * rounds:
        named = i.registers()
        used = [k for k, (registers, _) in enumerate(pending) if registers & named]
        if used:
            del pending[: used[-1] + 1]
        if i.access and i.access[:2] == ("global", "load"):
            pending.append((i.loaded_registers(), i.access[2]))
        elif i.name == "LDGDEPBAR":
            groups.append(len(pending))
        elif i.name == "DEPBAR" and (match := re.search(r"SB0, 0x([0-9a-f]+)", i.operands)):
            kept = int(match[1], 16)
            covered = groups[: len(groups) - kept] if kept < len(groups) else []
            if covered:
                del pending[: covered[-1]]
                groups = [g - covered[-1] for g in groups[len(covered) :]]
        most = max(most, (sum(b for _, b in pending), len(pending)))
    return most[1], most[0]


def region(kind, instructions):
    loads, stores = _global(instructions, "load"), _global(instructions, "store")
    matrix = {"HMMA": sum(i.name in _TENSOR for i in instructions)}
    matrix |= {name: sum(i.name == name for i in instructions) for name in ("LDSM", "LDGSTS")}
    calls = [re.sub(r"\$?__internal_\d+_\$", "", i.targets[-1] if i.targets else i.operands)
             for i in instructions if i.name == "CALL"]  # fmt: skip
    wide = _bytes(i for i in loads + stores if i.access[2] >= 16)
    # A second round finds loads that are used in the next one.
    return Region(kind, len(instructions), len(loads), len(stores), _bytes(loads), _bytes(stores), wide,
                  *ahead(instructions, 1 if kind == "kernel" else 2), calls, matrix)  # fmt: skip


def _is_tail(found, loop, main, main_loop):
    """A loop beside the main one that does the same with fewer bytes: what is left of unrolled or vectorised rounds."""
    same = (found.load_bytes > 0) == (main.load_bytes > 0) and (found.store_bytes > 0) == (
        main.store_bytes > 0
    )
    return (
        loop.parent is main_loop.parent
        and same
        and 0 < found.bytes < main.bytes
        and main.bytes % found.bytes == 0
    )


def regions(kernel):
    """Loops that move global bytes and contain no other such loop, the one that moves the most first; else the whole kernel."""
    moving = [loop for loop in kernel.loops if _global(kernel.instructions(loop.blocks))]
    inner = [loop for loop in moving if not any(loop.contains(other) for other in moving)]
    found = [(region("loop", kernel.instructions(loop.blocks)), loop) for loop in inner]
    if not found:
        return [region("kernel", kernel.instructions())]
    found.sort(key=lambda f: (-f[0].bytes, -f[0].instructions, f[1].header))
    main, main_loop = found[0]
    for other, loop in found[1:]:
        if _is_tail(other, loop, main, main_loop):
            other.kind = "tail"
    return [f[0] for f in found]


def resident_threads(resources, threads, shared, gpu):
    """Of a multiprocessor, as registers, shared memory and its limits allow."""
    warps = -(-threads // _WARP)
    of_warp = -(-resources.registers * _WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    by_registers = int(gpu.registers // _SCHEDULERS // max(of_warp, 1)) * _SCHEDULERS // warps
    of_block = -(-(resources.shared + shared) // _SHARED_UNIT) * _SHARED_UNIT
    by_shared = (
        0 if of_block > gpu.block_shared_bytes else int(gpu.shared_bytes // (of_block + _SHARED_OF_SYSTEM))
    )
    blocks = min(int(gpu.threads // _WARP) // warps, by_registers, by_shared, int(gpu.blocks))
    return blocks * threads


def _width(instruction):
    return {1: "U8", 2: "U16"}.get(instruction.access[2], str(8 * instruction.access[2]))


def card(kernel, name, resources, launch, block, gpu):
    instructions = kernel.instructions()
    widths = {"load": {}, "store": {}}
    for i in _global(instructions):
        of = widths[i.access[1]]
        of[_width(i)] = of.get(_width(i), 0) + 1
    threads = launch.threads if launch and launch.threads else block
    source = (
        "option" if not (launch and launch.threads) else "most" if launch.threads_are_the_most else "launch"
    )
    local = {n: sum(i.name == n for i in instructions) for n in ("LDL", "STL")}
    return Card(*name, resources.registers, resources.spill_stores + resources.spill_loads, resources.stack,
                resources.shared, launch.shared if launch else 0, local, {d: dict(sorted(w.items())) for d, w in widths.items()},
                sum(i.name in ("ATOM", "ATOMG", "RED", "REDG") for i in instructions),
                sum(i.name == "BAR" for i in instructions), len(instructions), threads, source,
                resident_threads(resources, threads, launch.shared or 0 if launch else 0, gpu), regions(kernel))  # fmt: skip


def cards_of(code, source_text, block, gpu):
    """The cards of what one source was compiled to (cubin.Code), in the order of mangled names."""
    kernels = sass.parse(code.sass)
    readable = cubin.demangled([k.name for k in kernels])
    known, found = launches(source_text), []
    for kernel in kernels:
        program, name = kernel_name(kernel.name, readable[kernel.name])
        launch: Launch | None = known.get(("braid_cuda_" + program, name)) or known.get(
            ("braid_cuda_" + program, re.sub(r"<.*", "", name)))  # fmt: skip
        found.append(card(kernel, (program, name), code.resources[kernel.name], launch, block, gpu))
    return found


def _text(widths):
    order = sorted(widths, key=lambda w: int(w.strip("U")))
    return " ".join(f"{w} x{widths[w]}" for w in order) or "none"


def cells(c):
    """The row of a card: {column: text}."""
    main = c.regions[0]
    tails = sum(r.kind == "tail" for r in c.regions)
    loops = sum(r.kind != "kernel" for r in c.regions) - tails
    shape = (
        "none"
        if main.kind == "kernel"
        else (f"1 of {loops}" if loops > 1 else "1") + (f" + {tails} tail" if tails else "")
    )
    calls = [call for r in c.regions for call in r.calls]
    mark = {"launch": "", "most": " (most)", "option": " (assumed)"}[c.threads_from]
    local = f" ({c.local['LDL']} LDL, {c.local['STL']} STL)" if any(c.local.values()) else ""
    values = (
        c.registers,
        f"{c.spilled}{local}",
        c.stack,
        f"{c.shared} + {'dynamic' if c.dynamic is None else c.dynamic}" if c.dynamic != 0 else c.shared,
        f"{c.threads}{mark}, {c.resident} per SM",
        _text(c.widths["load"]),
        _text(c.widths["store"]),
        shape,
        main.instructions,
        main.loads_ahead,
        main.bytes_ahead,
        f"{main.bytes_ahead * c.resident / 1024:.1f}",
        f"{100 * main.wide_bytes / main.bytes:.0f}%" if main.bytes else "none",
        f"{16 * main.instructions / main.bytes:.1f}" if main.bytes else "none",
        f"{len(calls)} ({', '.join(sorted(set(calls)))})" if calls else "0",
        "/".join(str(main.matrix[n]) for n in ("HMMA", "LDSM", "LDGSTS")),
        f"{main.instructions / main.matrix['HMMA']:.1f}" if main.matrix["HMMA"] else "none",
    )
    return dict(zip(COLUMNS, (str(v) for v in values)))


def table(cards):
    lines = ["| program | kernel | " + " | ".join(COLUMNS) + " |", "|" + "---|" * (len(COLUMNS) + 2)]
    for c in cards:
        lines.append(f"| {c.program} | {c.kernel} | " + " | ".join(cells(c).values()) + " |")
    return "\n".join(lines)


def sources(paths):
    """The .cu files themselves and those of folders. User error 1."""
    found = []
    for path in map(pathlib.Path, paths):
        here = sorted(path.glob("*.cu")) or sorted(path.glob("programs/*.cu")) if path.is_dir() else [path]
        if not here or not all(f.is_file() for f in here):
            raise UserError(
                1,
                f"cannot read {path}: "
                + ("it has no .cu file" if path.is_dir() else "there is no such file"),
            )
        found += here
    return found


def read_cards(paths, gpu, block, nvcc, nvdisasm):
    """The cards of all sources; nvcc's time of each goes to standard error."""
    found = []
    for source in sources(paths):
        code = cubin.compiled(source, gpu.architecture, nvcc, nvdisasm)
        here = cards_of(code, source.read_text(encoding="utf-8", errors="replace"), block, gpu)
        print(f"{source.name}: {len(here)} kernels, nvcc {code.seconds:.1f} s", file=sys.stderr)
        found += here
    return sorted(found, key=lambda c: (c.program, c.kernel))


def json_text(cards, gpu, nvcc, nvdisasm):
    """What `braid bench --cards` reads."""
    found = {"machine": gpu.name, "nvcc": cubin.version(nvcc), "nvdisasm": cubin.version(nvdisasm),
             "cards": [dataclasses.asdict(c) for c in cards]}  # fmt: skip
    return json.dumps(found, indent=1) + "\n"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="+", metavar="OUT|FILE.cu")
    parser.add_argument("--machine", default="h200", help="whose GPU (default: h200)")
    parser.add_argument("--block", type=int, default=256, help="threads of a block where no launch says it")
    parser.add_argument("--json", action="store_true", help="all loops, for programs to read")
    options = parser.parse_args()
    if not 1 <= options.block <= 1024:
        parser.error("--block must be between 1 and 1024")
    gpu = load_gpu(options.machine)
    sources(options.paths)
    nvcc, nvdisasm = cubin.tools()
    found = read_cards(options.paths, gpu, options.block, nvcc, nvdisasm)
    if options.json:
        print(json_text(found, gpu, nvcc, nvdisasm), end="")
    else:
        print(table(found))
    return 0


def run(program):
    """The exit code of a script; user errors are printed."""
    try:
        return program()
    except UserError as e:
        print(e, file=sys.stderr)
        return SKIPPED if e.code == cubin.MISSING_TOOL else 1


if __name__ == "__main__":
    sys.exit(run(main))
