"""Networks of which some ranks take part, while others forward or are left out."""

import numpy as np

from multitree.topology.arrays import BoolArray, Int32Array, int32s
from multitree.topology.errors import TopologyError
from multitree.topology.networks.measures import adjacency, hops_from
from multitree.topology.networks.nodes import Ids, check_ids, names_at
from multitree.topology.networks.topology import Topology

__all__ = ["among", "links_among"]

MOST_SPANS = 4


def among(topology: Topology, ranks: Ids, *, forwarding: bool = False) -> Topology:
    """The network of some ranks: what a collective that only they take part in runs on.

    Parameters
    ----------
    topology : Topology
    ranks : iterable of int
        Those that take part, in any order. They are numbered anew, lowest first.
    forwarding : bool
        Whether the others still pass messages on. Then they are switches, numbered behind the
        ranks and before the switches that were there; otherwise they are left out with their links.

    Returns
    -------
    Topology
        Of no family; the same if all ranks take part. Switches that lie on no path from rank to
        rank, since they have one neighbour only or are cut off, are left out. Nodes
        have the ports, and links leave by those, that they had, as with `Topology.without`.

    Raises
    ------
    TopologyError
        If a rank is out of range, fewer than two take part, or one cannot be reached from another.

    Notes
    -----
    Where a rank only forwards, hardware has a switch in place of the rank's interface.
    O(num_links) for each turn in which some switch comes to have one neighbour only.

    Examples
    --------
    >>> from multitree.topology.families.direct import ring
    >>> trio = among(ring(6), [0, 2, 3], forwarding=True)
    >>> trio.name, trio.num_ranks, trio.num_switches, trio.links[trio.ports(0), 1].tolist()
    ('ring:6 among ranks 0, 2-3, others forwarding', 3, 3, [5, 3])
    """
    chosen = check_ids("Rank", ranks, range(topology.num_ranks))
    if len(chosen) == topology.num_ranks:
        return topology
    takes_part, kept = _nodes_among(topology, chosen, forwarding=forwarding)
    number = np.cumsum(takes_part) - 1
    number[kept & ~takes_part] = len(chosen) + np.arange((kept & ~takes_part).sum())
    left = kept[topology.links].all(axis=1)
    port_counts = np.empty(kept.sum(), np.int32)
    port_counts[number[kept]] = topology.num_ports[kept]
    nodes = np.empty(kept.sum(), np.int32)
    nodes[number[kept]] = np.flatnonzero(kept)
    return Topology(
        _name(topology.name, sorted(chosen), forwarding=forwarding),
        len(chosen),
        int(kept.sum()) - len(chosen),
        number[topology.links[left]],
        topology.bandwidth_gbytes_per_s[left],
        topology.latency_ns[left],
        source_ports=topology.link_ports[left],
        port_counts=port_counts,
        names=names_at(topology.names, nodes.tolist()),
    )


def links_among(topology: Topology, ranks: Ids, *, forwarding: bool = False) -> Int32Array:
    """The ids, in the whole network, of the links of `among(topology, ranks)`, int32."""
    chosen = check_ids("Rank", ranks, range(topology.num_ranks))
    if len(chosen) == topology.num_ranks:
        return int32s("Links", np.arange(topology.num_links))
    _, kept = _nodes_among(topology, chosen, forwarding=forwarding)
    return int32s("Links", np.flatnonzero(kept[topology.links].all(axis=1)))


def _nodes_among(
    topology: Topology, chosen: set[int], *, forwarding: bool
) -> tuple[BoolArray, BoolArray]:
    """Which nodes take part, and which are kept."""
    if len(chosen) < 2:
        raise TopologyError(f"Number of ranks that take part must be at least 2, not {len(chosen)}")
    node = np.arange(topology.num_nodes)
    takes_part = np.isin(node, list(chosen))
    stays = takes_part | (node >= topology.num_ranks) | forwarding
    kept = _connected(topology, takes_part, stays)
    return takes_part, _without_dead_ends(topology.links, takes_part, kept)


def _connected(topology: Topology, takes_part: BoolArray, there: BoolArray) -> BoolArray:
    """The nodes that the first rank reaches and that reach it, all who take part among them."""
    first = int(takes_part.argmax())
    src, dst = topology.links[there[topology.links].all(axis=1)].T
    for tails, heads in ((src, dst), (dst, src)):
        there = there & (hops_from(adjacency(tails, heads, topology.num_nodes), first) >= 0)
    lost = np.flatnonzero(takes_part & ~there)
    if lost.size:
        raise TopologyError(
            f"Rank {lost[0]} of {topology.name!r} must be connected with rank {first} over ranks "
            "that take part, and switches"
        )
    return there


def _without_dead_ends(links: Int32Array, takes_part: BoolArray, kept: BoolArray) -> BoolArray:
    """The nodes less those that only forward and have one neighbour, until there are none."""
    # Unique rows count neighbours, not links: parallel links to one neighbour still lead nowhere.
    both_directions = np.unique(np.concatenate([links, links[:, ::-1]]), axis=0)
    # Repeated, since a switch that is left out may leave another one with a single neighbour.
    while True:
        between = both_directions[kept[both_directions].all(axis=1)]
        stays = takes_part | (np.bincount(between[:, 0], minlength=len(kept)) > 1)
        if stays[kept].all():
            return kept
        kept = kept & stays


def _name(name: str, ranks: list[int], *, forwarding: bool) -> str:
    cuts = np.flatnonzero(np.diff(ranks) > 1) + 1
    spans = [
        str(span[0]) if len(span) == 1 else f"{span[0]}-{span[-1]}"
        for span in np.split(np.array(ranks), cuts)
    ]
    listed = f"ranks {', '.join(spans)}" if len(spans) <= MOST_SPANS else f"{len(ranks)} ranks"
    return f"{name} among {listed}{', others forwarding' if forwarding else ''}"
