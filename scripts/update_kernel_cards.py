#!/usr/bin/env python3
"""Writes bench/gpu/CARDS.md: the cards (scripts/kernel_cards.py) of the programs that a GPU bundle times, of two
small models, and of products on tensor cores.

    scripts/python_run.sh scripts/update_kernel_cards.py [--check] build/release
    scripts/python_run.sh scripts/update_kernel_cards.py --models build/release     nvcc's time of GPT-2 and ResNet-50, nothing written

build/release has bin/emit_bundle. With --check nothing is written: the exit code is 1 if a card differs from the page. It is 77 where nvcc or
nvdisasm is missing or, with --check, another version than the page's, since other versions make other code.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import cubin
import kernel_cards
from machine_file import load_gpu

ROOT = cubin.ROOT
PAGE = ROOT / "bench" / "gpu" / "CARDS.md"
PRODUCT = ROOT / "tests" / "kernel_cards" / "tile_product.cu"
COMMAND = "scripts/python_run.sh scripts/update_kernel_cards.py build/release"
MACHINE = "h200"
HEAD = """# Kernel cards

Written by `{command}`; a test fails if the code differs and names kernel and column. Do not edit it.

{versions}

[docs/cuda.md](../../docs/cuda.md#kernel-cards) explains the columns. The programs: those that the GPU bundle times as `kernel_*`
(`tests/gpu_bundle/kernels.cc`; a product that the library computes has no kernel), GPT-2 with two layers, a small ResNet, and products on
tensor cores (`tests/kernel_cards/tile_product.cu`): `product_*` has small tiles, so that the emulated device runs it fast, and `tile_*` has those of
programs (`runtime/device/product_tile.h`). A loop with branches, or one of few turns that nvcc unrolls, has no figure per HMMA of its own.

"""
KERNELS = (
    "add",
    "gelu",
    "transpose",
    "row_sum",
    "column_sum",
    "softmax",
    "layer_norm",
    "product",
    "batched_product",
)
TYPES = ("f32", "f16", "bf16")


def run(*command):
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)


def models(folder, full):
    """Lines for emit_bundle. The weights are random; of a name in f16 they are narrowed."""
    decoder = [] if full else ["--layers", 2, "--vocab", 1024, "--max-positions", 1024]
    run(
        sys.executable,
        "-B",
        ROOT / "examples/tensor_parallel/make_decoder.py",
        "-o",
        folder / "gpt2",
        *decoder,
    )
    resnet = folder / "resnet50.onnx"
    run(
        sys.executable,
        "-B",
        ROOT / "tests/models/networks.py",
        *([] if full else ["--small"]),
        "resnet50",
        resnet,
    )
    lines = []
    for name, file, dims in (
        ("gpt2", folder / "gpt2" / "model.onnx", "batch=1..8, sequence=1..1024"),
        ("resnet", resnet, "batch=1..8"),
    ):
        narrow = folder / f"{name}_f16" / "model.onnx"
        run(sys.executable, "-B", ROOT / "bench/gpu/narrow_model.py", file, narrow, "float16")
        lines.append(f"{name}_f16 | {narrow} | 1 | {dims} | | ")
    return "\n".join(lines) + "\n"


def emitted(build, folder, full):
    """The folder with the programs' sources."""
    (folder / "models.txt").write_text(models(folder, full), encoding="utf-8")
    names = [] if full else [f"kernel_{kernel}_{dtype}" for dtype in TYPES for kernel in KERNELS]
    # A program must be named, or emit_bundle takes all of its cases.
    subprocess.run([build / "bin" / "emit_bundle", folder / "bundle", folder / "models.txt", *(names or ["kernel_add_f32"])],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    return folder / "bundle"


def versions(nvcc, nvdisasm, gpu):
    return f"nvcc {cubin.version(nvcc)}, nvdisasm {cubin.version(nvdisasm)}, {gpu.architecture} (machine {gpu.name})"


def rows(page):
    """{(program, kernel): {column: cell}} of a page's table."""
    lines = [
        [c.strip() for c in line.strip("|\n").split("|")]
        for line in page.splitlines()
        if line.startswith("|")
    ]
    return {(r[0], r[1]): dict(zip(lines[0][2:], r[2:])) for r in lines[2:]} if lines else {}


def differences(expected, found):
    """One line for each kernel that came or went and for each cell that changed."""
    lines = []
    for key in sorted(expected.keys() | found.keys()):
        name = " ".join(key)
        if key not in found:
            lines.append(f"{name}: no longer there")
        elif key not in expected:
            lines.append(f"{name}: a new kernel")
        else:
            before, now = expected[key], found[key]
            lines += [f"{name}: {column}: {before.get(column, 'absent')} on the page, now {now.get(column, 'absent')}"
                      for column in dict.fromkeys([*before, *now]) if before.get(column) != now.get(column)]  # fmt: skip
    return lines


def checked(page, now, text):
    """The exit code of --check; `now` are the versions of this machine, None of `text` that no page was made yet."""
    recorded = re.search(r"^nvcc .*$", page, re.MULTILINE)
    if not recorded or recorded[0] != now:
        print(f"skipped: the page is of {recorded[0] if recorded else 'nothing'}; here is {now}")
        return kernel_cards.SKIPPED
    found = differences(rows(page), rows(text()))
    if found:
        print("\n".join([*found, f"If the new code is meant: {COMMAND}"]))
    return 1 if found else 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--models", action="store_true")
    options = parser.parse_args()
    gpu = load_gpu(MACHINE)
    nvcc, nvdisasm = cubin.tools()

    def cards():
        with tempfile.TemporaryDirectory() as folder:
            bundle = emitted(options.build.resolve(), pathlib.Path(folder), options.models)
            sources = [bundle] if options.models else [bundle, PRODUCT]
            return kernel_cards.table(kernel_cards.read_cards(sources, gpu, 256, nvcc, nvdisasm)) + "\n"

    now = versions(nvcc, nvdisasm, gpu)
    if options.models:
        cards()
        return 0
    if options.check:
        return checked(PAGE.read_text(encoding="utf-8"), now, cards)
    PAGE.write_text(HEAD.format(command=COMMAND, versions=now) + cards(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(kernel_cards.run(main))
