#!/usr/bin/env python3
"""Writes the models that tests read, with inputs and expected outputs; the same bytes every time.

  make_models.py DIR

    DIR/ops/NAME/                        one operator or a few, by ONNX Runtime (see op_cases.py)
    DIR/collectives/NAME/                collectives on 2 or 4 ranks, in lock-step on ONNX's reference evaluator
    DIR/transformers/STYLE_GRAPH/        small transformers, plain
    DIR/transformers/STYLE_GRAPH_tpN/    the same, split over N ranks; expected outputs are those of the plain model
    DIR/architectures/NAME/              exports of real architectures, with stored outputs (see architecture_cases.py)
    DIR/decoders/NAME.onnx               decoders with caches (see decoders.py)

The layout of a case is described in case_writer.py. Nothing is written again where DIR is up to date.
"""

import argparse
import hashlib
import os
import shutil
import sys

import architecture_cases
import case_writer  # first: it makes the example's modules known
import decoders
import onnx
import op_cases
from make_decoder import make_config, write_case

TRANSFORMER_SIZES = dict(layers=2, hidden=32, heads=4, kv_heads=4, vocab=67, max_positions=32)
# Bounds leave room for a whole past and a whole new sequence within the positions.
TRANSFORMER_DIMS = {"batch": (1, 4), "sequence": (1, 16), "past_sequence": (1, 16)}
TRANSFORMER_DATA_SETS = (
    dict(batch=2, sequence=7, past_sequence=5),
    dict(batch=1, sequence=1, past_sequence=1),
    dict(batch=4, sequence=16, past_sequence=16),
)


def transformer_configs():
    """Pairs of a name and a configuration: each style and graph, and the forms that exporters choose between."""
    for style, graph in (("gpt2", "prefill"), ("gpt2", "decode"), ("llama", "prefill"), ("llama", "decode"),
                         ("bert", "prefill")):  # fmt: skip
        yield f"{style}_{graph}", make_config(style, graph, **TRANSFORMER_SIZES)
    yield "gpt2_gemm_prefill", make_config("gpt2", linear="gemm", mask="trilu", opset=18, **TRANSFORMER_SIZES)
    yield (
        "gpt2_slice_decode",
        make_config("gpt2", "decode", mask="slice", position_ids=True, **TRANSFORMER_SIZES),
    )
    grouped = {**TRANSFORMER_SIZES, "kv_heads": 2}
    yield "llama_grouped_prefill", make_config("llama", rotary="tables", logits="last", opset=18, **grouped)
    yield "llama_grouped_decode", make_config("llama", "decode", mask="trilu", **grouped)
    fixed = [("batch", 2), ("sequence", 7)]
    yield "gpt2_static_prefill", make_config("gpt2", fixed_dims=fixed, **TRANSFORMER_SIZES)
    fixed = [("batch", 2), ("past_sequence", 5)]
    yield "gpt2_static_decode", make_config("gpt2", "decode", fixed_dims=fixed, **TRANSFORMER_SIZES)


def write_transformers(root):
    for name, config in transformer_configs():
        fixed = dict(config.fixed_dims)
        needed = ("batch", "sequence") if config.graph == "prefill" else ("batch", "past_sequence")
        dims = {d: TRANSFORMER_DIMS[d] for d in needed if d not in fixed}
        data_sets = TRANSFORMER_DATA_SETS if dims else TRANSFORMER_DATA_SETS[:1]
        for ranks in (1, 2, 4):
            if config.kv_heads % ranks == 0:
                folder = os.path.join(root, name if ranks == 1 else f"{name}_tp{ranks}")
                write_case(folder, config, ranks, test_sizes=data_sets)
                case_writer.write_dims(folder, dims)


def fingerprint():
    """A hash of all that decides the output: the scripts and the pinned packages."""
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.join(here, "..", "..")
    example = os.path.join(root, "examples", "tensor_parallel")
    paths = [
        os.path.join(folder, f)
        for folder in (here, example)
        for f in sorted(os.listdir(folder))
        if f.endswith(".py")
    ]
    stored = sorted(str(path) for path in architecture_cases.CORPUS.rglob("*") if path.is_file())
    digest = hashlib.sha256()
    for path in [*paths, *stored, os.path.join(root, "scripts", "requirements.txt")]:
        with open(path, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", metavar="DIR")
    folder = parser.parse_args().output
    stamp, current = os.path.join(folder, "fingerprint"), fingerprint()
    if os.path.exists(stamp) and open(stamp).read() == current:
        return
    for part in ("ops", "collectives", "transformers", "architectures", "decoders"):
        shutil.rmtree(os.path.join(folder, part), ignore_errors=True)
    for case in op_cases.OP_CASES:
        case_writer.write(os.path.join(folder, "ops"), case)
    for case in op_cases.COLLECTIVE:
        case_writer.write(os.path.join(folder, "collectives"), case)
    write_transformers(os.path.join(folder, "transformers"))
    architecture_cases.write_cases(os.path.join(folder, "architectures"))
    os.makedirs(os.path.join(folder, "decoders"))
    for kind in decoders.KINDS:
        onnx.save(decoders.make_decoder(kind, positions=64), os.path.join(folder, "decoders", f"{kind}.onnx"))
    with open(stamp, "w") as file:
        file.write(current)


if __name__ == "__main__":
    sys.exit(main())
