#!/usr/bin/env python3
"""Holds the table of environment variables in docs/communication.md to the source: each variable that is read has a row, each row's
variables are read. Prints what is missing, one per line.

A file that reads variables does so by getenv, os.environ, or a function or declaration of runtime/environment.h and
codegen/toolchain.h; the names of variables are its literals in capitals.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "communication.md"
FOLDERS = ("analysis", "cli", "codegen", "driver", "explain", "frontend", "harness", "ir", "passes", "pipeline", "python", "runtime", "solver", "split")
READS = re.compile(r"\bgetenv\(|\bos\.environ\b|\benvironment_value\(|\benvironment\(|\b(?:Number|Word)Variable\b")
NAME = re.compile(r'"([A-Z][A-Z0-9]*(?:_[A-Za-z0-9]+)+|RANK|CXX|HOME|TERM|TMPDIR)"')
NOT_VARIABLES = {"BRAID_PROGRAM_"}


def names_in_source():
    places = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".cc", ".h", ".py", ".cu"):
                continue
            text = path.read_text(encoding="utf-8")
            if READS.search(text):
                for name in NAME.findall(text):
                    places.setdefault(name, path.relative_to(ROOT))
    return {name: place for name, place in places.items() if name not in NOT_VARIABLES}


def names_in_table():
    section = PAGE.read_text(encoding="utf-8").split("\n## Environment variables\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([A-Z][A-Za-z0-9_]+)`", row.split(" | ")[0])}


def main():
    read, listed = names_in_source(), names_in_table()
    problems = [f"{place}: {name} is not in the table of {PAGE.relative_to(ROOT)}"
                for name, place in sorted(read.items()) if name not in listed]  # fmt: skip
    problems += [f"{PAGE.relative_to(ROOT)}: nothing reads {name}" for name in sorted(listed - set(read))]
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
