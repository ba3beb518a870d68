#!/usr/bin/env python3
"""Braid against ONNX Runtime: vision and recurrent networks with random weights (tests/models/networks.py), one table.

  scripts/python_run.sh bench/onnxruntime/networks.py --braid build/release/bin/braid [--networks resnet50 ...]

Turns alternate as in compare.py, whose options this takes. Memory is the peak of each serving process, pages of mapped files
included.
"""

import argparse
import os
import statistics
import subprocess
import sys

import compare
import onnxruntime

MAKE_NETWORK = os.path.join(compare.ROOT, "tests", "models", "networks.py")

# Sizes that are run; programs are compiled for these sizes only, and ONNX Runtime's sessions are made for them.
CASES = {
    "resnet50": dict(batch=1),
    "mobilenet_v3": dict(batch=1),
    "efficientnet_b0": dict(batch=1),
    "detector": dict(batch=1),
    "unet": dict(batch=1),
    "lstm_tagger": dict(batch=4, length=64),
    "vit_base": dict(batch=1),
}


def make_model(folder, network):
    path = os.path.join(folder, f"{network}.onnx")
    if not os.path.exists(path):
        subprocess.run([sys.executable, MAKE_NETWORK, network, path], check=True)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    compare.add_server_options(parser)
    parser.add_argument("--networks", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--turns", type=int, default=15, help="turns of each runtime")
    parser.add_argument("--runs", type=int, default=3, help="timed runs per turn")
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    print(f"{compare.processor()}, {os.cpu_count()} processors; ONNX Runtime {onnxruntime.__version__}; "
          f"medians of {options.turns} interleaved turns of {options.runs} runs\n")  # fmt: skip
    head = ["network", "threads", "ONNX Runtime, ms", "Braid, ms", "ratio", "quartiles of the ratio by turn", "peak memory, ratio"]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head), flush=True)
    ratios = []
    for network in options.networks:
        model = make_model(options.work, network)
        sizes = CASES[network]
        for threads in options.threads:
            latencies, peaks = compare.measure(options, model, (sizes, {k: (v, v) for k, v in sizes.items()}), threads)
            memory = peaks["Braid"] / peaks["ONNX Runtime"]
            print(compare.table_row(network, threads, latencies) + f" {memory:.2f} |", flush=True)
            ratios += compare.ratio(latencies)
    print(f"\nGeometric mean of the ratios: {statistics.geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()
