#!/usr/bin/env python3
"""Runs the commands that pages of docs/ show, and compares what they print with what the pages say.

  run_doc_commands.py BRAID BUILD [--update] [PAGE...]     BRAID: the program; BUILD: its build folder; PAGE: file names, without: all

Two kinds of fenced block are steps of a page, taken in order:

  ```cpp file=drop_copies.cc      the text becomes this file
  ```console                      each line that begins with "$ " is run by a shell; the lines below it are what it prints, both
                                  streams, without trailing blanks. A command that shows nothing may print anything. It must
                                  succeed, unless it says what it fails with: "$ command  # exit code 1".

A page runs in a folder of its own, in which the entries of the tree lie as links, `build/release` is BUILD, and `braid` is BRAID. With
--update, what was printed is written to the page. Exit code 1: something differs; the difference is printed.
"""

import argparse
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(\w+) ?(file=\S+)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXIT_CODE = re.compile(r"  # exit code (\d+)$")


class Runner:
    """Runs the steps of one page in `folder`."""

    def __init__(self, folder, braid, build):
        self.folder = folder
        for entry in ROOT.iterdir():
            if entry.name not in (".git", "build"):
                (folder / entry.name).symlink_to(entry)
        (folder / "build").mkdir()
        (folder / "build/release").symlink_to(build)
        self.environment = {**os.environ, "PATH": f"{braid.parent}:{os.environ['PATH']}"}

    def file(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def command(self, line):
        """What a line prints, as lines; of failures too."""
        expected = EXIT_CODE.search(line)
        done = subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip
        printed = [text.rstrip() for text in done.stdout.replace(f"{self.folder}/", "").splitlines()]
        if done.returncode != int(expected.group(1) if expected else 0):
            printed.append(f"(exit code {done.returncode})")
        return printed

    def console(self, text):
        """The text of a block as it should be."""
        lines, k = text.splitlines(), 0
        result = []
        while k < len(lines):
            line = lines[k]
            if not line.startswith("$ "):
                raise ValueError(f"no command, and no command before it: {line}")
            k += 1
            shown = []
            while k < len(lines) and not lines[k].startswith("$ "):
                shown.append(lines[k])
                k += 1
            printed = self.command(line[2:])
            failed = bool(printed) and printed[-1].startswith("(exit code ")
            result += [line, *(printed if shown or failed else [])]
        return "".join(f"{line}\n" for line in result)


def run_page(page, braid, build):
    """The page as it should be, and the number of its steps."""
    text = page.read_text(encoding="utf-8")
    steps = 0
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(pathlib.Path(folder).resolve(), braid, build)

        def step(block):
            nonlocal steps
            language, file, body = block.groups()
            if file:
                runner.file(file.removeprefix("file="), body)
            elif language == "console":
                body = runner.console(body)
            else:
                return block.group(0)
            steps += 1
            return f"```{language}{' ' + file if file else ''}\n{body}```"

        return BLOCK.sub(step, text), steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("braid", type=pathlib.Path)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("pages", nargs="*")
    parser.add_argument("--update", action="store_true")
    arguments = parser.parse_args()
    pages = [p for p in sorted((ROOT / "docs").glob("*.md")) if not arguments.pages or p.name in arguments.pages]
    if unknown := set(arguments.pages) - {p.name for p in pages}:
        parser.error(f"no page of docs/: {', '.join(sorted(unknown))}")
    differ = 0
    for page in pages:
        old = page.read_text(encoding="utf-8")
        new, steps = run_page(page, arguments.braid.resolve(), arguments.build.resolve())
        if steps:
            print(f"{page.name}: {steps} steps")
        if new == old:
            continue
        if arguments.update:
            page.write_text(new, encoding="utf-8")
        else:
            differ += 1
            sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"docs/{page.name}", "as printed"))
    if differ:
        print("scripts/run_doc_commands.py --update writes what is printed")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
