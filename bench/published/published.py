#!/usr/bin/env python3
"""Models that others trained and published, beside ONNX Runtime: whether they run and agree, and how long a run takes.

  scripts/python_run.sh bench/published/published.py --braid build/release/bin/braid
  scripts/python_run.sh bench/published/published.py --only swift_f0 --threads 1

files.json names package, version, file and inputs: normal numbers, integers below a limit, or one value, by a generator whose seed
is the file's place in the list. "static": both runtimes load a copy whose dimensions are these sizes; "dynamic": both load the file
as published, and Braid compiles it for 1 to twice the size of each open dimension. Both runtimes answer the same inputs in
processes of their own (../onnxruntime/model_file.py). "difference" is the largest of all outputs, in parts of the output's largest.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

import numpy as np
import onnx

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "onnxruntime"))
sys.path.insert(0, str(HERE.parent.parent / "tests" / "real_models"))
import compare  # noqa: E402
import model_file  # noqa: E402
import onnxruntime  # noqa: E402
import real_models  # noqa: E402


def graph_inputs(model):
    constants = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in constants]


def open_dimensions(value):
    """(axis, name) of each dimension without a size, as Braid names it."""
    for axis, d in enumerate(value.type.tensor_type.shape.dim):
        if d.dim_value <= 0:
            named = d.HasField("dim_param") and d.dim_param not in ("", "?")
            yield axis, d.dim_param if named else f"{value.name}_{axis}"


def with_sizes(model, inputs):
    """A copy whose inputs have the sizes of these arrays."""
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    for value in graph_inputs(fixed):
        for d, size in zip(value.type.tensor_type.shape.dim, inputs[value.name].shape):
            d.dim_value = size
    return fixed


def write_case(entry, seed, options):
    """The static and the dynamic form; one if no dimension is open."""
    original = real_models.fetched(entry, pathlib.Path(options.work))
    folder = original.parent
    model = onnx.load(original)
    inputs = real_models.inputs_of(entry, model, seed)
    np.savez(folder / "inputs.npz", **inputs)
    onnx.save(with_sizes(model, inputs), folder / "static.onnx")
    sizes = {
        name: inputs[value.name].shape[axis] for value in graph_inputs(model) for axis, name in open_dimensions(value)
    }
    written = dict(inputs=str(folder / "inputs.npz"))
    fixed = str(folder / "static.onnx")
    forms = [model_file.ModelFile(fixed, **written, sizes={}, bounds={}, peer="" if opens(fixed) else str(original))]
    if sizes:
        bounds = {name: f"1..{2 * size}" for name, size in sizes.items()} | entry.get("bounds", {})
        forms.append(model_file.ModelFile(str(original), **written, sizes=sizes, bounds=bounds))
    return forms


def peer_session(path):
    """ONNX Runtime's session for results."""
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    return onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])


def opens(path):
    """Whether ONNX Runtime takes the file: it infers the ranks in both branches of an `If`, taken or not."""
    try:
        peer_session(path)
    except Exception:  # the runtime's own exceptions have no common base
        return False
    return True


def difference(options, model):
    """The largest difference from ONNX Runtime of all outputs, in parts of the output's largest number."""
    inputs = dict(np.load(model.inputs))
    session = peer_session(model.peer or model.path)
    names = [output.name for output in session.get_outputs()]
    results = f"{model.program}.npz"
    command = [options.braid, "run", model.program, "--input", model.inputs, "-o", results, "--warmup", "0", "--repeat", "1"]
    made = subprocess.run(command, check=False, capture_output=True, text=True)
    if made.returncode != 0:
        raise model_file.Refused("Braid: " + made.stderr.strip().splitlines()[0])
    largest = 0.0
    for name, expected, got in zip(names, session.run(names, inputs), np.load(results).values()):
        if isinstance(expected, list):  # a sequence of maps that ZipMap makes
            continue
        if got.shape != expected.shape:
            raise model_file.Refused(f"other sizes: {name} has {got.shape} instead of {expected.shape}")
        apart = np.abs(got.astype(np.float64) - expected.astype(np.float64))
        largest = max(largest, np.max(apart, initial=0) / max(np.max(np.abs(expected), initial=0), 1e-9))
    return largest


def rows(options, entry, seed, ratios):
    """The lines of one file; adds the ratios to those of its form and threads."""
    for model in write_case(entry, seed, options):
        form = "dynamic" if model.dynamic else "static"
        try:
            model_file.compile_program(options.braid, model)
            apart = difference(options, model)
            for threads in options.threads:
                found = model_file.measure(options, model, threads)
                ratio = found["Braid"] / found["ONNX Runtime"]
                ratios.setdefault((form, threads), {})[entry["name"]] = ratio
                yield (f"| {entry['name']} | {form} | {threads} | {apart:.1e} | {found['ONNX Runtime']:.1f} | {found['Braid']:.1f} "
                       f"| {ratio:.2f} |")  # fmt: skip
        except model_file.Refused as why:
            yield f"| {entry['name']} | {form} | | refused by {why} | | | |"


def summary(ratios):
    for (form, threads), found in sorted(ratios.items()):
        values = list(found.values())
        yield (f"{form}, {threads} thread(s): geometric mean of {len(values)} ratios {statistics.geometric_mean(values):.2f}; above 1.05: "
               f"{', '.join(f'{n} {r:.2f}' for n, r in sorted(found.items(), key=lambda e: -e[1]) if r > 1.05) or 'none'}")  # fmt: skip
    both = ratios.get(("static", 1), {}), ratios.get(("dynamic", 1), {})
    against = {name: both[1][name] / both[0][name] for name in both[0] if name in both[1]}
    if against:
        yield f"dynamic against static, ratio of ratios: geometric mean {statistics.geometric_mean(against.values()):.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--braid", default=os.path.join(compare.ROOT, "build", "release", "bin", "braid"), metavar="FILE")
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--turns", type=int, default=7, help="turns of each runtime")
    parser.add_argument("--work", default=os.path.join(compare.ROOT, "build", "bench_published"), metavar="DIR")
    options = parser.parse_args()
    entries = json.loads((HERE / "files.json").read_text())
    print(f"ONNX Runtime {onnxruntime.__version__}; medians of {options.turns} interleaved turns; microseconds of a run\n")
    print("| file | dimensions | threads | difference | ONNX Runtime | Braid | ratio |\n|---|---|---|---|---|---|---|", flush=True)
    ratios = {}
    for seed, entry in enumerate(entries):
        if options.only and entry["name"] not in options.only:
            continue
        for line in rows(options, entry, seed, ratios):
            print(line, flush=True)
    print()
    for line in summary(ratios):
        print(f"* {line}")


if __name__ == "__main__":
    main()
