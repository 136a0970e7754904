"""Parameters of networks and interfaces that commands and sweeps share."""

import re
from dataclasses import replace
from typing import Any

from multitree.sim.link_model import LinkModel
from multitree.topology.networks.subsets import among
from multitree.topology.networks.topology import Topology

__all__ = [
    "LATENCY_NS",
    "LINK_GBYTES_PER_S",
    "interface_model",
    "members_of",
    "scaled",
]

LINK_GBYTES_PER_S, LATENCY_NS = (0.1, 100_000.0), (0.001, 1e9)
"""The least and the most that links of a family are scaled to."""


def members_of(network: Topology, ranks: str | None, forwarding: bool) -> Topology:
    """The network of the ranks that take part: all, or those of a list such as ``0-3,8``."""
    if ranks is None:
        if forwarding:
            raise ValueError("Forwarding must come with ranks, which say who takes part")
        return network
    chosen: list[int] = []
    for span in ranks.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", span, flags=re.ASCII)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise ValueError(f"Ranks must be like 0-3,8, not {ranks!r}")
        chosen += range(first, min(last, max(first, network.num_ranks)) + 1)
    if forwarding and set(chosen) == set(range(network.num_ranks)):
        raise ValueError(f"Forwarding must come with ranks that leave some out, not {ranks!r}")
    return among(network, chosen, forwarding=forwarding)


def scaled(
    network: Topology, link_gbytes_per_s: float | None, latency_ns: float | None
) -> Topology:
    """A network whose fastest links have a speed, and whose longest links have a latency.

    Other links are scaled by the same factor; None leaves all as they are.
    """
    asked = {"bandwidth_gbytes_per_s": link_gbytes_per_s, "latency_ns": latency_ns}
    changes: dict[str, Any] = {}
    for name, most in asked.items():
        if most is not None:
            have = getattr(network, name)
            changes[name] = have * (most / float(have.max()))
    return replace(network, **changes) if changes else network


def interface_model(
    *,
    clock_ghz: float,
    flit_bytes: int,
    buffer_flits: int | None,
    forward_flits: int,
    adder_stages: int,
    **others: Any,
) -> LinkModel:
    """The link model of interfaces by the names that options have, and of other figures."""
    return LinkModel(
        clock_ghz=clock_ghz,
        flit_bytes=flit_bytes,
        buffer_flits=buffer_flits,
        forward_flits=forward_flits,
        add_cycles=adder_stages,
        **others,
    )
