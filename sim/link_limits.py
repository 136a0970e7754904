"""Links that cannot be used at their speed, and what holds them back."""

from dataclasses import dataclass

import numpy as np

from multitree.nic.config import LIMITS
from multitree.sim.link_model import LinkModel
from multitree.topology.networks.topology import Topology

__all__ = ["LinkLimit", "link_limits"]

_ALIKE = 1 + 1e-9


@dataclass(frozen=True)
class LinkLimit:
    """Links of equal speed and latency that carry less than they could.

    Parameters
    ----------
    link, src, dst : int
        The first of them, and its ends.
    num_links : int
        How many they are.
    bandwidth_gbytes_per_s, latency_ns : float
        As the topology has them.
    reached_gbytes_per_s : float
        The most that they carry.
    by : str
        "interface": a port sends at most one flit per cycle. "buffer": at most a buffer of flits
        is under way in the round trip of a credit.
    buffer_flits, needed_flits : int
        Of the link buffer as it is, and as it would have to be to be no limit.
    """

    link: int
    src: int
    dst: int
    num_links: int
    bandwidth_gbytes_per_s: float
    latency_ns: float
    reached_gbytes_per_s: float
    by: str
    buffer_flits: int
    needed_flits: int

    def __str__(self) -> str:
        """A sentence for people."""
        which = f"link {self.link} ({self.src} -> {self.dst})"
        if self.num_links > 1:
            which += f" and {self.num_links - 1} more like it"
        text = (
            f"{which}: {self.reached_gbytes_per_s:.4g} of {self.bandwidth_gbytes_per_s:.4g} GB/s "
            "is the most that is used, since "
        )
        if self.by == "interface":
            return text + "ports send at most a flit per cycle (--clock-ghz, --flit-bytes)"
        most = LIMITS["buffer_flits"][1]
        more = "there is none larger" if self.needed_flits > most else "--buffer-flits"
        return text + (
            f"a buffer of {self.buffer_flits} flits is less than the {self.needed_flits} of a "
            f"round trip of {self.latency_ns:.4g} ns each way ({more})"
        )


def link_limits(topology: Topology, link_model: LinkModel) -> tuple[LinkLimit, ...]:
    """Links that interfaces cannot keep busy, by speed and latency.

    Parameters
    ----------
    topology : Topology
    link_model : LinkModel
        Clock, flits and buffers.

    Returns
    -------
    tuple of LinkLimit
        The lowest link first; empty where every link can be used at its speed.

    Examples
    --------
    >>> from multitree.topology.families.direct import ring
    >>> link_limits(ring(4), LinkModel())
    ()
    >>> print(*link_limits(ring(4), LinkModel(buffer_flits=153)))  # doctest: +NORMALIZE_WHITESPACE
    link 0 (0 -> 3) and 7 more like it: 8 of 16 GB/s is the most that is used, since a buffer of
    153 flits is less than the 306 of a round trip of 150 ns each way (--buffer-flits)
    """
    port = link_model.link_gbytes_per_s
    depth = link_model.buffer_flits_on(topology)
    around = link_model.round_trip_cycles(topology)
    asked = topology.bandwidth_gbytes_per_s
    by_credits = port * depth / around
    reached = np.minimum(port, by_credits)
    short = np.flatnonzero(asked > reached * _ALIKE)
    kinds = np.stack([asked, topology.latency_ns], axis=1)[short]
    _, first, count = np.unique(kinds, axis=0, return_index=True, return_counts=True)
    found = []
    for at, num_links in sorted(zip(first.tolist(), count.tolist(), strict=True)):
        link = int(short[at])
        fed = min(asked[link], port)
        found.append(
            LinkLimit(
                link=link,
                src=int(topology.links[link, 0]),
                dst=int(topology.links[link, 1]),
                num_links=num_links,
                bandwidth_gbytes_per_s=float(asked[link]),
                latency_ns=float(topology.latency_ns[link]),
                reached_gbytes_per_s=float(reached[link]),
                by="buffer" if by_credits[link] < port else "interface",
                buffer_flits=depth,
                needed_flits=int(np.ceil(around[link] * fed / port - 1e-9)),
            )
        )
    return tuple(found)
