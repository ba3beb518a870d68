"""A module that calls every collective of PyTorch that has an operator in ai.braid, in every form.

gloo lacks some of them, so the module is traced only; what it computes is written down beside each call.
"""

import torch
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
        traced_only=True,
    )
