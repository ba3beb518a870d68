#!/usr/bin/env python3
"""Runs programs over a paced link and puts what was measured beside what the simulator says, per list of passes.

Kernel times come from a run of the input order (`braid run --trace-costs`), the link's from its latency and bandwidth.
All programs are compiled first; then they take turns, and each figure is the median of the turns. Beside the graphs of
make_graphs.py, a decoder that braid splits by itself.

Usage: scripts/python_run.sh bench/paced/paced.py --braid build/release/bin/braid [--link 100us,1] [--rounds N] [--work FOLDER]
"""
import argparse
import dataclasses
import json
import pathlib
import statistics
import subprocess
import sys

import make_graphs

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAKE_DECODER = ROOT / "examples" / "tensor_parallel" / "make_decoder.py"

FUSION = "dead_code,forward_copies,forward_parts,fuse_epilogues,fuse_vertical,fuse_horizontal,raise_outputs,merge_loops"
FINISH = "sink_releases,plan_memory"
WAYS = {
    "input order": f"{FUSION},{FINISH}",
    "sink_waits, raise_comms": f"{FUSION},sink_waits,raise_comms,{FINISH}",
    "schedule_for_comm": f"{FUSION},schedule_for_comm,{FINISH}",
    "braid_schedule": f"{FUSION},braid_schedule,{FINISH}",
}


# A plain model that braid splits by itself: how it is made, and how it is compiled.
DECODER = ["--graph", "prefill", "--layers", "4", "--hidden", "512", "--heads", "8", "--vocab", "4096", "--ranks", "1"]
SPLIT = ["--tp", "2", "--dim", "batch=1", "--dim", "sequence=256"]


@dataclasses.dataclass
class Graph:
    name: str
    text: pathlib.Path  # what is scheduled and simulated
    program: list  # what is compiled: the text or, of a split model, whose weights no text has, the model, and options
    run: tuple = ()


@dataclasses.dataclass
class Case:
    graph: Graph
    way: str
    folder: pathlib.Path
    base: pathlib.Path  # the program in the input order, of which kernel times are taken
    scheduled: pathlib.Path  # the program in its final order
    measured: list = dataclasses.field(default_factory=list)
    simulated: list = dataclasses.field(default_factory=list)


def braid(o, *arguments):
    done = subprocess.run([str(o.braid), *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"braid {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")


def measured(file):
    """Makespan and time blocked by the link (mean of the ranks), both in ms."""
    timeline = json.loads(file.read_text())["braid"]
    ranks = timeline["ranks"]
    makespan = max(r[-1][0] for r in ranks) - max(r[0][0] for r in ranks)
    slept = statistics.mean(sum(n[2] for n in r) for r in ranks)
    return makespan / 1e6, slept / 1e6


def run(o, program, *more):
    braid(o, "run", program, "--random", 1, "--link", o.link, "--threads", 1, *more)


def graphs(o):
    for name in make_graphs.GRAPHS:
        text = o.work / f"{name}.braid"
        yield Graph(name, text, [text])
    folder = o.work / "decoder"
    done = subprocess.run([sys.executable, str(MAKE_DECODER), "-o", str(folder), "--name", "plain", *DECODER], check=False)
    if done.returncode != 0:
        sys.exit("paced.py: the decoder was not made")
    program = [folder / "plain.onnx", *SPLIT, "--link", o.link]
    braid(o, "compile", *program, "--emit", "ir", "-o", folder)
    yield Graph("decoder, --tp 2", folder / "plain.braid", program, ("--random-max", 4096))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--braid", type=pathlib.Path, required=True)
    parser.add_argument("--link", default="100us,1", help="latency and GB/s")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/bench_paced"))
    o = parser.parse_args()
    o.work.mkdir(parents=True, exist_ok=True)
    make_graphs.write_all(o.work, layers=6, rows=256, width=512)

    cases = []
    for number, graph in enumerate(graphs(o)):
        stem = o.work / f"graph{number}"
        costs, base = stem.with_suffix(".costs.json"), stem.with_suffix(".base")
        braid(o, "compile", *graph.program, "-o", base, "--passes", WAYS["input order"])
        run(o, base, "--trace-costs", costs, "--repeat", 31, "--warmup", 5, *graph.run)
        for way, passes in WAYS.items():
            folder = o.work / f"{stem.name}.{way.replace(', ', '_').replace(' ', '_')}"
            scheduled = folder.with_suffix(folder.suffix + ".braid")
            braid(o, "opt", graph.text, "--passes", passes, "--link", o.link, "--costs", costs, "-o", scheduled)
            if len(graph.program) == 1:
                braid(o, "compile", scheduled, "-o", folder, "--passes", "plan_memory")
            else:
                braid(o, "compile", *graph.program, "-o", folder, "--passes", passes, "--costs", costs)
            cases.append(Case(graph, way, folder, base, scheduled))
    # Costs belong to the turn: what slows the machine down slows both down.
    for _ in range(o.rounds):
        for case in cases:
            costs = case.base / "turn.json"
            if case.way == "input order":
                run(o, case.base, "--trace-costs", costs, *case.graph.run)
            trace = case.folder / "trace.json"
            run(o, case.folder, "--trace", trace, *case.graph.run)
            figures = case.folder / "explain.json"
            braid(o, "explain", case.scheduled, "--passes", "plan_memory", "--link", o.link, "--costs", costs, f"--json={figures}")
            case.simulated.append(json.loads(figures.read_text())["after"])
            case.measured.append(measured(trace))

    print(f"Link: {o.link} GB/s; 2 ranks, one thread each; medians of {o.rounds} turns, each the median of 15 steps.\n")
    print("| program | passes | makespan measured ms | simulated ms | measured / simulated | exposed measured ms | exposed simulated ms | planned MiB |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    worst = 0.0
    for c in cases:
        makespan = statistics.median(m for m, _ in c.measured)
        exposed = statistics.median(e for _, e in c.measured)
        expected = statistics.median(s["makespan_ns"] for s in c.simulated) / 1e6
        expected_exposed = statistics.median(s["exposed_ns"] for s in c.simulated) / 1e6
        ratio = statistics.median(m / s["makespan_ns"] * 1e6 for (m, _), s in zip(c.measured, c.simulated))
        worst = max(worst, abs(ratio - 1))
        print(f"| {c.graph.name} | {c.way} | {makespan:.3f} | {expected:.3f} | {ratio:.3f} | {exposed:.3f} | {expected_exposed:.3f} | "
              f"{c.simulated[0]['planned_bytes'] / 2**20:.1f} |")
    print(f"\nLargest difference of measured and simulated makespan: {100 * worst:.1f} %.")


if __name__ == "__main__":
    main()
