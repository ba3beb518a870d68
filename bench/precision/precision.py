#!/usr/bin/env python3
"""Narrow types beside float32, and quantised files beside ONNX Runtime.

  scripts/python_run.sh bench/precision/precision.py --braid build/release/bin/braid

1. BERT base, GPT-2 small, a Llama-like decoder and vision networks, compiled with --precision, beside the same model in f32. Also the largest difference of an output from
   f32's, relative to its largest element, for the same random inputs.
2. GPT-2 small's decode with weights in blocks of 32 numbers of 4 and 8 bits (MatMulNBits), beside f32 and beside ONNX Runtime.
3. The same models as ONNX Runtime's dynamic quantiser writes them (8 bits), beside ONNX Runtime; BERT also as its static one does.
4. Vision and recurrent networks (tests/models/networks.py) in all forms that its quantiser writes: dynamic, pairs of QuantizeLinear and
   DequantizeLinear, QLinear operators, each with one scale per tensor or per channel. Beside ONNX Runtime, on the same file.

Processes of both sides stay loaded and take turns (bench/onnxruntime/compare.py). Weights are random.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
for folder in ("tests/real_models", "bench/onnxruntime"):
    sys.path.insert(0, str(ROOT / folder))
import bench_ort  # noqa: E402
import compare  # noqa: E402
import networks  # noqa: E402
import quantised  # noqa: E402

DECODER = ROOT / "examples" / "tensor_parallel" / "make_decoder.py"
CASES = {
    "bert": (["--style", "bert"], dict(batch=1, sequence=128), dict(batch="1", sequence="128")),
    "prefill": (["--graph", "prefill"], dict(batch=1, sequence=128), dict(batch="1", sequence="1..1024")),
    "decode": (["--graph", "decode"], dict(batch=1, past_sequence=512), dict(batch="1", past_sequence="1..1023")),
}
TITLES = {"bert": "BERT base, 128 tokens", "prefill": "GPT-2 small, prefill 128", "decode": "GPT-2 small, decode, 512 cached"}
for name in ("llama_prefill_128", "llama_prefill_1024", "llama_decode"):
    case = compare.CASES[name]
    CASES[name] = (case.model_options, case.sizes, {d: f"{low}..{high}" for d, (low, high) in case.bounds.items()})
    TITLES[name] = case.title.replace("the same", "Llama, 4 layers of 1024")
VISION = ["vit_base", "resnet50"]
for name in VISION:
    CASES[name] = (None, networks.CASES[name], {k: str(v) for k, v in networks.CASES[name].items()})
    TITLES[name] = name


def make(work, case):
    """The float32 model, written once."""
    if case in VISION:
        return pathlib.Path(networks.make_model(str(work), case))
    path = work / f"{case}.onnx"
    if not path.exists():
        command = [sys.executable, DECODER, "-o", work, "--name", case, *CASES[case][0]]
        subprocess.run([str(c) for c in command], check=True, stdout=sys.stderr)
    return path


def dims(values):
    return [word for name, value in values.items() for word in ("--dim", f"{name}={value}")]


def build(options, model, bounds, precision="f32"):
    """The folder of the compiled program."""
    folder = options.work / f"{model.stem}.{precision}"
    command = [options.braid, "compile", model, "-o", folder, "--precision", precision, *dims(bounds)]
    subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder


def serve(options, folder, sizes, threads):
    command = [options.braid, "bench", folder, "--serve", "--threads", threads, *dims(sizes)]
    return compare.Server([str(c) for c in command], threads)


def serve_onnxruntime(model, sizes, threads):
    script = ROOT / "bench" / "onnxruntime" / "bench_ort.py"
    command = [sys.executable, script, model, "--threads", threads, *dims(sizes)]
    return compare.Server([str(c) for c in command], threads)


def calibration(model, sizes, count=2):
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    return [bench_ort.make_inputs(session, sizes, seed) for seed in range(count)]


def quantised_rows(options, title, model, sizes, bounds, ways):
    """A row for each way and number of threads; returns the ratios."""
    ratios = []
    for way in ways:
        path = options.work / f"{model.stem}.{way}.onnx"
        if not path.exists():
            quantised.ways()[way](str(model), str(path), calibration(model, sizes))
        folder = build(options, path, bounds)
        for threads in options.threads:
            ms = medians(options, {"ort": serve_onnxruntime(path, sizes, threads), "braid": serve(options, folder, sizes, threads)})
            row(title, way, threads, f"{ms['ort']:.2f}", f"{ms['braid']:.2f}", f"{ms['braid'] / ms['ort']:.2f}")
            ratios.append(ms["braid"] / ms["ort"])
    return ratios


def tell(ratios):
    over = sum(r > 1 for r in ratios)
    print(f"\nGeometric mean of the ratios: {statistics.geometric_mean(ratios):.2f}; {over} of {len(ratios)} above 1.\n")


def medians(options, servers):
    """Milliseconds by name; all take turns."""
    latencies = {name: [] for name in servers}
    for turn in range(options.turns + 1):
        for name, server in servers.items():
            values = server.turn(options.runs)
            if turn > 0:  # the first one warms up
                latencies[name] += [ns / 1e6 for ns in values]
    for server in servers.values():
        server.close()
    return {name: statistics.median(values) for name, values in latencies.items()}


def outputs(options, folder, case):
    out = options.work / "results.npz"
    command = [options.braid, "run", folder, "--random", "1", "-o", out, *dims(CASES[case][1])]
    if case == "bert":  # whose results are no numbers for any other mask
        mask = options.work / "mask.npy"
        np.save(mask, np.ones((CASES[case][1]["batch"], CASES[case][1]["sequence"]), np.int64))
        command += ["--input", f"attention_mask={mask}"]
    subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with np.load(out) as file:
        return {name: file[name] for name in file.files}


def difference(narrow, wide):
    return max(float(np.abs(narrow[k] - wide[k]).max() / np.abs(wide[k]).max()) for k in wide)


def quantised_blocks(source, target, bits, block=32):
    """A copy of the model whose products by constants are MatMulNBits."""
    model = onnx.load(source)
    constants = {t.name: t for t in model.graph.initializer}
    added, taken = [], set()
    for node in model.graph.node:
        if node.op_type != "MatMul" or node.input[1] not in constants:
            continue
        name = node.input[1]
        w = numpy_helper.to_array(constants[name]).T.astype(np.float32)
        n, k = w.shape
        if k % block:
            continue
        blocks = w.reshape(n, k // block, block)
        middle = 1 << (bits - 1)
        scale = np.abs(blocks).max(axis=2) / (middle - 1)
        q = np.clip(np.rint(blocks / np.where(scale == 0, 1, scale)[..., None]) + middle, 0, 2 * middle - 1).astype(np.uint8)
        if bits == 4:
            q = q[..., 0::2] | (q[..., 1::2] << 4)
        added += [numpy_helper.from_array(q, name + "_q"), numpy_helper.from_array(scale.astype(np.float32), name + "_scale")]
        taken.add(name)
        node.op_type, node.domain = "MatMulNBits", "com.microsoft"
        del node.input[1:]
        node.input.extend([name + "_q", name + "_scale"])
        node.attribute.extend(helper.make_attribute(a, v) for a, v in (("K", k), ("N", n), ("bits", bits), ("block_size", block)))
    used = {name for node in model.graph.node for name in node.input}
    kept = [t for t in model.graph.initializer if t.name not in taken or t.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept + added)
    if not any(o.domain == "com.microsoft" for o in model.opset_import):
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(model, target, save_as_external_data=True, location=target.name + ".data")
    return len(taken)


def table(head):
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head), flush=True)


def row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--braid", type=pathlib.Path, default=ROOT / "build/release/bin/braid")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/bench_precision")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--precisions", nargs="+", default=["bf16", "f16", "int8"])
    parser.add_argument("--parts", nargs="+", type=int, default=[1, 2, 3, 4])
    parser.add_argument("--forms", nargs="+", choices=quantised.ways(), default=list(quantised.ways()))
    parser.add_argument("--networks", nargs="+", choices=networks.CASES, default=["mobilenet_v3", "resnet50", "efficientnet_b0", "vit_base"])
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--runs", type=int, default=3, help="timed runs per turn")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    print(f"{compare.processor()}, {os.cpu_count()} processors; ONNX Runtime {onnxruntime.__version__}; "
          f"medians of {options.turns} interleaved turns of {options.runs} runs, in ms\n")  # fmt: skip

    if 1 in options.parts:
        print("Compiled with `--precision`:\n")
        table(["model", "threads", "f32", *(f"{p} (ratio)" for p in options.precisions), "differences from f32"])
        for case in options.cases:
            model = make(options.work, case)
            folders = {p: build(options, model, CASES[case][2], p) for p in ["f32", *options.precisions]}
            wide = outputs(options, folders["f32"], case)
            errors = [f"{difference(outputs(options, folders[p], case), wide):.1e}" for p in options.precisions]
            for threads in options.threads:
                ms = medians(options, {p: serve(options, f, CASES[case][1], threads) for p, f in folders.items()})
                ratios = [f"{ms[p]:.1f} ({ms[p] / ms['f32']:.2f})" for p in options.precisions]
                row(TITLES[case], threads, f"{ms['f32']:.1f}", *ratios, ", ".join(errors))
        print()
    if 2 in options.parts:
        print("Weights in blocks of 32:\n")
        table(["model", "bits", "threads", "f32, Braid", "Braid", "ratio to f32", "ONNX Runtime", "ratio to it"])
        model = make(options.work, "decode")
        _, sizes, bounds = CASES["decode"]
        wide = build(options, model, bounds)
        for bits in (4, 8):
            packed = options.work / f"decode.blocks{bits}.onnx"
            if not packed.exists():
                quantised_blocks(model, packed, bits)
            folder = build(options, packed, bounds)
            for threads in options.threads:
                ms = medians(options, {"f32": serve(options, wide, sizes, threads), "braid": serve(options, folder, sizes, threads),
                                       "ort": serve_onnxruntime(packed, sizes, threads)})  # fmt: skip
                row(TITLES["decode"], bits, threads, f"{ms['f32']:.1f}", f"{ms['braid']:.1f}", f"{ms['braid'] / ms['f32']:.2f}",
                    f"{ms['ort']:.1f}", f"{ms['braid'] / ms['ort']:.2f}")  # fmt: skip
        print()
    if 3 in options.parts:
        print("Quantised by ONNX Runtime:\n")
        table(["model", "form", "threads", "ONNX Runtime", "Braid", "ratio"])
        ratios = []
        for case in (c for c in options.cases if c not in VISION):
            _, sizes, bounds = CASES[case]
            forms = [w for w in options.forms if case == "bert" or w.startswith("dynamic")]
            ratios += quantised_rows(options, TITLES[case], make(options.work, case), sizes, bounds, forms)
        tell(ratios)
    if 4 in options.parts:
        print("Networks, quantised by ONNX Runtime:\n")
        table(["network", "form", "threads", "ONNX Runtime", "Braid", "ratio"])
        ratios = []
        for network in options.networks:
            sizes = networks.CASES[network]
            model = pathlib.Path(networks.make_model(str(options.work), network))
            ratios += quantised_rows(options, network, model, sizes, sizes, options.forms)
        tell(ratios)


if __name__ == "__main__":
    main()
