"""How all ranks split in uneven all-to-alls: ai.braid.AllToAll wants the whole matrix on every rank."""

import torch

from collective_ops import NoMappingError, name_of_group, ranks_of, split_key
from rank_constants import everybodys, together


def exchange_splits(graph, parts):
    """split_key of each uneven all-to-all of the graph -> how many rows each member of the group sends to each, row after row.

    `parts`: of the groups (rank_groups.py). All ranks call it together; what is refused is refused on all of them.
    """
    target = torch.ops._c10d_functional.all_to_all_single.default
    nodes = [node for node in graph.nodes if node.op == "call_function" and node.target is target]
    everybody = everybodys([_splits(node) for node in nodes])
    return together(lambda: _matrices(nodes, everybody, parts))


def _splits(node):
    """What this rank sends to each member and receives of each, as numbers; None where all are equal and not known."""
    tensor, out, into, group = node.args
    ranks = len(ranks_of(group))
    result = []
    for sizes, rows in ((into, tensor.meta["val"].shape[0]), (out, node.meta["val"].shape[0])):
        sizes = list(sizes or ())
        if not sizes and isinstance(rows, int):
            sizes = [rows // ranks] * ranks
        if all(isinstance(size, int) for size in sizes):
            result.append(sizes or None)
        else:
            result.append(None if len({id(size) for size in sizes}) == 1 else "unknown")
    return result


def _matrices(nodes, everybody, parts):
    matrices = {}
    for at, node in enumerate(nodes):
        _, out, into, group = node.args
        key = split_key(into, out, group)
        every = [_matrix([everybody[rank][at] for rank in part]) for part in parts[name_of_group(group)]]
        if any(matrix != every[0] for matrix in every):
            raise NoMappingError(
                f"all_to_all_single: groups of one collective split in different ways: {every}"
            )
        if matrices.setdefault(key, every[0]) != every[0]:
            raise NoMappingError(
                "all_to_all_single: this rank splits equally in two places, other ranks do not"
            )
    return {key: matrix for key, matrix in matrices.items() if matrix is not None}


def _matrix(splits):
    """Rows and columns of a group's members as one list; None where all send and receive the same number."""
    rows, columns = [list(each) for each in zip(*splits)]
    if all(each is None for each in rows + columns):
        return None
    if any(not isinstance(each, list) for each in rows + columns):
        raise NoMappingError(
            "all_to_all_single: uneven splits whose sizes are known at run time only; the attribute 'split_sizes' of "
            "ai.braid.AllToAll wants numbers"
        )
    if [list(column) for column in zip(*rows)] != columns:
        raise NoMappingError(
            f"all_to_all_single: what ranks send, {rows}, is not what they expect, {columns}"
        )
    if any(len({sum(sizes) for sizes in each}) > 1 for each in (rows, columns)):
        raise NoMappingError(
            f"all_to_all_single: rows sent from each rank to each, {rows}: all ranks run one graph, so all must send "
            "the same number of rows, and all must receive the same number"
        )
    flat = [size for row in rows for size in row]
    return None if len(set(flat)) == 1 else flat
