"""All-gathers and reduce-scatters along another axis than the first.

PyTorch's operators know axis 0 only; what surrounds them moves the data:

    all_gather_into_tensor, wait, split along 0 into as many parts as there are ranks, cat along k     = AllGather, axis k
    split along k into as many parts as there are ranks, cat along 0, reduce_scatter_tensor            = ReduceScatter, axis k

ONNX's operators of ai.braid have an axis, so both become one node, of the operators that are defined here.
"""

import operator

import torch

aten = torch.ops.aten


@torch.library.custom_op("braid::all_gather", mutates_args=())
def all_gather(tensor: torch.Tensor, axis: int, group_size: int, group_name: str) -> torch.Tensor:
    """What PyTorch makes of an all-gather along `axis`; for tracing only."""
    raise NotImplementedError("only traced, never run")


@all_gather.register_fake
def _(tensor, axis, group_size, group_name):
    sizes = list(tensor.shape)
    sizes[axis] = sizes[axis] * group_size
    return tensor.new_empty(sizes)


@torch.library.custom_op("braid::reduce_scatter", mutates_args=())
def reduce_scatter(
    tensor: torch.Tensor, axis: int, reduce_op: str, group_size: int, group_name: str
) -> torch.Tensor:
    """What PyTorch makes of a reduce-scatter along `axis`; for tracing only."""
    raise NotImplementedError("only traced, never run")


@reduce_scatter.register_fake
def _(tensor, axis, reduce_op, group_size, group_name):
    sizes = list(tensor.shape)
    sizes[axis] = sizes[axis] // group_size
    return tensor.new_empty(sizes)


def merge_axes(graph):
    """Replaces both patterns in an FX graph; whatever does not match exactly stays as it is."""
    functional = torch.ops._c10d_functional
    for node in list(graph.nodes):
        if node.target is functional.all_gather_into_tensor.default:
            _merge_all_gather(graph, node)
        elif node.target is functional.reduce_scatter_tensor.default:
            _merge_reduce_scatter(graph, node)
    graph.eliminate_dead_code()


def _tensors_of(node):
    """Users that read the contents, not just a size."""
    return [user for user in node.users if user.target is not aten.sym_size.int]


def _only_user(node, target):
    users = _tensors_of(node)
    return users[0] if len(users) == 1 and users[0].target is target else None


def _axis(node, at, keyword="dim"):
    axis = node.args[at] if len(node.args) > at else node.kwargs.get(keyword, 0)
    return axis % node.args[0].meta["val"].dim() if isinstance(node.args[0], torch.fx.Node) else axis


def _concatenated_parts(split, parts):
    """The `cat` of all `parts` of a split, in order, that nothing else reads; else None."""
    items = sorted((user for user in split.users), key=lambda user: user.args[1])
    if [item.args[1] for item in items] != list(range(parts)):
        return None
    if any(item.target is not operator.getitem for item in items):
        return None
    cats = {user for item in items for user in item.users}
    cat = cats.pop() if len(cats) == 1 else None
    return cat if cat is not None and cat.target is aten.cat.default and list(cat.args[0]) == items else None


def _cat_axis(cat):
    axis = cat.args[1] if len(cat.args) > 1 else cat.kwargs.get("dim", 0)
    return axis % cat.meta["val"].dim()


def _equal_parts(split, parts):
    """Whether all results of a split are equally long."""
    axis = _axis(split, 2)
    sizes = {str(part.shape[axis]) for part in split.meta["val"]}
    return len(split.meta["val"]) == parts and len(sizes) == 1


def _merge_all_gather(graph, node):
    tensor, parts, group = node.args
    wait = _only_user(node, torch.ops._c10d_functional.wait_tensor.default)
    split = wait and _only_user(wait, aten.split.Tensor)
    if not split or _axis(split, 2) != 0 or not _equal_parts(split, parts):
        return
    cat = _concatenated_parts(split, parts)
    if cat is None or _cat_axis(cat) == 0:
        return
    with graph.inserting_before(node):
        merged = graph.call_function(
            torch.ops.braid.all_gather.default, (tensor, _cat_axis(cat), parts, str(group))
        )
        waited = graph.call_function(torch.ops._c10d_functional.wait_tensor.default, (merged,))
    merged.meta, waited.meta = dict(cat.meta), dict(cat.meta)
    cat.replace_all_uses_with(waited)


def _merge_reduce_scatter(graph, node):
    cat, reduce_op, parts, group = node.args
    if cat.target is not aten.cat.default or _cat_axis(cat) != 0 or len(cat.users) != 1:
        return
    split = cat.args[0][0].args[0] if cat.args[0][0].target is operator.getitem else None
    if split is None or split.target is not aten.split.Tensor or not _equal_parts(split, parts):
        return
    axis = _axis(split, 2)
    if _concatenated_parts(split, parts) is not cat or axis == 0:
        return
    with graph.inserting_before(node):
        merged = graph.call_function(
            torch.ops.braid.reduce_scatter.default, (split.args[0], axis, reduce_op, parts, str(group))
        )
    merged.meta = dict(node.meta)
    node.replace_all_uses_with(merged)
