#!/usr/bin/env python3
"""Holds error numbers and docs/errors.md to each other: every number in the source has its section, every section a
number in the source, no number has two names, and every number is seen in a test. Prints what is missing, one per line.

A number reaches user_error() as a literal or as a constant: `constexpr int kSizeOverflow = 301;`.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE_FOLDERS = ("ir", "passes", "frontend", "codegen", "runtime", "cli")
# The first argument of user_error(...), of an error built by hand or of fail(...) in frontend and ir: a number or a (qualified)
# constant.
USE = re.compile(r"\b(?:user_error|UserError(?:\s+\w+)?|ShapeRuleError|located_fail)\s*[({]\s*(?:(\d+)|((?:\w+::)*k[A-Z]\w*))\s*,")
DEFINITION = re.compile(r"\b(k[A-Z]\w*)\s*=\s*(\d+)\b")


def sources(folders):
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".cc", ".h", ".cu"):
                yield path, path.read_text(encoding="utf-8")


def main():
    definitions = {}  # (file, folder or None, name) -> number; names are looked up in the same file first
    uses = []
    for path, text in sources(SOURCE_FOLDERS):
        for name, number in DEFINITION.findall(text):
            definitions[(path, name)] = int(number)
            definitions.setdefault((path.relative_to(ROOT).parts[0], name), int(number))
            definitions.setdefault((None, name), int(number))
        if path.relative_to(ROOT).parts[0] in ("frontend", "ir"):
            text = re.sub(r"\bfail\(", "located_fail(", text)
        for literal, name in USE.findall(text):
            uses.append((path, literal, name.split("::")[-1]))

    problems = []
    places = {}  # number -> files
    names = {}  # number -> names
    for path, literal, name in uses:
        number = int(literal) if literal else next(
            (definitions[key] for key in ((path, name), (path.relative_to(ROOT).parts[0], name), (None, name)) if key in definitions), None
        )  # fmt: skip
        where = path.relative_to(ROOT)
        if number is None:
            problems.append(f"{where}: the value of {name} is not found")
            continue
        places.setdefault(number, set()).add(str(where))
        names.setdefault(number, set()).add(name or literal)

    page = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
    sections = [int(n) for n in re.findall(r"^## BR(\d{4}): ", page, re.MULTILINE)]
    tests = "\n".join(p.read_text(encoding="utf-8") for p in sorted((ROOT / "tests").rglob("*"))
                      if p.suffix in (".cc", ".h", ".json", ".braid", ".txt", ".py"))  # fmt: skip
    for number in sorted(places):
        if number not in sections:
            problems.append(f"BR{number:04}: no section in docs/errors.md ({', '.join(sorted(places[number]))})")
        if len(names[number]) > 1:
            problems.append(f"BR{number:04}: several names: {', '.join(sorted(names[number]))}")
        tested_names = [n for n in names[number] if not n.isdigit()]
        if f"BR{number:04}" not in tests and not any(re.search(rf"\b{n}\b", tests) for n in tested_names):
            problems.append(f"BR{number:04}: seen in no test")
    for number in sections:
        if number not in places:
            problems.append(f"BR{number:04}: a section in docs/errors.md, but no use in the source")
    if sections != sorted(set(sections)):
        problems.append("docs/errors.md: sections are not in order or stand twice")
    print("\n".join(problems) if problems else f"{len(places)} error numbers, all documented and tested")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
