"""Collectives of a traced graph in the forms that have an ONNX operator.

PyTorch's in-place forms and those that write into a given output become the functional ones; the buffer's later readers read the
result. Collectives without a counterpart are reported all at once, with where they come from.
"""

import operator

import torch
import torch.distributed  # noqa: F401  defines the operators
import torch.distributed.tensor  # noqa: F401  defines _dtensor.shard_dim_alltoall

from collective_ops import NoMappingError, ranks_of, reduce_op_of, translation_table

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
    """In-place form -> (functional form, position of the buffer or name of the keyword, several tensors?)."""
    return {
        _op("all_reduce_"): (_op("all_reduce"), 0, False),
        _op("all_reduce_coalesced_"): (_op("all_reduce_coalesced"), 0, True),
        _op("broadcast_"): (_op("broadcast"), 0, False),
        _op("all_gather_into_tensor_out"): (_op("all_gather_into_tensor"), "out", False),
        _op("reduce_scatter_tensor_out"): (_op("reduce_scatter_tensor"), "out", False),
    }


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


def make_functional(graph):
    """Rewrites the collectives of an FX graph, or raises NoMappingError."""
    forms, same = _mutating_forms(), _same_forms()
    for node in list(graph.nodes):
        if not is_collective(node):
            continue
        if node.target in same:
            node.target = same[node.target]
        elif node.target in forms:
            _rewrite(graph, node, *forms[node.target])
        elif node.target is _op("_wrap_tensor_autograd"):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    known = translation_table({}, {})
    unknown = {}
    for node in graph.nodes:
        if is_collective(node) and node.target not in known:
            unknown.setdefault(str(node.target), _where(node))
    if unknown:
        lines = [f"  {name}{where}" for name, where in unknown.items()]
        raise NoMappingError("these operators have no counterpart in ai.braid:\n" + "\n".join(lines))
    for node in graph.nodes:
        if is_collective(node):
            _check_arguments(node)
    graph.lint()


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
        raise NoMappingError(f"{node.target}: {error}{_where(node)}") from error


def _rewrite(graph, node, functional, buffer, several):
    kwargs = dict(node.kwargs)
    buffers = kwargs.pop(buffer) if buffer == "out" else node.args[buffer]
    buffers = list(buffers) if several else [buffers]
    later = _nodes_after(graph, node)
    for each in buffers:
        _check_single_name(each, node, later)
    with graph.inserting_before(node):
        result = graph.call_function(functional, node.args, kwargs)
        result.meta = dict(node.meta)
        results = [result]
        if several:
            results = [graph.call_function(operator.getitem, (result, k)) for k in range(len(buffers))]
    node.replace_all_uses_with(result)
    for each, value in zip(buffers, results):
        each.replace_all_uses_with(value, delete_user_cb=later.__contains__)
    graph.erase_node(node)


def _nodes_after(graph, node):
    nodes = list(graph.nodes)
    return set(nodes[nodes.index(node) + 1 :])


def _check_single_name(buffer, node, later):
    """A view made earlier would show what the collective writes: a functional graph cannot say that."""
    if buffer.op != "call_function":
        raise NoMappingError(
            f"{node.target} writes into '{buffer.name}', an input or weight of the model{_where(node)}"
        )
    views = [user for user in buffer.users if user not in later and user is not node and _is_view(user)]
    if views or _is_view(buffer):
        raise NoMappingError(
            f"{node.target} writes into '{buffer.name}', memory that a view shares{_where(node)}: use the functional form"
        )


def _is_view(node):
    if not isinstance(node.target, torch._ops.OpOverload) or is_collective(node):
        return False
    return any(a.alias_info is not None and not a.alias_info.is_write for a in node.target._schema.returns)


def _where(node):
    trace = node.meta.get("stack_trace") or ""
    lines = [line.strip() for line in trace.splitlines() if line.strip().startswith("File ")]
    return f", from {lines[-1]}" if lines else ""
