"""Networks and schedules for tests: by hand, or random ones."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

from multitree import Schedule, Topology, parse_topology
from multitree.topology.files.load_save import load_file, save_schedule, save_topology
from tests.benches import bench_module

networks = bench_module("_networks")
random_topology = networks.random_topology


def named(*networks):
    """Topologies as they are, and those of specs, of which a text holds several."""
    found = []
    for network in networks:
        found += map(parse_topology, network.split()) if isinstance(network, str) else [network]
    return found


def over(*networks):
    """Mark of a test that is run on each of some topologies, told as above."""
    topologies = named(*networks)
    return pytest.mark.parametrize("topology", topologies, ids=lambda topology: topology.name)


def both_ways(name, num_ranks, num_switches, pairs, bandwidth=16.0, latency=150.0):
    """A network of a link each way between the nodes of each pair, one behind the other."""
    links = [ends for a, b in pairs for ends in ((a, b), (b, a))]
    return Topology(name, num_ranks, num_switches, links, bandwidth, latency)


def pair(bandwidth=16.0, latency=150.0):
    """Two ranks; bandwidths and latencies are of all links, or of the one from rank 0 first."""
    return both_ways("pair", 2, 0, [(0, 1)], bandwidth, latency)


def one_way_ring(num_ranks):
    """A ring whose link r leads from rank r to the next one, and none back."""
    links = [[rank, (rank + 1) % num_ranks] for rank in range(num_ranks)]
    return Topology("one way", num_ranks, 0, links, 16.0, 150.0)


def copy_of(topology, bandwidth=16.0, latency=150.0):
    """The same graph of no family, whose links are the usual ones or as fast as is said."""
    counts = topology.num_ranks, topology.num_switches
    return Topology("copy", *counts, topology.links, bandwidth, latency)


def with_links(topology, **changes):
    """The same network, all of whose links have another speed or latency."""
    links = {name: np.full(topology.num_links, value) for name, value in changes.items()}
    return replace(topology, **links)


def relabelled(topology, seed):
    """The same network with ranks and links renumbered, and no family."""
    print(f"seed {seed}")
    return networks.relabelled(np.random.default_rng(seed), topology)


def star(num_ranks, bandwidth=16.0, latency=150.0):
    """Ranks around one switch; link 2 r leads from rank r, and the next one back."""
    pairs = [(rank, num_ranks) for rank in range(num_ranks)]
    return both_ways("star", num_ranks, 1, pairs, bandwidth, latency)


def planes_of(num_ranks, num_planes):
    """Ranks with a link to each of some switches."""
    pairs = [(r, num_ranks + plane) for r in range(num_ranks) for plane in range(num_planes)]
    return both_ways("planes", num_ranks, num_planes, pairs)


def by_hand(topology, rows, collective="all_reduce", root=None, *, flow_offsets=None, **choice):
    """A schedule of rows (step, op, flow, src, dst), with equal chunks unless offsets are given."""
    if flow_offsets is None:
        flow_offsets = range(2 + max(row[2] for row in rows))
    names = {"algorithm": "by hand", "collective": collective, "root": root}
    return Schedule.from_rows(topology, **names, flow_offsets=flow_offsets, rows=rows, **choice)


def reloaded(saved, path):
    """A topology or a schedule as it comes out of a file."""
    save = save_schedule if isinstance(saved, Schedule) else save_topology
    save(saved, path)
    return load_file(path)


def rows_of(schedule, *fields):
    """Step, op, flow, src and dst of each transfer, or the fields asked for: (rows, fields)."""
    fields = fields or ("step", "op", "flow", "src", "dst")
    return np.stack([getattr(schedule, field) for field in fields], axis=1)


def random_switched_topology(seed, *, most_ranks=10, both_directions=True):
    """A random strongly connected graph of ranks and switches, where ranks may be linked too."""
    rng = np.random.default_rng(seed)
    plain = random_topology(seed, most_ranks=most_ranks, both_directions=both_directions)
    num_ranks = int(rng.integers(2, plain.num_ranks + 1))
    node = rng.permutation(plain.num_nodes)
    counts = (num_ranks, plain.num_nodes - num_ranks)
    return Topology(f"switched:{seed}", *counts, node[plain.links], 16.0, 150.0)


def topologies(*, both_directions=None, switches=False, alike=False):
    """Hypothesis strategy: such graphs, both ways and with switches as asked; None is either.

    Unless they are to be alike, links have any speed and length, and ports are apart.
    """
    ways, switched = (
        st.booleans() if asked is None else st.just(asked) for asked in (both_directions, switches)
    )
    changes = () if alike else (networks.ports_apart, networks.unequal)

    def make(seed, ways, switched):
        random = random_switched_topology if switched else random_topology
        made = random(seed, both_directions=ways)
        return networks.varied(np.random.default_rng(seed), made, changes)

    return st.builds(make, st.integers(0, 10**6), ways, switched)
