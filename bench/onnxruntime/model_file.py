"""A model file with given inputs on Braid and ONNX Runtime: both answer the same inputs in processes of their own, and turns
alternate. A turn takes as many runs as fit into a few milliseconds.
"""

import dataclasses
import os
import statistics
import subprocess
import sys

import compare

BENCH_ORT = os.path.join(compare.HERE, "bench_ort.py")
TURN_NANOSECONDS, MOST_RUNS = 10e6, 100


class Refused(Exception):
    """A model that one of the runtimes does not take, and why."""


@dataclasses.dataclass(frozen=True)
class ModelFile:
    """A model and the inputs that it is given; `sizes` are those of its open dimensions, `bounds` what Braid compiles it for."""

    path: str
    inputs: str  # a .npz
    sizes: dict
    bounds: dict
    peer: str = ""  # the file that ONNX Runtime loads, if it is another one

    @property
    def dynamic(self):
        return any(".." in bound for bound in self.bounds.values())

    @property
    def program(self):
        return os.path.join(os.path.dirname(self.inputs), "dynamic" if self.dynamic else "static")


def compile_program(braid, model):
    words = compare.repeated_option(model.bounds)
    made = subprocess.run([braid, "compile", model.path, "-o", model.program, *words], check=False, capture_output=True, text=True)
    if made.returncode != 0:
        raise Refused("Braid: " + made.stderr.strip().splitlines()[0].replace(model.path + ": ", ""))


def servers(options, model, threads):
    """Braid and ONNX Runtime, by name."""
    compile_program(options.braid, model)
    ort = [sys.executable, BENCH_ORT, model.peer or model.path, "--threads", str(threads), "--inputs", model.inputs]
    ort += compare.repeated_option(model.sizes) + ["--dynamic"] * (model.dynamic or model.peer != "")
    serve = [options.braid, "bench", model.program, "--serve", "--threads", str(threads), "--input", model.inputs]
    return {"ONNX Runtime": compare.Server(ort, threads), "Braid": compare.Server(serve, threads)}


def first_run(name, server):
    """The latency of a run, after one more; a process that cannot answer has refused the case."""
    try:
        server.run()
        return server.run()
    except SystemExit:
        raise Refused(name) from None


def measure(options, model, threads):
    """Medians in microseconds by name."""
    running = servers(options, model, threads)
    try:
        runs = {
            name: int(min(max(TURN_NANOSECONDS / first_run(name, server), 1), MOST_RUNS)) for name, server in running.items()
        }
        latencies = {name: [] for name in running}
        for _ in range(options.turns):
            for name, server in running.items():
                latencies[name] += server.turn(runs[name])
    finally:
        for server in running.values():
            server.close()
    return {name: statistics.median(values) / 1e3 for name, values in latencies.items()}
