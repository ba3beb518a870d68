#!/usr/bin/env python3
"""How long the splitter takes on a Llama of 32 layers: the search with its bounds, and whole commands; two tables.

  scripts/python_run.sh bench/auto_parallel/search_time.py --braid build/release/bin/braid --bench build/release/bin/auto_parallel_bench

The model has the sizes of Llama-3-8B. Its weights are zeros in a file of holes: 32 GB that take no room.
"""

import argparse
import json
import math
import pathlib
import re
import resource
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "tensor_parallel"))

import graph_builder  # noqa: E402
import model_config  # noqa: E402
import transformer  # noqa: E402
from make_decoder import make_config  # noqa: E402

SIZES = dict(style="llama", hidden=4096, heads=32, kv_heads=8, intermediate=14336, vocab=128256)
DIMS = {"prefill": ["batch=8", "sequence=2048"], "decode": ["batch=8", "past_sequence=2047"]}


def meshes(ranks, axes):
    """All of so many ranks with that many axes."""
    if axes == 1:
        return [(ranks,)]
    return [(s, *rest) for s in range(2, ranks) if ranks % s == 0 for rest in meshes(ranks // s, axes - 1) if min(rest) > 1]


def mesh_option(sizes):
    names = {1: ("tp",), 2: ("dp", "tp"), 3: ("dp", "ep", "tp")}[len(sizes)]
    return ",".join(f"{name}={size}" for name, size in zip(names, sizes))


def all_meshes(devices):
    divisors = [n for n in range(1, devices + 1) if devices % n == 0]
    return [m for axes in (1, 2, 3) for n in divisors for m in meshes(n, axes)]


TURNS = 7
SEARCHES = (  # graph, devices, meshes, all at once; None: those that --devices tries, as it does
    ("prefill", 8, None),
    ("decode", 8, None),
    ("prefill", 8, all_meshes(8)),
    ("decode", 8, all_meshes(8)),
    ("prefill", 64, [(4, 4, 4)]),
)
# Command, graph, options: check chooses as compile does, explain looks for alternatives beside. A limit that no plan keeps is refused (3).
COMMANDS = (
    ("check", "prefill", ["--devices", "8"]),
    ("explain", "prefill", ["--devices", "8"]),
    ("check", "decode", ["--devices", "8"]),
    ("explain", "decode", ["--devices", "8"]),
    ("check", "prefill", ["--devices", "64"]),
    ("explain", "decode", ["--tp", "8", "--split-caches"]),
    ("check", "decode", ["--devices", "8", "--memory-limit", "1gb"]),
    ("check", "decode", ["--devices", "8", "--memory-limit", "13gb"]),
    ("check", "prefill", ["--devices", "8", "--memory-limit", "20gb"]),
)


class ZeroParameters(model_config.Parameters):
    def normal(self, name, shape, deviation):
        return np.broadcast_to(np.float32(0), shape)  # one element that is seen everywhere

    def scale(self, name, size):
        return self.normal(name, (size,), 0)


class ShapesOnly(transformer.Transformer):
    """Its weights have places in a file, and no bytes."""

    def __init__(self, config, path):
        super().__init__(config)
        self.parameters = ZeroParameters(config)
        self.b.weight = self.weight
        self.path, self.end = path, 0

    def weight(self, name, array):
        tensor = graph_builder.TensorProto(name=name, data_type=graph_builder.TensorProto.FLOAT, dims=array.shape)
        tensor.data_location = graph_builder.TensorProto.EXTERNAL
        for key, value in (("location", self.path.name), ("offset", self.end), ("length", array.nbytes)):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, str(value)
        alignment = graph_builder.WEIGHT_ALIGNMENT
        self.end += -(-array.nbytes // alignment) * alignment
        self.b._initializers.append(tensor)
        return name

    def column_linear(self, x, name, columns, biased=True, parts=1):
        return self.linear(x, name, self.parameters.matrix(name, self.c.hidden, columns))

    def head(self, x):
        logits = self.b.op("MatMul", x, self.weight("head.weight", self.parameters.matrix("", self.c.hidden, self.c.vocab)))
        self.b.output(logits, "logits", [self.c.dim("batch"), self.c.sequence, self.c.vocab], first=True)


def write_model(folder, graph, layers):
    path = folder / f"{graph}.{layers}.onnx"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        model = ShapesOnly(make_config(graph=graph, layers=layers, **SIZES), path.with_suffix(".data"))
        proto = model.build()
        with open(model.path, "wb") as weights:
            weights.truncate(model.end)
        path.write_bytes(proto.SerializeToString(deterministic=True))
    return path


def run(command):
    """Processor time of the command, which may find no plan for its limit of memory, and what it prints."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0 and not (done.returncode == 3 and "BR0488" in done.stderr):
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def dims_of(graph):
    return [word for dim in DIMS[graph] for word in ("--dim", dim)]


def tried(braid, model, graph, devices):
    """The meshes on which --devices has looked for plans, in the order of their axes and ranks."""
    command = [braid, "explain", model, "--machine", "h100", *dims_of(graph), "--devices", devices, "--json"]
    found = set()
    for candidate in json.loads(run(command)[1])["split"]["tried"]:
        sizes = tuple(int(size) for size in re.findall(r"\w=(\d+)", candidate["plan"]))
        found.add(sizes or (candidate["ranks"],))
    return sorted(found, key=lambda sizes: (len(sizes), math.prod(sizes), sizes))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--braid", type=pathlib.Path, required=True)
    parser.add_argument("--bench", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build" / "bench_search_time", help="for models")
    parser.add_argument("--layers", type=int, default=32)
    o = parser.parse_args()
    print(f"Llama of {o.layers} layers of 4096 on the machine `h100`, prefill of 8 x 2048 and decode of 8 after 2047.\n")
    print(f"Search and bounds. Meshes of a row are searched together, on two threads or more; medians of {TURNS} turns:\n")
    print("| graph | meshes | processor s | s |\n|---|---|---:|---:|", flush=True)
    for graph, devices, given in SEARCHES:
        model = write_model(o.work, graph, o.layers)
        sizes = given or tried(o.braid, model, graph, devices)
        options = [word for m in sizes for word in (("--ranks", m[0]) if len(m) == 1 else ("--mesh", mesh_option(m)))]
        at_once = ["--at-once"] if given else []
        _, text = run([o.bench, model, *dims_of(graph), *options, *at_once, "--turns", TURNS])
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]
        for cells in rows[:-1] if given else rows:
            name = f"**`--devices {devices}`**" if cells[1] == "together" else f"**{cells[1]}**" if given else cells[1]
            print(f"| {graph} | {name} | {cells[-2]} | {cells[-1]} |", flush=True)
    print("\nWhole commands, processor time:\n\n| command | seconds |\n|---|---:|", flush=True)
    for command, graph, options in COMMANDS:
        model = write_model(o.work, graph, o.layers)
        seconds, _ = run([o.braid, command, model, "--machine", "h100", *dims_of(graph), *options])
        print(f"| `braid {command} {graph}.onnx {' '.join(options)}` | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
