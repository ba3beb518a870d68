#!/usr/bin/env python3
"""Who may include whom: fails on an #include between the folders of the tree that is not listed here.

  check_rooms.py            checks the tree, and that docs/architecture.md shows the same arrows
  check_rooms.py --table    prints the table of docs/architecture.md
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Room: what it answers, and the rooms that it may include. A folder inside of a room may be one of its own. The headers of
# NOBODYS are in no room: all may raise errors, index tables, and read files and JSON.
ROOMS = {
    "ir": ("the program: graph, schedule, plan; text, verifier, interpreter", []),
    "analysis": ("questions about a schedule, without changing it: costs, simulator, bounds, memory, agreement of ranks", ["ir"]),
    "passes": ("transformations of a schedule, one per file, and the runner", ["passes/inductor", "analysis", "ir"]),
    "passes/inductor": ("the passes of PyTorch Inductor that move communication, all generations of them", ["passes", "analysis", "ir"]),
    "passes/rivals": ("the schedulers of other projects, a plug-in for benchmarks and tests", ["passes", "analysis", "ir"]),
    "solver": ("the cheapest choice for each variable of a problem, exactly; plain values that know neither graphs nor meshes", []),
    "split": ("plans that split a model over a mesh: states, costs, bounds, the search; knows no ONNX", ["solver", "analysis", "ir"]),
    "pipeline": ("pipeline schedules: plain values that know no graph", ["analysis"]),
    "frontend": ("from ONNX, and from other tools' traces, to the IR", ["split", "passes", "analysis", "ir"]),
    "codegen": ("from a planned schedule to source and library, a folder per target", ["passes", "analysis", "ir", "runtime"]),
    "driver": ("all steps from file to library", ["frontend", "split", "codegen", "passes", "analysis", "ir"]),
    "explain": ("reports on a run: timelines, story, text, page, log", ["passes", "analysis", "ir"]),
    "runtime": ("what generated programs link to; independent of the compiler", []),
    "harness": (
        "programs as they run, one interface for CPU and CUDA: load, inputs, ranks, results, compare, profile",
        ["driver", "explain", "codegen", "frontend", "split", "analysis", "ir", "runtime"],
    ),
    "cli": (
        "the braid executable: arguments and printing",
        ["harness", "driver", "explain", "codegen", "frontend", "split", "pipeline", "passes", "analysis", "ir", "runtime"],
    ),
    "python": (
        "the Python package: bindings, and what needs Python",
        ["harness", "driver", "explain", "codegen", "frontend", "split", "pipeline", "passes", "analysis", "ir", "runtime"],
    ),
}
NOBODYS = {"ir/error.h", "ir/error_numbers.h", "ir/id_vector.h", "ir/input_file.h", "ir/json_document.h"}
INCLUDE = re.compile(r'^#include "(\w+/[^"]+)"', re.MULTILINE)


def room_of(path):
    """The innermost one that holds the file, or None."""
    return max((room for room in ROOMS if path.startswith(room + "/")), key=len, default=None)


def table():
    rows = ["| room | what is in it | may include |", "|---|---|---|"]
    rows += [f"| `{room}/` | {what} | {', '.join(f'`{r}`' for r in may) or 'nobody'} |" for room, (what, may) in ROOMS.items()]
    return "\n".join(rows)


def wrong_includes():
    for folder in (room for room in ROOMS if "/" not in room):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".h", ".cc", ".cu", ".inc"):
                continue
            name = str(path.relative_to(ROOT))
            room = room_of(name)
            for target in INCLUDE.findall(path.read_text(encoding="utf-8")):
                of_target = room_of(target)
                if of_target not in (None, room, *ROOMS[room][1]) and target not in NOBODYS:
                    yield f"{name} includes {target}: {room} -> {of_target} is not listed"
                elif not (ROOT / target).exists() and of_target:
                    yield f"{name} includes {target}, which is not there"


def main():
    if sys.argv[1:] == ["--table"]:
        print(table())
        return
    problems = list(wrong_includes())
    if table() not in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"):
        problems.append("docs/architecture.md does not show this table: scripts/check_rooms.py --table prints it")
    sys.exit("\n".join(problems) if problems else 0)


main()
