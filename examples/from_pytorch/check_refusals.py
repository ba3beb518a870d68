"""What the exporter refuses, and what it says; and numbers of each rank's own, which become weights.

    check_refusals.py

Two ranks over gloo, like export_tensor_parallel.py; needs torch. Not part of the tests.
"""

import logging
import os
import tempfile
import warnings

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.distributed.tensor import DTensor, Replicate, Shard

import braid_torch
from case_files import check_files, write_case
from collective_ops import NoMappingError
from rank_constants import RanksDifferError
from tracing import SizeFixedError

functional = torch.ops._c10d_functional


class Module(nn.Module):
    """A module of one function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def in_place_on_a_view(x):
    y = x * 2
    row = y[0]
    functional.wait_tensor(functional.all_reduce_(y, "sum", "0"))
    return row + 1


def in_place_on_a_part(x):
    y = x * 2
    functional.wait_tensor(functional.all_reduce_(y.chunk(2)[0], "sum", "0"))
    return y + 1


def in_place_on_the_input(x):
    x.add_(1)
    return functional.wait_tensor(functional.all_reduce_(x, "sum", "0"))


def written_part(x):
    y = x * 2
    y.chunk(2, 1)[dist.get_rank()].add_(1)
    return y


def one_rank_fails(x):
    if dist.get_rank() == 1:
        raise ArithmeticError("of the model")
    return x


def not_functional(x):
    y = x * 2
    dist.all_reduce(y)
    return y


def one_rank_sends(x):
    return functional.wait_tensor(functional.isend(x, 1, 0, "0"))


def other_collectives(x):
    group = "0"
    if dist.get_rank() == 0:
        return functional.wait_tensor(functional.all_reduce(x, "sum", group))
    return functional.wait_tensor(functional.broadcast(x, 0, group))


def other_reductions(x):
    return functional.wait_tensor(functional.all_reduce(x, ["sum", "max"][dist.get_rank()], "0"))


def overlapping_groups(x):
    alone = dist.new_group([1])
    group = "0" if dist.get_rank() == 0 else alone.group_name
    return functional.wait_tensor(functional.all_reduce(x, "sum", group))


def uneven_results(x):
    rank = dist.get_rank()
    into, out = [[1, 3], [2, 2]][rank], [[1, 2], [3, 2]][rank]
    return functional.wait_tensor(functional.all_to_all_single(x, out, into, "0"))


REFUSED = [
    (one_rank_sends, NoMappingError, "_c10d_functional.isend.default"),
    (
        in_place_on_a_view,
        NoMappingError,
        "reads 'select', of whose memory a collective has changed another part",
    ),
    (
        in_place_on_a_part,
        NoMappingError,
        "reads 'mul', of whose memory a collective has changed another part",
    ),
    (in_place_on_the_input, NoMappingError, "an input or weight of the model"),
    (written_part, RanksDifferError, "memory that is written in place"),
    (one_rank_fails, (ArithmeticError, RanksDifferError), "of the model"),
    (not_functional, NoMappingError, "use torch.distributed._functional_collectives"),
    (lambda x: functional.all_reduce(x, "premul_sum", "0"), NoMappingError, "'premul_sum'"),
    (
        lambda x: functional.all_reduce(x, "sum", "nobody"),
        NoMappingError,
        "no process group is called 'nobody'",
    ),
    (lambda x: functional.all_gather_into_tensor(x, 3, "0"), NoMappingError, "has 2 ranks, the call says 3"),
    (uneven_results, NoMappingError, "must receive the same number"),
    (other_collectives, RanksDifferError, "all_reduce.default, _c10d_functional.broadcast.default"),
    (other_reductions, RanksDifferError, "called in another way on other ranks"),
    (overlapping_groups, RanksDifferError, "not disjoint groups of one size: rank 0: [0, 1]; rank 1: [1]"),
    (lambda x: x * 2 if x.shape[0] == 4 else x, SizeFixedError, "fixes 'rows'"),
]


def check_refusals(folder):
    for function, kind, words in REFUSED:
        dynamic = {"x": {0: "rows"}} if kind is SizeFixedError else None
        try:
            braid_torch.export(
                Module(function), {"x": torch.ones(4, 6)}, folder + "/model.rank{rank}.onnx", ["y"], dynamic
            )
        except kind as error:
            assert words in str(error), f"'{words}' is not in '{error}'"
            if dist.get_rank() == 0:
                print(f"refused: {error}")
        else:
            raise AssertionError(f"'{words}' was not refused")
        dist.barrier()


def check_part_of_a_replicated_tensor(folder):
    """A replicated tensor of which each rank keeps its part: which one is a number of the rank's own."""
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))

    def own_part(x):
        return (
            DTensor.from_local(x, mesh, [Replicate()], run_check=False)
            .redistribute(mesh, [Shard(1)])
            .to_local()
            * 2
        )

    rank = dist.get_rank()
    x = torch.arange(24.0).reshape(4, 6)
    braid_torch.export(
        Module(own_part), {"x": x}, folder + "/model.rank{rank}.onnx", ["y"], {"x": {0: "rows"}}
    )
    write_case(folder, rank, [({"x": x.numpy()}, {"y": np.array(own_part(x))})], {"rows": (1, 8)})
    dist.barrier()
    if rank == 0:
        check_files(folder, 2, 1)
        print("part of a replicated tensor: equal")


def run_rank(rank, folder):
    torch.set_num_threads(1)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    check_part_of_a_replicated_tensor(os.path.join(folder, "part"))
    check_refusals(folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(run_rank, (folder,), nprocs=2)
