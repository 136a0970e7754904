"""Distances in hops, and smallest cuts between ranks."""

from collections import deque

from multitree.topology.arrays import Float64Array, Int32Array, int32s

__all__ = [
    "adjacency",
    "hops_from",
    "most_hops",
    "smallest_cut",
]

Adjacency = list[list[int]]
# Each node has a set of so many bits while a search runs, 512 bytes.
SOURCES_AT_ONCE = 4096


def adjacency(sources: Int32Array, targets: Int32Array, num_nodes: int) -> Adjacency:
    """The nodes that each node's links lead to, by ascending link id."""
    neighbours: Adjacency = [[] for _ in range(num_nodes)]
    for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
        neighbours[source].append(target)
    return neighbours


def hops_from(neighbours: Adjacency, *sources: int) -> Int32Array:
    """Links on a shortest path to each node from the nearest source, int32 (num_nodes,), or -1.

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

    Ranks are the nodes below `num_ranks`. O(diameter x links x num_ranks / 64).
    """
    return max(
        _most_hops_from(
            neighbours, range(first, min(first + SOURCES_AT_ONCE, num_ranks)), num_ranks
        )
        for first in range(0, num_ranks, SOURCES_AT_ONCE)
    )


def _most_hops_from(neighbours: Adjacency, sources: range, num_ranks: int) -> int:
    # Sets of sources as bits of integers: one operation passes on what 64 searches know.
    seen = [0] * len(neighbours)
    for bit, rank in enumerate(sources):
        seen[rank] = 1 << bit
    everyone = (1 << len(sources)) - 1
    hops = 0
    while any(have != everyone for have in seen[:num_ranks]):
        # The old sets are read and new ones written: nothing goes two links in one turn.
        grown = list(seen)
        for node, reached in enumerate(neighbours):
            for neighbour in reached:
                grown[neighbour] |= seen[node]
        seen, hops = grown, hops + 1
    return hops


def smallest_cut(links: Int32Array, capacity: Float64Array, num_ranks: int) -> float:
    """The least capacity that leads out of any set with some of the ranks but not all.

    By the algorithm of Stoer and Wagner ("A simple min-cut algorithm", Journal of the ACM 44 (4),
    1997), O(n m + n^2 log n), where it applies, else by 2 n maximal flows. Capacities, float64
    (num_links,), of parallel links add up; deterministic.
    """
    import networkx as nx

    graph = nx.DiGraph()
    for (src, dst), size in zip(links.tolist(), capacity.tolist(), strict=True):
        # A DiGraph keeps one edge for each pair of nodes,
        # so capacities of parallel links are added.
        before = graph.get_edge_data(src, dst, {"capacity": 0.0})["capacity"]
        graph.add_edge(src, dst, capacity=before + size)
    # Stoer and Wagner's cut is of undirected graphs. Elsewhere each set either holds rank 0 or does
    # not, so that the least of all maximal flows from rank 0 or to it is the cut.
    same_in_both_directions = all(
        graph.get_edge_data(dst, src, {"capacity": 0.0})["capacity"] == size
        for src, dst, size in graph.edges(data="capacity")
    )
    # With switches this cut could part a switch from all ranks, which is no cut between ranks.
    if same_in_both_directions and graph.number_of_nodes() == num_ranks:
        return float(nx.stoer_wagner(graph.to_undirected(), weight="capacity")[0])
    return float(
        min(
            min(nx.maximum_flow_value(graph, 0, rank), nx.maximum_flow_value(graph, rank, 0))
            for rank in range(1, num_ranks)
        )
    )
