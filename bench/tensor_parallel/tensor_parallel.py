#!/usr/bin/env python3
"""GPT-2 small on one rank and on two, split by hand and by itself, one thread each: step times, speed-up, time in waits.

  scripts/python_run.sh bench/tensor_parallel/tensor_parallel.py --braid build/release/bin/braid --read-bandwidth build/release/bin/read_bandwidth

Turns of all three alternate; a turn is the median step of a run, and the table holds medians over the turns: of times, and of what the times of
one turn are to each other, because what others do on the same machine changes from one turn to the next more than within one. Blocked is
the time from the beginning of a wait to its end, without skew: what passes until the last rank has started the collective. It is
that of the rank that was blocked longer. A decoding step reads every weight once: two cores cannot speed it up by more than they
read memory faster than one does, which is measured in every turn, because others use the same memory.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAKE_DECODER = ROOT / "examples" / "tensor_parallel" / "make_decoder.py"
BOUNDS = {"prefill": "sequence=1..1024", "decode": "past_sequence=1..1023"}
CASES = {  # title: graph, sizes
    "prefill, 128 tokens": ("prefill", "sequence=128"),
    "decode, 128 cached": ("decode", "past_sequence=128"),
    "decode, 512 cached": ("decode", "past_sequence=512"),
}


def command(*words):
    words = [str(w) for w in words]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


# How the model is made, and what compiles it. Caches stay in parts, as in the model that is split by hand.
VARIANTS = {
    "one": (1, ["--ranks", 1]),
    "by_hand": (2, ["--ranks", 2]),
    "by_itself": (1, ["--devices", 2, "--split-caches"]),
}


def program(o, graph, variant):
    """The folder of a compiled program; models and programs are made once."""
    ranks, options = VARIANTS[variant]
    folder = o.work / f"{graph}.{variant}"
    if not (folder / "program" / "manifest.json").exists():
        command(sys.executable, MAKE_DECODER, "-o", folder, "--name", graph, "--graph", graph, "--ranks", ranks)
        model = folder / (f"{graph}.onnx" if ranks == 1 else f"{graph}.rank{{rank}}.onnx")
        command(o.braid, "compile", model, "-o", folder / "program", *options, "--dim", "batch=1", "--dim", BOUNDS[graph])
    return folder / "program"


def blocked_and_skew(timeline):
    """Nanoseconds in waits without skew, and skew, of the rank that was blocked longest."""
    nodes, groups, ranks = timeline["nodes"], timeline["groups"], timeline["ranks"]
    last_start = {}  # of a collective's members
    for k, node in enumerate(nodes):
        if node["kind"] in ("start", "blocking"):
            members = groups[timeline["collectives"][node["collective"]]["group"]]["ranks"]
            last_start[node["collective"]] = max(ranks[r][k][0] for r in members)
    result = []
    for rank in ranks:
        blocked = skew = 0
        for k, node in enumerate(nodes):
            if node["kind"] not in ("wait", "blocking"):
                continue
            begin, lasted = rank[k][0], rank[k + 1][0] - rank[k][0]
            late = min(max(last_start[node["collective"]] - begin, 0), lasted)
            blocked += lasted - late
            skew += late
        result.append((blocked, skew))
    return max(result)


def turn(o, folder, sizes):
    """Milliseconds of the median step: makespan, blocked, skew."""
    trace = folder / "trace.json"
    command(o.braid, "run", folder, "--random", 1, "--random-max", 50257, "--dim", "batch=1", "--dim", sizes, "--threads", 1,
            "--warmup", 2, "--repeat", o.steps, "--trace", trace)  # fmt: skip
    timeline = json.loads(trace.read_text())["braid"]
    ranks = timeline["ranks"]
    makespan = max(r[-1][0] for r in ranks) - max(r[0][0] for r in ranks)
    return tuple(ns / 1e6 for ns in (makespan, *blocked_and_skew(timeline)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--braid", type=pathlib.Path, required=True)
    parser.add_argument("--read-bandwidth", type=pathlib.Path, required=True, help="bench/tensor_parallel/read_bandwidth.cc, built")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--steps", type=int, default=15, help="per turn")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/bench_tensor_parallel"))
    o = parser.parse_args()
    o.work.mkdir(parents=True, exist_ok=True)
    print(f"GPT-2 small, one thread per rank; medians of {o.turns} alternating turns, each the median of {o.steps} steps. What is compared is compared within a turn.\n")
    print("| | 1 rank ms | 2 ranks, split by hand: ms | speed-up | blocked without skew ms | `--devices 2`: ms | speed-up | of that by hand | blocked without skew ms | share of the step | skew ms | memory read by one core, by two: GB/s | times | speed-up of that |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for title, (graph, sizes) in CASES.items():
        folders = [program(o, graph, variant) for variant in VARIANTS]
        turns = []
        for _ in range(o.turns):
            steps = dict(zip(VARIANTS, (turn(o, folder, sizes) for folder in folders)))
            turns.append(steps | {"memory": [float(word) for word in command(o.read_bandwidth).split()]})

        def median(figure):
            return statistics.median(figure(t) for t in turns)

        def makespan(variant):
            return median(lambda t: t[variant][0])

        def times(variant):
            return median(lambda t: t["one"][0] / t[variant][0])

        cells = [f"{makespan('one'):.2f}"]
        for variant in ("by_hand", "by_itself"):
            cells += [f"{makespan(variant):.2f}", f"{times(variant):.2f}"]
            if variant == "by_itself":
                cells.append(f"{median(lambda t: t['by_hand'][0] / t['by_itself'][0]):.2f}")
            cells.append(f"{median(lambda t, v=variant: t[v][1]):.3f}")
        cells += [f"{100 * median(lambda t: t['by_itself'][1] / t['by_itself'][0]):.1f} %", f"{median(lambda t: t['by_itself'][2]):.2f}"]
        cells.append(", ".join(f"{median(lambda t, k=k: t['memory'][k]):.1f}" for k in range(2)))
        cells.append(f"{median(lambda t: t['memory'][1] / t['memory'][0]):.2f}")
        cells.append(f"{median(lambda t: t['one'][0] / t['by_itself'][0] / (t['memory'][1] / t['memory'][0])):.2f}")
        print(f"| {title} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
