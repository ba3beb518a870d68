"""Numbers in the graph that differ between ranks become weights: the ranks' graphs may differ in weights only.

DTensor writes such numbers: where this rank's part of a vocabulary begins, or which part of a replicated tensor this rank keeps.
"""

import numbers
import operator

import torch
import torch.distributed as dist

from functional_graph import is_collective, memory_of

aten = torch.ops.aten


class RanksDifferError(ValueError):
    """The ranks' graphs are not the same. The message names what differs first."""


def everybodys(value):
    """The values of all ranks, in rank order. All ranks call it together."""
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def together(action):
    """What `action` returns. Where it fails on one rank, all ranks raise, so that none waits for those that have failed."""
    try:
        result, error = action(), None
    except Exception as raised:  # the user's model may raise anything
        result, error = None, raised
    errors = everybodys(f"{type(error).__name__}: {error}" if error else None)
    if error:
        raise error
    for rank, each in enumerate(errors):
        if each:
            raise RanksDifferError(f"rank {rank} fails, this one does not: {each}")
    return result


def lift_rank_constants(module):
    """Rewrites a torch.fx.GraphModule. All ranks call it together; raises RanksDifferError on all of them."""
    nodes = [node for node in module.graph.nodes if node.op == "call_function"]
    described = everybodys([(_name(node), _numbers(node)) for node in nodes])
    together(lambda: _lift_all(module, nodes, described))


def _lift_all(module, nodes, described):
    lengths = [len(each) for each in described]
    if len(set(lengths)) != 1:
        raise RanksDifferError(f"the ranks' graphs have {', '.join(map(str, lengths))} nodes")
    memory = memory_of(module.graph)
    written = memory.written(module.graph)
    for at, node in enumerate(nodes):
        targets = [each[at][0] for each in described]
        if len(set(targets)) != 1:
            raise RanksDifferError(f"node {at} of the ranks' graphs: {', '.join(targets)}")
        everybody = [each[at][1] for each in described]
        if any(each != everybody[0] for each in everybody) and not is_split_sizes(node):
            in_place = memory.of(node) in written and memory.of(node) is not None
            _Lift(module, node, everybody, f"of_rank_{at}", in_place).lift()
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


class _Lift:
    """A node whose numbers `everybody` has differ between ranks."""

    def __init__(self, module, node, everybody, name, in_place):
        self.module, self.graph, self.node = module, module.graph, node
        self.everybody, self.name, self.in_place = everybody, name, in_place

    def lift(self):
        node = self.node
        if is_collective(node):
            raise RanksDifferError(
                f"{node.target} is called in another way on other ranks: {self.all_numbers()}"
            )
        if not node.all_input_nodes:
            return self.replace(self.weight(node.target(*node.args, **node.kwargs)))
        if node.target in (operator.getitem, aten.slice.Tensor, aten.select.int):
            if self.in_place:
                raise RanksDifferError(
                    f"each rank reads its part of memory that is written in place: {node.target}"
                )
            return {operator.getitem: self.part, aten.slice.Tensor: self.slice, aten.select.int: self.select}[
                node.target
            ]()
        self.operand()

    def all_numbers(self):
        return "; ".join(f"rank {rank}: {each}" for rank, each in enumerate(self.everybody))

    def refuse(self):
        raise RanksDifferError(
            f"{self.node.target} has other numbers on other ranks, which cannot become a weight: {self.all_numbers()}"
        )

    def weight(self, tensor):
        """A weight of this name, the same on all ranks."""
        self.module.register_buffer(self.name, tensor)
        with self.graph.inserting_before(self.node):
            attribute = self.graph.create_node("get_attr", self.name)
        attribute.meta["val"] = tensor
        return attribute

    def replace(self, result):
        result.meta = dict(self.node.meta)
        self.node.replace_all_uses_with(result)

    def call(self, target, *args):
        with self.graph.inserting_before(self.node):
            return self.graph.call_function(target, args)

    def operand(self):
        """A number as operand: a weight of no axes, of the type that PyTorch computes in."""
        node = self.node
        overload = node.target
        name = getattr(overload, "_overloadname", "")
        if "Scalar" in name:
            overload = getattr(overload.overloadpacket, name.replace("Scalar", "Tensor"), None)
        if overload is None or not hasattr(overload, "_schema"):
            self.refuse()
        first, at = node.args[0], len(node.args) - 1
        arguments = overload._schema.arguments
        known = isinstance(node.args[at], numbers.Number) and isinstance(first, torch.fx.Node)
        if at == 0 or not known or str(arguments[at].type) != "Tensor" or node.kwargs:
            self.refuse()
        dtype = torch.result_type(first.meta["val"], node.args[at])
        weight = self.weight(torch.tensor(node.args[at], dtype=dtype))
        if first.meta["val"].dtype != dtype:
            first = self.call(aten._to_copy.default, first)
            first.kwargs = {"dtype": dtype}
            first.meta["val"] = node.args[0].meta["val"].to(dtype)
        node.target = overload
        node.args = (first, *node.args[1:at], weight)

    def part(self):
        """Part k of a list, k each rank's own: the parts stacked, and one chosen by an index that is a weight."""
        parts, index = self.node.args
        shapes = {str(list(part.shape)) for part in parts.meta["val"]}
        if len(shapes) != 1:
            raise RanksDifferError(
                f"each rank keeps its part of {parts.target}, but the parts have the sizes {', '.join(sorted(shapes))}"
            )
        every = [self.call(operator.getitem, parts, k) for k in range(len(parts.meta["val"]))]
        self.choose(self.call(aten.stack.default, every, 0), 0, [index])

    def select(self):
        self.choose(self.node.args[0], self.node.args[1], [self.node.args[2]])

    def choose(self, tensor, axis, index):
        chosen = self.call(aten.index_select.default, tensor, axis, self.weight(torch.tensor(index)))
        self.replace(self.call(aten.squeeze.dim, chosen, axis))

    def slice(self):
        """Elements of which every rank has the same number: chosen by indices that are a weight."""
        tensor, *rest = self.node.args
        axis, start, end, step = [*rest, *[0, None, None, 1][len(rest) :]]
        size = tensor.meta["val"].shape[axis]
        if not all(each is None or isinstance(each, int) for each in (axis, start, end, step, size)):
            self.refuse()
        indices = torch.arange(size)[start:end:step]
        self.replace(self.call(aten.index_select.default, tensor, axis, self.weight(indices)))
