"""Modules that call every collective of PyTorch that has an operator in ai.braid: in every form on two ranks, and along the axes
of a mesh of four, with numbers of each rank's own. What they compute is also written down without collectives.
"""

import torch
import torch.distributed._functional_collectives as collectives
from torch import nn

from models import SplitModel

functional = torch.ops._c10d_functional

# How many rows rank i sends to rank j.
UNEVEN = [[1, 3], [3, 1]]


def reductions(values):
    """PyTorch's name of each reduction -> its result over the ranks' values."""
    total = torch.stack(values)
    return {
        "sum": total.sum(0),
        "avg": total.mean(0),
        "product": total.prod(0),
        "min": total.amin(0),
        "max": total.amax(0),
    }


class EveryCollective(nn.Module):
    """x is [4, 6] on each of two ranks."""

    def __init__(self, rank, group):
        super().__init__()
        self.rank, self.group = rank, group

    def forward(self, x):
        group, wait = self.group, functional.wait_tensor
        z = x + x
        results = [wait(functional.all_reduce(x, op, group)) for op in reductions([x])]
        results += [wait(functional.reduce_scatter_tensor(x, op, 2, group)) for op in reductions([x])]
        results += map(wait, functional.all_reduce_coalesced([x, z], "sum", group))
        results += map(wait, functional.all_gather_into_tensor_coalesced([x, z], 2, group))
        results += map(wait, functional.reduce_scatter_tensor_coalesced([x, z], "max", 2, group))
        results.append(wait(functional.all_gather_into_tensor(x, 2, group)))
        results.append(wait(functional.broadcast(x, 1, group)))
        results.append(wait(functional.all_to_all_single(x, [2, 2], [2, 2], group)))
        out = [row[self.rank] for row in UNEVEN]
        results.append(wait(functional.all_to_all_single(x, out, UNEVEN[self.rank], group)))
        results.append(torch.ops._dtensor.shard_dim_alltoall(x, 0, 1, group))
        # Into memory that is there already; what is read afterwards is what came.
        a, b, c, d, e = (x * factor for factor in range(2, 7))
        wait(functional.all_reduce_(a, "sum", group))
        wait(functional.broadcast_(b, 0, group))
        for each in functional.all_reduce_coalesced_([c, d], "min", group):
            wait(each)
        gathered, scattered = x.new_empty([8, 6]), x.new_empty([2, 6])
        wait(functional.all_gather_into_tensor_out(e, 2, group, out=gathered))
        wait(functional.reduce_scatter_tensor_out(e, "sum", 2, group, out=scattered))
        return (*results, a + 1, b + 1, c + 1, d + 1, gathered + 1, scattered + 1)


def expected(inputs):
    """What each rank's module returns, of the inputs of all ranks."""
    x = [each[0] for each in inputs]
    z = [each + each for each in x]
    outputs = []
    for rank in range(2):

        def own(tensor, rank=rank):
            return tensor.chunk(2)[rank]

        out = list(reductions(x).values())
        out += [own(each) for each in reductions(x).values()]
        out += [sum(x), sum(z), torch.cat(x), torch.cat(z)]
        out += [own(torch.maximum(*x)), own(torch.maximum(*z)), torch.cat(x), x[1]]
        out.append(torch.cat([own(each) for each in x]))
        out.append(torch.cat([each.split(row)[rank] for each, row in zip(x, UNEVEN)]))
        out.append(torch.cat([each.chunk(2, 1)[rank] for each in x]))
        out += [sum(x) * 2 + 1, x[0] * 3 + 1, torch.minimum(*x) * 4 + 1, torch.minimum(*x) * 5 + 1]
        out += [torch.cat(x) * 6 + 1, own(sum(x)) * 6 + 1]
        outputs.append([each.contiguous() for each in out])
    return outputs


def every_collective(mesh):
    """The module on this rank."""
    names = [f"all_reduce_{op}" for op in reductions([torch.zeros(1)])]
    names += [f"reduce_scatter_{op}" for op in reductions([torch.zeros(1)])]
    for form in ("all_reduce", "all_gather", "reduce_scatter"):
        names += [f"{form}_coalesced_{k}" for k in range(2)]
    names += ["all_gather", "broadcast", "all_to_all", "all_to_all_uneven", "shard_dim_alltoall"]
    names += ["all_reduce_in_place", "broadcast_in_place", "coalesced_in_place_0", "coalesced_in_place_1"]
    names += ["all_gather_out", "reduce_scatter_out"]
    return SplitModel(
        EveryCollective(mesh.get_local_rank(), mesh.get_group().group_name),
        expected,
        {"x": ((4, 6), "float")},
        tuple(names),
        own_inputs=True,
    )


class AlongAxes(nn.Module):
    """x is [4, 6] on each rank of a mesh of 2 by 2."""

    def __init__(self, mesh):
        super().__init__()
        self.rank = mesh.get_rank()
        self.axes = [
            (mesh.get_group(axis).group_name, mesh.get_local_rank(axis)) for axis in range(mesh.ndim)
        ]

    def forward(self, x):
        wait, rank, results = functional.wait_tensor, self.rank, []
        for group, place in self.axes:
            results.append(wait(functional.all_reduce(x, "max", group)))
            results.append(collectives.all_gather_tensor(x, 1, group))
            results.append(collectives.reduce_scatter_tensor(x, "sum", 1, group))
            results.append(wait(functional.broadcast(x, 1, group)))
            out = [row[place] for row in UNEVEN]
            results.append(wait(functional.all_to_all_single(x, out, UNEVEN[place], group)))
            results.append(torch.ops._dtensor.shard_dim_alltoall(x, 0, 1, group))
            # In place, under two names: what is done to one is seen under the other.
            buffer = x * 2
            result = wait(functional.all_reduce_(buffer, "sum", group))
            buffer.mul_(3)
            results.append(result + buffer)
        results.append((x > 0) * (rank + 0.5))
        results.append(x[:, rank : rank + 2] + x[rank, 0])
        results.append(x + torch.arange(rank * 6, rank * 6 + 6))
        results.append(x.gather(1, (x > rank - 1).long()))
        results.append(x[torch.tensor([rank, 0])])
        return tuple(results)


def along_axes_expected(inputs):
    """What each rank's module returns, of the inputs of all ranks."""
    outputs = []
    for rank in range(4):
        out, own = [], inputs[rank][0]
        for group, place in (
            ([rank % 2, rank % 2 + 2], rank // 2),
            ([rank // 2 * 2, rank // 2 * 2 + 1], rank % 2),
        ):
            x = [inputs[member][0] for member in group]
            out += [torch.maximum(*x), torch.cat(x, 1), sum(x).chunk(2, 1)[place], x[1]]
            out.append(torch.cat([each.split(row)[place] for each, row in zip(x, UNEVEN)]))
            out += [torch.cat([each.chunk(2, 1)[place] for each in x]), sum(x) * 12]
        out.append(torch.where(own > 0, rank + 0.5, 0.0))
        out.append(torch.stack([own[:, rank], own[:, rank + 1]], 1) + own[rank][0])
        out.append(own + torch.tensor([float(rank * 6 + k) for k in range(6)]))
        out.append(torch.where(own > rank - 1, own[:, 1:2], own[:, 0:1]))
        out.append(torch.stack([own[rank], own[0]]))
        outputs.append([each.contiguous() for each in out])
    return outputs


def along_axes(mesh):
    """The module on this rank."""
    names = (
        "all_reduce all_gather reduce_scatter broadcast all_to_all_uneven shard_dim_alltoall in_place".split()
    )
    names = [f"{axis}_{name}" for axis in mesh.mesh_dim_names for name in names]
    names += ["truth_times", "slice", "numbers", "chosen_by_truth", "row_of_rank"]
    return SplitModel(
        AlongAxes(mesh), along_axes_expected, {"x": ((4, 6), "float")}, tuple(names), own_inputs=True
    )
