"""PyTorch's functional collectives -> ONNX operators of the domain ai.braid (docs/collectives.md).

`translation_table` is what torch.onnx.export(dynamo=True) takes as custom_translation_table. Groups are written as lists of
ranks; where the ranks have different groups, as along an axis of a mesh, all of these are. Forms that work in place are rewritten beforehand
(functional_graph.py), so that only functional ones come here.
"""

import functools

import onnx
import torch
import torch.distributed as dist
from onnx.defs import OpSchema
from onnxscript.values import Op, Opset

import axis_forms

DOMAIN = "ai.braid"
OPSET = Opset(DOMAIN, 1)

# PyTorch's names of reductions -> the operator set's.
REDUCE_OPS = {"sum": "sum", "avg": "avg", "product": "prod", "min": "min", "max": "max"}

ELEMENT_TYPES = [
    f"tensor({name})"
    for name in "float double float16 bfloat16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool".split()
]


class NoMappingError(ValueError):
    """Something that the operator set cannot say. The message names the PyTorch operator and what is wrong with it."""


def ranks_of(group_name):
    """Ranks of a process group by its name, in the order of their positions in the group."""
    if isinstance(group_name, dist.ProcessGroup):
        return dist.get_process_group_ranks(group_name)
    try:
        group = torch.distributed.distributed_c10d._resolve_process_group(group_name)
    except Exception as error:
        raise NoMappingError(f"no process group is called '{group_name}' in this process") from error
    return dist.get_process_group_ranks(group)


def name_of_group(group):
    return group.group_name if isinstance(group, dist.ProcessGroup) else str(group)


def reduce_op_of(name):
    """The operator set's name of a reduction."""
    known = REDUCE_OPS.get(str(name).lower())
    if known is None:
        raise NoMappingError(f"reduction '{name}' has no counterpart; there are {', '.join(REDUCE_OPS)}")
    return known


def _attribute(name, value):
    kinds = {int: OpSchema.AttrType.INT, str: OpSchema.AttrType.STRING, list: OpSchema.AttrType.INTS}
    return OpSchema.Attribute(name, kinds[type(value)], "", required=False)


def _node(op_type, tensors, **attributes):
    """One node with a result per input. Its schema is written for this number: the exporter asks how many results there are."""
    types = [(f"T{k}", ELEMENT_TYPES, "") for k in range(len(tensors))]
    schema = OpSchema(
        op_type,
        DOMAIN,
        1,
        inputs=[OpSchema.FormalParameter(f"input_{k}", f"T{k}") for k in range(len(tensors))],
        outputs=[OpSchema.FormalParameter(f"output_{k}", f"T{k}") for k in range(len(tensors))],
        type_constraints=types,
        attributes=[_attribute(name, value) for name, value in attributes.items()],
    )
    return Op(OPSET, op_type, schema)(*tensors, **attributes)


class Translations:
    """PyTorch's functional collectives as nodes of ai.braid.

    `parts`: group name on this rank -> the lists of ranks that groups of this place in the graph have (rank_groups.py).
    `split_matrices`: split_key of an uneven all-to-all -> how many rows each rank sends to each, row after row.
    """

    def __init__(self, parts, split_matrices):
        self.parts, self.split_matrices = parts, split_matrices

    def collective(self, op_type, tensors, group_name, **attributes):
        """Like _node, over a group."""
        parts = self.parts[name_of_group(group_name)]
        listed = [rank for part in parts for rank in part]
        name = "group" if len(parts) == 1 else "groups"
        return _node(op_type, tensors, **attributes, **{name: listed}, group_size=len(parts[0]))

    def all_reduce(self, tensor, reduce_op, group_name):
        return self.collective("AllReduce", [tensor], group_name, reduce_op=reduce_op_of(reduce_op))

    def all_reduce_coalesced(self, tensors, reduce_op, group_name):
        return _many(self.collective("AllReduce", tensors, group_name, reduce_op=reduce_op_of(reduce_op)))

    def all_gather_into_tensor(self, tensor, group_size, group_name):
        return self.collective("AllGather", [tensor], group_name, axis=0)

    def all_gather_into_tensor_coalesced(self, tensors, group_size, group_name):
        return _many(self.collective("AllGather", tensors, group_name, axis=0))

    def reduce_scatter_tensor(self, tensor, reduce_op, group_size, group_name):
        return self.collective(
            "ReduceScatter", [tensor], group_name, axis=0, reduce_op=reduce_op_of(reduce_op)
        )

    def reduce_scatter_tensor_coalesced(self, tensors, reduce_op, group_size, group_name):
        return _many(
            self.collective("ReduceScatter", tensors, group_name, axis=0, reduce_op=reduce_op_of(reduce_op))
        )

    def all_gather_along(self, tensor, axis, group_size, group_name):
        return self.collective("AllGather", [tensor], group_name, axis=axis)

    def reduce_scatter_along(self, tensor, axis, reduce_op, group_size, group_name):
        return self.collective(
            "ReduceScatter", [tensor], group_name, axis=axis, reduce_op=reduce_op_of(reduce_op)
        )

    def broadcast(self, tensor, src, group_name):
        """`src` is a position in the group already."""
        return self.collective("Broadcast", [tensor], group_name, root=src)

    def shard_dim_alltoall(self, tensor, gather_dim, shard_dim, group_name):
        return self.collective(
            "ShardDimAllToAll", [tensor], group_name, gather_dim=gather_dim, shard_dim=shard_dim
        )

    def all_to_all_single(self, tensor, output_split_sizes, input_split_sizes, group_name):
        matrix = self.split_matrices.get(split_key(input_split_sizes, output_split_sizes, group_name))
        if matrix is None:
            return self.collective("AllToAll", [tensor], group_name, split_axis=0, concat_axis=0)
        return self.collective("AllToAll", [tensor], group_name, split_sizes=list(matrix))


def wait_tensor(tensor):
    return _node("WaitTensor", [tensor])


def split_key(input_split_sizes, output_split_sizes, group_name):
    """What names an all-to-all's splits; None where they are not numbers."""
    sizes = [*(input_split_sizes or ()), *(output_split_sizes or ())]
    if not all(isinstance(size, int) for size in sizes):
        return None
    return (tuple(input_split_sizes or ()), tuple(output_split_sizes or ()), name_of_group(group_name))


def _many(results):
    """A coalesced collective of one tensor has a list of one result."""
    return tuple(results) if isinstance(results, (list, tuple)) else (results,)


def translation_table(parts, split_matrices):
    """PyTorch's operators -> functions that write nodes of ai.braid. The arguments are those of Translations."""
    functional, write = torch.ops._c10d_functional, Translations(parts, split_matrices)
    table = {
        functional.all_reduce.default: write.all_reduce,
        functional.all_reduce_coalesced.default: write.all_reduce_coalesced,
        functional.all_gather_into_tensor.default: write.all_gather_into_tensor,
        functional.all_gather_into_tensor_coalesced.default: write.all_gather_into_tensor_coalesced,
        functional.reduce_scatter_tensor.default: write.reduce_scatter_tensor,
        functional.reduce_scatter_tensor_coalesced.default: write.reduce_scatter_tensor_coalesced,
        functional.all_to_all_single.default: write.all_to_all_single,
        functional.broadcast.default: write.broadcast,
        functional.wait_tensor.default: wait_tensor,
        axis_forms.all_gather._opoverload: write.all_gather_along,
        axis_forms.reduce_scatter._opoverload: write.reduce_scatter_along,
        torch.ops._dtensor.shard_dim_alltoall.default: write.shard_dim_alltoall,
    }
    return {operator: _function(translation) for operator, translation in table.items()}


def _function(translation):
    """The exporter sets attributes, which a bound method does not take."""

    @functools.wraps(translation)
    def translate(*args, **kwargs):
        return translation(*args, **kwargs)

    return translate


def add_import(model):
    """Declares the operator set in an ONNX model that uses it."""
    if not any(entry.domain == DOMAIN for entry in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid(DOMAIN, OPSET.version))
