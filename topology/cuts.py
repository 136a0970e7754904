"""Smallest cuts of a network, between ranks, by links or by their speed."""

import networkx as nx

from multitree.topology.arrays import Float64Array, Int32Array


def smallest_cut(links: Int32Array, capacity: Float64Array, num_ranks: int) -> float:
    """The least capacity that leads out of any set with some of the ranks but not all.

    Where capacities are the same both ways and there are no switches, the algorithm of
    Stoer and Wagner finds it. Otherwise every such set either holds rank 0 or does not, so
    it is the least of all maximal flows from rank 0 to another rank or back.

    Parameters
    ----------
    links : numpy.ndarray, int32 (num_links, 2)
        Source and destination node.
    capacity : numpy.ndarray, float64 (num_links,)
        What one link carries; parallel links add up.
    num_ranks : int
        Nodes below this are ranks, the others switches.

    Returns
    -------
    float

    Notes
    -----
    O(n m + n^2 log n) and 2 n maximal flows; deterministic.

    References
    ----------
    M. Stoer, F. Wagner, "A simple min-cut algorithm", Journal of the ACM 44 (4), 1997.

    Examples
    --------
    >>> import numpy as np
    >>> both_ways = np.array([[0, 1], [1, 0], [1, 2], [2, 1]])
    >>> smallest_cut(both_ways, np.array([3.0, 3.0, 2.0, 2.0]), 3)
    2.0
    """
    graph = nx.DiGraph()
    for (src, dst), size in zip(links.tolist(), capacity.tolist(), strict=True):
        before = graph.get_edge_data(src, dst, {"capacity": 0.0})["capacity"]
        graph.add_edge(src, dst, capacity=before + size)
    same_both_ways = all(
        graph.get_edge_data(dst, src, {"capacity": 0.0})["capacity"] == size
        for src, dst, size in graph.edges(data="capacity")
    )
    if same_both_ways and graph.number_of_nodes() == num_ranks:
        return float(nx.stoer_wagner(graph.to_undirected(), weight="capacity")[0])
    return float(
        min(
            min(nx.maximum_flow_value(graph, 0, rank), nx.maximum_flow_value(graph, rank, 0))
            for rank in range(1, num_ranks)
        )
    )
