"""Test cases exported from PyTorch: tiny transformers with random weights, by both of its exporters.

    export_torch.py OUT [--only PATTERN ...] [--layers N] [--smallest] [--jobs N]

writes one folder per model, exporter, operator set and variant into OUT, in the layout that case_writer.py describes.
Nothing here runs in the tests: the cases in tests/corpus/exported were made by

    export_torch.py tests/corpus/exported --smallest

with torch 2.15.0, transformers 5.23.0, onnxscript 0.7.2 (pip install torch==2.15.0 ...) and the versions of scripts/requirements.txt, on a
CPU. In the repository's cases the newer exporter names sizes itself, so that equal ones may have several names. Expected outputs are ONNX Runtime's where it
runs the model, else PyTorch's own; where the two differ, the exporter has fixed something at the sizes of its example, and
the data set is left out.
"""

import argparse
import fnmatch
import json
import multiprocessing
import os
import shutil
import sys
import traceback
import warnings

from torch_subjects import VOCABULARY, Size, subjects

# Bounds of the dynamic dimensions, and the sizes of the data sets: the first one is the exporter's example.
BOUNDS = {"batch": (1, 4), "sequence": (1, 8), "past": (1, 6), "total": (2, 14), "memory": (1, 8)}
SIZES = [
    {"batch": 2, "sequence": 5, "past": 3, "memory": 6},
    {"batch": 3, "sequence": 7, "past": 6, "memory": 4},
    {"batch": 1, "sequence": 2, "past": 2, "memory": 8},
]


def sizes_of(data_set):
    return {**data_set, "total": data_set["past"] + data_set["sequence"]}


def make_inputs(subject, sizes, dtype, seed):
    import torch

    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, (shape, kind) in subject.inputs.items():
        shape = [sizes.get(s, s) for s in shape]
        if kind == "token":
            tensors[name] = torch.randint(3, VOCABULARY, shape, generator=generator)
        elif kind in ("mask", "padding"):
            mask = torch.ones(shape, dtype=torch.int64)
            if shape[0] > 1 and shape[1] > 1:
                mask[-1, -1] = 0  # a query that sees nothing at all would have no defined result
            tensors[name] = mask == 0 if kind == "padding" else mask
        else:
            tensors[name] = torch.randn(shape, generator=generator).to(dtype)
    return tensors


def export(subject, example, path, exporter, opset, dynamic, named):
    import torch

    axes = {
        name: {k: s for k, s in enumerate(shape) if isinstance(s, str)}
        for name, (shape, _) in subject.inputs.items()
    }
    arguments = dict(
        input_names=list(subject.inputs), output_names=subject.outputs, opset_version=opset, verbose=False
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if exporter == "script":
            torch.onnx.export(
                subject.module,
                tuple(example.values()),
                path,
                dynamo=False,
                dynamic_axes=axes if dynamic else None,
                **arguments,
            )
        else:
            unnamed = [{axis: torch.export.Dim.DYNAMIC for axis in each} for each in axes.values()]
            shapes = tuple(axes.values()) if named else tuple(unnamed)
            torch.onnx.export(
                subject.module,
                tuple(example.values()),
                path,
                dynamo=True,
                external_data=False,
                dynamic_shapes=shapes if dynamic else None,
                **arguments,
            )


def without_traces(model):
    """Without the exporters' records of where in the Python sources a node comes from."""
    graph = model.graph
    for function in model.functions:
        del function.metadata_props[:]
        function.doc_string = ""
    nodes = [n for part in (graph, *model.functions) for n in part.node]
    for item in [model, graph, *nodes, *graph.value_info, *graph.input, *graph.output, *graph.initializer]:
        if hasattr(item, "metadata_props"):
            del item.metadata_props[:]
        item.doc_string = ""
    return model


def to_array(tensor):
    import onnx
    import torch
    from onnx import numpy_helper

    tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:
        proto = onnx.TensorProto(data_type=onnx.TensorProto.BFLOAT16, dims=list(tensor.shape))
        proto.raw_data = tensor.contiguous().view(torch.int16).numpy().tobytes()
        return proto
    return numpy_helper.from_array(tensor.numpy())


def write(folder, index, stem, proto):
    target = os.path.join(folder, f"test_data_set_{index}")
    os.makedirs(target, exist_ok=True)
    at = len([f for f in os.listdir(target) if f.startswith(stem)])
    with open(os.path.join(target, f"{stem}_{at}.pb"), "wb") as file:
        file.write(proto.SerializeToString())


def write_data_sets(folder, subject, model, data_sets, dtype):
    """Returns what there is to say about the expected outputs."""
    import numpy as np
    import onnxruntime
    import torch

    try:
        onnxruntime.set_default_logger_severity(4)
        path = os.path.join(folder, "model.onnx")
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    except Exception:
        session = None
    present = {i.name for i in model.graph.input}
    notes = [] if session else ["ONNX Runtime refuses the model"]
    written = 0
    for index, data_set in enumerate(data_sets):
        tensors = make_inputs(subject, sizes_of(data_set), dtype, index)
        with torch.no_grad():
            expected = list(subject.module(*tensors.values()))
        if session:
            try:
                found = session.run(None, {n: t.numpy() for n, t in tensors.items() if n in present})
            except Exception:
                notes.append(f"set {index}: ONNX Runtime refuses")
                if index > 0:
                    continue
                session = (
                    None  # not even the example: ONNX Runtime lacks something, other sizes are not the reason
                )
        if session:
            tolerance = 2e-2 if dtype == torch.float16 else 1e-4
            close = all(
                e.shape == tuple(f.shape) and np.allclose(e.numpy(), f, atol=tolerance, rtol=tolerance)
                for e, f in zip(expected, found)
            )
            if not close:
                notes.append(f"set {index}: ONNX Runtime and PyTorch differ")
                continue
            expected = [torch.from_numpy(np.ascontiguousarray(f)) for f in found]
        for name, tensor in tensors.items():
            if name in present:
                write(folder, written, "input", to_array(tensor))
        for tensor in expected:
            write(folder, written, "output", to_array(tensor))
        written += 1
    return notes if written else [*notes, "NO DATA"]


def write_dims(folder, subject, model):
    dims = {}
    for value in model.graph.input:
        shape, _ = subject.inputs[value.name]
        for k, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value"):
                dims[dim.dim_param or f"{value.name}_{k}"] = list(BOUNDS[shape[k]])
    if dims:
        with open(os.path.join(folder, "dims.json"), "w") as file:
            json.dump(dims, file)


def run_case(job):
    out, name, subject_name, exporter, opset, dynamic, dtype_name, size, named = job
    import onnx
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)
    folder = os.path.join(out, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    path = os.path.join(folder, "model.onnx")
    log = sys.stdout
    try:
        with open(os.devnull, "w") as null:
            sys.stdout = sys.stderr = null
            try:
                dtype = getattr(torch, dtype_name)
                subject = subjects(size)[subject_name]()
                subject.module.to(dtype)
                data_sets = SIZES if dynamic else SIZES[:1]
                example = make_inputs(subject, sizes_of(SIZES[0]), dtype, 0)
                export(subject, example, path, exporter, opset, dynamic, named)
                model = without_traces(onnx.load(path))
                onnx.save(model, path)
                notes = write_data_sets(folder, subject, model, data_sets, dtype)
                write_dims(folder, subject, model)
            finally:
                sys.stdout, sys.stderr = log, sys.__stderr__
        print(f"written {name} {'; '.join(notes)}", flush=True)
        return "NO DATA" not in notes
    except Exception as error:
        shutil.rmtree(folder, ignore_errors=True)
        reason = (str(error).strip().splitlines() or [""])[0][:160]
        print(f"NOT EXPORTED {name}: {type(error).__name__}: {reason}", flush=True)
        if os.environ.get("EXPORT_TRACEBACK"):
            traceback.print_exc()
        return False


# (exporter, operator set, dynamic axes?, element type), by how attention is written.
WAYS = {
    "sdpa": [
        ("dynamo", 18, True, "float32"),
        ("dynamo", 20, False, "float32"),
        ("dynamo", 20, True, "float16"),
        ("dynamo", 23, True, "float32"),
        ("script", 17, True, "float32"),
    ],
    "eager": [
        ("dynamo", 20, True, "float32"),
        ("dynamo", 23, True, "bfloat16"),
        ("script", 14, True, "float32"),
        ("script", 17, False, "float32"),
        ("script", 17, True, "float16"),
    ],
}


def ways_of(subject):
    known = [way for attention, ways in WAYS.items() if subject.endswith(attention) for way in ways]
    return known or WAYS["sdpa"] + WAYS["eager"]


# The cases of the repository: one per exporter idiom that matters, as small as they get.
SMALLEST = [
    ("gpt2_sdpa", ("dynamo", 18, True, "float32")),
    ("llama_past_sdpa", ("dynamo", 20, True, "float32")),
    ("llama_past_eager", ("script", 17, True, "float32")),
    ("bert_sdpa", ("dynamo", 23, True, "float32")),
    ("t5_encoder_eager", ("script", 14, True, "float32")),
    ("qwen2_sdpa", ("dynamo", 23, True, "float16")),
    ("torch_encoder", ("dynamo", 20, True, "float32")),
    ("torch_decoder", ("script", 17, False, "float32")),
]


def case_name(subject, way):
    exporter, opset, dynamic, dtype = way
    suffix = {"float32": "", "float16": "_f16", "bfloat16": "_bf16"}[dtype]
    return f"{subject}-{exporter}{opset}-{'dynamic' if dynamic else 'static'}{suffix}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument(
        "--only", nargs="*", default=["*"], help="patterns of case names, in the order to write them in"
    )
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--smallest", action="store_true", help="the cases of the repository")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()

    if args.smallest:
        size = Size(hidden=8, heads=2, kv_heads=1, layers=1)
        pairs = SMALLEST
    else:
        size = Size(layers=args.layers)
        pairs = [(s, w) for s in subjects(size) for w in ways_of(s)]
    jobs = {}
    for pattern in args.only:
        for subject, way in pairs:
            name = case_name(subject, way)
            if fnmatch.fnmatch(name, pattern):
                jobs.setdefault(name, (args.out, name, subject, *way, size, not args.smallest))
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        results = pool.map(run_case, jobs.values(), chunksize=1)
    print(f"{sum(results)} of {len(jobs)} cases written")


if __name__ == "__main__":
    main()
