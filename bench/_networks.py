"""Random networks, and random changes of networks, for campaigns and tests."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import networkx
import numpy as np

from multitree import Topology, TopologyError
from multitree.topology.networks.subsets import among

__all__ = [
    "MOST_PORTS",
    "Change",
    "among_some",
    "links_lost",
    "parallel",
    "ports_apart",
    "random_graph",
    "random_topology",
    "relabelled",
    "unequal",
    "varied",
]

MOST_PORTS = 4
"""Of any node, so that few interfaces are compiled."""
MOST_LATENCY_NS = 150
SPEEDS = (1.0, 1.0, 1.5, 4.0, 24.0)
"""Cycles per flit; control flits, which come every 16 cycles, queue up on the slowest."""
Change = Callable[[np.random.Generator, Topology], Topology]


def random_graph(draw: Callable[[], tuple[int, int, int]], name: str = "random") -> Topology:
    """The first graph drawn, by ranks, links and seed, that has at most four links at each rank."""
    while True:
        num_ranks, num_links, seed = draw()
        graph = networkx.gnm_random_graph(num_ranks, num_links, seed=seed)
        if networkx.is_connected(graph) and max(dict(graph.degree).values()) <= MOST_PORTS:
            return Topology.from_networkx(graph, name=name)


def random_topology(seed: int, *, most_ranks: int = 12, both_directions: bool = True) -> Topology:
    """A random strongly connected graph, with parallel links now and then."""
    rng = np.random.default_rng(seed)
    num_ranks = int(rng.integers(2, most_ranks + 1))
    rank = rng.permutation(num_ranks)
    if both_directions:
        pairs = [(rank[i], rank[rng.integers(i)]) for i in range(1, num_ranks)]
    else:
        pairs = [(rank[i - 1], rank[i]) for i in range(num_ranks)]
    for _ in range(int(rng.integers(0, 2 * num_ranks))):
        pairs.append(tuple(rng.choice(num_ranks, 2, replace=False)))
    ends = pairs + [(b, a) for a, b in pairs] if both_directions else pairs
    links = np.array(ends)[rng.permutation(len(ends))]
    return Topology(f"random:{seed}", num_ranks, 0, links, 16.0, 150.0)


def relabelled(rng: np.random.Generator, topology: Topology) -> Topology:
    """The same network, of no family, with ranks, switches and links numbered otherwise."""
    node, link = np.arange(topology.num_nodes), rng.permutation(topology.num_links)
    rng.shuffle(node[: topology.num_ranks])
    rng.shuffle(node[topology.num_ranks :])
    speeds, latencies = topology.bandwidth_gbytes_per_s, topology.latency_ns
    counts = topology.num_ranks, topology.num_switches
    ends = node[topology.links[link]]
    return Topology("relabelled", *counts, ends, speeds[link], latencies[link])


def parallel(rng: np.random.Generator, topology: Topology) -> Topology:
    """With a second pair of links beside one, where both nodes have a port left."""
    twin = int(rng.integers(topology.num_links))
    if topology.degree[topology.links[twin]].max() >= MOST_PORTS or topology.reverse[twin] < 0:
        return topology
    more = [twin, int(topology.reverse[twin])]
    return Topology(
        "parallel",
        topology.num_ranks,
        topology.num_switches,
        np.r_[topology.links, topology.links[more]],
        np.r_[topology.bandwidth_gbytes_per_s, topology.bandwidth_gbytes_per_s[more]],
        np.r_[topology.latency_ns, topology.latency_ns[more]],
    )


def ports_apart(rng: np.random.Generator, topology: Topology) -> Topology:
    """With ports between those of the links, and behind them, that have none."""
    ports = np.zeros(topology.num_links, np.int64)
    most = np.maximum(topology.degree + (topology.degree > MOST_PORTS), MOST_PORTS)
    for node in range(topology.num_nodes):
        links = np.flatnonzero(topology.links[:, 0] == node)
        ports[links] = np.sort(rng.permutation(int(most[node]))[: len(links)])
    return replace(topology, source_ports=ports, port_counts=most)


def links_lost(rng: np.random.Generator, topology: Topology) -> Topology:
    """Without one or two links and their reverses, where the rest is connected."""
    lost = rng.integers(topology.num_links, size=int(rng.integers(1, 3))).tolist()
    with suppress(TopologyError):
        return topology.without(links=lost)
    return topology


def among_some(
    rng: np.random.Generator, topology: Topology, *, forwarding: bool = False
) -> Topology:
    """Of some ranks only, where they are connected; the others forward, or are left out."""
    number = int(rng.integers(2, topology.num_ranks + 1))
    with suppress(TopologyError):
        chosen = rng.permutation(topology.num_ranks)[:number].tolist()
        return among(topology, chosen, forwarding=forwarding)
    return topology


def unequal(rng: np.random.Generator, topology: Topology) -> Topology:
    """The same network with links of any length, and pairs of any speed."""
    speed = 16.0 / rng.choice(SPEEDS, topology.num_links)
    return replace(
        topology,
        bandwidth_gbytes_per_s=speed,
        latency_ns=rng.integers(1, MOST_LATENCY_NS, topology.num_links).astype(float),
    )


CHANGES: tuple[Change, ...] = (
    *(parallel, relabelled, links_lost, among_some, ports_apart, unequal),
)
"""On private links."""
SHARED_CHANGES: tuple[Change, ...] = (
    *(parallel, relabelled, links_lost, partial(among_some, forwarding=True), unequal),
)
"""Where some nodes forward."""


def varied(
    rng: np.random.Generator, topology: Topology, changes: Sequence[Change] = CHANGES
) -> Topology:
    """The network after some of the changes, in their order, each with even chances."""
    for change in changes:
        if rng.integers(2):
            topology = change(rng, topology)
    return topology
