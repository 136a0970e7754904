"""TTO: three trees of a mesh, whose reductions and gathers overlap chunk by chunk."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from multitree.topology.errors import ScheduleError
from multitree.topology.networks.cost_model import CostModel
from multitree.topology.networks.topology import Topology
from multitree.topology.packing.forest import common_root, in_waves
from multitree.topology.packing.link_pairs import Neighbours, link_pairs, neighbours_of
from multitree.topology.packing.negotiation import central_ranks
from multitree.topology.packing.tree_depth import RootedTree
from multitree.topology.packing.tree_packing import Packing, as_packing, rerooted
from multitree.topology.schedules.schedule import Schedule

__all__ = ["build_tto", "three_trees"]

LEAST_SIDE = 3


def build_tto(
    topology: Topology, *, roots: Sequence[int] | None = None, cost_model: CostModel | None = None
) -> Schedule:
    """Build Three Tree Overlap on a mesh: each of three trees has a third of the buffer, in waves.

    A tree reduces one chunk while it gathers the one before, so that a link carries two chunks in
    each direction per wave: a large buffer takes 2/3 of its own time on a link. Waves and slots are
    those of `build_forest`. The published trees are rooted at three corners, and the third never
    reaches the fourth corner, which takes no part in the training; here all ranks take part.

    S. Laskar, P. Majhi, S. Kim, F. Mahmud, A. Muzahid, E. J. Kim, "Enhancing Collective
    Communication in MCM Accelerators for Deep Learning Training", HPCA 2024.
    """
    packing = three_trees(topology)
    at = common_root(topology, "tto", roots)
    if at is not None:
        packing = rerooted(packing, at)
    return in_waves(topology, packing, "tto", cost_model)


def three_trees(topology: Topology) -> Packing:
    """Three spanning trees of a mesh that put at most two edges on each pair of links.

    The first is a column and all rows, the second a row and all columns, the third breadth first in
    what is left; docs/reference/algorithms.md draws them. The first two would fill all links of the
    rank where that column and that row cross. So the first leaves out the link to the right of it,
    and joins the rest of the row from above. On a side of 2 three trees have more edges than that,
    which is a ScheduleError.
    """
    dims = topology.dims
    if topology.family != "mesh" or len(dims) != 2 or min(dims) < LEAST_SIDE:
        raise ScheduleError(
            f"tto must have a mesh of two dimensions with sides of at least {LEAST_SIDE}, not "
            f"{topology.name!r}"
        )
    pairs = link_pairs(topology)
    joined = pairs.ends.tolist()
    pair_of = {tuple(ends): pair for pair, ends in enumerate(joined)}

    def pairs_along(ranks: Iterable[int]) -> set[int]:
        return {pair_of[pair] for pair in pairwise(ranks)}

    grid = np.arange(topology.num_ranks).reshape(dims)
    row, column = (dims[0] - 1) // 2, (dims[1] - 1) // 2
    rows = set().union(*(pairs_along(line) for line in grid.tolist()))
    columns = set().union(*(pairs_along(line) for line in grid.T.tolist()))
    gap = pairs_along(grid[row, column : column + 2].tolist())
    turn = pairs_along(grid[row - 1 : row + 1, column + 1].tolist())
    first = rows - gap | pairs_along(grid[:, column].tolist()) | turn
    second = columns | pairs_along(grid[row].tolist())
    third = _spanning(neighbours_of(pairs.ends, topology.num_ranks), first & second)
    trees = [first, second, third]
    # A pair of slower links holds a chunk for several slots.
    load = np.zeros(len(joined), np.int64)
    for tree in trees:
        load[list(tree)] += pairs.slots[list(tree)]
    rooted = [RootedTree(joined, topology.num_ranks, sorted(tree)) for tree in trees]
    return as_packing(topology, pairs, rooted, int(load.max()))


def _spanning(neighbours: Neighbours, full: set[int]) -> set[int]:
    """A tree of the pairs that are not full, breadth first from a rank in the middle."""
    free = [[(there, pair) for there, pair in around if pair not in full] for around in neighbours]
    start = central_ranks(free)[0][0]
    tree, reached, seen = set(), [start], {start}
    for rank in reached:
        for there, pair in free[rank]:
            if there not in seen:
                seen.add(there)
                tree.add(pair)
                reached.append(there)
    return tree
