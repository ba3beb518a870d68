"""Along an axis of a mesh each rank has a group of its own, under a name of its own: all ranks' groups put together."""

from collective_ops import name_of_group, ranks_of
from functional_graph import is_collective
from rank_constants import RanksDifferError, everybodys, together


def group_of(node):
    """The group argument of a collective, None of other nodes and of waits."""
    if not is_collective(node):
        return None
    at = [k for k, argument in enumerate(node.target._schema.arguments) if argument.name == "group_name"]
    return node.args[at[0]] if at else None


def parts_of_groups(graph):
    """Name of each group that the graph uses -> the ranks of all ranks' groups there, as lists of equal length.

    All ranks call it together, with graphs that have the same nodes. Raises RanksDifferError unless the groups are disjoint.
    """
    groups = [(node, group_of(node)) for node in graph.nodes]
    groups = [(node, group) for node, group in groups if group is not None]
    everybody = everybodys([ranks_of(group) for _, group in groups])
    return together(lambda: _put_together(groups, everybody))


def _put_together(groups, everybody):
    parts = {}
    for at, (node, group) in enumerate(groups):
        lists = [each[at] for each in everybody]
        found = sorted({tuple(ranks) for ranks in lists})
        listed = [rank for part in found for rank in part]
        own = all(rank in ranks for rank, ranks in enumerate(lists))
        if not own or len(set(listed)) != len(listed) or len({len(part) for part in found}) != 1:
            raise RanksDifferError(
                f"{node.target}: the ranks' groups are not disjoint groups of one size: "
                + "; ".join(f"rank {rank}: {ranks}" for rank, ranks in enumerate(lists))
            )
        if parts.setdefault(name_of_group(group), found) != found:
            raise RanksDifferError(
                f"{node.target}: this rank has the same group here and before, {list(lists[0])}, other ranks have not"
            )
    return parts
