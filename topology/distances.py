"""Distances in hops, by breadth-first search."""

from collections import deque

from multitree.topology.arrays import Int32Array, int32s

Adjacency = list[list[int]]
SOURCES_AT_ONCE = 4096


def adjacency(sources: Int32Array, targets: Int32Array, num_nodes: int) -> Adjacency:
    """The nodes that each node's links lead to, by ascending link id.

    Parameters
    ----------
    sources, targets : numpy.ndarray, int32 (num_links,)
    num_nodes : int

    Returns
    -------
    list of list of int
    """
    neighbours: Adjacency = [[] for _ in range(num_nodes)]
    for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
        neighbours[source].append(target)
    return neighbours


def hops_from(neighbours: Adjacency, *sources: int) -> Int32Array:
    """Links on a shortest path to each node from the nearest source.

    Parameters
    ----------
    neighbours : list of list of int
    *sources : int

    Returns
    -------
    numpy.ndarray, int32 (num_nodes,)
        -1 where no path leads.

    Examples
    --------
    >>> hops_from([[1], [2], [], [0]], 0).tolist()
    [0, 1, 2, -1]
    """
    distance = [-1] * len(neighbours)
    for source in sources:
        distance[source] = 0
    queue = deque(sources)
    while queue:
        node = queue.popleft()
        for neighbour in neighbours[node]:
            if distance[neighbour] < 0:
                distance[neighbour] = distance[node] + 1
                queue.append(neighbour)
    return int32s("Distances", distance)


def most_hops(neighbours: Adjacency, num_ranks: int) -> int:
    """The most links on any shortest path from rank to rank, in a strongly connected graph.

    Parameters
    ----------
    neighbours : list of list of int
    num_ranks : int
        Nodes below this are ranks.

    Returns
    -------
    int

    Notes
    -----
    Searches from some thousand ranks at once, on sets of bits: O(diameter x links x
    num_ranks / 64).

    Examples
    --------
    >>> most_hops([[1], [2], [0]], 3)
    2
    """
    return max(
        _most_hops_from(
            neighbours, range(first, min(first + SOURCES_AT_ONCE, num_ranks)), num_ranks
        )
        for first in range(0, num_ranks, SOURCES_AT_ONCE)
    )


def _most_hops_from(neighbours: Adjacency, sources: range, num_ranks: int) -> int:
    seen = [0] * len(neighbours)
    for bit, rank in enumerate(sources):
        seen[rank] = 1 << bit
    everyone = (1 << len(sources)) - 1
    hops = 0
    while any(have != everyone for have in seen[:num_ranks]):
        grown = list(seen)
        for node, reached in enumerate(neighbours):
            for neighbour in reached:
                grown[neighbour] |= seen[node]
        seen, hops = grown, hops + 1
    return hops
