#!/usr/bin/env python3
"""Braid against ONNX Runtime: transformers, prefill and decode, on 1 and 2 threads, one table.

  scripts/python_run.sh bench/onnxruntime/compare.py --braid build/release/bin/braid
  scripts/python_run.sh bench/onnxruntime/compare.py --ort-only

Both runtimes load the same model file and stay loaded; turns alternate, so that noise of the machine meets both. Both
answer a line "run" on standard input with one latency in nanoseconds on standard output (see bench_ort.py).
The commands of the Braid side are templates over {braid} {model} {dir} {threads} {bounds} {sizes}.
"""

import argparse
import contextlib
import dataclasses
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



@dataclasses.dataclass(frozen=True)
class Case:
    """A model of make_decoder.py, what is run, and the bounds within which Braid's program must serve it."""

    title: str
    model_options: tuple
    sizes: dict
    bounds: dict  # (least, most) of each dimension: those that the model allows


LLAMA = ("--style", "llama", "--layers", "4", "--hidden", "1024", "--heads", "16", "--kv-heads", "4", "--intermediate", "2816")
CASES = {
    "gpt2_prefill": Case("GPT-2 small, prefill of 128 tokens", ("--graph", "prefill"),
                         dict(batch=1, sequence=128), dict(batch=(1, 1), sequence=(1, 1024))),
    "gpt2_decode": Case("GPT-2 small, decode with 512 cached", ("--graph", "decode"),
                        dict(batch=1, past_sequence=512), dict(batch=(1, 1), past_sequence=(1, 1023))),
    "bert": Case("BERT base, 128 tokens", ("--style", "bert"),
                 dict(batch=1, sequence=128), dict(batch=(1, 1), sequence=(1, 512))),
    "llama_prefill_128": Case("Llama, 4 layers of 1024, prefill of 128 tokens", (*LLAMA, "--graph", "prefill"),
                              dict(batch=1, sequence=128), dict(batch=(1, 1), sequence=(1, 2048))),
    "llama_prefill_1024": Case("the same, prefill of 1,024 tokens", (*LLAMA, "--graph", "prefill"),
                               dict(batch=1, sequence=1024), dict(batch=(1, 1), sequence=(1, 2048))),
    "llama_decode": Case("the same, decode with 2,047 cached", (*LLAMA, "--graph", "decode"),
                         dict(batch=1, past_sequence=2047), dict(batch=(1, 1), past_sequence=(1, 2047))),
}  # fmt: skip

# Workers of one runtime may spin for a while after a run; the other one's turn begins when they sleep.
PAUSE_SECONDS = 0.05


# Of each period, a neighbour computes for a share, and sleeps for the rest.
NEIGHBOUR = """
import sys, time
share, period = float(sys.argv[1]), 0.01
while True:
    begin = time.perf_counter()
    while time.perf_counter() < begin + share * period:
        pass
    time.sleep((1 - share) * period)
"""


@contextlib.contextmanager
def neighbour(share):
    """Another process that takes this share of one processor, which the system chooses; 0: none."""
    if share == 0:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", NEIGHBOUR, str(share)])
    try:
        yield
    finally:
        process.kill()
        process.wait()


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
        with contextlib.suppress(BrokenPipeError):  # of a process that has ended
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


def make_model(folder, name, model_options):
    """The plain model of these options, written once."""
    path = os.path.join(folder, f"{name}.onnx")
    if not os.path.exists(path):
        subprocess.run([sys.executable, MAKE_DECODER, "-o", folder, "--name", name, *model_options], check=True)
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


def median(turns):
    return statistics.median(v for turn in turns for v in turn)


def ratio(latencies):
    """Braid's median beside ONNX Runtime's; an empty list without Braid."""
    return [median(latencies["Braid"]) / median(latencies["ONNX Runtime"])] if "Braid" in latencies else []


def table_row(title, threads, latencies):
    cells = [title, str(threads), f"{median(latencies['ONNX Runtime']):.2f}"]
    for value in ratio(latencies):
        turns = zip(latencies["Braid"], latencies["ONNX Runtime"])
        low, high = np.quantile([statistics.median(b) / statistics.median(o) for b, o in turns], [0.25, 0.75])
        cells += [f"{median(latencies['Braid']):.2f}", f"{value:.2f}", f"{low:.2f} to {high:.2f}"]
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
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--turns", type=int, default=20, help="turns of each runtime")
    parser.add_argument("--runs", type=int, default=3, help="timed runs per turn")
    parser.add_argument("--neighbour", type=float, default=0, metavar="SHARE",
                        help="beside a process that takes this share of one processor")  # fmt: skip
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)

    print(f"{processor()}, {os.cpu_count()} processors; ONNX Runtime {onnxruntime.__version__}; "
          f"medians of {options.turns} interleaved turns of {options.runs} runs"
          + (f"; beside a process that takes {options.neighbour:.0%} of one processor" if options.neighbour else "")
          + "\n")  # fmt: skip
    head = ["model", "threads", "ONNX Runtime, ms"]
    head += [] if options.ort_only else ["Braid, ms", "ratio", "quartiles of the ratio by turn"]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head), flush=True)
    ratios = []
    for name in options.cases:
        case = CASES[name]
        model = make_model(options.work, name, case.model_options)
        for threads in options.threads:
            with neighbour(options.neighbour):
                latencies, _ = measure(options, model, (case.sizes, case.bounds), threads)
            print(table_row(case.title, threads, latencies), flush=True)
            ratios += ratio(latencies)
    if ratios:
        print(f"\nMean of the ratios: {statistics.mean(ratios):.2f}")


if __name__ == "__main__":
    main()
