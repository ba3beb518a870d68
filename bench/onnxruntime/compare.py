#!/usr/bin/env python3
"""Braid against ONNX Runtime: GPT-2 small, prefill of 128 tokens and decode after 512, on 1 and 2 threads, one table.

  scripts/python_run.sh bench/onnxruntime/compare.py --braid build/release/bin/braid
  scripts/python_run.sh bench/onnxruntime/compare.py --ort-only

Both runtimes load the same model file and stay loaded; turns alternate, so that noise of the machine meets both. Both
answer a line "run" on standard input with one latency in nanoseconds on standard output (see bench_ort.py).
The commands of the Braid side are templates over {braid} {model} {dir} {threads} {bounds} {sizes}.
"""

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import time

import numpy as np
import onnxruntime

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MAKE_DECODER = os.path.join(ROOT, "examples", "tensor_parallel", "make_decoder.py")

# What is run, and the bounds within which Braid's program must serve it: those that make_decoder.py's model allows.
CASES = {
    "prefill": (dict(batch=1, sequence=128), dict(batch=(1, 1), sequence=(1, 1024))),
    "decode": (dict(batch=1, past_sequence=512), dict(batch=(1, 1), past_sequence=(1, 1023))),
}
TITLES = {"prefill": "prefill, 128 tokens", "decode": "decode, 512 cached"}

# Workers of one runtime may spin for a while after a run; the other one's turn begins when they sleep.
PAUSE_SECONDS = 0.05


class Server:
    """A process that answers "run" with a latency."""

    def __init__(self, command, threads):
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        self._command = command
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environment
        )

    def run(self):
        """One run; its latency in nanoseconds."""
        try:
            self._process.stdin.write("run\n")
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer.strip().isdigit():
            self.close()
            sys.exit(
                f"compare.py: {shlex.join(self._command)} answered {answer.strip()!r} instead of a latency"
            )
        return int(answer)

    def turn(self, runs):
        """Latencies of `runs` runs after one that is not counted."""
        time.sleep(PAUSE_SECONDS)
        self.run()
        return [self.run() for _ in range(runs)]

    def peak_bytes(self):
        """The most memory that the process has had so far, pages of files that it has mapped included."""
        with open(f"/proc/{self._process.pid}/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))

    def close(self):
        self._process.stdin.close()
        self._process.wait()


def repeated_option(values):
    """--dim NAME=VALUE for every entry."""
    return [word for name, value in values.items() for word in ("--dim", f"{name}={value}")]


def expand(template, **words):
    """A command from a template; {bounds} and {sizes} stand for several words."""
    result = []
    for word in shlex.split(template):
        whole = words.get(word[1:-1]) if word.startswith("{") and word.endswith("}") else None
        result += whole if isinstance(whole, list) else [word.format(**words)]
    return result


def make_model(folder, graph, model_options):
    """The plain model of one graph, written once."""
    path = os.path.join(folder, f"{graph}.onnx")
    if not os.path.exists(path):
        subprocess.run(
            [sys.executable, MAKE_DECODER, "-o", folder, "--name", graph, "--graph", graph, *model_options],
            check=True,
        )
    return path


def servers(options, model, case, threads):
    """The servers to compare, by name; `case` are the sizes to run and the bounds of the program."""
    sizes, bounds = case
    ort = [
        sys.executable,
        os.path.join(HERE, "bench_ort.py"),
        model,
        "--threads",
        str(threads),
        *repeated_option(sizes),
    ]
    result = {"ONNX Runtime": Server(ort, threads)}
    if not options.ort_only:
        words = dict(
            braid=options.braid,
            model=model,
            dir=os.path.splitext(model)[0] + ".braid",
            threads=threads,
            bounds=repeated_option({name: f"{low}..{high}" for name, (low, high) in bounds.items()}),
            sizes=repeated_option(sizes),
        )
        if not os.path.isdir(words["dir"]) or threads == options.threads[0]:
            subprocess.run(expand(options.compile_command, **words), check=True, stdout=sys.stderr)
        result["Braid"] = Server(expand(options.serve_command, **words), threads)
    return result


def measure(options, model, case, threads):
    """Latencies in milliseconds by name, one list per turn, and the peak of each process's memory in bytes."""
    running = servers(options, model, case, threads)
    latencies = {name: [] for name in running}
    for turn in range(options.turns + 1):
        for name, server in running.items():
            values = server.turn(options.runs)
            if turn > 0:  # the first one warms up
                latencies[name].append([ns / 1e6 for ns in values])
    peaks = {name: server.peak_bytes() for name, server in running.items()}
    for server in running.values():
        server.close()
    return latencies, peaks


def table_row(title, threads, latencies):
    def median(name):
        return statistics.median(v for turn in latencies[name] for v in turn)

    cells = [title, str(threads), f"{median('ONNX Runtime'):.2f}"]
    if "Braid" in latencies:
        turns = zip(latencies["Braid"], latencies["ONNX Runtime"])
        low, high = np.quantile([statistics.median(b) / statistics.median(o) for b, o in turns], [0.25, 0.75])
        ratio = median("Braid") / median("ONNX Runtime")
        cells += [f"{median('Braid'):.2f}", f"{ratio:.2f}", f"{low:.2f} to {high:.2f}"]
    return "| " + " | ".join(cells) + " |"


def processor():
    with open("/proc/cpuinfo") as file:
        return next(
            (line.partition(":")[2].strip() for line in file if line.startswith("model name")), "unknown"
        )


def add_server_options(parser):
    parser.add_argument(
        "--braid", default=os.path.join(ROOT, "build", "release", "bin", "braid"), metavar="FILE"
    )
    parser.add_argument(
        "--compile-command", default="{braid} compile {model} -o {dir} {bounds}", metavar="TEMPLATE"
    )
    parser.add_argument("--serve-command", default="{braid} bench {dir} --serve --threads {threads} {sizes}",
                        metavar="TEMPLATE")  # fmt: skip
    parser.add_argument("--ort-only", action="store_true", help="leave Braid out")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "bench_onnxruntime"), metavar="DIR",
                        help="where models and programs are kept")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_server_options(parser)
    parser.add_argument("--graphs", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--turns", type=int, default=20, help="turns of each runtime")
    parser.add_argument("--runs", type=int, default=3, help="timed runs per turn")
    parser.add_argument("model_options", nargs=argparse.REMAINDER, metavar="-- OPTIONS",
                        help="for make_decoder.py; give a --work of its own")  # fmt: skip
    options = parser.parse_args()
    model_options = (
        options.model_options[1:] if options.model_options[:1] == ["--"] else options.model_options
    )
    os.makedirs(options.work, exist_ok=True)

    print(f"{processor()}, {os.cpu_count()} processors; ONNX Runtime {onnxruntime.__version__}; "
          f"medians of {options.turns} interleaved turns of {options.runs} runs\n")  # fmt: skip
    head = ["GPT-2 small" if not model_options else " ".join(model_options), "threads", "ONNX Runtime, ms"]
    head += [] if options.ort_only else ["Braid, ms", "ratio", "quartiles of the ratio by turn"]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head), flush=True)
    for graph in options.graphs:
        model = make_model(options.work, graph, model_options)
        for threads in options.threads:
            latencies, _ = measure(options, model, CASES[graph], threads)
            print(table_row(TITLES[graph], threads, latencies), flush=True)


if __name__ == "__main__":
    main()
