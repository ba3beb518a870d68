#!/usr/bin/env python3
"""Checks that the split of a model does not depend on its names, on the order of its nodes or on copies in it.

  renamed.py --braid BRAID MODEL_FOLDER...

Every tensor and every node gets a random name, nodes are put in a random order that their tensors allow, and
Identity nodes go between some of them, behind weights and before outputs. The plans that are tried, what they are predicted and simulated to take, the
bound, the planned memory and the conversions of the chosen plan must be those of the model as it is, for ranks along one axis, along two, and where
one device may be the fastest. A model that is refused must be refused alike.
"""

import argparse
import collections
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

import onnx

SPLITS = (["--tp", "2"], ["--mesh", "a=2,b=2"], ["--devices", "2"])


def renamed(source, seed, identities):
    rng = random.Random(seed)
    model = onnx.load(source, load_external_data=False)
    graph = model.graph
    known = {"": ""}

    def new(name):
        return known.setdefault(name, f"q{rng.randrange(10**9)}_{len(known)}")

    def rename_captured(node):
        for attribute in node.attribute:
            for inner in attribute.g.node:
                inner.input[:] = [known.get(name, name) for name in inner.input]
                rename_captured(inner)
            for output in attribute.g.output:
                output.name = known.get(output.name, output.name)

    def needs(node):
        yield from node.input
        for attribute in node.attribute:
            for inner in attribute.g.node:
                yield from needs(inner)
            yield from (output.name for output in attribute.g.output)

    del graph.value_info[:]
    for value in (*graph.input, *graph.output):
        value.name = new(value.name)
    for weight in graph.initializer:
        weight.name = new(weight.name)
    nodes = list(graph.node)
    returned = {value.name for value in graph.output}

    def copy(value, copied):
        nodes.append(onnx.helper.make_node("Identity", [value], [copied], name=f"node_{copied}"))
        return copied

    for k, node in enumerate(list(nodes)):
        node.name = f"z{rng.randrange(10**9)}_{k}"
        node.input[:] = [new(name) for name in node.input]
        node.output[:] = [new(name) for name in node.output]
        if not identities:
            continue
        for j, name in enumerate(node.input):
            if name and rng.random() < 0.1:
                node.input[j] = copy(name, f"copy_{len(nodes)}")
        for j, name in enumerate(node.output):
            if name in returned and rng.random() < 0.5:
                node.output[j] = f"original_{len(nodes)}"
                copy(node.output[j], name)
    for node in nodes:
        rename_captured(node)
    computed = {name for node in nodes for name in node.output}
    made = set()
    del graph.node[:]
    while nodes:
        node = rng.choice([n for n in nodes if all(name in made or name not in computed for name in needs(n))])
        nodes.remove(node)
        made.update(node.output)
        graph.node.append(node)
    return model


def split_of(braid, path, split):
    """What `braid explain` says, without names: of the plans, of the chosen one's conversions, and why there is none."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        words = ["explain", path, "--machine", "h100", "--default-dim", "64", *split, f"--json={file.name}"]
        done = subprocess.run([braid, *words], capture_output=True, text=True)
        if done.returncode != 0:
            return re.findall(r"error BR\d+", done.stderr) or [done.stderr], {}
        said = json.load(open(file.name, encoding="utf-8"))
    #   'value': FROM -> TO because 'reader' takes it so: all_reduce 4.0 KiB, 4.301 us; taken otherwise: ...
    line = re.compile(r"  '[^']*': (.* -> .*) because .* takes? (?:it|them) so: ([^;]*)")
    conversions = collections.Counter(match.groups() for match in map(line.match, done.stdout.splitlines()) if match)
    keys = ("ranks", "plan", "predicted_us", "simulated_us")
    plans = [[plan.get(key) for key in keys] for plan in said["split"]["tried"]]
    return [plans, said["split"].get("bound_us"), said["after"]["planned_bytes"]], conversions


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--braid", required=True)
    parser.add_argument("--seeds", type=int, default=1, help="of each model, from 1 on")
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    failed = conversions = refused = 0
    for folder in options.models:
        with tempfile.TemporaryDirectory() as work:
            for path in folder.iterdir():
                if path.is_file() and path.name != "model.onnx":
                    shutil.copy(path, work)
            for split in SPLITS:
                expected = split_of(options.braid, folder / "model.onnx", split)
                refused += not isinstance(expected[0][0], list)
                for seed in range(1, options.seeds + 1):
                    for identities in (False, True):
                        changed = pathlib.Path(work) / "changed.onnx"
                        onnx.save(renamed(folder / "model.onnx", seed, identities), changed)
                        got = split_of(options.braid, changed, split)
                        conversions += sum(got[1].values())
                        if got != expected:
                            failed += 1
                            print(f"{folder.name} {' '.join(split)} seed {seed} identities {identities}:")
                            print(f"{expected}\n{got}")
    print(f"{len(options.models)} models, {refused} refused, {conversions} conversions, {failed} differ")
    return 1 if failed or conversions == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
