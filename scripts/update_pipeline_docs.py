#!/usr/bin/env python3
"""Writes the outputs in docs/pipeline.md again: of every fenced block that begins with "$ braid ", by running the command.

    scripts/update_pipeline_docs.py [BRAID]        BRAID: build/bin/braid
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/pipeline.md"


def main():
    braid = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/bin/braid").resolve()

    def run(block):
        words = block.group(1).split()
        done = subprocess.run([braid, *words[2:]], cwd=ROOT, capture_output=True, text=True, check=False)
        lines = [line.rstrip() for line in (done.stderr + done.stdout).splitlines()]
        return "```\n" + "\n".join([block.group(1), *lines]) + "\n```\n"

    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(re.sub(r"```\n(\$ braid [^\n]*)\n(?:[^`]*\n)?```\n", run, text), encoding="utf-8")


if __name__ == "__main__":
    main()
