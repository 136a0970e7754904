"""Parameters of networks and interfaces that commands and sweeps share."""

import re
from dataclasses import replace
from typing import Any

from multitree.nic.config import LEAST_FORWARD_FLITS, LIMITS
from multitree.sim.link_model import LinkModel
from multitree.topology.networks.subsets import among
from multitree.topology.networks.topology import Topology

__all__ = ["interface_model", "members_of", "problem_with", "scaled"]


def members_of(network: Topology, ranks: str | None, forwarding: bool) -> Topology:
    """The network of the ranks that take part: all, or those of a list such as ``0-3,8``.

    Raises
    ------
    ValueError
        If that is no list, or others are to forward where all take part.
    TopologyError
        As `among`.
    """
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
    """A network whose fastest links have a speed, and whose longest have a latency.

    Parameters
    ----------
    network : Topology
    link_gbytes_per_s, latency_ns : float, optional
        Positive and finite. Other links are scaled by the same factor; None leaves all as they are.

    Examples
    --------
    >>> from multitree.topology.families.direct import ring
    >>> float(scaled(ring(4), None, 75.0).latency_ns.max())
    75.0
    """
    asked = {"bandwidth_gbytes_per_s": link_gbytes_per_s, "latency_ns": latency_ns}
    changes: dict[str, Any] = {}
    for name, most in asked.items():
        if most is not None:
            have = getattr(network, name)
            changes[name] = have * (most / float(have.max()))
    return replace(network, **changes) if changes else network


def problem_with(name: str, value: int) -> str | None:
    """What is wrong with a size that interfaces are built with.

    Parameters
    ----------
    name : str
        "flit_bytes", "buffer_flits", "forward_flits" or "adder_stages".
    value : int

    Returns
    -------
    str or None
        The rule and the value, to stand behind the name; None where nothing is wrong.

    Examples
    --------
    >>> problem_with("flit_bytes", 24), problem_with("flit_bytes", 32)
    ('must be a power of two, not 24', None)
    """
    low, high = LIMITS[name]
    if not low <= value <= high:
        return f"must be within {low}..{high}, not {value}"
    if name == "flit_bytes" and value & (value - 1):
        return f"must be a power of two, not {value}"
    if name == "forward_flits" and (value & (value - 1) or 0 < value < LEAST_FORWARD_FLITS):
        return f"must be 0 or a power of two from {LEAST_FORWARD_FLITS} on, not {value}"
    return None


def interface_model(
    *,
    clock_ghz: float,
    flit_bytes: int,
    buffer_flits: int | None,
    forward_flits: int,
    adder_stages: int,
    **others: Any,
) -> LinkModel:
    """The link model of interfaces by the names that options have, and of other figures.

    Raises
    ------
    TypeError, ValueError
        As `LinkModel`.
    """
    return LinkModel(
        clock_ghz=clock_ghz,
        flit_bytes=flit_bytes,
        buffer_flits=buffer_flits,
        forward_flits=forward_flits,
        add_cycles=adder_stages,
        **others,
    )
