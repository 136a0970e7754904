"""Whether a graph is a product of cycles, and where each rank lies in it."""

from collections import deque
from math import prod

import numpy as np

from multitree.topology.arrays import Int32Array, int32s
from multitree.topology.topology import Topology

__all__ = ["cycles_of"]

Neighbours = list[set[int]]


def cycles_of(topology: Topology) -> tuple[tuple[int, ...], Int32Array] | None:
    """Number the ranks of a torus, ring, hypercube or fully connected network that has no name.

    In a product of cycles two neighbours of a rank close a square with it exactly if they lie
    along different cycles, so that one rank's links tell the cycles apart; squares carry that on
    to the other ranks. A cycle of four is two of two.

    Parameters
    ----------
    topology : Topology

    Returns
    -------
    sizes : tuple of int
        Of the cycles; all ranks in one where each is a neighbour of each.
    element : numpy.ndarray, int32 (num_ranks,)
        Each rank's place in the product, in mixed radix. None if there is no such product.

    Notes
    -----
    O(num_links x degree). The rank numbered 0 is element 0; which cycle is the first goes by the
    numbers of its neighbours. Only a necessary condition is looked at along the way: whether all
    links lead where they should is for the caller to check.

    References
    ----------
    .. [1] W. Imrich, I. Peterin, "Recognizing Cartesian products in linear time", Discrete
       Mathematics 307, 2007.

    Examples
    --------
    >>> import networkx
    >>> sizes, element = cycles_of(Topology.from_networkx(networkx.hypercube_graph(3)))
    >>> sizes, element.tolist()
    ((2, 2, 2), [0, 4, 2, 6, 1, 5, 3, 7])
    >>> cycles_of(Topology.from_networkx(networkx.petersen_graph())) is None
    True
    """
    if topology.num_switches:
        return None
    neighbours: Neighbours = [set() for _ in range(topology.num_ranks)]
    for src, dst in topology.links.tolist():
        neighbours[src].add(dst)
    degree = len(neighbours[0])
    if any(len(others) != degree for others in neighbours):
        return None
    if degree == topology.num_ranks - 1:
        return (topology.num_ranks,), int32s("Elements", np.arange(topology.num_ranks))
    axes = _axes(neighbours)
    moves = None if axes is None else _carried_on(neighbours, axes)
    if axes is None or moves is None:
        return None
    return _placed(moves, axes)


def _axes(neighbours: Neighbours) -> list[list[int]] | None:
    """Rank 0's neighbours along each cycle, one or two; None if they are not so."""
    axes: list[list[int]] = []
    for rank in sorted(neighbours[0]):
        own = []
        for axis in axes:
            squares = len((neighbours[rank] & neighbours[axis[0]]) - {0})
            if axis[0] in neighbours[rank] or squares == 0:
                own.append(axis)
            elif squares != 1:
                return None
        if len(own) > 1 or (own and len(own[0]) == 2):
            return None
        if own:
            own[0].append(rank)
        else:
            axes.append([rank])
    return axes


def _carried_on(neighbours: Neighbours, axes: list[list[int]]) -> list[list[int]] | None:
    """The neighbour of each rank in each direction, the directions of axis after axis."""
    axis_of = [axis for axis, ends in enumerate(axes) for _ in ends]
    back = [place for axis in axes for place in _opposite(axes.index(axis), axes)]
    moves: list[list[int]] = [[] for _ in neighbours]
    moves[0] = [rank for axis in axes for rank in axis]
    queue = deque([0])
    while queue:
        rank = queue.popleft()
        for direction, other in enumerate(moves[rank]):
            if moves[other]:
                continue
            own = _moved(neighbours, moves[rank], direction, axis_of, (rank, back[direction]))
            if own is None:
                return None
            moves[other] = own
            queue.append(other)
    return moves


def _opposite(axis: int, axes: list[list[int]]) -> list[int]:
    """Directions the other way for those of an axis; one of a cycle of two is its own."""
    first = sum(len(ends) for ends in axes[:axis])
    return [first] if len(axes[axis]) == 1 else [first + 1, first]


def _moved(
    neighbours: Neighbours,
    moves: list[int],
    direction: int,
    axis_of: list[int],
    came: tuple[int, int],
) -> list[int] | None:
    """Directions at the neighbour in one direction of a rank: squares tell, and what is left."""
    rank, back = came
    other = moves[direction]
    own = [-1] * len(moves)
    own[back] = rank
    for across, corner in enumerate(moves):
        if axis_of[across] != axis_of[direction]:
            shared = (neighbours[other] & neighbours[corner]) - {rank}
            if len(shared) != 1:
                return None
            (own[across],) = shared
    left = neighbours[other] - set(own)
    if own.count(-1) != len(left) or len(left) > 1:
        return None
    if left:
        own[own.index(-1)] = left.pop()
    return own


def _placed(
    moves: list[list[int]], axes: list[list[int]]
) -> tuple[tuple[int, ...], Int32Array] | None:
    """Sizes of the cycles and each rank's element, by walking along each cycle in turn."""
    element = [-1] * len(moves)
    element[0] = 0
    reached, sizes, first = [0], [], 0
    for axis in axes:
        line, rank = [0], moves[0][first]
        while rank != 0 and len(line) <= len(moves):
            line.append(rank)
            rank = moves[rank][first]
        sizes.append(len(line))
        if prod(sizes) > len(moves):
            return None
        whole = []
        for start in reached:
            rank, at = start, element[start] * len(line)
            for place in range(len(line)):
                element[rank] = at + place
                whole.append(rank)
                rank = moves[rank][first]
        reached, first = whole, first + len(axis)
    if sorted(element) != list(range(len(moves))):
        return None
    return tuple(sizes), int32s("Elements", element)
