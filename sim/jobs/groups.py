"""Groups of ranks on a topology, each on links of its own."""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from multitree.sim.jobs.job import DATA, TENSOR, JobError
from multitree.topology.arrays import Int32Array, Int64Array
from multitree.topology.errors import ScheduleError, TopologyError
from multitree.topology.lowering import as_sent
from multitree.topology.networks.subsets import among, links_among
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = ["GroupNetwork", "Placement", "rank_groups"]


def rank_groups(num_ranks: int, tensor_parallel: int) -> dict[str, list[range]]:
    """Ranks of every group, by kind of group.

    Ranks of a tensor-parallel group follow each other; those with equal positions in these groups
    are data-parallel. This is the order of Megatron-LM and AICB.
    """
    if tensor_parallel < 1 or num_ranks % tensor_parallel:
        raise JobError(
            f"Number of ranks must be a multiple of the {tensor_parallel} of a tensor-parallel "
            f"group, not {num_ranks}"
        )
    first = range(0, num_ranks, tensor_parallel)
    return {
        TENSOR: [range(rank, rank + tensor_parallel) for rank in first],
        DATA: [range(place, num_ranks, tensor_parallel) for place in range(tensor_parallel)],
    }


@dataclass(frozen=True, eq=False)
class GroupNetwork:
    """Network of some groups of one kind that are alike.

    `topology` has the ranks of one group, the links between them, and switches, only the group's
    own where these connect it. `groups` numbers the groups among those of their kind; `links` maps
    for each of them links of `topology` to links of the whole network.
    """

    topology: Topology
    groups: tuple[int, ...]
    links: tuple[Int32Array, ...]


class Placement:
    """Networks of a job's groups on all ranks of a topology."""

    def __init__(self, topology: Topology, tensor_parallel: int = 1) -> None:
        self.topology = topology
        self.members = rank_groups(topology.num_ranks, tensor_parallel)
        self._networks: dict[str, tuple[GroupNetwork, ...]] = {}

    def size(self, kind: str) -> int:
        """Ranks in a group of this kind."""
        return len(self.members[kind][0])

    def networks(self, kind: str) -> tuple[GroupNetwork, ...]:
        """Distinct networks of the groups of one kind; empty where a group is a single rank.

        JobError if the ranks of a group are not connected by links and switches of their own.
        """
        if kind not in self._networks:
            self._networks[kind] = self._found(kind) if self.size(kind) > 1 else ()
        return self._networks[kind]

    def _found(self, kind: str) -> tuple[GroupNetwork, ...]:
        """Networks of the groups, equal ones once."""
        # Rows of a torus, for example, are alike: they are built and timed once.
        alike: dict[tuple[object, ...], list[tuple[Topology, int, Int32Array]]] = {}
        for place, ranks in enumerate(self.members[kind]):
            try:
                network, links = _own_network(self.topology, ranks)
            except TopologyError as error:
                raise JobError(
                    f"{self.topology.name}: {kind}-parallel groups of {len(ranks)} ranks must have "
                    f"links of their own, but group {place} ({_span(ranks)}) is not connected by "
                    f"such: {error}{_sizes_that_fit(self.topology)}"
                ) from None
            alike.setdefault(_shape_of(network), []).append((network, place, links))
        return tuple(
            GroupNetwork(
                found[0][0], tuple(place for _, place, _ in found), tuple(ids for *_, ids in found)
            )
            for found in alike.values()
        )

    def used_links(
        self, kind: str, schedule_of: Callable[[GroupNetwork], Schedule]
    ) -> dict[int, Int64Array]:
        """Links of the whole network that each group's schedule uses, by group.

        ScheduleError if two groups use the same link: their mutual delays are not modelled.
        """
        used: dict[int, Int64Array] = {}
        for network in self.networks(kind):
            sent = as_sent(schedule_of(network))
            # What is added for attached routers joins a rank with its own.
            taken = np.unique(sent.route_links[sent.route_links < network.topology.num_links])
            for group, ids in zip(network.groups, network.links, strict=True):
                used[group] = ids[taken].astype(np.int64)
        self._check_apart(kind, used)
        return used

    def _check_apart(self, kind: str, used: dict[int, Int64Array]) -> None:
        links = np.concatenate([*used.values(), np.zeros(0, np.int64)])
        group = np.repeat(np.array([*used], np.int64), [len(each) for each in used.values()])
        # Equal links then stand next to each other, the groups that take them in order.
        order = np.lexsort((group, links))
        again = np.flatnonzero(np.diff(links[order]) == 0)
        if again.size:
            first, second = group[order][again[0] : again[0] + 2].tolist()
            link = int(links[order][again[0]])
            src, dst = self.topology.links[link].tolist()
            raise ScheduleError(
                f"{self.topology.name}: {kind}-parallel groups must have links of their own, but "
                f"groups {first} and {second} share link {link} ({src} -> {dst})"
            )


def _own_network(topology: Topology, ranks: range) -> tuple[Topology, Int32Array]:
    """Network of a group, and the ids of its links in the whole one."""
    network, links = among(topology, ranks), links_among(topology, ranks)
    # A group of all ranks has every switch.
    if network is topology:
        return network, links
    src, dst = topology.links.T
    to_switch = (src < topology.num_ranks) & (dst >= topology.num_ranks)
    other = np.isin(np.arange(topology.num_nodes), dst[to_switch & ~np.isin(src, ranks)])
    attached = np.isin(np.arange(topology.num_nodes), dst[to_switch])
    node = np.zeros(network.num_nodes, np.int64)
    node[network.links.ravel()] = topology.links[links].ravel()
    is_switch = np.arange(network.num_nodes) >= network.num_ranks
    # Switches of other ranks, and those that join switches only, are left to other groups.
    shared = np.flatnonzero(is_switch & (other | ~attached)[node])
    if not shared.size:
        return network, links
    # A box of GPUs has switches of its own, and others that join it with other boxes: the group is
    # timed on its own ones where these connect it.
    with suppress(TopologyError):
        own = network.without(switches=shared.tolist())
        return own, links[~np.isin(network.links, shared).any(axis=1)]
    return network, links


def _shape_of(topology: Topology) -> tuple[object, ...]:
    """Key of networks on which schedules and times are equal."""
    arrays = (
        topology.links,
        topology.link_ports,
        topology.num_ports,
        topology.bandwidth_gbytes_per_s,
        topology.latency_ns,
    )
    return topology.num_ranks, topology.family, topology.dims, *(each.tobytes() for each in arrays)


def _sizes_that_fit(topology: Topology) -> str:
    """Hint which tensor-parallel group sizes of a torus or a mesh are connected."""
    if topology.family not in ("torus", "mesh"):
        return ""
    # Ranks of a group follow each other, and those of the last dimension do, too.
    sizes = [math.prod(topology.dims[at:]) for at in range(len(topology.dims) - 1, 0, -1)]
    listed = " or ".join(map(str, sizes))
    return f"; tensor-parallel groups of {listed} ranks fill whole dimensions" if sizes else ""


def _span(ranks: range) -> str:
    shown = [str(rank) for rank in ranks[:3]]
    return f"ranks {', '.join(shown)}{', ...' if len(ranks) > len(shown) else ''}"
