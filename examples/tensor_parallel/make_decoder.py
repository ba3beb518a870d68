#!/usr/bin/env python3
"""Writes a transformer with random weights as an ONNX model, whole or split over ranks.

make_decoder.py -o out                            out/model.onnx: GPT-2 small, prefill
make_decoder.py -o out --ranks 2                  out/model.rank0.onnx, out/model.rank1.onnx: the same, split
make_decoder.py -o out --ranks 2 --graph decode   one token after past keys and values
make_decoder.py -o out --style llama --layers 2 --hidden 64 --heads 4 --kv-heads 2 --test-data 3
"""

import argparse
import os
import sys
import tempfile

import test_vectors
from graph_builder import WeightFile, save_model
from model_config import STYLE_DEFAULTS, WHOLE, Config, Shard
from transformer import Transformer

# Run-time sizes of the data sets, used in turn; larger than a model's limits are cut down to them.
TEST_SIZES = (
    dict(batch=2, sequence=7, past_sequence=5),
    dict(batch=1, sequence=1, past_sequence=1),
    dict(batch=3, sequence=16, past_sequence=12),
)


def write_model(path, config, shard=WHOLE, external=True):
    """Writes one model, with its weights in `path`.data unless `external` is false; returns it without its weights."""
    data_path = os.path.splitext(path)[0] + ".data"
    weight_file = WeightFile(data_path) if external else None
    model = Transformer(config, shard, weight_file).build()
    if weight_file:
        weight_file.close()
    save_model(model, path)
    return model


def rank_path(folder, name, rank):
    return os.path.join(folder, f"{name}.rank{rank}.onnx")


def write_case(folder, config, ranks=1, name="model", external=True, test_sizes=()):
    """Writes the plain model (`ranks` = 1) or one file per rank, and a data set for each of `test_sizes`."""
    os.makedirs(folder, exist_ok=True)
    shards = [Shard(ranks, rank) for rank in range(ranks)] if ranks > 1 else []
    for shard in shards:
        write_model(rank_path(folder, name, shard.rank), config, shard, external)
    if not shards:
        plain_path = os.path.join(folder, f"{name}.onnx")
        write_model(plain_path, config, external=external)
    if not test_sizes:
        return
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        if shards:
            plain_path = os.path.join(temporary, "plain.onnx")
        plain = write_model(plain_path, config, external=external)
        for i, sizes in enumerate(test_sizes):
            inputs = test_vectors.make_inputs(plain, config, sizes, seed=[config.seed, i])
            outputs = test_vectors.run_plain(plain_path, inputs)
            test_vectors.write_transformer_data_set(
                os.path.join(folder, f"test_data_set_{i}"), inputs, outputs, shards
            )


def fixed_dim(text):
    """Reads NAME=SIZE."""
    name, _, size = text.partition("=")
    if name not in ("batch", "sequence", "past_sequence") or not size.isdigit() or int(size) < 1:
        raise argparse.ArgumentTypeError("expected batch=N, sequence=N or past_sequence=N")
    return name, int(size)


def add_config_options(parser):
    """Options that make up a Config; sizes default to those of the style."""
    parser.add_argument("--style", choices=STYLE_DEFAULTS, default="gpt2")
    parser.add_argument("--graph", choices=("prefill", "decode"), default="prefill")
    for size in ("layers", "hidden", "heads", "kv-heads", "vocab", "max-positions", "intermediate"):
        parser.add_argument(f"--{size}", type=int, metavar="N", help="default: as the style has it")
    parser.add_argument("--gelu", choices=("tanh", "erf"), help="default: as the style has it")
    parser.add_argument("--tied", action=argparse.BooleanOptionalAction, help="head uses the token embedding")
    parser.add_argument("--linear", choices=("matmul", "gemm"), default="matmul")
    parser.add_argument(
        "--mask", choices=("range", "trilu", "slice"), default="range", help="how the causal mask is made"
    )
    parser.add_argument("--rotary", choices=("computed", "tables"), default="computed")
    parser.add_argument("--position-ids", action="store_true", help="positions are an input of the graph")
    parser.add_argument("--logits", choices=("all", "last"), default="all", help="positions that get logits")
    parser.add_argument("--opset", type=int, default=17)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fix", type=fixed_dim, action="append", default=[], metavar="NAME=N", dest="fixed_dims",
                        help="write the dimension batch, sequence or past_sequence as a number")  # fmt: skip


def make_config(style="gpt2", graph="prefill", **options):
    """A Config with the style's defaults for every option that is absent or None.

    Sizes that follow from others (MLP width, key heads) keep the style's proportion; the width is a multiple of 32."""
    given = {name: value for name, value in options.items() if value is not None}
    defaults = STYLE_DEFAULTS[style]
    values = {**defaults, **given}
    if "intermediate" not in given:
        proportional = values["hidden"] * defaults["intermediate"] // defaults["hidden"]
        values["intermediate"] = -(-proportional // 32) * 32
    if "kv_heads" not in given:
        values["kv_heads"] = values["heads"] if style != "llama" else max(1, values["heads"] // 3)
        if values["heads"] % values["kv_heads"]:
            raise ValueError(f"say --kv-heads: a divisor of the {values['heads']} heads")
    values["fixed_dims"] = tuple(values.get("fixed_dims", ()))
    return Config(style=style, graph=graph, **values)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", required=True, metavar="DIR")
    parser.add_argument(
        "--name", default="model", help="files are NAME.onnx or NAME.rank{r}.onnx (default: model)"
    )
    parser.add_argument(
        "--ranks", type=int, default=1, metavar="N", help="split over N ranks (default: 1, a plain model)"
    )
    parser.add_argument(
        "--inline-weights", action="store_true", help="weights in the model instead of beside it"
    )
    parser.add_argument(
        "--test-data", type=int, default=0, metavar="N", help="write N data sets of inputs and outputs"
    )
    add_config_options(parser)
    options = vars(parser.parse_args())
    folder, name, ranks = options.pop("output"), options.pop("name"), options.pop("ranks")
    external, data_sets = not options.pop("inline_weights"), options.pop("test_data")
    try:
        config = make_config(**options)
        if ranks < 1:
            raise ValueError("--ranks must be at least 1")
        Shard(ranks).require_divides(config)
        limits = dict(batch=8, sequence=config.max_positions, past_sequence=config.max_positions - 1)
        sizes = [
            {n: min(v, limits[n]) for n, v in TEST_SIZES[i % len(TEST_SIZES)].items()}
            for i in range(data_sets)
        ]
        write_case(folder, config, ranks, name, external, sizes)
    except ValueError as error:
        sys.exit(f"make_decoder.py: {error}")


if __name__ == "__main__":
    main()
