#!/usr/bin/env python3
"""Holds error numbers and docs/errors.md to each other: every number in the source has its section, every section a
number in the source, no number has two names, and every number is seen in a test. Prints what is missing, one per line.

A number is named where it is defined, `constexpr int kSizeOverflow = 301;` or `kSyntaxError = 501,`, or stands as a literal
in user_error(301, ...). A test sees it as "BR0301", by its name, or as the number 301 on a line that speaks of an error
or a code, or as an argument of such a function: expect_user_error(301, ...).
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE_FOLDERS = ("ir", "analysis", "passes", "pipeline", "frontend", "codegen", "driver", "explain", "runtime", "cli", "python")
# The functions and types that take a number: their first argument.
USE = re.compile(r"\b(?:user_error|refused\.report|UserError(?:\s+\w+)?|ShapeRuleError|ProgramError|fail)\s*[({]\s*(?:(\d+)\s*,|((?:\w+::)*k[A-Z]\w*)\b)")
# A constant that is used elsewhere, in a conditional or through a helper: its name is known to be an error's by its header.
DEFINITION = re.compile(r"\b(k[A-Z]\w*)\s*=\s*(\d+)\b")
ERROR_HEADERS = ("ir/parser.h", "analysis/costs/errors.h", "passes/kernel_choice.h", "frontend/errors.h", "frontend/device_errors.h", "runtime/program.h", "cli/errors.h", "pipeline/errors.h", "python/errors.h")


def sources(folders):
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".cc", ".h", ".cu") and "emulated" not in path.parts:
                yield path, path.read_text(encoding="utf-8")


def used_numbers():
    """number -> the files that use it, number -> its names, and what is wrong with them."""
    texts = dict(sources(SOURCE_FOLDERS))
    definitions = {}  # (file or folder or None, name) -> number; a name is looked up in its file first
    for path, text in texts.items():
        for name, number in DEFINITION.findall(text):
            for scope in (path, path.relative_to(ROOT).parts[0], None):
                definitions.setdefault((scope, name), int(number))
    places, names, problems = {}, {}, []

    def note(path, number, name):
        places.setdefault(number, set()).add(str(path.relative_to(ROOT)))
        names.setdefault(number, set())
        if name:
            names[number].add(name)

    for path, text in texts.items():
        where = path.relative_to(ROOT)
        if str(where) in ERROR_HEADERS:
            for name, number in DEFINITION.findall(text):
                if int(number) >= 100 or "errors" in path.name:  # not a limit that stands in the same header
                    if sum(len(re.findall(rf"\b{name}\b", t)) for t in texts.values()) < 2:
                        problems.append(f"{where}: {name} is used nowhere")
                    note(path, int(number), name)
        for literal, name in USE.findall(text):
            name = name.split("::")[-1]
            scopes = (path, where.parts[0], None)
            number = int(literal) if literal else next(
                (definitions[s, name] for s in scopes if (s, name) in definitions), None)  # fmt: skip
            if number is None:
                problems.append(f"{where}: the value of {name} is not found")
            else:
                note(path, number, name)
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
