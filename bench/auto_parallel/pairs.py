#!/usr/bin/env python3
"""The plan that the splitter chooses beside the split by hand, simulated on described machines, and the bound over all plans.

  scripts/python_run.sh bench/auto_parallel/pairs.py --braid build/release/bin/braid

Each pair is a model of examples/tensor_parallel/make_decoder.py, whole and split by hand as in Megatron-LM (Shoeybi et al.,
2019), and a machine of `analysis/costs/machines`. Nothing is measured: `braid explain` simulates a step of each after all passes.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAKE_DECODER = ROOT / "examples" / "tensor_parallel" / "make_decoder.py"

# Two layers of the sizes of Llama-3-8B: more layers repeat them. The vocabulary is smaller, so that the files are.
LARGE = ["--style", "llama", "--layers", "2", "--hidden", "4096", "--heads", "32", "--kv-heads", "8",
         "--intermediate", "14336", "--vocab", "8000"]
SMALL = ["--style", "llama", "--layers", "4", "--hidden", "1024", "--heads", "16", "--kv-heads", "4",
         "--intermediate", "2816"]
MODELS = {  # name: options of make_decoder.py, sizes
    "GPT-2 small, prefill 128": (["--graph", "prefill"], ["batch=1", "sequence=128"]),
    "GPT-2 small, decode 512": (["--graph", "decode"], ["batch=1", "past_sequence=512"]),
    "BERT base, 128": (["--style", "bert"], ["batch=1", "sequence=128"]),
    "BERT base, 16 x 512": (["--style", "bert"], ["batch=16", "sequence=512"]),
    "Llama 4 x 1024, prefill 1024": ([*SMALL, "--graph", "prefill"], ["batch=1", "sequence=1024"]),
    "Llama 4 x 1024, decode 2047": ([*SMALL, "--graph", "decode"], ["batch=1", "past_sequence=2047"]),
    "Llama 2 x 4096, prefill 2048": ([*LARGE, "--graph", "prefill"], ["batch=1", "sequence=2048"]),
    "Llama 2 x 4096, decode 2047": ([*LARGE, "--graph", "decode"], ["batch=1", "past_sequence=2047"]),
}  # fmt: skip
PAIRS = (  # model, machine, ranks
    ("GPT-2 small, prefill 128", "cpu", 2),
    ("GPT-2 small, decode 512", "cpu", 2),
    ("BERT base, 128", "cpu", 2),
    ("Llama 4 x 1024, prefill 1024", "cpu", 2),
    ("Llama 4 x 1024, decode 2047", "cpu", 4),
    ("BERT base, 16 x 512", "h100", 2),
    ("BERT base, 16 x 512", "h100", 4),
    ("Llama 4 x 1024, prefill 1024", "h100", 4),
    ("Llama 2 x 4096, prefill 2048", "h100", 2),
    ("Llama 2 x 4096, prefill 2048", "h100", 8),
    ("Llama 2 x 4096, decode 2047", "h100", 4),
    ("Llama 2 x 4096, decode 2047", "h100", 8),
)


def command(*words):
    words = [str(w) for w in words]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


def model_file(work, name, ranks):
    folder = work / f"{name.replace(' ', '_').replace(',', '')}.{ranks}"
    if not folder.exists():
        command(sys.executable, MAKE_DECODER, "-o", folder, "--ranks", ranks, *MODELS[name][0])
    return folder / ("model.onnx" if ranks == 1 else "model.rank{rank}.onnx")


def explain(o, model, name, machine, *options):
    sizes = [word for dim in MODELS[name][1] for word in ("--dim", dim)]
    report = o.work / "report.json"
    command(o.braid, "explain", model, "--machine", machine, *sizes, f"--json={report}", *options)
    return json.loads(report.read_text())


def row(o, name, machine, ranks):
    by_hand = explain(o, model_file(o.work, name, ranks), name, machine, "--ranks", ranks)
    if not o.keep:  # gigabytes
        shutil.rmtree(model_file(o.work, name, ranks).parent)
    began = time.monotonic()
    by_itself = explain(o, model_file(o.work, name, 1), name, machine, "--tp", ranks, "--split-caches")
    seconds = time.monotonic() - began
    split = by_itself["split"]
    hand = by_hand["after"]["makespan_ns"] / 1e3
    chosen = split["simulated_us"]
    gap = split["gap"] * 100
    load_gap = (chosen / split["load_bound_us"] - 1) * 100
    print(f"| {name} | {machine} | {ranks} | {hand:.1f} | {chosen:.1f} | {chosen / hand:.3f} | {split['bound_us']:.1f} | "
          f"{gap:.1f} % | {load_gap:.1f} % | {seconds:.1f} |", flush=True)  # fmt: skip
    return chosen / hand, gap


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--braid", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build" / "bench_pairs", help="for models")
    parser.add_argument("--keep", action="store_true", help="keep the models that are split by hand, 18 GB")
    o = parser.parse_args()
    o.work.mkdir(parents=True, exist_ok=True)
    print("Simulated microseconds of a step; caches stay in parts. Seconds: the whole of `braid explain --tp N`.\n")
    print("| model | machine | ranks | by hand us | chosen us | chosen / by hand | bound us | gap | to the loads alone | s |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    rows = [row(o, *pair) for pair in PAIRS]
    slower = sum(ratio > 1 for ratio, _ in rows)
    gaps = [gap for _, gap in rows]
    print(f"\nSlower than by hand: {slower} of {len(rows)}. Gap: {statistics.mean(gaps):.1f} % on average, {max(gaps):.1f} % at worst.")


if __name__ == "__main__":
    main()
