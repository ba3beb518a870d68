"""Numbers in the graph that differ between ranks become weights: the ranks' graphs may differ in weights only.

DTensor writes such numbers: where this rank's part of a vocabulary begins, or which part of a replicated tensor this rank keeps.
"""

import operator

import torch
import torch.distributed as dist

from functional_graph import is_collective

aten = torch.ops.aten


class RanksDifferError(ValueError):
    """The ranks' graphs are not the same. The message names what differs first."""


def everybodys(value):
    """The values of all ranks, in rank order. All ranks call it together."""
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def lift_rank_constants(module):
    """Rewrites a torch.fx.GraphModule. All ranks call it together; raises RanksDifferError on all of them."""
    nodes = [node for node in module.graph.nodes if node.op == "call_function"]
    described = everybodys([(_name(node), _numbers(node)) for node in nodes])
    lengths = [len(each) for each in described]
    if len(set(lengths)) != 1:
        raise RanksDifferError(f"the ranks' graphs have {', '.join(map(str, lengths))} nodes")
    for at, node in enumerate(nodes):
        targets = [each[at][0] for each in described]
        if len(set(targets)) != 1:
            raise RanksDifferError(f"node {at} of the ranks' graphs: {', '.join(targets)}")
        numbers = [each[at][1] for each in described]
        if any(each != numbers[0] for each in numbers) and not is_split_sizes(node):
            _lift(module, node, numbers, f"of_rank_{at}")
    module.graph.eliminate_dead_code()
    module.recompile()


def is_split_sizes(node):
    """An all-to-all's splits are each rank's own; the exporter puts them together."""
    return node.target is torch.ops._c10d_functional.all_to_all_single.default


def _name(node):
    if isinstance(node.target, torch._ops.OpOverload):
        return str(node.target)
    return f"{node.target.__module__}.{node.target.__name__}"


def _numbers(node):
    """Arguments with values of the graph taken out, and process groups, which rank_groups.py compares."""
    args, kwargs = torch.fx.node.map_arg((node.args, dict(node.kwargs)), lambda each: "value")
    if is_collective(node) and "wait" not in _name(node):
        args = args[:-1]
    return repr((args, kwargs))


def _lift(module, node, numbers, name):
    if node.target is operator.getitem:
        return _choose_part(module, node, name)
    if is_collective(node):
        ranks = "; ".join(f"rank {rank}: {each}" for rank, each in enumerate(numbers))
        raise RanksDifferError(f"{node.target} is called in another way on other ranks: {ranks}")
    overload = node.target
    if getattr(overload, "_overloadname", "") == "Scalar":
        overload = getattr(overload.overloadpacket, "Tensor", None)
    tensors_only = overload is not None and getattr(overload, "_overloadname", "") == "Tensor"
    if not tensors_only or len(node.args) < 2 or isinstance(node.args[1], torch.fx.Node):
        ranks = "; ".join(f"rank {rank}: {each}" for rank, each in enumerate(numbers))
        raise RanksDifferError(
            f"{node.target} has other numbers on other ranks, which cannot become a weight: {ranks}"
        )
    dtype = node.args[0].meta["val"].dtype
    weight = _weight(module, node, name, torch.tensor(node.args[1], dtype=dtype))
    node.target = overload
    node.args = (node.args[0], weight, *node.args[2:])


def _weight(module, node, name, tensor):
    """A weight of this name, the same on all ranks."""
    module.register_buffer(name, tensor)
    with module.graph.inserting_before(node):
        attribute = module.graph.get_attr(name)
    attribute.meta["val"] = tensor
    return attribute


def _choose_part(module, node, name):
    """Part k of an even split, k each rank's own: the parts stacked, and one chosen by an index that is a weight."""
    split, index = node.args
    if split.target is not aten.split.Tensor:
        raise RanksDifferError(f"result {index} of {split.target} is read here, other ranks read another one")
    shapes = {str(list(part.shape)) for part in split.meta["val"]}
    if len(shapes) != 1:
        raise RanksDifferError(
            f"each rank keeps its part of a split, but the parts have the sizes {', '.join(shapes)}"
        )
    weight = _weight(module, node, name, torch.tensor([index]))
    parts = len(split.meta["val"])
    graph = module.graph
    with graph.inserting_before(node):
        every = [graph.call_function(operator.getitem, (split, k)) for k in range(parts)]
        stacked = graph.call_function(aten.stack.default, (every, 0))
        chosen = graph.call_function(aten.index_select.default, (stacked, 0, weight))
        result = graph.call_function(aten.squeeze.dim, (chosen, 0))
    result.meta = dict(node.meta)
    node.replace_all_uses_with(result)
