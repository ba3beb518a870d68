#!/usr/bin/env python3
"""Writes bench/gpu/PREDICTED.md: times that the emulated device's counts and kernel cards predict for an H200. None of them is measured.

    scripts/python_run.sh scripts/update_predicted.py build/release             the page; the models take about half an hour
    scripts/python_run.sh scripts/update_predicted.py --kernels build/release   only the kernels, on standard output

build/release has bin/braid and bin/emit_bundle. Exit code 77 where nvcc or nvdisasm is missing.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import cubin
import kernel_cards
from machine_file import load_gpu
from update_kernel_cards import KERNELS, TYPES, versions

ROOT = cubin.ROOT
PAGE = ROOT / "bench" / "gpu" / "PREDICTED.md"
COMMAND = "scripts/python_run.sh scripts/update_predicted.py build/release"
MACHINE = "h200"
ROWS = 32768  # of the kernels; RESULTS.md has the same
HEAD = """# Predicted times

Written by `{command}`. Do not edit it. **Nothing on this page is measured**; [RESULTS.md](RESULTS.md) has what was measured.

{versions}. `analysis/costs/kernel_time.h` states the model, `tests/emulated/kernel_time_test.cc` holds it against the measured page.

"""
KERNEL_TEXT = """## Kernels

Rows of 1,024 elements, {rows:,} of them. Times in microseconds, with cold caches: the total, its five terms, and the least that DRAM needs. Sectors:
those of all warps' accesses, as a multiple of the fewest that hold the bytes.

| kernel | predicted | memory | L2 | L1 | latency | issue | least | of the least | sectors |
|---|---|---|---|---|---|---|---|---|---|
"""
MODEL_TEXT = """
## Models

Programs for these sizes alone. `kernels`: generated kernels, as above, and those of the runtime, which have no card, by the least that DRAM needs. What the previous kernel leaves in L2 is not counted, which makes small models
slower here than they are. `products`: those of the library at the machine's roofline (`analysis/costs/roofline.h`). `launches`, generated kernels and products
together, at the machine's `launch_us` each; graphs have less. In milliseconds.

| model | kernels | products | launches | kernels and products | with launches |
|---|---|---|---|---|---|
"""
MODELS = (
    ("gpt2", "f16", {"batch": 1, "sequence": 128}),
    ("gpt2", "f16", {"batch": 1, "sequence": 1024}),
    ("gpt2", "f16", {"batch": 8, "sequence": 128}),
    ("bert", "f16", {"batch": 32, "sequence": 128}),
    ("vit_base", "f16", {"batch": 8}),
    ("resnet50", "f16", {"batch": 1}),
    ("resnet50", "f16", {"batch": 8}),
    ("resnet50", "f32", {"batch": 1}),
    ("resnet50", "f32", {"batch": 8}),
)


def run(*command):
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)


class Tools:
    def __init__(self, build, folder):
        self.braid, self.emit_bundle = build / "bin" / "braid", build / "bin" / "emit_bundle"
        self.folder = folder
        self.gpu = load_gpu(MACHINE)
        self.nvcc, self.nvdisasm = cubin.tools()

    def predicted(self, model, name, bounds, sizes):
        """The `predicted` part of bench's report. `bounds` of dims decide the program, `sizes` the step."""
        out = self.folder / f"program_{name}"
        dims = [word for dim in bounds for word in ("--dim", dim)]
        run(self.braid, "compile", model, "-o", out, "--target", "cuda", "--emit", "source", *dims)
        cards = kernel_cards.read_cards([out], self.gpu, 256, self.nvcc, self.nvdisasm)
        file = self.folder / f"{name}.json"
        file.write_text(kernel_cards.json_text(cards, self.gpu, self.nvcc, self.nvdisasm), encoding="utf-8")
        # A model, unlike a program's folder, tells what the library's products cost.
        subject = [model, "--target", "cuda", *dims] if not sizes else [out]
        step = [word for dim in sizes for word in ("--dim", dim)]
        done = subprocess.run(
            [self.braid, "bench", *subject, *step, "--device", "emulated", "--repeat", "1", "--warmup", "0", "--random", "1",
             "--machine", MACHINE, "--cards", file, "--json"],
            check=True, stdout=subprocess.PIPE, env={**os.environ, "BRAID_EMULATED_CHECK": "0"},
        )  # fmt: skip
        return json.loads(done.stdout)["predicted"]


def kernel_rows(tools):
    run(tools.emit_bundle, tools.folder / "bundle", "/dev/null", *(f"kernel_{k}_{t}" for t in TYPES for k in KERNELS))
    for dtype in TYPES:
        for kernel in KERNELS:
            if kernel.endswith("product"):
                continue  # the library's
            name = f"kernel_{kernel}_{dtype}"
            found = tools.predicted(
                tools.folder / "bundle" / "kernels" / f"{name}.braid", name, [], [f"rows={ROWS}"]
            )
            for k in found["kernels"]:
                terms = k["terms_us"]
                sectors = (k["read_sectors"] + k["write_sectors"]) * 32 / (k["read_bytes"] + k["written_bytes"])
                cells = [k["predicted_us"], *(terms[t] for t in ("memory", "l2", "l1", "latency", "issue")), k["least_us"]]
                yield (f"| {name} {k['name']} | " + " | ".join(f"{c:.1f}" for c in cells)
                       + f" | {100 * k['least_us'] / k['predicted_us']:.0f} % | {sectors:.2f} |")  # fmt: skip


def model_file(tools, name, dtype):
    """The model in `dtype`, made once; weights are random."""
    full = tools.folder / name / "model.onnx"
    if not full.exists():
        if name in ("gpt2", "bert"):
            run(sys.executable, "-B", ROOT / "examples/tensor_parallel/make_decoder.py", "-o", full.parent, "--style", name)
        else:
            full.parent.mkdir()
            run(sys.executable, "-B", ROOT / "tests/models/networks.py", name, full)
    if dtype == "f32":
        return full
    narrow = tools.folder / f"{name}_{dtype}" / "model.onnx"
    if not narrow.exists():
        run(sys.executable, "-B", ROOT / "bench/gpu/narrow_model.py", full, narrow, {"f16": "float16"}[dtype])
    return narrow


def model_rows(tools, launch_us):
    for name, dtype, sizes in MODELS:
        dims = [f"{dim}={size}" for dim, size in sizes.items()]
        program = f"{name}_{dtype}"
        found = tools.predicted(model_file(tools, name, dtype), program, dims, [])
        kernels, products = found["kernels"], found.get("products", [])
        # Kernels of the runtime, such as that which fills arrays of pointers, have no card: they take what DRAM needs at least.
        kernel_us = sum(k.get("predicted_us", k["least_us"]) * k["launches"] for k in kernels)
        product_us = sum(p["roofline_us"] for p in products)
        launches = int(sum(k["launches"] for k in kernels)) + len(products)
        both = kernel_us + product_us
        row = (f"| {program}@{','.join(dims)} | {kernel_us / 1e3:.2f} | {product_us / 1e3:.2f} | {launches} | {both / 1e3:.2f} | "
               f"{(both + launches * launch_us) / 1e3:.2f} |")  # fmt: skip
        print(row, file=sys.stderr, flush=True)
        yield row


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--kernels", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tools = Tools(options.build.resolve(), pathlib.Path(folder))
        kernels = KERNEL_TEXT.format(rows=ROWS) + "\n".join(kernel_rows(tools)) + "\n"
        if options.kernels:
            print(kernels, end="")
            return 0
        machine = json.loads((ROOT / "analysis/costs/machines" / f"{MACHINE}.json").read_text(encoding="utf-8"))
        models = MODEL_TEXT + "\n".join(model_rows(tools, machine["device"]["launch_us"])) + "\n"
        head = HEAD.format(command=COMMAND, versions=versions(tools.nvcc, tools.nvdisasm, tools.gpu))
        PAGE.write_text(head + kernels + models, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(kernel_cards.run(main))
