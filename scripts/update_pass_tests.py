#!/usr/bin/env python3
"""Writes the expectations of the sections in tests/passes/**/*.braid again, as they come out now: for review with git diff.

    scripts/update_pass_tests.py [--check] [BIN]    BIN: where test_passes* lie (default build/release/bin)

With --check nothing is written, and a file that would change is an error.
"""

import argparse
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file would change")
    parser.add_argument("bin", nargs="?", type=pathlib.Path, default=ROOT / "build/release/bin")
    arguments = parser.parse_args()
    programs = sorted(p for p in arguments.bin.glob("test_passes*") if os.access(p, os.X_OK))
    if not programs:
        sys.exit(f"update_pass_tests.py: no test_passes in {arguments.bin}; build the tests first")
    environment = {k: v for k, v in os.environ.items() if k != "BRAID_UPDATE_SECTIONS"}
    if not arguments.check:
        environment["BRAID_UPDATE_SECTIONS"] = "1"
    failed = 0
    for program in programs:
        command = [program, "--gtest_filter=SectionFiles.*", "--gtest_brief=1"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        failed |= done.returncode
        for line in done.stdout.splitlines():
            if done.returncode or line.startswith("updated "):
                print(line)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
