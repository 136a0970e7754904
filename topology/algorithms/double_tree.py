"""Two binary trees, in which who has children in one is a leaf of the other."""

from collections.abc import Sequence

import numpy as np

from multitree.topology.algorithms.halving_doubling import with_gather
from multitree.topology.algorithms.rings import ring_order
from multitree.topology.arrays import Int32Array, Int64Array, int32s
from multitree.topology.collectives import Op, chosen_roots
from multitree.topology.errors import ScheduleError
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule


def build_double_tree(
    topology: Topology, *, roots: Sequence[int] | None = None, num_chunks: int | None = None
) -> Schedule:
    """Build the all-reduce of a double binary tree, pipelined in `num_chunks` chunks of each half.

    Each half of the buffer has a binary tree below the root, rank 0 when left out. A rank with
    children in one tree is a leaf of the other, so both together keep every rank sending and
    receiving. All-gather is the same backwards, but that what was summed first is spread first. A
    chunk takes two steps, c chunks S(c) = S(1) + 2(c-1) per phase, S(1) about 2 log2(N). Neighbours
    in a tree need not be near on the topology: on their routes they contend.
    P. Sanders, J. Speck, J. L. Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction
    and scan", Parallel Computing 35 (12), 2009; S. Jeaugey on NCCL 2.4, NVIDIA, 2019.
    """
    num_ranks = topology.num_ranks
    chosen = chosen_roots([0] if roots is None else roots, num_ranks)
    order = np.array(ring_order(topology)) if topology.num_switches else np.arange(num_ranks)
    length = max(num_ranks // 2, 1) if num_chunks is None else num_chunks
    if length < 1:
        raise ScheduleError(f"Number of chunks must be at least 1, not {num_chunks!r}")
    return Schedule.from_rows(
        topology,
        algorithm="double_tree",
        collective="all_reduce",
        flow_offsets=np.arange(2 * length * len(chosen) + 1),
        rows=_with_results(_below_each(chosen, _sums(two_trees(num_ranks), length), order), length),
    )


def _with_results(sums: Int32Array, num_chunks: int) -> Int32Array:
    """Rows of both phases: the second backwards, with the chunks of a tree in the same order."""
    rows = with_gather(sums).copy()
    results = rows[:, 1] == Op.GATHER
    tree, chunk = np.divmod(rows[results, 2], num_chunks)
    rows[results, 2] = tree * num_chunks + num_chunks - 1 - chunk
    return rows


def _below_each(roots: Sequence[int], sums: Int32Array, order: Int64Array) -> Int32Array:
    """REDUCE rows between places below place 0, turned to each root, which take turns."""
    place = np.argsort(order)
    num_flows = int(sums[:, 2].max()) + 1
    rows = []
    for index, root in enumerate(roots):
        step, op, flow, *ends = sums.T
        src, dst = (order[(end + place[root]) % len(order)] for end in ends)
        turned = (step * len(roots) + index, op, flow + num_flows * index, src, dst)
        rows.append(np.stack(turned, axis=1))
    return int32s("Rows", np.concatenate(rows))


def two_trees(num_ranks: int) -> Int64Array:
    """The parent of each rank in two binary trees below rank 0, int64 (2, num_ranks); 0 for rank 0.

    The first numbers its ranks in order: odd ranks are leaves. The second is its mirror image,
    or the same shifted by one, whichever makes the even ones leaves.
    """
    rank = np.arange(1, num_ranks)
    # The binary tree in order, as in NCCL: a parent's lowest set bit is the next higher one.
    lowest = rank & -rank
    above = (rank ^ lowest) | (lowest << 1)
    first = np.r_[0, np.where(above < num_ranks, above, rank ^ lowest)]
    other = np.r_[0, num_ranks - rank if num_ranks % 2 else rank % (num_ranks - 1) + 1]
    second = np.zeros(num_ranks, np.int64)
    second[other] = other[first]
    return np.stack([first, second])


def _sums(parents: Int64Array, num_chunks: int) -> Int32Array:
    """REDUCE rows of all chunks: flow t * num_chunks + c is chunk c of tree t."""
    num_ranks = parents.shape[1]
    colour = _colours(parents)
    rows = []
    for tree, parent in enumerate(parents.tolist()):
        step = [-1] * num_ranks
        for child in _leaves_first(parent):
            # Its first step of the right parity; by then step[child] is its last child's.
            step[child] += 1 + (step[child] + 1 + colour[tree, child]) % 2
            step[parent[child]] = max(step[parent[child]], step[child])
        # A rank sends in steps of one parity for each tree, so chunks follow two steps apart.
        for chunk in range(num_chunks):
            rows += [
                (step[child] + 2 * chunk, Op.REDUCE, tree * num_chunks + chunk, child, above)
                for child, above in enumerate(parent)
                if child
            ]
    return int32s("Rows", rows)


def _leaves_first(parent: Sequence[int]) -> list[int]:
    """All ranks but 0, each before its parent."""
    depth = [0] * len(parent)
    for child in range(1, len(parent)):
        above = child
        while above:
            above, depth[child] = parent[above], depth[child] + 1
    return sorted(range(1, len(parent)), key=lambda child: (-depth[child], child))


def _colours(parents: Int64Array) -> dict[tuple[int, int], int]:
    """For each edge (tree, child) the parity of the steps in which it is used.

    No rank sends to two parents or receives from two children in steps of one parity. There is
    such a colouring, since at most two edges meet at a sender and at a receiver.
    """
    import networkx as nx

    graph = nx.Graph()
    edges = [(tree, child) for child in range(1, parents.shape[1]) for tree in (0, 1)]
    graph.add_nodes_from(edges)
    # Edges of a bipartite graph of degree 2 have a colouring with two colours (König).
    graph.add_edges_from(((0, child), (1, child)) for child in range(1, parents.shape[1]))
    received: dict[int, tuple[int, int]] = {}
    # A rank has at most two children in both trees
    # together: inner nodes of one are leaves of the other.
    for edge in edges:
        parent = int(parents[edge])
        if parent in received:
            graph.add_edge(received[parent], edge)
        received[parent] = edge
    colours: dict[tuple[int, int], int] = nx.bipartite.color(graph)
    return colours
