"""What all families of topologies share: checked sizes, names and links."""

import math

import numpy as np

from multitree.topology.arrays import Float64Array, Int32Array
from multitree.topology.errors import TopologyError
from multitree.topology.networks.topology import (
    DEFAULT_BANDWIDTH_GBYTES_PER_S,
    DEFAULT_LATENCY_NS,
    Topology,
)
from multitree.topology.networks.topology_checks import MAX_RANKS


def named_family(
    family: str,
    dims: tuple[int, ...],
    links: Int32Array,
    *,
    num_ranks: int,
    num_switches: int = 0,
    name: str | None = None,
    bandwidth_gbytes_per_s: Float64Array | None = None,
) -> Topology:
    """A topology of a family, every link of the default latency.

    Parameters
    ----------
    family : str
    dims : tuple of int
    links : numpy.ndarray, int32 (num_links, 2)
    num_ranks, num_switches : int
    name : str, optional
        The spec; the family and its sizes when left out.
    bandwidth_gbytes_per_s : numpy.ndarray, float64 (num_links,), optional
        The default on every link when left out.

    Returns
    -------
    Topology

    Raises
    ------
    TopologyError
        If it is too large.
    """
    latency = np.full(len(links), DEFAULT_LATENCY_NS)
    bandwidth = bandwidth_gbytes_per_s
    if bandwidth is None:
        bandwidth = np.full(len(links), DEFAULT_BANDWIDTH_GBYTES_PER_S)
    spec = name or f"{family}:{'x'.join(str(size) for size in dims)}"
    return Topology(spec, num_ranks, num_switches, links, bandwidth, latency, family, dims)


def check_size(family: str, size: int, least: int, most: int) -> None:
    """Check one size of a family.

    Raises
    ------
    TopologyError
        If it is no whole number within the limits.
    """
    is_whole = isinstance(size, int | np.integer) and not isinstance(size, bool)
    if not is_whole or not least <= size <= most:
        raise TopologyError(f"Size of {family!r} must be within {least}..{most}, not {size!r}")


def checked_dims(family: str, dims: tuple[int, ...], *, least: int = 2) -> tuple[int, ...]:
    """Sizes whose product is the number of ranks, as plain integers.

    Raises
    ------
    TopologyError
        If there are none, one is out of range, or their product too large.
    """
    if not dims:
        raise TopologyError(f"Sizes of {family!r} must be at least one number, not none")
    for size in dims:
        check_size(family, size, least, MAX_RANKS)
    check_num_ranks(family, math.prod(int(size) for size in dims))
    return tuple(int(size) for size in dims)


def check_num_ranks(family: str, num_ranks: int) -> None:
    """Check the number of ranks of a family.

    Raises
    ------
    TopologyError
        If it is out of range.
    """
    if num_ranks > MAX_RANKS:
        raise TopologyError(
            f"Number of ranks must be at most {MAX_RANKS}, not {num_ranks} in {family!r}"
        )
