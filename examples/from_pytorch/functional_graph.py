"""Collectives of a traced graph in the forms that have an ONNX operator.

PyTorch's in-place forms and those that write into a given output become the functional ones (memory.py). Collectives without a
counterpart are reported all at once.
"""

import torch
import torch.distributed  # noqa: F401  defines the operators
import torch.distributed.tensor  # noqa: F401  defines _dtensor.shard_dim_alltoall

from collective_ops import NoMappingError, ranks_of, reduce_op_of, translation_table
from memory import Memory, WithoutWrites, written_by

COLLECTIVE_NAMESPACES = (
    "_c10d_functional",
    "_c10d_functional_autograd",
    "_dtensor",
    "c10d",
    "symm_mem",
    "braid",
)


def _op(name, namespace="_c10d_functional"):
    return getattr(getattr(torch.ops, namespace), name).default


def _mutating_forms():
    """In-place form -> functional form."""
    forms = {name + "_": name for name in ("all_reduce", "all_reduce_coalesced", "broadcast")}
    forms |= {name + "_out": name for name in ("all_gather_into_tensor", "reduce_scatter_tensor")}
    return {_op(name): _op(functional) for name, functional in forms.items()}


def _same_forms():
    """Forms that differ in the backward pass only."""
    names = ("all_to_all_single", "reduce_scatter_tensor", "all_gather_into_tensor")
    return {_op(name, "_c10d_functional_autograd"): _op(name) for name in names}


def is_collective(node):
    """Whether a node of a graph communicates, or waits for that."""
    return (
        node.op == "call_function"
        and isinstance(node.target, torch._ops.OpOverload)
        and node.target.namespace in COLLECTIVE_NAMESPACES
    )


def is_wait(node):
    return node.target is _op("wait_tensor")


def returns_what_it_is_given(node):
    """Pairs of an argument and the example value of a result that is the same memory."""
    results = node.meta.get("val")
    results = results if isinstance(results, (list, tuple)) else [results]
    if is_wait(node):
        return zip(node.args[:1], results)
    return zip(written_by(node), results) if node.target in _mutating_forms() else ()


def memory_of(graph):
    return Memory(graph, returns_what_it_is_given)


def make_functional(graph):
    """Rewrites the collectives of an FX graph, or raises NoMappingError."""
    forms, same = _mutating_forms(), _same_forms()
    for node in list(graph.nodes):
        if node.target in same:
            node.target = same[node.target]
        elif node.target is _op("_wrap_tensor_autograd"):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
        elif node.target is _op("wait_tensors"):
            _wait_one_by_one(graph, node)

    def functional_form(node):
        kwargs = {name: value for name, value in node.kwargs.items() if name != "out"}
        return (forms[node.target], node.args, kwargs) if node.target in forms else None

    def refuse(node, words):
        raise NoMappingError(
            f"{getattr(node.target, 'name', lambda: node.op)()} {words}: use functional forms"
        )

    WithoutWrites(graph, memory_of(graph), is_wait, functional_form, refuse).rewrite()
    known = translation_table({}, {})
    unknown = sorted(
        {str(node.target) for node in graph.nodes if is_collective(node) and node.target not in known}
    )
    if unknown:
        hint = "\nuse torch.distributed._functional_collectives instead of torch.distributed's own functions"
        lines = "".join(f"\n  {name}" for name in unknown)
        raise NoMappingError(
            f"these operators have no counterpart in ai.braid:{lines}{hint if '  c10d.' in lines else ''}"
        )
    for node in graph.nodes:
        if is_collective(node):
            _check_arguments(node)
    graph.lint()


def _wait_one_by_one(graph, node):
    for user in list(node.users):
        given = node.args[0][user.args[1]]
        with graph.inserting_before(user):
            wait = graph.call_function(_op("wait_tensor"), (given,))
        wait.meta = dict(user.meta)
        user.replace_all_uses_with(wait)
        graph.erase_node(user)
    graph.erase_node(node)


def _check_arguments(node):
    """Reduction and group of a collective; here, because the exporter would wrap the error in one of its own."""
    given = {argument.name: value for argument, value in zip(node.target._schema.arguments, node.args)}
    try:
        if "reduce_op" in given:
            reduce_op_of(given["reduce_op"])
        if "group_name" in given:
            ranks = ranks_of(given["group_name"])
            if given.get("group_size", len(ranks)) != len(ranks):
                raise NoMappingError(f"the group has {len(ranks)} ranks, the call says {given['group_size']}")
    except NoMappingError as error:
        raise NoMappingError(f"{node.target}: {error}") from error
