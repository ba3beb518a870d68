#!/usr/bin/env python3
"""Trees and other classical models beside ONNX Runtime, one thread: do labels and numbers agree, and how long does a call take?

  bench/trees/run.sh [BUILD_DIR]                  # makes the environment and the models, and writes RESULTS.md
  python bench/trees/compare.py DIR [--only NAME ...]

DIR holds the models of make_models.py. Calls of 1 row and of 1,000 rows alternate in rounds; inputs and outputs are bound to
buffers made beforehand on both sides. ONNX Runtime gets the files without ZipMap, whose maps it would make in Python.
"""

import argparse
import os
import statistics
import tempfile
import time

import numpy as np
import onnx
import onnxruntime

import braid

BATCHES = (1, 1000)
NUMPY_TYPES = {onnx.TensorProto.FLOAT: np.float32, onnx.TensorProto.INT64: np.int64}


def without_maps(model):
    """The model with the input of each ZipMap in place of its output, under its name. Outputs lose their declared
    sizes, some of which are wrong: ONNX Runtime would refuse buffers of the right ones."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    kept = []
    for node in model.graph.node:
        if node.op_type == "ZipMap":
            for output in model.graph.output:
                if output.name == node.output[0]:
                    output.CopyFrom(onnx.ValueInfoProto(name=node.input[0]))
        else:
            kept.append(node)
    for output in model.graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return model


def runtime_session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(without_maps(model).SerializeToString(), options, providers=["CPUExecutionProvider"])


def as_numbers(result, classes):
    """Labels that are strings as their positions."""
    if result.dtype.kind in "OU":
        return np.array([classes.index(str(label)) for label in result.reshape(-1)], np.int64).reshape(result.shape)
    return result


def table_of_strings(model):
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "classlabels_strings":
                return [s.decode() for s in attribute.strings]
    return []


def differences(theirs, ours, classes):
    """The number of different labels, and the largest difference of numbers, relative to 1 or the number."""
    labels, largest = 0, 0.0
    for a, b in zip(theirs, ours, strict=True):
        a, b = as_numbers(a, classes), np.asarray(b)
        if a.shape != b.shape:
            raise ValueError(f"shapes {a.shape} and {b.shape}")
        if a.dtype.kind == "i":
            labels += int((a != b).sum())
        elif a.size:
            wide = a.astype(np.float64)
            largest = max(largest, float((abs(wide - b) / np.maximum(abs(wide), 1)).max()))
    return labels, largest


def bound_calls(session, program, x):
    """A call of ONNX Runtime's and one of ours, with outputs that are there already, unless they are strings."""
    theirs = session.run(None, {session.get_inputs()[0].name: x})
    name = session.get_inputs()[0].name
    if any(a.dtype.kind in "OU" for a in theirs):
        call = lambda: session.run(None, {name: x})  # noqa: E731
    else:
        binding = session.io_binding()
        binding.bind_cpu_input(name, x)
        for output, a in zip(session.get_outputs(), theirs, strict=True):
            binding.bind_ortvalue_output(output.name, onnxruntime.OrtValue.ortvalue_from_numpy(a))
        call = lambda: session.run_with_iobinding(binding)  # noqa: E731
    feed = {program.inputs[0].name: x}
    ours = braid_session(program)
    out = {name: np.array(value) for name, value in ours.run(feed).items()}
    return call, lambda: ours.run(feed, out=out)


def braid_session(program):
    return program.session(threads=1)


def timed(calls, rounds, seconds):
    """Medians in microseconds; calls take turns in rounds."""
    times = [[] for _ in calls]
    clock = time.perf_counter_ns
    for call in calls:
        call()
    for _ in range(rounds):
        for call, all_times in zip(calls, times, strict=True):
            end = clock() + int(seconds * 1e9)
            while True:
                begin = clock()
                call()
                now = clock()
                all_times.append(now - begin)
                if now > end:
                    break
    return [statistics.median(t) / 1e3 for t in times]


def measure(folder, options):
    model, rows = onnx.load(os.path.join(folder, "model.onnx")), np.load(os.path.join(folder, "rows.npy"))
    session = runtime_session(model)
    with tempfile.TemporaryDirectory() as output:
        program = braid.compile(model.SerializeToString(), default_dim="0..1024", output=output)
        classes, row = table_of_strings(model), []
        worst, labels = 0.0, 0
        for batch in BATCHES:
            x = np.ascontiguousarray(rows[:batch])
            with braid_session(program) as one:
                ours = list(one.run({program.inputs[0].name: x}).values())
            wrong, largest = differences(session.run(None, {session.get_inputs()[0].name: x}), ours, classes)
            worst, labels = max(worst, largest), labels + wrong
            row.append(timed(bound_calls(session, program, x), options.rounds, options.seconds))
    return row, labels, worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.05, help="of a round")
    options = parser.parse_args()
    print(f"ONNX Runtime {onnxruntime.__version__}, one thread, medians of {options.rounds} interleaved rounds; microseconds\n")
    head = ["model", "labels that differ", "largest difference"]
    for batch in BATCHES:
        head += [f"ONNX Runtime, {batch:,}", f"Braid, {batch:,}", f"ratio, {batch:,}"]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head), flush=True)
    ratios = {batch: [] for batch in BATCHES}
    for name in sorted(os.listdir(options.folder)):
        if options.only and name not in options.only:
            continue
        row, labels, worst = measure(os.path.join(options.folder, name), options)
        cells = [name, str(labels), f"{worst:.1e}"]
        for batch, (theirs, ours) in zip(BATCHES, row, strict=True):
            cells += [f"{theirs:.1f}", f"{ours:.1f}", f"{ours / theirs:.2f}"]
            ratios[batch].append(ours / theirs)
        print("| " + " | ".join(cells) + " |", flush=True)
    print()
    for batch, all_ratios in ratios.items():
        if all_ratios:
            print(f"{batch:,} rows: geometric mean {statistics.geometric_mean(all_ratios):.2f}, largest {max(all_ratios):.2f}; "
                  f"{len(all_ratios)} models.")  # fmt: skip


if __name__ == "__main__":
    main()
