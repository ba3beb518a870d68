#!/usr/bin/env python3
"""Adds the vowel marks to Arabic text: a published model with weights of 8 bits, compiled.

  scripts/python_run.sh examples/vowels/vowels.py --braid build/release/bin/braid -o out/vowels ["text" ...]

The model is rawi-ensemble of text2tashkeel (two LSTM networks, 5 MB, Apache-2.0): one network says which letters carry a mark, the other
one which mark. The package is fetched from PyPI into the output folder, or into --cache, once. With --check, ONNX Runtime's
marks are compared: exit code 1 if they differ. Exit code 77 without a connection.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import unicodedata
import zipfile

import numpy as np

PACKAGE = "text2tashkeel==0.1.0"
MODEL, VOCABULARY = "rawi_ensemble.int8.onnx", "rawi_v2.vocab.json"
TEXTS = ["بسم الله الرحمن الرحيم", "ذهب الولد الى المدرسة في الصباح", "العلم نور والجهل ظلام"]
LONGEST = 256  # letters of a text


def fetch(cache):
    """The folder with the published files."""
    folder = cache / "rawi"
    if not (folder / MODEL).exists():
        cache.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                   "--dest", str(cache), PACKAGE]  # fmt: skip
        if subprocess.run(command, stdout=sys.stderr, timeout=600).returncode != 0:
            print(f"vowels.py: cannot fetch {PACKAGE}", file=sys.stderr)
            raise SystemExit(77)
        wheel = next(cache.glob("text2tashkeel-*.whl"))
        with zipfile.ZipFile(wheel) as package:
            for name in (VOCABULARY, MODEL):  # the last one tells that all are there
                partial = folder / f"{name}.partial"
                partial.parent.mkdir(exist_ok=True)
                partial.write_bytes(package.read(f"text2tashkeel/models/{name}"))
                partial.rename(folder / name)
        wheel.unlink()
    return folder


def letters_of(text):
    """Without marks, and with letters that are written in parts as their parts: what the model knows."""
    parts = unicodedata.normalize("NFD", text)
    return "".join(c for c in parts if unicodedata.category(c) not in ("So", "Mn"))[:LONGEST]


def with_marks(letters, classes, marks):
    marked = (c + (marks[k] if unicodedata.category(c).startswith("L") else "") for c, k in zip(letters, classes))
    return unicodedata.normalize("NFC", "".join(marked))


def run(braid, program, ids, folder):
    """The class of the mark of each letter."""
    np.save(folder / "input.npy", ids)
    command = [braid, "run", program, "--input", f"input={folder / 'input.npy'}", "-o", folder / "results"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return np.load(next((folder / "results").rglob("gated_cls.npy")))[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="*", default=TEXTS)
    parser.add_argument("--braid", required=True)
    parser.add_argument("-o", "--output", required=True, type=pathlib.Path)
    parser.add_argument("--cache", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()

    published = fetch(options.cache or options.output)
    options.output.mkdir(parents=True, exist_ok=True)
    program = options.output / "program"
    # One text at a time: the LSTMs read it from both ends, so that padding would change its marks.
    command = [options.braid, "compile", published / MODEL, "-o", program, "--dim", "batch=1", "--dim", f"seq=1..{LONGEST}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    vocabulary = json.loads((published / VOCABULARY).read_text(encoding="utf-8"))
    numbers = vocabulary["char_to_idx"]
    marks = {number: mark for mark, number in vocabulary["diac_to_idx"].items()}
    differ = 0
    for text in options.texts:
        letters = letters_of(text)
        if not letters:
            print(text)
            continue
        ids = np.array([[numbers.get(c, numbers.get("<UNK>", 1)) for c in letters]], np.int64)
        classes = run(options.braid, program, ids, options.output)
        print(with_marks(letters, classes, marks))
        if options.check:
            import onnxruntime

            session = onnxruntime.InferenceSession(str(published / MODEL), providers=["CPUExecutionProvider"])
            differ += int((session.run(["gated_cls"], {"input": ids})[0][0] != classes).sum())
    if options.check:
        print(f"Letters whose mark differs from ONNX Runtime's: {differ}")
        if differ > 0:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
