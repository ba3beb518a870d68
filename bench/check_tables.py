#!/usr/bin/env python3
"""Compares what a benchmark prints with the table that is checked in.

    bench/check_tables.py [--ignore COLUMN]... [--complete] FILE -- COMMAND...

Every row of every Markdown table that COMMAND prints must stand in FILE, in the table with the same columns under the
same heading, with equal cells in all columns but the ignored ones (times, which differ from run to run). Rows whose
first cell is empty belong to the row above them. With --complete there must be no other rows, and all lines of text
that COMMAND prints must stand in FILE.
"""

import argparse
import pathlib
import subprocess
import sys


class Table:
    def __init__(self, columns):
        self.columns = columns
        self.rows = []

    def without(self, ignored):
        kept = [k for k, name in enumerate(self.columns) if name not in ignored]
        return [tuple(row[k] if k < len(row) else "" for k in kept) for row in self.rows]


def read_tables(text):
    """The tables by (heading, columns), and all other lines."""
    tables, lines, heading, table = {}, [], "", None
    for line in text.splitlines():
        if not line.startswith("|"):
            table = None
            if line.startswith("#"):
                heading = line
            if line:
                lines.append(line)
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if table is None:
            table = tables.setdefault((heading, tuple(cells)), Table(cells))
        elif not all(set(cell) <= set("-:") and cell for cell in cells):
            table.rows.append(cells)
    return tables, lines


def differences(printed, kept, ignored, complete):
    new_tables, new_lines = read_tables(printed)
    old_tables, old_lines = read_tables(kept)
    found = [] if new_tables else ["the command printed no table"]
    for (heading, columns), table in new_tables.items():
        # A command may print its table without the page's heading.
        same = [t for (h, c), t in old_tables.items() if c == columns and heading in ("", h)]
        if len(same) != 1:
            found.append(f"{heading or 'no heading'}: {len(same)} tables with the columns {' | '.join(columns)}")
            continue
        new, old = table.without(ignored), same[0].without(ignored)
        at = -1
        for row in new:
            following = old[at + 1] if at + 1 < len(old) else None
            if row == following:
                at += 1
            elif row[0] and row in old:
                at = old.index(row)
            else:
                # What stands there instead: the row with the same first cells, or the next one.
                alike = [r for r in old if row[0] and r[:2] == row[:2]] or [following or ()]
                found.append("now   | " + " | ".join(row) + " |\n  kept  | " + " | ".join(alike[0]) + " |")
                at = old.index(alike[0]) if alike[0] in old and row[0] else at + 1
        if complete and len(new) != len(old):
            found.append(f"{heading}: {len(new)} rows, {len(old)} are kept")
    if complete:
        found += [f"not kept: {line}" for line in new_lines if line not in old_lines]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ignore", action="append", default=[], metavar="COLUMN")
    parser.add_argument("--complete", action="store_true")
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    done = subprocess.run(args.command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        return done.returncode
    found = differences(done.stdout, args.file.read_text(encoding="utf-8"), set(args.ignore), args.complete)
    for difference in found[:20]:
        print(f"{args.file}:\n  {difference}")
    if found:
        print(f"{len(found)} differences. If they are meant, bench/run.sh writes the page again (bench/README.md).")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
