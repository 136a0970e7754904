"""Families of topologies, and the short specs that name them."""

import math
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from multitree.topology.arrays import Int32Array, int32s
from multitree.topology.clusters import dgx_a100, dragonfly
from multitree.topology.errors import TopologyError
from multitree.topology.files import load_topology
from multitree.topology.named import check_size, checked_dims, named_family
from multitree.topology.switched import bigraph, dgx2, fat_tree, kary_tree
from multitree.topology.topology import Topology
from multitree.topology.topology_checks import MAX_LINKS, MAX_RANKS


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
    dims = checked_dims("ring", (num_ranks,))
    return _grid("ring", dims, wraps=True)


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
    check_size("full", num_ranks, 2, math.isqrt(MAX_LINKS))
    src, dst = np.nonzero(~np.eye(num_ranks, dtype=bool))
    links = int32s("Links", np.stack([src, dst], axis=1))
    dims, name = (int(num_ranks),), f"full:{num_ranks}"
    return named_family("fully_connected", dims, links, num_ranks=dims[0], name=name)


_BUILDERS: dict[str, Callable[..., Topology]] = {
    "ring": ring,
    "torus": torus,
    "mesh": mesh,
    "hypercube": hypercube,
    "full": fully_connected,
    "fat_tree": fat_tree,
    "kary_tree": kary_tree,
    "bigraph": bigraph,
    "dgx2": dgx2,
    "dgx_a100": dgx_a100,
    "dragonfly": dragonfly,
}
_ANY = range(1, MAX_RANKS)
_COUNT_WORDS = ("none", "one number", "two numbers", "three numbers")
_NUM_SIZES = {"torus": _ANY, "mesh": _ANY, "fat_tree": (2,), "kary_tree": (2, 3), "bigraph": (2,)}
_NUM_SIZES |= {"dgx2": (0,), "dgx_a100": (1, 2), "dragonfly": (3,)}


def parse_topology(
    spec_or_path: str | Path, *, bandwidth_key: str | None = None, latency_key: str | None = None
) -> Topology:
    """Read a spec such as "torus:4x4", or the path of a JSON or GraphML file.

    Parameters
    ----------
    spec_or_path : str or pathlib.Path
        ``ring:16``, ``torus:4x4``, ``mesh:8x8``, ``hypercube:6`` (2^6 ranks), ``full:8``;
        with switches ``fat_tree:4x8`` (leaves x ranks on each), ``kary_tree:4x3`` (k links
        down, n levels), ``kary_tree:4x3x2`` (k / 2 links up), ``bigraph:4x8`` (ranks on each
        of 8 switches), ``dgx2``, ``dgx_a100:4`` (boxes), ``dgx_a100:4x2`` (boxes x spines),
        ``dragonfly:4x2x2`` (routers of a group x links of each to others x ranks on each); or a
        path as `load_topology` reads.
    bandwidth_key, latency_key : str, optional
        Of a file, as for `load_topology`.

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
    if isinstance(spec_or_path, Path) or names_file(text):
        return load_topology(text, bandwidth_key=bandwidth_key, latency_key=latency_key)
    if bandwidth_key is not None or latency_key is not None:
        raise TopologyError(f"Keys of speed or latency must come with a file, not with {text!r}")
    family, colon, sizes = text.partition(":")
    if not colon and 0 not in _NUM_SIZES.get(family, ()):
        raise TopologyError(
            f"Topology must be a spec such as 'torus:4x4' or the path of a file, not {text!r}"
        )
    if family not in _BUILDERS:
        known = ", ".join(_BUILDERS)
        raise TopologyError(f"Topology family must be one of {known}, not {family!r}")
    return _BUILDERS[family](*(_sizes(family, sizes) if colon else ()))


def names_file(spec: str) -> bool:
    """Whether a text is a file's path, there or not, and no spec.

    Parameters
    ----------
    spec : str

    Returns
    -------
    bool

    Examples
    --------
    >>> names_file("net.graphml"), names_file("torus:4x4")
    (True, False)
    """
    return spec.endswith((".json", ".graphml")) or os.path.isfile(spec)


def _sizes(family: str, sizes: str) -> list[int]:
    allowed = _NUM_SIZES.get(family, (1,))
    if not re.fullmatch(r"[0-9]{1,9}(x[0-9]{1,9})*", sizes, re.ASCII):
        raise TopologyError(f"Sizes of {family!r} must be like 4x4, not {sizes!r}")
    dims = [int(size) for size in sizes.split("x")]
    if len(dims) not in allowed:
        counts = " or ".join(_COUNT_WORDS[count] for count in allowed)
        raise TopologyError(f"Sizes of {family!r} must be {counts}, not {sizes!r}")
    return dims


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
            exists.append((inside | (wraps and size > 2)).ravel())
    src = np.repeat(ranks.ravel(), 2 * len(dims))
    links = np.stack([src, np.stack(neighbours, axis=1).ravel()], axis=1)
    return int32s("Links", links[np.stack(exists, axis=1).ravel()])
