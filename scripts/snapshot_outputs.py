#!/usr/bin/env python3
"""Writes all that a build of braid makes of the corpus, so that two builds can be compared byte by byte.

  scripts/python_run.sh scripts/snapshot_outputs.py BRAID OUT [MODELS...]      then: diff -r OLD NEW

Of every .onnx and .braid file below tests/corpus and the MODELS folders: the source, the schedule, the plan and the report of
each target, or the error. Dimensions get the bounds that the error proposes. Of small transformers, which it writes: for each way to split
them and each narrow precision, the plan, the split models, the report, and schedule and source for each target. Of every published pipeline
schedule, for a few sizes: its rows, and what lowering, simulation and drawing make of them. Prints the number of files.
"""

import concurrent.futures
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(braid, arguments, folder=None):
    done = subprocess.run(
        [braid, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False
    )
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


TINY = ["--layers", "2", "--hidden", "64", "--heads", "4", "--vocab", "128", "--max-positions", "64"]
# Small transformers: prefill and, of the same weights, decode.
SPLIT_MODELS = {"gpt2": [], "bert": [], "llama": ["--kv-heads", "2"]}
# WITH stands for the decode graph of the model.
VARIANTS = {
    "devices_2": ["--devices", "2"],
    "devices_8": ["--devices", "8"],
    "tp_2": ["--tp", "2"],
    "mesh": ["--mesh", "dp=2,tp=2"],
    "with": ["--devices", "4", "--with", "WITH"],
    "memory_limit": ["--devices", "4", "--memory-limit", "1500kB"],
    "bf16": ["--precision", "bf16"],
    "int8": ["--precision", "int8"],
}
DIMS = {"prefill": ["batch=1..8", "sequence=1..64"], "decode": ["batch=1..8", "past_sequence=1..63"]}


def make_transformers(folder):
    """The models in `folder`, as {(style, graph): path}. Paths are relative, so that what names them is the same in each run."""
    found = {}
    for style, more in SPLIT_MODELS.items():
        for graph in ("prefill", "decode") if style != "bert" else ("prefill",):
            subprocess.run(
                [sys.executable, "-B", ROOT / "examples/tensor_parallel/make_decoder.py", "-o", folder / style / graph,
                 "--style", style, "--graph", graph, *TINY, *more],
                check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
            found[style, graph] = f"{style}/{graph}/model.onnx"
    return found


def of_variant(braid, folder, arguments, out):
    split = "--precision" not in arguments
    kinds = [("plan", ""), ("onnx", "")] if split else []
    kinds += [(kind, target) for kind in ("schedule", "source") for target in ("cpu", "cuda")]
    for kind, target in kinds:
        made = out / f"{kind}_{target}".strip("_")
        of_target = ["--target", target] if target else []
        code, _, error = run(braid, ["compile", *arguments, "-o", str(made), "--emit", kind, *of_target], folder)
        write(out / f"{made.name}.txt", str(code).encode(), b"\n", error)
        for weights in [*made.rglob("*.bin"), *made.rglob("*.data")]:
            weights.unlink()
    code, text, error = run(braid, ["explain", *arguments], folder)
    write(out / "explain.txt", str(code).encode(), b"\n", text, error)


def of_transformers(braid, out):
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        models = make_transformers(pathlib.Path(folder))
        work = []
        for (style, graph), model in models.items():
            decode = models.get((style, "decode"))
            for variant, options in VARIANTS.items():
                dims = DIMS[graph]
                if variant == "with":
                    if graph == "decode" or decode is None:
                        continue
                    options = [f"{decode}*100" if word == "WITH" else word for word in options]
                    dims = sorted({*dims, *DIMS["decode"]})
                arguments = [model, *(word for dim in dims for word in ("--dim", dim)), *options]
                work.append(pool.submit(of_variant, braid, folder, arguments, out / f"{style}_{graph}" / variant))
        for each in work:
            each.result()


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
    of_transformers(braid, out / "transformers")
    of_pipelines(braid, out / "pipelines")
    print(sum(1 for path in out.rglob("*") if path.is_file()), "files")


main()
