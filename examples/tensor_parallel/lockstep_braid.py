"""The collectives of ai.braid (docs/collectives.md) as operators of ONNX's reference evaluator; lockstep.py runs them.

Without Send, Recv and BatchSendRecv. A rank outside of a group passes the node over: its results are its inputs.
"""

import functools

import numpy as np
from onnx.reference.op_run import OpRun

REDUCTIONS = {
    "sum": np.add,
    "avg": np.add,
    "prod": np.multiply,
    "product": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def collective_ops(exchange, rank):
    """The operators for one rank. `exchange` hands every rank the values of all ranks (lockstep.Exchange)."""

    class Collective(OpRun):
        op_domain = "ai.braid"

        def _run(self, *tensors, group=None, groups=None, group_size=None, **attributes):
            everybody = exchange.all_values(rank, tensors)
            listed = list(groups or group or range(exchange.ranks))
            size = group_size if groups else len(listed)
            assert group_size in (None, size), f"group_size {group_size} of the group {listed}"
            if rank not in listed:
                return tensors
            first = listed.index(rank) // size * size
            ranks = listed[first : first + size]
            given = {name: value for name, value in attributes.items() if value is not None}
            me = ranks.index(rank)
            return tuple(
                np.ascontiguousarray(self.result([everybody[r][k] for r in ranks], me, **given))
                for k in range(len(tensors))
            )

    class AllReduce(Collective):
        def result(self, values, me, reduce_op="sum"):
            return reduced(values, reduce_op)

    class AllGather(Collective):
        def result(self, values, me, axis=0):
            return np.concatenate(values, axis)

    class ReduceScatter(Collective):
        def result(self, values, me, axis=0, reduce_op="sum"):
            return np.split(reduced(values, reduce_op), len(values), axis)[me]

    class Broadcast(Collective):
        def result(self, values, me, root=0):
            return values[root]

    class AllToAll(Collective):
        def result(self, values, me, split_axis=0, concat_axis=0, split_sizes=None):
            if split_sizes is None or len(split_sizes) == 0:
                return np.concatenate([np.split(v, len(values), split_axis)[me] for v in values], concat_axis)
            rows = np.asarray(split_sizes).reshape(len(values), len(values))
            return np.concatenate([np.split(v, np.cumsum(row)[:-1])[me] for v, row in zip(values, rows)])

    class ShardDimAllToAll(Collective):
        def result(self, values, me, gather_dim, shard_dim):
            return np.concatenate([np.split(v, len(values), shard_dim)[me] for v in values], gather_dim)

    class WaitTensor(OpRun):
        op_domain = "ai.braid"

        def _run(self, tensor):
            return (tensor,)

    return [AllReduce, AllGather, ReduceScatter, Broadcast, AllToAll, ShardDimAllToAll, WaitTensor]


def reduced(values, reduce_op):
    """The reduction over all values, in rank order."""
    total = functools.reduce(REDUCTIONS[reduce_op], values)
    return total / len(values) if reduce_op == "avg" else total
