#!/usr/bin/env python3
"""Counts what the house rules of docs/architecture.md are about, on the tree as it is: how many files a new scalar op, kernel, collective or
target touches, casts between index types, files in passes/ of another kind, headers without a source and the reverse, long functions and
lines, words of comments, lines by folder.

  count_places.py           the table
  count_places.py --files   also the files behind each row

A place is a file that names a member. A member that exists already is also named by its users (a pass that looks for products names Gemm);
what a new one needs are the files that name nearly all members: each has a row or a case for every one of them.
"""

import collections
import pathlib
import re
import statistics
import sys

import cpp_text

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOMS = ("ir", "analysis", "passes", "solver", "split", "pipeline", "frontend", "codegen", "driver", "explain", "runtime", "harness", "cli", "python")
NEARLY_ALL = 0.75
COMMENT = re.compile(r"//[^\n]*")
INCLUDE = re.compile(r'#include "([^"]+)"')


def read_sources():
    """path below the root -> (text, text without comments)."""
    sources = {}
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*")):
            if path.suffix in (".h", ".cc", ".cu", ".inc", ".py"):
                text = path.read_text(encoding="utf-8")
                sources[str(path.relative_to(ROOT))] = (text, COMMENT.sub("", text))
    return sources


def enumerators(text, name):
    body = re.search(rf"enum class {name}\b[^{{]*\{{(.*?)\}};", COMMENT.sub("", text), re.DOTALL).group(1)
    return re.findall(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", body.strip())


def places(sources, members, pattern):
    """member -> the files that name it. `pattern` has {} for the member."""
    found = {}
    for member in members:
        expression = re.compile(pattern.replace("{}", re.escape(member)))
        found[member] = [path for path, (_, code) in sources.items() if expression.search(code)]
    return found


class Report:
    def __init__(self, with_files):
        self.with_files = with_files

    def row(self, what, asked, count, files=()):
        print(f"{what:<58} {asked:>12} {count:>8}")
        if self.with_files:
            for file in files:
                print(f"    {file}")

    def members(self, what, asked, found, example):
        """The files that nearly all members have, and how many name one on the whole."""
        every = collections.Counter(file for files in found.values() for file in files)
        rows = sorted(file for file, count in every.items() if count >= NEARLY_ALL * len(found))
        self.row(f"{what}: files with a row for each", asked, len(rows), rows)
        counts = sorted(len(files) for files in found.values())
        most = max(found, key=lambda member: len(found[member]))
        print(f"    users included: {counts[0]} at least, {statistics.median(counts):g} in the middle, {counts[-1]} at most ({most})")
        own = [file for file in found[example] if file not in rows]
        print(f"    {example}: {len(found[example])}" + (", beside those rows " + ", ".join(own) if own else ""))


def folder_of_target(path):
    return pathlib.PurePath(path).parts[:2] in (("codegen", "cpp"), ("codegen", "cuda"))


def of_another_kind(sources):
    """Files of passes/ that are neither a pass, nor the runner and the list, nor what these include."""
    inside = {path for path in sources if path.startswith("passes/")}
    passes = {path for path in inside if re.search(r"constexpr std::string_view kName", sources[path][1])}
    known = passes | {"passes/pass.h", "passes/runner.h", "passes/default_passes.h", "passes/registry.h"} & inside
    grown = True
    while grown:
        grown = False
        for path in sorted(known):
            around = [p for p in (path, re.sub(r"\.h$", ".cc", path)) if p in inside]
            more = {i for p in around for i in INCLUDE.findall(sources[p][0]) if i in inside} | set(around)
            grown = grown or not more <= known
            known |= more
    return sorted(inside - known)


def without_partner(sources, suffix, other):
    """Sources without a header of the same name, or the reverse."""
    return [path for path in sources if path.endswith(suffix) and path.removesuffix(suffix) + other not in sources]


def house(sources, report):
    """The figures of rooms, functions and words."""
    sharding = [p for p in sources if re.fullmatch(r"frontend/sharding/[^/]+", p)]
    report.row("files directly in frontend/sharding", "at most 45", len(sharding))
    up = [p for p in sources if p.startswith(("solver/", "split/")) and '#include "frontend/' in sources[p][0]]
    report.row("files of solver/ and split/ that include frontend/", "0", len(up), up)
    cast = re.compile(r"static_cast<(?:std::)?(?:size_t|ptrdiff_t|u?int(?:8|16|32|64)?(?:_t)?|unsigned|long|\w+Id)>|\[at\(")
    wing = {p: len(cast.findall(code)) for p, (_, code) in sources.items() if p.startswith(("solver/", "split/", "frontend/sharding/"))}
    rows = [f"{count:4} {path}" for path, count in sorted(wing.items(), key=lambda item: -item[1]) if count]
    report.row("casts to index types and [at( in solver, split, sharding", "below 100", sum(wing.values()), rows[:10])
    private_at = [p for p, (_, code) in sources.items() if re.search(r"\bsize_t at\(int ", code)]
    report.row("private at(int)", "0", len(private_at), private_at)
    functions = [(lines, f"{path}:{line}") for path, (text, _) in sources.items() if path.endswith((".cc", ".h", ".cu"))
                 for lines, line in cpp_text.long_functions(text)]  # fmt: skip
    for limit, asked in ((60, "at most 30"), (100, "at most 1")):
        above = sorted((f for f in functions if f[0] > limit), reverse=True)
        report.row(f"functions of more than {limit} lines", asked, len(above), [f"{lines:4} {where}" for lines, where in above])
    long = [f"{path}:{k}" for path, (text, _) in sources.items() for k, line in enumerate(text.splitlines(), 1) if len(line) > 110]
    report.row("lines of more than 110 columns", "0", len(long), long)
    comments = [c.text for path, (text, _) in sources.items() if not path.endswith(".py") for c in cpp_text.comments(text)]
    report.row("comment lines that begin with \"Of \"", "below 15", sum(line.startswith("Of ") for line in comments))
    report.row("comment lines that begin with \"What \"", "below 60", sum(line.startswith("What ") for line in comments))
    report.row("nobody, whoever, somebody, who, ... in comments", "below 15", sum(len(cpp_text.WORDS.findall(line)) for line in comments))
    readme = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    report.row("lines of README", "at most 120", len(readme))
    cells = [cell.strip() for line in readme if line.startswith("|") for cell in line.strip("|").split("|")]
    report.row("characters of its longest table cell", "at most 160", max(map(len, cells)))


def main():
    sources = read_sources()
    report = Report("--files" in sys.argv[1:])
    print(f"{'what':<58} {'asked':>12} {'count':>8}")

    ops = re.findall(r"^\s*OP\((\w+),", sources["ir/op_table.h"][0], re.MULTILINE)
    report.members("scalar op", "5", places(sources, ops, r"\bOpCode::{}\b|\bOP\({},"), "asinh")
    kernels = re.search(r"using Kernel = std::variant<([^;]*)>;", sources["ir/graph.h"][0]).group(1)
    report.members("kind of kernel", "10", places(sources, re.findall(r"\w+", kernels), r"\b{}\b"), "Pooling")
    collectives = enumerators(sources["ir/graph.h"][0], "CollectiveKind")
    report.members("kind of collective", "12", places(sources, collectives, r"\b{}\b"), "all_to_all")
    targets = places(sources, ["cpu", "cuda"], r'"{}"|"codegen/{}/')
    outside = sorted({p for files in targets.values() for p in files if not folder_of_target(p) and "codegen/" in p})
    report.row("target: files of codegen/ that name one", "1", len(outside), outside)

    cast = re.compile(r"static_cast<(?:std::)?(?:size_t|ptrdiff_t|u?int(?:8|16|32|64)?(?:_t)?|unsigned|long|\w+Id)>")
    counted = {p: len(cast.findall(code)) for p, (_, code) in sources.items() if p.startswith(("analysis/", "passes/overlap/", "passes/inductor/"))}
    casts = [f"{count:4} {path}" for path, count in sorted(counted.items(), key=lambda item: -item[1]) if count]
    report.row("casts between index types in scheduling", "below 100", sum(counted.values()), casts[:10])
    another = of_another_kind(sources)
    report.row("files in passes/ of another kind", "0", len(another), another)
    report.row("sources without a header", "", len(without_partner(sources, ".cc", ".h")), without_partner(sources, ".cc", ".h"))
    report.row("headers without a source", "", len(without_partner(sources, ".h", ".cc")), without_partner(sources, ".h", ".cc"))

    house(sources, report)

    lines = {room: sum(text.count("\n") for p, (text, _) in sources.items() if p.split("/")[0] == room) for room in ROOMS}
    report.row("lines of product code", "below 68000", sum(lines.values()), [f"{count:6} {room}" for room, count in lines.items()])


main()
