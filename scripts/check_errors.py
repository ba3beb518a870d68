#!/usr/bin/env python3
"""Holds error numbers and docs/errors.md to each other: every number in the source has its section, every section a
number in the source, no number has two names, and every number is seen in a test. Prints what is missing, one per line.

Numbers are named in the tables of HEADERS and nowhere else; no call has a literal. A test sees a number as "BR0301", by its name, or as
the number 301 on a line that speaks of an error or a code, or as an argument of such a function: expect_user_error(301, ...).
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE_FOLDERS = ("ir", "analysis", "passes", "solver", "split", "pipeline", "frontend", "codegen", "driver", "explain", "runtime", "harness", "cli", "python")
HEADERS = ("ir/error_numbers.h", "runtime/program.h")
DEFINITION = re.compile(r"constexpr int (k[A-Z]\w*) = (\d+);")
# A call of what takes a number, with a literal.
LITERAL = re.compile(r"\b(?:user_error|refused\.report|UserError(?:\s+\w+)?|ShapeRuleError|ProgramError|fail)\s*[({]\s*(\d+)\s*,")
# A constant of a user error that is defined elsewhere.
UNNAMED = re.compile(r"\buser_error\s*\(\s*(k[A-Z]\w*)")


def sources(folders):
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".cc", ".h", ".cu") and "emulated" not in path.parts:
                yield path, path.read_text(encoding="utf-8")


def used_numbers():
    """number -> the files that use it, number -> its names, and what is wrong with them."""
    texts = {path.relative_to(ROOT): text for path, text in sources(SOURCE_FOLDERS)}
    places, names, problems = {}, {}, []
    for header in map(pathlib.Path, HEADERS):
        for name, number in DEFINITION.findall(texts[header]):
            qualified = rf"\berrors::{name}\b" if header.parts[0] != "runtime" else rf"\b{name}\b"
            using = [str(path) for path, text in texts.items() if path != header and re.search(qualified, text)]
            if not using and header.parts[0] != "runtime":
                problems.append(f"{header}: {name} is used nowhere")
            places.setdefault(int(number), set()).update(using or [str(header)])
            names.setdefault(int(number), set()).add(name)
    for path, text in texts.items():
        problems += [f"{path}: {literal} stands as a literal: HEADERS name the numbers" for literal in LITERAL.findall(text)]
        problems += [f"{path}: {name} is no name of {HEADERS[0]}" for name in UNNAMED.findall(text)]
    return places, names, problems


def seen_in(tests, number, names):
    """Whether a test names the error, by number or by name."""
    return (f"BR{number:04}" in tests
            or any(re.search(rf"\b{name}\b", tests) for name in names)
            or re.search(rf"(?i)(?:error|code|refus|fail)[^\n]*\b{number}\b", tests) is not None)  # fmt: skip


def exit_code_table():
    """The rows of docs/errors.md as cli/exit_codes.cc gives them."""
    text = (ROOT / "cli/exit_codes.cc").read_text(encoding="utf-8")
    values = dict(re.findall(r"(k\w+) = (\d+)", (ROOT / "cli/exit_codes.h").read_text(encoding="utf-8")))
    numbers = re.findall(r"\{(\d+), (\d+), (k\w+)\}", text)
    for name, meaning in re.findall(r'\{(k\w+), "([^"]*)"\}', text):
        ranges = ", ".join(f"BR{int(a):04}" if a == b else f"BR{int(a):04} to BR{int(b):04}"
                           for a, b, code in numbers if code == name)  # fmt: skip
        yield f"| {values[name]} | {meaning} | {'all others' if name == 'kRefused' else ranges} |"


def main():
    places, names, problems = used_numbers()
    page = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
    sections = [int(n) for n in re.findall(r"^## BR(\d{4}): ", page, re.MULTILINE)]
    tests = "\n".join(p.read_text(encoding="utf-8") for p in sorted((ROOT / "tests").rglob("*"))
                      if p.suffix in (".cc", ".h", ".json", ".braid", ".txt", ".py"))  # fmt: skip
    for number in sorted(places):
        if number not in sections:
            problems.append(f"BR{number:04}: no section in docs/errors.md ({', '.join(sorted(places[number]))})")
        if len(names[number]) > 1:
            problems.append(f"BR{number:04}: several names: {', '.join(sorted(names[number]))}")
        if not seen_in(tests, number, names[number]):
            problems.append(f"BR{number:04}: seen in no test")
    for number in sections:
        if number not in places:
            problems.append(f"BR{number:04}: a section in docs/errors.md, but no use in the source")
    problems += [f"docs/errors.md lacks the row: {row}" for row in exit_code_table() if row not in page]
    if sections != sorted(set(sections)):
        problems.append("docs/errors.md: sections are not in order or stand twice")
    print("\n".join(problems) if problems else f"{len(places)} error numbers, all documented and tested")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
