"""Exports small models that are split over two or four ranks, with inputs and expected outputs.

    export_tensor_parallel.py OUT [--only PATTERN ...]

writes one folder per model, OUT/NAME/model.rank0.onnx and so on, in the layout of ONNX's backend tests. Nothing of this runs in
the tests, which read what

    export_tensor_parallel.py tests/corpus/exported

wrote. It needs torch, onnx, onnxscript and numpy, on a CPU, and starts its ranks itself. Expected outputs are what the ranks
computed in PyTorch, over gloo; a model is only written where they agree with the model that is not split, and where the
ONNX files do so on ONNX's reference evaluator.
"""

import argparse
import fnmatch
import logging
import math
import os
import shutil
import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing

import every_collective
import models
from case_files import check_files, write_case
from rank_constants import everybodys

TWO = {"tp": 2}

# name of the case -> function of models.py, axes of the mesh
CASES = {
    "llama_tensor_parallel-dtensor-2ranks": (models.llama_tensor_parallel, TWO),
    "llama_sequence_parallel-dtensor-2ranks": (models.llama_sequence_parallel, TWO),
    "gpt2_block-functional-2ranks": (models.gpt2_block_functional, TWO),
    "collectives-functional-2ranks": (every_collective.every_collective, TWO),
    "llama_mesh-dtensor-4ranks": (models.llama_mesh, {"dp": 2, "tp": 2}),
    "axes-functional-4ranks": (every_collective.along_axes, {"dp": 2, "tp": 2}),
}


def ranks_of_case(name):
    return math.prod(CASES[name][1].values())


def make_inputs(split, sizes, seed, rank):
    """Inputs by name. Ranks that have inputs of their own get others."""
    generator = torch.Generator().manual_seed(100 * seed + (rank if split.own_inputs else 0))
    tensors = {}
    for name, (shape, kind) in split.inputs.items():
        shape = [sizes.get(s, s) for s in shape]
        if kind == "token":
            tensors[name] = torch.randint(0, models.VOCABULARY, shape, generator=generator)
        else:
            tensors[name] = torch.randn(shape, generator=generator)
    return tensors


def outputs_of(split, inputs):
    """What this rank's part computes, and what the whole model says."""

    def tensors(result):
        return list(result) if isinstance(result, (list, tuple)) else [result]

    with torch.no_grad():
        found = [
            t.full_tensor() if hasattr(t, "full_tensor") else t
            for t in tensors(split.module(*inputs.values()))
        ]
        if isinstance(split.whole, torch.nn.Module):
            return found, tensors(split.whole(*inputs.values()))
        everybody = everybodys([t.numpy() for t in inputs.values()])
        return found, split.whole([[torch.from_numpy(a) for a in each] for each in everybody])[
            dist.get_rank()
        ]


def export_case(name, out):
    """Runs on every rank."""
    import braid_torch

    rank = dist.get_rank()
    torch.manual_seed(0)
    function, axes = CASES[name]
    mesh = dist.device_mesh.init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axes))
    split = function(mesh)
    data_sets = []
    for k, sizes in enumerate(split.sizes):
        inputs = make_inputs(split, sizes, k, rank)
        found, wanted = outputs_of(split, inputs)
        for a, b in zip(found, wanted):
            torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)
        data_sets.append(
            ({n: t.numpy() for n, t in inputs.items()}, {n: t.numpy() for n, t in zip(split.outputs, found)})
        )
    dynamic = {
        name: {axis: size for axis, size in enumerate(shape) if isinstance(size, str)}
        for name, (shape, _) in split.inputs.items()
    }
    folder = os.path.join(out, name)
    example = make_inputs(split, split.sizes[0], 0, rank)
    path = os.path.join(folder, "model.rank{rank}.onnx")
    named = mesh if mesh.ndim > 1 else None
    proto = braid_torch.export(split.module, example, path, split.outputs, dynamic, split.bounds, mesh=named)
    write_case(folder, rank, data_sets, split.bounds)
    dist.barrier()
    if rank == 0:
        try:
            check_files(folder, mesh.size(), len(split.sizes))
        except Exception:
            shutil.rmtree(folder)
            raise
        collectives = [node.op_type for node in proto.graph.node if node.domain == "ai.braid"]
        print(
            f"written {name}: {len(proto.graph.node)} nodes, {', '.join(c for c in collectives if c != 'WaitTensor')}"
        )
    dist.barrier()


def run_rank(rank, ranks, out, names, store):
    torch.set_num_threads(1)
    logging.getLogger("torch.onnx").setLevel(
        logging.ERROR
    )  # it misses torchvision, whose operators nobody asked for
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    for name in names:
        export_case(name, out)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--only", nargs="*", default=["*"], help="patterns of case names")
    args = parser.parse_args()
    names = [name for name in CASES if any(fnmatch.fnmatch(name, pattern) for pattern in args.only)]
    for name in names:
        shutil.rmtree(os.path.join(args.out, name), ignore_errors=True)
    for ranks in sorted({ranks_of_case(name) for name in names}):
        of_size = [name for name in names if ranks_of_case(name) == ranks]
        with tempfile.TemporaryDirectory() as folder:
            store = os.path.join(folder, "store")
            torch.multiprocessing.spawn(run_rank, (ranks, args.out, of_size, store), nprocs=ranks)


if __name__ == "__main__":
    main()
