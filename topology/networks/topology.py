"""An interconnect: ranks, switches and the directed links between them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from multitree.topology.arrays import Float64Array, Int32Array, int32s, positions_in_group
from multitree.topology.errors import TopologyError
from multitree.topology.file_io import naming
from multitree.topology.networks.graphs import GraphKeys, NumberedGraph, as_networkx, from_networkx
from multitree.topology.networks.measures import (
    Adjacency,
    adjacency,
    hops_from,
    most_hops,
    smallest_cut,
)
from multitree.topology.networks.nodes import (
    Ids,
    check_connected,
    check_counts,
    check_ids,
    checked_links,
    checked_names,
    checked_port_counts,
    checked_source_ports,
    degraded_links,
    degraded_name,
    label_of,
    names_at,
    ports_in_order,
    ports_in_use,
    positive_numbers,
)


# Compared and hashed by identity (eq=False), so that caches may be keyed by topologies.
@dataclass(frozen=True, eq=False)
class Topology:
    """A network of ranks `0..num_ranks-1`, then switches, joined by directed links.

    The row number of a link is its id. Parallel links are repeated rows.

    Parameters
    ----------
    name : str
        What messages call it; for a family the spec that `parse_topology` reads.
    num_ranks : int
        Endpoints, 2 to 65 536.
    num_switches : int
        Routers without a rank.
    links : array_like, int (num_links, 2)
        Source and destination node of each link.
    bandwidth_gbytes_per_s, latency_ns : array_like, float (num_links,)
        Speed and delay of each link; one number stands for all links.
    family : str
        The name of a `Family` whose builder made it: "ring", "torus" and so on. Closed forms rest
        on it. Otherwise "custom".
    dims : tuple of int
        The sizes of a family's dimensions.
    source_ports : array_like, int (num_links,), optional
        The port by which each link leaves its node, ascending with the ids of its links. By
        default port p is the p-th; where links were lost, those left stay where they are.
    port_counts : array_like, int (num_nodes,), optional
        The ports of each node, by default those up to the last by which a link leaves.
    names : sequence of str, optional
        What users call each node, all different. They change nothing that is done.

    Raises
    ------
    TypeError
        If links or ports are no integers.
    TopologyError
        If an id is out of range, a link is a self loop, a number is not positive and finite,
        names do not fit, or some node cannot be reached from every other.

    Examples
    --------
    >>> pair = Topology("pair", 2, 0, [[0, 1], [1, 0]], 16.0, 150.0)
    >>> pair.num_links, pair.reverse.tolist(), pair.diameter
    (2, [1, 0], 1)
    """

    name: str
    num_ranks: int
    num_switches: int
    links: Int32Array
    bandwidth_gbytes_per_s: Float64Array
    latency_ns: Float64Array
    family: str = "custom"
    dims: tuple[int, ...] = ()
    source_ports: Int32Array | None = None
    port_counts: Int32Array | None = None
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_counts(self.num_ranks, self.num_switches)
        links = checked_links(self.links, self.num_nodes)
        object.__setattr__(self, "links", links)
        object.__setattr__(self, "dims", tuple(self.dims))
        object.__setattr__(self, "source_ports", checked_source_ports(self.source_ports, links))
        for field in ("bandwidth_gbytes_per_s", "latency_ns"):
            object.__setattr__(
                self, field, positive_numbers(field, getattr(self, field), len(links))
            )
        counts = checked_port_counts(self.port_counts, self._ports_in_use)
        object.__setattr__(self, "port_counts", counts)
        object.__setattr__(self, "names", checked_names(self.names, self.num_nodes))
        check_connected(self.name, links, self.num_nodes, self.label)

    @property
    def num_links(self) -> int:
        """Number of directed links."""
        return len(self.links)

    @property
    def num_nodes(self) -> int:
        """Ranks and switches together."""
        return self.num_ranks + self.num_switches

    def label(self, node: int) -> str:
        """A node for people: its number, with its name behind it where it has one."""
        return label_of(self.names, node)

    @cached_property
    def degree(self) -> Int32Array:
        """Outgoing links of each node, int32 (num_nodes,)."""
        return int32s("Degree", np.bincount(self.links[:, 0], minlength=self.num_nodes))

    @cached_property
    def in_degree(self) -> Int32Array:
        """Incoming links of each node, int32 (num_nodes,)."""
        return int32s("Degree", np.bincount(self.links[:, 1], minlength=self.num_nodes))

    @cached_property
    def link_ports(self) -> Int32Array:
        """The port by which each link leaves its node, int32 (num_links,)."""
        return ports_in_order(self.links) if self.source_ports is None else self.source_ports

    @cached_property
    def num_ports(self) -> Int32Array:
        """Ports of each node, with a link or not, int32 (num_nodes,)."""
        return self._ports_in_use if self.port_counts is None else self.port_counts

    @cached_property
    def _ports_in_use(self) -> Int32Array:
        return ports_in_use(self.links, self.link_ports, self.num_nodes)

    @property
    def least_degree(self) -> int:
        """The fewest links that enter, or that leave, any one rank."""
        both = np.minimum(self.degree, self.in_degree)
        return int(both[: self.num_ranks].min())

    @cached_property
    def reverse(self) -> Int32Array:
        """Id of each link's reverse, int32 (num_links,); -1 where there is none.

        The k-th of several parallel links pairs with the k-th in the opposite direction.
        """
        src, dst = self.links.astype(np.int64).T
        position = positions_in_group(src * self.num_nodes + dst)
        depth = int(position.max()) + 1
        # At most 2^17 nodes and 2^22 parallel links: keys stay below 2^56.
        key = (src * self.num_nodes + dst) * depth + position
        wanted = (dst * self.num_nodes + src) * depth + position
        by_key = np.argsort(key)
        # A binary search for all links at once; what lies
        # behind the last key is clipped, then compared.
        found = by_key[np.minimum(np.searchsorted(key[by_key], wanted), self.num_links - 1)]
        return int32s("Reverse", np.where(key[found] == wanted, found, -1))

    @property
    def is_symmetric(self) -> bool:
        """Whether every link has a reverse."""
        return bool((self.reverse >= 0).all())

    @cached_property
    def _ports(self) -> tuple[Int32Array, Int32Array]:
        # Links grouped by source: a stable sort keeps ids,
        # and with them ports, ascending in each group.
        by_src = np.argsort(self.links[:, 0], kind="stable")
        starts = np.r_[0, np.cumsum(self.degree)]
        return int32s("Ports", by_src), int32s("Port offsets", starts)

    def ports(self, rank: int) -> Int32Array:
        """Outgoing links of a node by port and id, int32 (degree,); a TopologyError if none is."""
        if not 0 <= rank < self.num_nodes:
            raise TopologyError(f"Rank must be within 0..{self.num_nodes - 1}, not {rank!r}")
        by_src, starts = self._ports
        return by_src[starts[rank] : starts[rank + 1]]

    def port_of_link(self, link: int) -> int:
        """The port by which a link leaves its source, or a TopologyError if there is no link."""
        if not 0 <= link < self.num_links:
            raise TopologyError(f"Link must be within 0..{self.num_links - 1}, not {link!r}")
        return int(self.link_ports[link])

    def link_at(self, node: int, port: int) -> int | None:
        """The link that leaves a node by a port; None where there is none."""
        links = self.ports(node)
        return next(iter(links[self.link_ports[links] == port].tolist()), None)

    @cached_property
    def _neighbours(self) -> Adjacency:
        return adjacency(self.links[:, 0], self.links[:, 1], self.num_nodes)

    def hop_distances(self, source: int) -> Int32Array:
        """Links on a shortest path from a node to each, int32 (num_nodes,), or a TopologyError."""
        if not 0 <= source < self.num_nodes:
            raise TopologyError(f"Source must be within 0..{self.num_nodes - 1}, not {source!r}")
        return hops_from(self._neighbours, source)

    @cached_property
    def diameter(self) -> int:
        """The most links on any shortest path from rank to rank.

        For a family it is what rank 0 sees: a corner of a mesh; elsewhere all ranks are alike.
        """
        if self.family != "custom":
            return int(self.hop_distances(0)[: self.num_ranks].max())
        return most_hops(self._neighbours, self.num_ranks)

    @cached_property
    def min_cut(self) -> int:
        """The fewest links that lead out of any set that holds some ranks but not all.

        For a family that is the least degree; otherwise see `measures.smallest_cut`.
        """
        if self.family != "custom":
            return self.least_degree
        return round(smallest_cut(self.links, np.ones(self.num_links), self.num_ranks))

    def without(self, *, links: Ids = (), ranks: Ids = (), switches: Ids = ()) -> "Topology":
        """What is left after failures.

        Parameters
        ----------
        links : iterable of int
            Ids of links that have failed, each together with its reverse.
        ranks, switches : iterable of int
            Numbers of nodes that have failed, with all their links. Those left keep their order,
            and are numbered anew.

        Returns
        -------
        Topology
            Of no family. Nodes have the ports, and links leave by those, that they had, so that
            tables fit the hardware. A TopologyError is raised if an id is out of range, or what is
            left is not connected or has fewer than two ranks.

        Examples
        --------
        >>> line = Topology("line", 3, 0, [[0, 1], [1, 0], [1, 2], [2, 1]], 16.0, 150.0)
        >>> line.without(ranks=[0]).links.tolist()
        [[0, 1], [1, 0]]
        """
        failed = check_ids("Link", links, range(self.num_links))
        lost = check_ids("Rank", ranks, range(self.num_ranks))
        lost |= check_ids("Switch", switches, range(self.num_ranks, self.num_nodes))
        failed |= {int(self.reverse[link]) for link in failed} - {-1}
        kept, counts, ends = degraded_links(
            self.links, self.num_ranks, self.num_nodes, failed, lost
        )
        speeds = self.bandwidth_gbytes_per_s[kept], self.latency_ns[kept]
        name = degraded_name(self.name, failed, lost)
        port_counts = np.delete(self.num_ports, [*lost])
        names = names_at(self.names, np.delete(np.arange(self.num_nodes), [*lost]).tolist())
        source_ports = self.link_ports[kept]
        return Topology(
            name,
            *counts,
            ends,
            *speeds,
            source_ports=source_ports,
            port_counts=port_counts,
            names=names,
        )

    def to_networkx(self) -> Any:
        """The same as a `networkx.MultiDiGraph`; see `graphs.as_networkx`."""
        fields = {field: getattr(self, field) for field in NumberedGraph._fields}
        return as_networkx(NumberedGraph(**fields), self.name)

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        *,
        name: str = "networkx",
        bandwidth_key: str | None = None,
        latency_key: str | None = None,
        kind_key: str | None = None,
    ) -> "Topology":
        """Number the nodes and links of a networkx graph of any kind; see `graphs.from_networkx`.

        Parameters
        ----------
        graph : networkx.Graph
        name : str
            What messages call the topology.
        bandwidth_key, latency_key : str, optional
            Attributes of links in the place of ours, NAME:UNIT, such as "capacity:Gb/s".
        kind_key : str, optional
            An attribute of nodes in the place of ``kind``, such as "role:gpu=rank,tor=switch".

        Returns
        -------
        Topology

        Raises
        ------
        TypeError, TopologyError
            If it is no graph, or no topology, or a speed or a kind may go by another name.

        Examples
        --------
        >>> import networkx
        >>> Topology.from_networkx(networkx.petersen_graph(), name="petersen").diameter
        2
        """
        keys = GraphKeys.of(bandwidth_key, latency_key, kind_key)
        with naming(name, TopologyError):
            numbered = from_networkx(graph, name, keys)
        return cls(name, **numbered._asdict())
