#!/usr/bin/env python3
"""Checks that what the pages speak of exists: files and folders of the tree, links with their headings, scripts, and options of `braid`.

  check_docs.py [BRAID]    without the program, options of `braid` are not checked

A path is a word in backticks that begins with a folder of the tree, or a script anywhere on a page; it is looked up from the root, then from
the folder of its page. Folders that a user makes (`program/`, `out/`) are no paths of the tree.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = [*sorted((ROOT / "docs").glob("*.md")), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
         *sorted((ROOT / "bench").rglob("README.md")), *sorted((ROOT / "examples").rglob("README.md")), *sorted((ROOT / "runtime").rglob("README.md"))]  # fmt: skip
TOP = {p.name for p in ROOT.iterdir() if p.is_dir()} - {"build", ".venv"}
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.*{}<>-]*)(?::\d+)?`")
SCRIPT = re.compile(r"(?<![\w/.])scripts/[\w-]+\.(?:sh|py)\b")
LINK = re.compile(r"\]\(([^)#\s]+)(#[\w-]+)?\)")


def exists(path, page):
    for base in (ROOT, page.parent):
        if any(c in path for c in "*<>{}"):
            pattern = re.sub(r"<[^>]*>|\{[^}]*\}", "*", path.rstrip("/"))
            if next(base.glob(pattern), None):
                return True
        elif (base / path).exists():
            return True
    return False


def anchors(page):
    """The anchors of a page's headings, as code hosts make them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {"#" + re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", title)).strip().lower().replace(" ", "-") for title in titles}


def wrong_paths(page, text):
    for path in PATH.findall(text):
        if path.split("/")[0] in TOP and not exists(path, page):
            yield f"`{path}` is not there"
    for script in sorted(set(SCRIPT.findall(text))):
        if not (ROOT / script).exists():
            yield f"{script} is not there"
    for target, anchor in LINK.findall(text):
        if "://" in target or target.startswith("mailto:"):
            continue
        linked = (page.parent / target).resolve()
        if not linked.exists():
            yield f"the link to {target} leads nowhere"
        elif anchor and linked.suffix == ".md" and anchor not in anchors(linked):
            yield f"{target} has no heading {anchor}"


def commands_of(braid):
    """Command -> its options, with those of its subcommands."""
    listed = subprocess.run([braid, "--help"], stdout=subprocess.PIPE, check=True, text=True).stdout
    found = {}
    for name in re.findall(r"^  (\w[\w-]*)  ", listed, re.MULTILINE):
        help_text = subprocess.run([braid, name, "--help"], stdout=subprocess.PIPE, text=True, check=False).stdout
        for inner in re.findall(r"^  (\w[\w-]*)  ", help_text, re.MULTILINE):
            done = subprocess.run([braid, name, inner, "--help"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
            if done.returncode == 0:
                help_text += done.stdout
        found[name] = set(re.findall(r"--[\w-]+", help_text))
    return found


def wrong_options(commands, text):
    for command, rest in re.findall(r"\bbraid (\w+)((?: [^`\n|#]*)?)", text):
        if command not in commands:
            continue
        for option in re.findall(r"(?<=\s)--[\w-]+", rest):
            if option not in commands[command]:
                yield f"braid {command} has no option {option}"


def main():
    commands = commands_of(sys.argv[1]) if len(sys.argv) > 1 else {}
    problems = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for problem in [*wrong_paths(page, text), *wrong_options(commands, text)]:
            problems.append(f"{page.relative_to(ROOT)}: {problem}")
    sys.exit("\n".join(problems) if problems else 0)


main()
