#!/usr/bin/env python3
"""Holds comments to docs/style.md: at most 110 columns, no line that begins with "Of" or "What", none of the words that it names.
Prints each line that breaks a rule.
"""

import pathlib
import re
import sys

import cpp_text

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("ir", "analysis", "passes", "solver", "split", "pipeline", "frontend", "codegen", "driver", "explain", "runtime", "harness", "cli", "python", "tests",
           "bench", "examples")  # fmt: skip
COLUMNS = 110


def faults(text):
    for comment in cpp_text.comments(text):
        if comment.end > COLUMNS:
            yield comment, f"{comment.end} columns"
        elif re.match(r"(?:Of|What) ", comment.text):
            yield comment, "begins with a clause that has no subject"
        elif word := cpp_text.WORDS.search(comment.text):
            yield comment, f"'{word[0]}'"


def main():
    problems = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cc", ".cu", ".inc") and "golden" not in path.parts:
                text = path.read_text(encoding="utf-8")
                problems += [f"{path.relative_to(ROOT)}:{comment.line}: {why}" for comment, why in faults(text)]
    sys.exit("\n".join(problems) if problems else 0)


main()
