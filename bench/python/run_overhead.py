#!/usr/bin/env python3
"""What a step costs through Python, beside the C ABI and ONNX Runtime: a table of medians.

  PYTHONPATH=build/release/python .venv/bin/python bench/python/run_overhead.py build/release/bin/abi_step [--steps N]

The model doubles 16 numbers, so the step itself is a few nanoseconds. All take turns in rounds of 1,000 steps, each step
is timed alone, with one thread; a table's line is the median of all steps.
"""

import argparse
import statistics
import subprocess
import sys
import time

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

import braid

ROUND = 1000


def model():
    shape = (1, 16)
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )  # fmt: skip
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10
    ).SerializeToString()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("abi_step")
    parser.add_argument("--steps", type=int, default=100_000)
    options = parser.parse_args()
    program = braid.compile(model(), name="small")
    session = program.session(threads=1)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    theirs = onnxruntime.InferenceSession(model(), settings, providers=["CPUExecutionProvider"])
    same = braid.InferenceSession(model(), settings)
    x, y = np.ones((1, 16), np.float32), np.empty((1, 16), np.float32)
    feed, out = {"x": x}, {"y": y}
    binding = theirs.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)

    ways = {
        "`braid` `session.run(feed, out=out)`": lambda: session.run(feed, out=out),
        "`braid` `session.run(feed)`, a new output": lambda: session.run(feed),
        "`braid.InferenceSession.run(None, feed)`": lambda: same.run(None, feed),
        "`onnxruntime` `run(None, feed)`": lambda: theirs.run(None, feed),
        "`onnxruntime` `run_with_iobinding`, output bound": lambda: theirs.run_with_iobinding(binding),
        "a Python call of nothing": lambda: None,
    }
    times = {name: [] for name in ways}
    clock = time.perf_counter_ns
    abi = []
    for _ in range(max(1, options.steps // ROUND)):
        for name, step in ways.items():
            append = times[name].append
            for _ in range(ROUND):
                begin = clock()
                step()
                append(clock() - begin)
        command = [options.abi_step, program.folder, "small", str(ROUND)]
        abi.append(int(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    np.testing.assert_array_equal(y, 2)
    base = statistics.median(abi)
    print(f"braid {braid.__version__}, ONNX Runtime {onnxruntime.__version__}, Python {sys.version.split()[0]}; "
          f"medians of {options.steps:,} steps\n")  # fmt: skip
    print("| way to run a step | median, us | beyond the C ABI, us |")
    print("|---|---|---|")
    print(f"| C ABI, `BraidProgram::run` | {base / 1e3:.2f} | 0 |")
    for name, measured in times.items():
        median = statistics.median(measured)
        beyond = f"{(median - base) / 1e3:.2f}" if "call of nothing" not in name else ""
        print(f"| {name} | {median / 1e3:.2f} | {beyond} |")


if __name__ == "__main__":
    main()
