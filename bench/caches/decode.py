#!/usr/bin/env python3
"""Times one token of a decoder whose caches grow in place beside the same decoder that copies them.

    decode.py BRAID [--work DIR] [--layers 12 --heads 12 --head-size 64] [--cached 512 2048] [--repeat 15] [-o RESULTS.md]

The model is of GPT-2 small's size without its vocabulary (tests/models/decoders.py, random weights). Both programs run in turns, one
thread each; times are medians and minima of the steps. Before each step the caches are written again, which is not timed.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "models"))
import decoders  # noqa: E402
import onnx  # noqa: E402


class Server:
    def __init__(self, braid, folder, cached):
        command = [braid, "bench", str(folder), "--serve", "--threads", "1", "--random", "1", "--dim", f"past={cached}"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def step(self):
        self.process.stdin.write("run\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline()) / 1e6

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def compile_both(a):
    model = a.work / "decoder.onnx"
    if not model.exists():
        onnx.save(decoders.make_decoder("gpt2", a.layers, a.heads, a.heads, a.head_size, 1000), model)
    for name, aliases in (("in_place", decoders.caches(a.layers)), ("copying", [])):
        if (a.work / name).exists():
            continue
        command = [a.braid, "compile", model, "-o", a.work / name, "--dim", "batch=1", "--dim", "sequence=1"]
        command += ["--dim", f"past=0..{max(a.cached)}"]
        for output, past in aliases:
            command += ["--alias", f"{output}={past}"]
        subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL)


def measure(a, cached):
    servers = {name: Server(a.braid, a.work / name, cached) for name in ("copying", "in_place")}
    times = {name: [] for name in servers}
    for step in range(a.repeat + 2):
        for name, server in servers.items():
            ms = server.step()
            if step >= 2:
                times[name].append(ms)
    for server in servers.values():
        server.end()
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("braid")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("caches_work"))
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--head-size", type=int, default=64)
    parser.add_argument("--cached", type=int, nargs="+", default=[512, 2048])
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("-o", "--output", type=pathlib.Path)
    a = parser.parse_args()
    a.work.mkdir(parents=True, exist_ok=True)
    compile_both(a)
    load = os.getloadavg()[0]
    rows = []
    for cached in a.cached:
        times = measure(a, cached)
        copied = 2 * a.layers * a.heads * a.head_size * 4 * cached
        median = {name: statistics.median(t) for name, t in times.items()}
        least = {name: min(t) for name, t in times.items()}
        rows.append(
            f"| {cached:,} | {copied / 1e6:.1f} MB | 0 | {median['copying']:.1f} / {least['copying']:.1f} | "
            f"{median['in_place']:.1f} / {least['in_place']:.1f} | {median['in_place'] / median['copying']:.2f} / "
            f"{least['in_place'] / least['copying']:.2f} |"
        )
    processor = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    text = f"""# One token with caches that grow in place

`bench/caches/decode.py`: {a.layers} layers, {a.heads} heads of {a.head_size}, batch 1, f32, one thread, {a.repeat} steps in turns, on
{processor}, {os.cpu_count()} processors, load average {load:.1f} when it began. Milliseconds, median / minimum.

| cached | copied per token, copying | in place | ms, copying | ms, in place | ratio |
|---|---|---|---|---|---|
""" + "\n".join(rows) + "\n"
    print(text)
    if a.output:
        a.output.write_text(text)


if __name__ == "__main__":
    main()
