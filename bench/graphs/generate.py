#!/usr/bin/env python3
"""Writes the corpus of bench/overlap: one IR text per graph, and manifest.json that says on which machine each runs.

    bench/graphs/generate.py OUT_DIR [--only NAME]... [--large]

Everything follows from published model shapes; the same call writes the same bytes. `--large` adds the graphs that
compile times are measured on (36,000 and 100,000 nodes).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import adversarial
import data_parallel
import moe
from braid_text import Graph
from transformer import LLAMA_8B, LLAMA_70B, LLAMA_405B, Parallel, infer, train

# name -> (machine, how to make it)
CORPUS: dict[str, tuple[str, Callable[[str], Graph]]] = {
    "llama3_8b_fsdp8": ("h100", lambda n: train(n, LLAMA_8B, Parallel(dp=8), 2, 8192)),
    "llama3_8b_fsdp8_short": ("h100", lambda n: train(n, LLAMA_8B, Parallel(dp=8), 1, 2048)),
    "llama3_8b_fsdp64": ("a100", lambda n: train(n, LLAMA_8B, Parallel(dp=64), 1, 4096)),
    "llama3_8b_tp8": ("h100", lambda n: train(n, LLAMA_8B, Parallel(tp=8), 1, 8192)),
    "llama3_8b_sp8": ("h100", lambda n: train(n, LLAMA_8B, Parallel(tp=8, sequence=True), 1, 8192)),
    "llama3_70b_fsdp32_tp8": ("h100", lambda n: train(n, LLAMA_70B, Parallel(dp=32, tp=8), 1, 8192)),
    "llama3_70b_fsdp32_sp8": ("h100", lambda n: train(n, LLAMA_70B, Parallel(dp=32, tp=8, sequence=True), 2, 8192)),
    "llama3_70b_fsdp64": ("h100", lambda n: train(n, LLAMA_70B, Parallel(dp=64), 1, 4096)),
    "llama3_405b_fsdp64_tp8": ("h100", lambda n: train(n, LLAMA_405B, Parallel(dp=64, tp=8), 1, 8192)),
    "llama3_405b_fsdp64_sp8": ("b200", lambda n: train(n, LLAMA_405B, Parallel(dp=64, tp=8, sequence=True), 1, 8192)),
    "llama3_70b_prefill_tp8": ("h100", lambda n: infer(n, LLAMA_70B, 8, 4096, 4096)),
    "llama3_70b_prefill_tp8_two_batches": ("h100", lambda n: infer(n, LLAMA_70B, 8, 2048, 2048, 2)),
    "llama3_70b_decode_tp8": ("h100", lambda n: infer(n, LLAMA_70B, 8, 32, 4096)),
    "llama3_70b_decode_tp8_two_batches": ("h100", lambda n: infer(n, LLAMA_70B, 8, 32, 4096, 2)),
    "deepseek_16b_ep32": ("h100", lambda n: moe.train(n, moe.Moe(), 32, 4, 4096, 1)),
    "deepseek_16b_ep32_two_chunks": ("h100", lambda n: moe.train(n, moe.Moe(), 32, 4, 4096, 2)),
    "deepseek_16b_ep8_two_chunks": ("h200", lambda n: moe.train(n, moe.Moe(), 8, 4, 4096, 2)),
    "resnet50_dp8": ("a100", lambda n: data_parallel.resnet50(n, 8, 64)),
    "resnet50_dp64": ("h100", lambda n: data_parallel.resnet50(n, 64, 64)),
    "bert_large_dp8": ("h100", lambda n: data_parallel.bert_large(n, 8, 16, 512)),
    "bert_large_dp64": ("a100", lambda n: data_parallel.bert_large(n, 64, 16, 512)),
    **{make.__name__: ("h100", lambda _, make=make: make()) for make in adversarial.ALL},
}
LARGE: dict[str, tuple[str, Callable[[str], Graph]]] = {
    f"llama3_70b_fsdp32_tp8_{count}_microbatches":
        ("h100", lambda n, count=count: train(n, LLAMA_70B, Parallel(dp=32, tp=8, microbatches=count), 1, 4096))
    for count in (10, 28)
}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("out", type=Path)
    arguments.add_argument("--only", action="append", default=[], help="names; all if none is given")
    arguments.add_argument("--large", action="store_true")
    given = arguments.parse_args()
    graphs = {**CORPUS, **(LARGE if given.large else {})}
    for name in given.only:
        if name not in {**CORPUS, **LARGE}:
            arguments.error(f"no graph '{name}'; there are: {', '.join({**CORPUS, **LARGE})}")
    if given.only:
        graphs = {n: {**CORPUS, **LARGE}[n] for n in given.only}
    given.out.mkdir(parents=True, exist_ok=True)
    small = {make.__name__ for make in adversarial.ALL}
    manifest = []
    for name, (machine, make) in graphs.items():
        (given.out / f"{name}.braid").write_text(make(name).text(), encoding="utf-8")
        manifest.append({"name": name, "file": f"{name}.braid", "machine": machine, "small": name in small,
                         "large": name in LARGE})
    (given.out / "manifest.json").write_text(json.dumps({"version": 1, "graphs": manifest}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
