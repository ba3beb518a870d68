#!/usr/bin/env python3
"""Checks that a split transformer computes what the plain one does, for any options of make_decoder.py.

  check_split.py --ranks 2 --layers 2 --hidden 64 --heads 4
  check_split.py --ranks 4 --style llama --graph decode --layers 2 --hidden 64 --heads 8 --kv-heads 4
  check_split.py --all

The graphs of all ranks run in lock-step on ONNX's reference evaluator with simulated collectives, the plain model on
ONNX Runtime. Checked, too: that the graphs of all ranks are the same but for their weights.
"""

import argparse
import itertools
import os
import sys
import tempfile

import numpy as np
import onnx

import lockstep
import test_vectors
from make_decoder import TEST_SIZES, add_config_options, make_config, rank_path, write_model
from model_config import Shard

# The split changes the order of float additions only.
TOLERANCE = 1e-5


def graph_without_weights(path):
    """The model as bytes, its initializers reduced to name, type and shape."""
    model = onnx.load(path, load_external_data=False)
    for weight in model.graph.initializer:
        del weight.external_data[:]
    return model.SerializeToString(deterministic=True)


def largest_error(actual, expected):
    """Largest difference, relative to the largest expected magnitude."""
    return float(np.max(np.abs(actual - expected)) / np.max(np.abs(expected)))


def check(config, ranks, all_sizes):
    """Returns the largest relative error of any output on any rank."""
    shards = [Shard(ranks, rank) for rank in range(ranks)]
    with tempfile.TemporaryDirectory() as folder:
        plain_path = os.path.join(folder, "model.onnx")
        plain = write_model(plain_path, config)
        paths = [rank_path(folder, "model", rank) for rank in range(ranks)]
        for path, shard in zip(paths, shards):
            write_model(path, config, shard)
        if len({graph_without_weights(path) for path in paths}) != 1:
            sys.exit("check_split.py: the graphs of the ranks differ")
        error = 0.0
        for seed, sizes in enumerate(all_sizes):
            inputs = test_vectors.make_inputs(plain, config, sizes, [config.seed, seed])
            expected = test_vectors.run_plain(plain_path, inputs)
            parts = [{n: test_vectors.part_of_rank(n, a, s) for n, a in inputs.items()} for s in shards]
            for shard, outputs in zip(shards, lockstep.run_ranks(paths, parts)):
                for name, array in outputs.items():
                    wanted = test_vectors.part_of_rank(name, expected[name], shard)
                    if array.shape != wanted.shape:
                        sys.exit(
                            f"check_split.py: {name} is {array.shape} on rank {shard.rank}, not {wanted.shape}"
                        )
                    error = max(error, largest_error(array, wanted))
    return error


def report(config, ranks, sizes):
    error = check(config, ranks, sizes)
    verdict = "equal" if error <= TOLERANCE else "DIFFERENT"
    form = f"{config.linear} {config.mask} {config.rotary if config.style == 'llama' else config.gelu}"
    print(
        f"{config.style:6}{config.graph:8}{form:22} {ranks} ranks: largest relative error {error:.1e}, {verdict}"
    )
    return error <= TOLERANCE


def all_configs():
    """Small models of every style, graph and form."""
    sizes = dict(layers=2, hidden=32, heads=4, vocab=67, max_positions=32)
    for style, graph, variant in itertools.product(
        ("gpt2", "llama", "bert"), ("prefill", "decode"), range(3)
    ):
        if (style, graph) == ("bert", "decode"):
            continue
        forms = dict(
            mask=("range", "trilu", "slice")[variant],
            linear=("matmul", "gemm", "matmul")[variant],
            rotary=("computed", "tables", "computed")[variant],
            gelu=(None, "erf", "tanh")[variant] if style != "llama" else None,
            position_ids=variant == 1 and style != "bert",
            logits=("all", "last", "all")[variant],
            opset=(17, 18, 20)[variant],
            tied=(None, False, True)[variant],
        )
        yield make_config(
            style, graph, kv_heads=4 if style != "llama" else (2, 4, 1)[variant], **sizes, **forms
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument(
        "--all", action="store_true", help="small models of every style, graph and form instead"
    )
    add_config_options(parser)
    options = vars(parser.parse_args())
    ranks, everything = options.pop("ranks"), options.pop("all")
    try:
        if everything:
            cases = [(config, n) for config in all_configs() for n in (1, 2, 4) if config.kv_heads % n == 0]
            ok = all([report(config, n, TEST_SIZES) for config, n in cases])
        else:
            ok = report(make_config(**options), ranks, TEST_SIZES[:1])
    except ValueError as error:
        sys.exit(f"check_split.py: {error}")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
