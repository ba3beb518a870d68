#!/usr/bin/env python3
"""Every operator beside ONNX Runtime: one at a time, at three sizes, with static and dynamic dimensions, on one thread.

  scripts/python_run.sh bench/operators/operators.py --braid build/release/bin/braid            # all, about an hour
  scripts/python_run.sh bench/operators/operators.py --only CumSum --only Transpose
  scripts/python_run.sh bench/operators/operators.py --quick                                    # typical sizes, static

The rows stand in cases.py. Both runtimes answer the same inputs in processes of their own (../onnxruntime/compare.py); turns
alternate, and results are medians. A turn takes as many runs as fit into a few milliseconds.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import zlib

import cases
import numpy as np
import onnx
import onnx.parser

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "onnxruntime"))
import compare  # noqa: E402
import onnxruntime  # noqa: E402
from model_file import ModelFile, Refused, measure  # noqa: E402


def model_of(case, size):
    """The model at this size, and the sizes of its open dimensions."""
    numbers = {name: values[cases.SIZES.index(size)] for name, values in case.dims.items()}
    fixed = {name: value for name, value in numbers.items() if name.isupper()}
    graph = case.graph
    for name, value in fixed.items():
        graph = graph.replace("{" + name + "}", str(value))
        graph = re.sub(rf"(?<=[\[,]){name}(?=[,\]])", str(value), graph)
    domains = f'"" : {case.opset}' + (', "com.microsoft" : 1' if "com.microsoft" in graph else "")
    model = onnx.parser.parse_model(f"<ir_version: 10, opset_import: [{domains}]> g {graph}")
    used = {name: value for name, value in numbers.items() if not name.isupper() and re.search(rf"[\[,]{name}[,\]]", graph)}
    return model, used, numbers


def array_of(case, value, numbers):
    tensor = value.type.tensor_type
    shape = [d.dim_value if d.HasField("dim_value") else numbers[d.dim_param] for d in tensor.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    if value.name in case.values:
        return np.array(case.values[value.name], dtype).reshape(shape)
    generator = np.random.Generator(np.random.PCG64(zlib.crc32(f"{case.title}/{value.name}".encode())))
    low, high = (numbers.get(bound, bound) for bound in case.ranges.get(value.name, (None, None)))
    if dtype.kind in "iub":
        low, high = (0, 2 if dtype.kind == "b" else 10) if low is None else (low, high)
        return generator.integers(low, high, shape).astype(dtype)
    return (generator.standard_normal(shape) if low is None else generator.uniform(low, high, shape)).astype(dtype)


def declare_outputs(model, inputs):
    """Declares the outputs, whose ranks the table leaves out, as ONNX Runtime finds them."""
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        results = session.run(None, inputs)
    except Exception as error:  # the runtime's own exceptions have no common base
        raise Refused("ONNX Runtime: " + str(error).splitlines()[0][:100]) from None
    for value, result in zip(model.graph.output, results):
        for axis in range(result.ndim):
            value.type.tensor_type.shape.dim.add().dim_param = f"{value.name}_{axis}"
        if result.ndim == 0:
            value.type.tensor_type.shape.SetInParent()


def write_case(case, size, folder, dynamic):
    """Writes model and inputs."""
    model, sizes, numbers = model_of(case, size)
    inputs = {}
    for value in list(model.graph.input):
        array = array_of(case, value, numbers)
        if value.name.startswith("c_"):
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
            model.graph.input.remove(value)
        else:
            inputs[value.name] = array
    declare_outputs(model, inputs)
    os.makedirs(folder, exist_ok=True)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    np.savez(os.path.join(folder, "inputs.npz"), **inputs)
    bounds = {name: f"1..{max(length, 2)}" if dynamic else str(length) for name, length in sizes.items()}
    return ModelFile(os.path.join(folder, "model.onnx"), os.path.join(folder, "inputs.npz"), sizes, bounds)


def missing(braid):
    """Operators of `braid ops` with neither a case nor a reason."""
    listed = {" ".join(line.split()[:2]) for line in subprocess.check_output([braid, "ops"], text=True).splitlines()}
    names = {re.sub(r"^(ai\.onnx|ai\.braid) ", "", line).replace(" ", ".") for line in listed if "." in line}
    known = {case.op for case in cases.CASES} | {op for ops in cases.WITHOUT.values() for op in ops.split()}
    return sorted(names - known)


def row(options, case, size, dynamic, rows):
    """One line of the table; adds the ratio to `rows`."""
    form = "dynamic" if dynamic else "static"
    start = f"| {case.title} | {size} | {form} |"
    folder = os.path.join(options.work, re.sub(r"\W+", "_", case.title), size)
    try:
        found = measure(options, write_case(case, size, folder, dynamic), options.threads)
    except Refused as why:
        return f"{start} refused by {why} | | |"
    ratio = found["Braid"] / found["ONNX Runtime"]
    rows.append((ratio, f"{case.title}, {size}, {form}"))
    shown = f"{ratio:.2f}" if ratio >= 0.01 else f"{ratio:.4f}"
    return f"{start} {found['ONNX Runtime']:.1f} | {found['Braid']:.1f} | {shown} |"


def summary(rows):
    ratios = [ratio for ratio, _ in rows]
    worst = sorted(rows, reverse=True)[:20]
    yield f"Geometric mean of {len(rows)} ratios: {statistics.geometric_mean(ratios):.2f}; above 1.2: {sum(r > 1.2 for r in ratios)}."
    yield "Worst: " + "; ".join(f"{name} {ratio:.1f}" for ratio, name in worst) + "."


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--braid", default=os.path.join(compare.ROOT, "build", "release", "bin", "braid"), metavar="FILE")
    parser.add_argument("--only", action="append", metavar="OP", help="the cases of one operator, as braid ops names it")
    parser.add_argument("--sizes", nargs="+", choices=cases.SIZES, default=list(cases.SIZES))
    parser.add_argument("--quick", action="store_true", help="typical sizes, static dimensions, fewer turns")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=5, help="turns of each runtime")
    parser.add_argument("--work", default=os.path.join(compare.ROOT, "build", "bench_operators"), metavar="DIR")
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.turns = ["typical"], 3
    if unknown := missing(options.braid):
        sys.exit(f"operators.py: cases.py has neither a case nor a reason for {', '.join(unknown)}")
    chosen = [case for case in cases.CASES if not options.only or case.op in options.only]
    print(f"ONNX Runtime {onnxruntime.__version__}; threads: {options.threads}; medians of {options.turns} interleaved turns; "
          "microseconds of a run\n")  # fmt: skip
    print("| operator | size | dimensions | ONNX Runtime | Braid | ratio |\n|---|---|---|---|---|---|", flush=True)
    rows = []
    for case in chosen:
        for size in options.sizes:
            for dynamic in (False,) if options.quick else (False, True):
                print(row(options, case, size, dynamic, rows), flush=True)
    if rows:
        print("\n" + "\n\n".join(summary(rows)))
    if not options.only:
        print("\nWithout a row: " + "; ".join(f"{ops} ({why})" for why, ops in cases.WITHOUT.items()) + ".")


if __name__ == "__main__":
    main()
