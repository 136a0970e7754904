"""Networks by a short text: a family with its sizes, or the path of a file."""

import os
import re
from collections.abc import Callable
from pathlib import Path

from multitree.topology.errors import TopologyError
from multitree.topology.families.clusters import dgx_a100, dragonfly
from multitree.topology.families.direct import fully_connected, hypercube, mesh, ring, torus
from multitree.topology.families.switched import bigraph, dgx2, fat_tree, kary_tree
from multitree.topology.files.load_save import load_topology
from multitree.topology.networks.nodes import MAX_RANKS
from multitree.topology.networks.topology import Topology

__all__ = ["names_file", "parse_topology"]

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
