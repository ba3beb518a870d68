#!/usr/bin/env python3
"""Exports the architectures of architectures.py with PyTorch's exporters into tests/corpus/architectures.

    export_architectures.py OUT [--only PATTERN ...] [--every-way] [--jobs N]

Nothing here runs in the tests: they read what is stored (architecture_cases.py describes it), which was written by

    export_architectures.py tests/corpus/architectures

with torch 2.15.0, torchvision 0.29.2, timm 1.0.31, transformers 5.23.0, onnxscript 0.7.2, and the versions of
scripts/requirements.txt, on a CPU. Each architecture is exported once with static sizes and once, where it can be, with dynamic
ones. ONNX Runtime must agree with PyTorch on the export; sizes for which the exporter has fixed something are named and left
out. Then random weights with the same mean and deviation replace the large ones, so
that they need not be stored, and ONNX Runtime computes the expected outputs.
"""

import argparse
import fnmatch
import gzip
import json
import multiprocessing
import os
import pathlib
import shutil
import tempfile
import traceback
import warnings

import numpy as np
import onnx
from onnx import numpy_helper

import architecture_cases
from architectures import ARCHITECTURES
from export_torch import without_traces

# (exporter, operator set, dynamic sizes?). Both write shapes differently where they are dynamic, and both are compared:
# architectures that compute many shapes are exported by the older one.
WAYS = [("script", 17, False), ("dynamo", 18, True)]
OTHER_WAYS = [("dynamo", 20, False), ("script", 17, True)]
BY_SCRIPT = {
    "vit_resized",
    "clip",
    "segformer",
    "efficientnet",
    "whisper_decoder",
    "wav2vec2",
    "gru_tagger",
    "qwen_moe",
    "state_space_scan",
    "big_transfer",
}
# Weights with at least so many elements become random numbers.
LARGE = 64


def export(architecture, example, path, exporter, opset, dynamic):
    import torch

    axes = {name: {k: s for k, s in enumerate(shape) if isinstance(s, str)} for name, (shape, _) in architecture.inputs.items()}
    arguments = dict(
        input_names=list(architecture.inputs), output_names=architecture.outputs, opset_version=opset, verbose=False
    )
    if exporter == "script":
        arguments |= dict(dynamo=False, dynamic_axes=axes if dynamic else None)
    else:
        every = tuple({k: torch.export.Dim.DYNAMIC for k in a} for a in axes.values())
        arguments |= dict(dynamo=True, external_data=False, dynamic_shapes=every if dynamic else None)
    torch.onnx.export(architecture.module, tuple(torch.from_numpy(x) for x in example.values()), path, **arguments)


def with_recipes(model):
    """Replaces large random weights by recipes of weights like them; others, such as masks, tables and ones, stay."""
    for tensor in model.graph.initializer:
        tensor.doc_string = ""
        if tensor.data_type != onnx.TensorProto.FLOAT:
            continue
        values = numpy_helper.to_array(tensor).astype(np.float64)
        if values.size < LARGE or len(np.unique(values)) < LARGE // 2 or not np.isfinite(values).all():
            continue
        positive = values.min() >= 0
        recipe = ("uniform", values.min(), values.max()) if positive else ("normal", values.mean(), values.std())
        name, dims = tensor.name, list(tensor.dims)
        tensor.Clear()
        tensor.name, tensor.data_type = name, onnx.TensorProto.FLOAT
        tensor.dims.extend(dims)
        tensor.doc_string = "{} {:.4g} {:.4g}".format(*recipe)


def session_of(model):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(session, inputs):
    names = [o.name for o in session.get_outputs()]
    present = {i.name for i in session.get_inputs()}
    return dict(zip(names, session.run(None, {n: x for n, x in inputs.items() if n in present})))


def largest_error(expected, found):
    """Of outputs in order, relative to the largest element; infinite if sizes differ."""
    return max(
        np.max(np.abs(e - f), initial=0) / max(1e-6, np.max(np.abs(e), initial=0)) if e.shape == f.shape else np.inf
        for e, f in zip(expected, found, strict=True)
    )


def write(folder, name, exporter, opset, dynamic):
    """Writes one case and returns what there is to say about it; nothing if it has no dynamic sizes."""
    import torch

    architecture = ARCHITECTURES[name]()
    if dynamic and not architecture.dims:
        return None
    every = architecture.sizes if dynamic else architecture.sizes[:1]
    inputs = [architecture_cases.random_inputs(architecture.inputs, sizes, k) for k, sizes in enumerate(every)]
    path = folder / "model.onnx"
    export(architecture, inputs[0], str(path), exporter, opset, dynamic)
    model = without_traces(onnx.load(path))
    session = session_of(model)
    notes, agreed = [], []
    for k, values in enumerate(inputs):
        with torch.no_grad():
            expected = [t.numpy() for t in architecture.module(*map(torch.from_numpy, values.values()))]
        try:
            error = largest_error(expected, run(session, values).values())
        except Exception as e:
            notes.append(f"{every[k]}: ONNX Runtime fails: {str(e).splitlines()[0][-200:]}")
            continue
        if error > 1e-3:
            notes.append(f"{every[k]}: ONNX Runtime and PyTorch differ by {error:.1e}")
        else:
            agreed.append(k)
    if not agreed:
        raise RuntimeError("; ".join(notes))
    with_recipes(model)
    path.unlink()
    with gzip.GzipFile(folder / "model.onnx.gz", "wb", mtime=0) as file:
        file.write(model.SerializeToString(deterministic=True))
    architecture_cases.fill(model)
    session = session_of(model)
    outputs = {}
    present = {i.name for i in model.graph.input}
    spec = {n: v for n, v in architecture.inputs.items() if n in present}
    sizes = [every[k] for k in agreed]
    for k, s in enumerate(sizes):
        for output, values in run(session, architecture_cases.random_inputs(spec, s, k)).items():
            assert np.isfinite(values).all(), f"{output} is not finite"
            outputs[f"{k}/{output}"] = values
    np.savez_compressed(folder / "outputs.npz", **outputs)
    # The bounds of the dimensions by the names that the exporter gave them.
    dims = {}
    for value in model.graph.input:
        for k, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.HasField("dim_param"):
                dims[dim.dim_param] = architecture.dims[spec[value.name][0][k]]
    case = {"dims": dims, "inputs": spec, "sizes": sizes}
    (folder / "case.json").write_text(json.dumps(case) + "\n")
    return notes


def run_job(job):
    out, case, *way = job
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            notes = write(folder, *way)
        if notes is None:
            return True
        shutil.rmtree(out / case, ignore_errors=True)
        shutil.copytree(folder, out / case)
        print(f"written {case} {'; '.join(notes)}", flush=True)
        return True
    except Exception as error:
        print(f"NOT WRITTEN {case}: {type(error).__name__}: {str(error).strip()[:400]}", flush=True)
        if os.environ.get("EXPORT_TRACEBACK"):
            traceback.print_exc()
        return False
    finally:
        shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", nargs="*", default=["*"], help="patterns of case names")
    parser.add_argument("--every-way", action="store_true", help="both exporters, static and dynamic")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    jobs = []
    for name in ARCHITECTURES:
        ways = WAYS if name not in BY_SCRIPT else OTHER_WAYS
        for exporter, opset, dynamic in WAYS + OTHER_WAYS if args.every_way else ways:
            case = f"{name}-{exporter}{opset}-{'dynamic' if dynamic else 'static'}"
            if any(fnmatch.fnmatch(case, pattern) for pattern in args.only):
                jobs.append((args.out, case, name, exporter, opset, dynamic))
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        results = pool.map(run_job, jobs, chunksize=1)
    print(f"{sum(results)} of {len(jobs)} cases written")


if __name__ == "__main__":
    main()
