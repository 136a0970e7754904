"""Families of topologies, and the short specs that name them."""

import math
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from multitree.topology.arrays import Int32Array, int32s
from multitree.topology.errors import TopologyError
from multitree.topology.files import load_topology
from multitree.topology.topology import (
    DEFAULT_BANDWIDTH_GBYTES_PER_S,
    DEFAULT_LATENCY_NS,
    MAX_LINKS,
    MAX_RANKS,
    Topology,
)


def ring(num_ranks: int) -> Topology:
    """A ring: rank r is linked with r-1 and r+1; two ranks are joined by one link each way.

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
    dims = _checked_dims("ring", (num_ranks,))
    return _family("ring", dims, f"ring:{num_ranks}", _grid_links(dims, wraps=True))


def torus(*dims: int) -> Topology:
    """An n-dimensional torus; ranks count the last dimension fastest.

    Links are numbered rank by rank, dimension by dimension, minus before plus; a dimension
    of size 2 is one link each way.

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
    dims = _checked_dims("torus", dims)
    return _family("torus", dims, _spec("torus", dims), _grid_links(dims, wraps=True))


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
    dims = _checked_dims("mesh", dims)
    return _family("mesh", dims, _spec("mesh", dims), _grid_links(dims, wraps=False))


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
    _check_size("hypercube", num_dimensions, 1, MAX_RANKS.bit_length() - 1)
    ranks = np.arange(1 << num_dimensions)
    neighbours = ranks[:, None] ^ (1 << np.arange(num_dimensions))
    links = int32s(
        "Links", np.stack([np.repeat(ranks, num_dimensions), neighbours.ravel()], axis=1)
    )
    dims = (2,) * num_dimensions
    return _family("hypercube", dims, f"hypercube:{num_dimensions}", links)


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
    _check_size("full", num_ranks, 2, math.isqrt(MAX_LINKS))
    src, dst = np.nonzero(~np.eye(num_ranks, dtype=bool))
    links = int32s("Links", np.stack([src, dst], axis=1))
    return _family("fully_connected", (num_ranks,), f"full:{num_ranks}", links)


_BUILDERS: dict[str, Callable[..., Topology]] = {
    "ring": ring,
    "torus": torus,
    "mesh": mesh,
    "hypercube": hypercube,
    "full": fully_connected,
}
_MANY_DIMS = ("torus", "mesh")


def parse_topology(spec_or_path: str | Path) -> Topology:
    """Read a spec such as "torus:4x4", or the path of a JSON file.

    Parameters
    ----------
    spec_or_path : str or pathlib.Path
        ``ring:16``, ``torus:4x4``, ``mesh:8x8``, ``hypercube:6`` (2^6 ranks), ``full:8``, or
        a path as `load_topology` reads.

    Returns
    -------
    Topology

    Raises
    ------
    TypeError
        If it is no text and no path.
    TopologyError
        If the spec is malformed, the family unknown, a size out of range or the file unusable.

    Examples
    --------
    >>> parse_topology("mesh:4x2x2").num_ranks
    16
    """
    if not isinstance(spec_or_path, str | Path):
        raise TypeError(f"Topology must be a spec or a path, not {spec_or_path!r}")
    text = str(spec_or_path)
    if isinstance(spec_or_path, Path) or text.endswith(".json") or os.path.isfile(text):
        return load_topology(text)
    family, colon, sizes = text.partition(":")
    if not colon:
        raise TopologyError(
            f"Topology must be a spec such as 'torus:4x4' or the path of a file, not {text!r}"
        )
    if family not in _BUILDERS:
        known = ", ".join(_BUILDERS)
        raise TopologyError(f"Topology family must be one of {known}, not {family!r}")
    if not re.fullmatch(r"[0-9]{1,9}(x[0-9]{1,9})*", sizes, re.ASCII):
        raise TopologyError(f"Sizes of {family!r} must be like 4x4, not {sizes!r}")
    dims = [int(size) for size in sizes.split("x")]
    if len(dims) > 1 and family not in _MANY_DIMS:
        raise TopologyError(f"Sizes of {family!r} must be one number, not {sizes!r}")
    return _BUILDERS[family](*dims)


def _spec(family: str, dims: tuple[int, ...]) -> str:
    return f"{family}:{'x'.join(str(size) for size in dims)}"


def _check_size(family: str, size: int, least: int, most: int) -> None:
    if (
        not isinstance(size, int | np.integer)
        or isinstance(size, bool)
        or not least <= size <= most
    ):
        raise TopologyError(f"Size of {family!r} must be within {least}..{most}, not {size!r}")


def _checked_dims(family: str, dims: tuple[int, ...]) -> tuple[int, ...]:
    if not dims:
        raise TopologyError(f"Sizes of {family!r} must be at least one number, not none")
    for size in dims:
        _check_size(family, size, 2, MAX_RANKS)
    if math.prod(dims) > MAX_RANKS:
        raise TopologyError(
            f"Number of ranks must be at most {MAX_RANKS}, not {math.prod(dims)} in {family!r}"
        )
    return tuple(int(size) for size in dims)


def _grid_links(dims: tuple[int, ...], *, wraps: bool) -> Int32Array:
    ranks = np.arange(math.prod(dims)).reshape(dims)
    neighbours, exists = [], []
    for axis, size in enumerate(dims):
        place = np.indices(dims)[axis]
        for move, inside in ((-1, place > 0), (+1, place < size - 1)):
            neighbours.append(np.roll(ranks, -move, axis).ravel())
            exists.append((inside | (wraps and size > 2)).ravel())
    src = np.repeat(ranks.ravel(), 2 * len(dims))
    links = np.stack([src, np.stack(neighbours, axis=1).ravel()], axis=1)
    return int32s("Links", links[np.stack(exists, axis=1).ravel()])


def _family(family: str, dims: tuple[int, ...], name: str, links: Int32Array) -> Topology:
    bandwidth = np.full(len(links), DEFAULT_BANDWIDTH_GBYTES_PER_S)
    latency = np.full(len(links), DEFAULT_LATENCY_NS)
    num_ranks = 1 << len(dims) if family == "hypercube" else math.prod(dims)
    return Topology(name, num_ranks, 0, links, bandwidth, latency, family, dims)
