"""Families without switches, rings to hypercubes, and what all families share."""

import math
from collections.abc import Callable

import numpy as np

from multitree.topology.arrays import Float64Array, Int32Array, Int64Array, int32s
from multitree.topology.errors import TopologyError
from multitree.topology.networks.nodes import (
    DEFAULT_BANDWIDTH_GBYTES_PER_S,
    DEFAULT_LATENCY_NS,
    MAX_LINKS,
    MAX_RANKS,
)
from multitree.topology.networks.topology import Topology

Nodes = Int64Array
Step = Callable[[Nodes, Nodes, Nodes], tuple[Nodes, Nodes]]
"""The next node of each message, and the class of the link to it, from where it is and its ends."""
# Below every key that orders nodes, and its negative fits 64 bits: keys are negated to be sorted.
LOWEST_KEY = -(2**62)


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
    """A topology of a family, every link of the default latency, and of the default speed if none.

    `name` is its spec, made of the family and the sizes where it is left out.
    """
    latency = np.full(len(links), DEFAULT_LATENCY_NS)
    bandwidth = bandwidth_gbytes_per_s
    if bandwidth is None:
        bandwidth = np.full(len(links), DEFAULT_BANDWIDTH_GBYTES_PER_S)
    spec = name or f"{family}:{'x'.join(str(size) for size in dims)}"
    return Topology(spec, num_ranks, num_switches, links, bandwidth, latency, family, dims)


def check_size(family: str, size: int, least: int, most: int) -> None:
    """Raise a TopologyError if a size is no whole number within the limits."""
    is_whole = isinstance(size, int | np.integer) and not isinstance(size, bool)
    if not is_whole or not least <= size <= most:
        raise TopologyError(f"Size of {family!r} must be within {least}..{most}, not {size!r}")


def checked_dims(family: str, dims: tuple[int, ...], *, least: int = 2) -> tuple[int, ...]:
    """Sizes whose product is the number of ranks, as plain integers, or a TopologyError."""
    if not dims:
        raise TopologyError(f"Sizes of {family!r} must be at least one number, not none")
    for size in dims:
        check_size(family, size, least, MAX_RANKS)
    check_num_ranks(family, math.prod(int(size) for size in dims))
    return tuple(int(size) for size in dims)


def check_num_ranks(family: str, num_ranks: int) -> None:
    """Raise a TopologyError if a family has too many ranks."""
    if num_ranks > MAX_RANKS:
        raise TopologyError(
            f"Number of ranks must be at most {MAX_RANKS}, not {num_ranks} in {family!r}"
        )


def ring(num_ranks: int) -> Topology:
    """A ring: rank r is linked with r-1 and r+1; two ranks are joined by a link in each direction.

    Parameters
    ----------
    num_ranks : int
        2 to 65 536.

    Returns
    -------
    Topology

    Raises
    ------
    TopologyError
        If the size is out of range.

    Examples
    --------
    >>> ring(3).links.tolist()
    [[0, 2], [0, 1], [1, 0], [1, 2], [2, 1], [2, 0]]
    """
    dims = checked_dims("ring", (num_ranks,))
    return _grid("ring", dims, wraps=True)


def torus(*dims: int) -> Topology:
    """An n-dimensional torus; ranks count the last dimension fastest.

    Links are numbered rank by rank, dimension by dimension, minus before plus; a dimension
    of size 2 is one link in each direction.

    Parameters
    ----------
    *dims : int
        Size of each dimension, at least 2.

    Returns
    -------
    Topology

    Raises
    ------
    TopologyError
        If a size is out of range.

    Examples
    --------
    >>> torus(4, 4).ports(5).tolist(), torus(4, 4).links[[20, 21, 22, 23], 1].tolist()
    ([20, 21, 22, 23], [1, 9, 4, 6])
    """
    dims = checked_dims("torus", dims)
    return _grid("torus", dims, wraps=True)


def mesh(*dims: int) -> Topology:
    """An n-dimensional mesh: a torus without the links that wrap around.

    Parameters
    ----------
    *dims : int
        Size of each dimension, at least 2.

    Returns
    -------
    Topology

    Raises
    ------
    TopologyError
        If a size is out of range.

    Examples
    --------
    >>> mesh(2, 3).num_links, mesh(2, 3).diameter, mesh(2, 3).degree.tolist()
    (14, 3, [2, 3, 2, 2, 3, 2])
    """
    dims = checked_dims("mesh", dims)
    return _grid("mesh", dims, wraps=False)


def hypercube(num_dimensions: int) -> Topology:
    """A hypercube of 2^d ranks; port p of a rank leads to the rank that differs in bit p.

    Parameters
    ----------
    num_dimensions : int
        1 to 16.

    Returns
    -------
    Topology

    Raises
    ------
    TopologyError
        If the number is out of range.

    Examples
    --------
    >>> hypercube(3).links[:3].tolist()
    [[0, 1], [0, 2], [0, 4]]
    """
    check_size("hypercube", num_dimensions, 1, MAX_RANKS.bit_length() - 1)
    ranks = np.arange(1 << num_dimensions)
    neighbours = ranks[:, None] ^ (1 << np.arange(num_dimensions))
    links = int32s(
        "Links", np.stack([np.repeat(ranks, num_dimensions), neighbours.ravel()], axis=1)
    )
    dims, name = (2,) * int(num_dimensions), f"hypercube:{num_dimensions}"
    return named_family("hypercube", dims, links, num_ranks=len(ranks), name=name)


def fully_connected(num_ranks: int) -> Topology:
    """Every rank linked with every other; links by source, then destination.

    Parameters
    ----------
    num_ranks : int
        2 to 2048.

    Returns
    -------
    Topology

    Raises
    ------
    TopologyError
        If the size is out of range.

    Examples
    --------
    >>> fully_connected(8).num_links, fully_connected(8).diameter
    (56, 1)
    """
    # n (n - 1) links are at most MAX_LINKS for each n up to its root.
    check_size("full", num_ranks, 2, math.isqrt(MAX_LINKS))
    src, dst = np.nonzero(~np.eye(num_ranks, dtype=bool))
    links = int32s("Links", np.stack([src, dst], axis=1))
    dims, name = (int(num_ranks),), f"full:{num_ranks}"
    return named_family("fully_connected", dims, links, num_ranks=dims[0], name=name)


def along_grid(
    dims: tuple[int, ...], at: Nodes, src: Nodes, dst: Nodes, *, wraps: bool
) -> tuple[Nodes, Nodes]:
    """The next node, dimension by dimension, and the class of the link to it: 1 behind a wrap."""
    here, goal, start = (np.stack(np.unravel_index(nodes, dims)) for nodes in (at, dst, src))
    axis = (here != goal).argmax(axis=0)
    place, end, begin = (where[axis, np.arange(len(at))] for where in (here, goal, start))
    size = np.array(dims)[axis]
    if wraps:
        ahead = 2 * ((end - begin) % size)
        # Half around a ring both directions are shortest; the parity of the source shares them out.
        plus = (ahead < size) | ((ahead == size) & (begin % 2 == 0))
    else:
        plus = end > begin
    following = (place + np.where(plus, 1, -1)) % size
    stride = np.r_[np.cumprod(dims[:0:-1])[::-1], 1][axis]
    # A dateline (Dally and Seitz): changing the class there breaks the cycle of a ring's links.
    has_wrapped = np.where(plus, place < begin, place > begin)
    return at + (following - place) * stride, has_wrapped.astype(np.int64)


def along_cube(at: Nodes, dst: Nodes) -> tuple[Nodes, Nodes]:
    """The next node on a hypercube, and class 0."""
    # x & -x is the lowest bit set: e-cube routing, whose order of dimensions leaves no cycle.
    apart = at ^ dst
    return at ^ (apart & -apart), np.zeros_like(at)


def _grid(family: str, dims: tuple[int, ...], *, wraps: bool) -> Topology:
    links = _grid_links(dims, wraps=wraps)
    return named_family(family, dims, links, num_ranks=math.prod(dims))


def _grid_links(dims: tuple[int, ...], *, wraps: bool) -> Int32Array:
    ranks = np.arange(math.prod(dims)).reshape(dims)
    neighbours, exists = [], []
    for axis, size in enumerate(dims):
        place = np.indices(dims)[axis]
        for move, inside in ((-1, place > 0), (+1, place < size - 1)):
            neighbours.append(np.roll(ranks, -move, axis).ravel())
            # On a side of 2 the link that wraps would repeat the one to the only neighbour.
            exists.append((inside | (wraps and size > 2)).ravel())
    src = np.repeat(ranks.ravel(), 2 * len(dims))
    links = np.stack([src, np.stack(neighbours, axis=1).ravel()], axis=1)
    return int32s("Links", links[np.stack(exists, axis=1).ravel()])
