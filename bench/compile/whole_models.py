#!/usr/bin/env python3
"""From a file to a library, and of a large model to its source, beside a copy of its weights; two tables.

  scripts/python_run.sh bench/compile/whole_models.py --braid build/release/bin/braid --work DIR [--large-layers 20]

The first table is wall time of `braid compile` with an empty cache, and of the same command again. The second compiles a
Llama-like model whose weights are an external file of about 4 GB, after reading that once, and copies the file between two
compilations; memory is the largest that the compiler had in pages that are no file's. Before each, so much memory is taken
and freed: otherwise, in a virtual machine, chance decides which of the two waits for pages that the host has reclaimed.
"""

import argparse
import mmap
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DECODER = ROOT / "examples" / "tensor_parallel" / "make_decoder.py"
NETWORKS = ROOT / "tests" / "models" / "networks.py"


def make(path, command):
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, *command], check=True, stdout=sys.stderr)
    return path


def seconds(command, cache):
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=dict(os.environ, BRAID_CACHE_DIR=cache))
    return time.perf_counter() - began


def anonymous_peak(command):
    """Seconds, and the most bytes of memory that is no file's."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        try:
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        except OSError:
            break
        for line in status.splitlines():
            if line.startswith("RssAnon"):
                peak = max(peak, 1024 * int(line.split()[1]))
        time.sleep(0.005)
    if process.wait() != 0:
        raise SystemExit("braid compile failed")
    return time.perf_counter() - began, peak


def take_memory(count):
    """Of the host, so that what runs next finds it free."""
    with mmap.mmap(-1, count, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        for page in range(0, count, mmap.PAGESIZE):
            memory[page] = 1


def to_library(braid, work, runs):
    models = {
        "BERT-base": (make(work / "bert" / "model.onnx", [DECODER, "-o", work / "bert", "--style", "bert"]),
                      ["--dim", "batch=1..8", "--dim", "sequence=1..512"]),
        "ResNet-50": (make(work / "resnet50.onnx", [NETWORKS, "resnet50", work / "resnet50.onnx"]), ["--dim", "batch=1..8"]),
    }  # fmt: skip
    print("| model | file to library, empty cache, s | again, s |\n|---|---|---|")
    for name, (model, dims) in models.items():
        first, again = [], []
        for _ in range(runs):
            with tempfile.TemporaryDirectory(dir=work) as folder:
                command = [braid, "compile", model, "-o", f"{folder}/out", *dims]
                first.append(seconds(command, f"{folder}/cache"))
                again.append(seconds(command, f"{folder}/cache"))
        print(f"| {name} | {statistics.median(first):.2f} | {statistics.median(again):.2f} |", flush=True)


def large(braid, work, layers, runs):
    folder = work / f"llama{layers}"
    model = make(folder / "model.onnx", [DECODER, "-o", folder, "--style", "llama", "--layers", str(layers), "--hidden",
                                         "2048", "--heads", "32", "--kv-heads", "8"])  # fmt: skip
    weights = folder / "model.data"
    copies, compilations, peaks = [], [], []
    for turn in range(runs + 1):
        out, copy = work / "large", work / "copy"
        take_memory(weights.stat().st_size * 5 // 4)
        began = time.perf_counter()
        subprocess.run(["cp", weights, copy], check=True)
        copied = time.perf_counter() - began
        copy.unlink()
        take_memory(weights.stat().st_size * 5 // 4)
        took, peak = anonymous_peak([braid, "compile", model, "-o", out, "--emit", "source", "--dim", "batch=1",
                                     "--dim", "sequence=1..1024"])  # fmt: skip
        shutil.rmtree(out)
        if turn > 0:  # the first one reads the files
            copies.append(copied)
            compilations.append(took)
            peaks.append(peak)
    copied, took = statistics.median(copies), statistics.median(compilations)
    print("| weights, GB | cp, s | ONNX to source, s | beyond 1.15 times cp, s | memory that is no file's, MB |\n|---|---|---|---|---|")
    print(f"| {weights.stat().st_size / 1e9:.2f} | {copied:.2f} | {took:.2f} | {took - 1.15 * copied:.2f} | "
          f"{max(peaks) / 1e6:.0f} |", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--braid", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--large-layers", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    braid = os.path.abspath(options.braid)
    to_library(braid, options.work, options.runs)
    print()
    large(braid, options.work, options.large_layers, options.runs)


if __name__ == "__main__":
    main()
