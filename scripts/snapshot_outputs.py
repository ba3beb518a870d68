#!/usr/bin/env python3
"""Writes all that a build of braid makes of the corpus, so that two builds can be compared byte by byte.

  snapshot_outputs.py BRAID OUT [MODELS...]      then: diff -r OLD NEW

Of every .onnx and .braid file below tests/corpus and the MODELS folders: the source, the schedule, the plan and the report of
each target, or the error. Dimensions get the bounds that the error proposes. Of every published pipeline schedule, for a few sizes:
its rows, and what lowering, simulation and drawing make of them.
"""

import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(braid, arguments):
    done = subprocess.run([braid, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    return done.returncode, done.stdout, done.stderr


def write(path, *parts):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(parts))


def proposed_dims(error):
    """The --dim options of BR0310's hint."""
    words = shlex.split(" ".join(re.findall(r"--dim \S+", error.decode())))
    return words


def of_model(braid, model, out):
    files = len(list(model.parent.glob(re.sub(r"rank0", "rank*", model.name))))
    if "rank0" in model.name:
        model = model.with_name(model.name.replace("rank0", "rank{rank}"))
        ranks = ["--ranks", str(files)]
    else:
        ranks = ["--ranks", "2"] if "collectives" in model.parts else []
    for target in ("cpu", "cuda"):
        program = out / target
        arguments = ["compile", str(model), "-o", str(program), "--emit", "source", "--target", target, *ranks]
        code, text, error = run(braid, arguments)
        dims = proposed_dims(error) if b"BR0310" in error else []
        if dims:
            code, text, error = run(braid, arguments + dims)
        write(out / f"{target}.txt", str(code).encode(), b"\n", error)
        # Weights and ids follow from these.
        for weights in program.glob("*.bin") if program.exists() else ():
            weights.unlink()
    dims = proposed_dims(run(braid, ["explain", str(model), *ranks])[2])
    code, text, error = run(braid, ["explain", str(model), f"--json={out / 'explain.json'}", *ranks, *dims])
    write(out / "explain.txt", str(code).encode(), b"\n", text, error)
    if model.suffix == ".braid":
        code, text, error = run(braid, ["opt", str(model)])
        write(out / "opt.braid", str(code).encode(), b"\n", text, error)


def of_pipelines(braid, out):
    listed = run(braid, ["pipeline", "generate", "--list"])[1].decode()
    write(out / "list.txt", listed.encode())
    for name in re.findall(r"^\s*(\w+)", listed, re.MULTILINE):
        for ranks, microbatches in ((1, 1), (2, 4), (4, 8), (8, 16)):
            csv = out / f"{name}.{ranks}.{microbatches}.csv"
            csv.parent.mkdir(parents=True, exist_ok=True)
            what = ["--schedule", name, "--ranks", str(ranks), "--microbatches", str(microbatches)]
            for command in ("generate", "lower", "check", "simulate", "show"):
                code, text, error = run(braid, ["pipeline", command, *what])
                write(csv.with_suffix(f".{command}"), str(code).encode(), b"\n", text, error)


def main():
    braid, out = sys.argv[1], pathlib.Path(sys.argv[2])
    for root in [ROOT / "tests" / "corpus", *map(pathlib.Path, sys.argv[3:])]:
        for model in sorted(p for p in root.rglob("*") if p.suffix in (".onnx", ".braid")):
            if re.search(r"rank[1-9]", model.name):
                continue  # goes with rank 0's
            of_model(braid, model, out / root.name / model.relative_to(root))
    of_pipelines(braid, out / "pipelines")


main()
