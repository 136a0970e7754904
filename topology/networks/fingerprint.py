"""A hash of arrays that is the same in every run and on every platform."""

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from multitree.topology.networks.topology import Topology


class Blocks(NamedTuple):
    """An array of so many numbers that comes in pieces."""

    size: int
    pieces: Iterable[Any]


def fingerprint(title: str, parts: Iterable[tuple[Any, str]]) -> str:
    """SHA-256, in hex, of arrays, each after its length.

    Parameters
    ----------
    title : str
        What the arrays are, with a version.
    parts : iterable of (array_like, str)
        Numbers, or `Blocks` of them, and the NumPy dtype with byte order in which to hash them.

    Returns
    -------
    str

    Examples
    --------
    >>> fingerprint("numbers", [([1, 2], "<i4")])[:8]
    'ad180a2e'
    """
    digest = hashlib.sha256(title.encode() + b"\0")
    for values, dtype in parts:
        blocks = values if isinstance(values, Blocks) else Blocks(np.size(values), [values])
        digest.update(blocks.size.to_bytes(8, "little"))
        for piece in blocks.pieces:
            digest.update(np.ascontiguousarray(piece, dtype).tobytes())
    return digest.hexdigest()


def schedule_fingerprint(
    topology: Topology,
    collective: str,
    root: int | None,
    flow_offsets: Any,
    columns: Iterable[Any],
    routes: Iterable[Any],
    waves: tuple[int, ...] = (),
) -> str:
    """The hash of a schedule: all that it does on its topology, names left out.

    Parameters
    ----------
    topology : Topology
    collective : str
    root : int or None
    flow_offsets : array_like
    columns : iterable of array_like or Blocks
        The six row fields.
    routes : iterable of array_like or Blocks
        Offsets, links and classes.
    waves : tuple of int
        Number and period of the waves, or nothing where there is one.

    Returns
    -------
    str
    """
    counts = [topology.num_ranks, topology.num_switches, -1 if root is None else root]
    return fingerprint(
        f"multitree.schedule.v1 {collective}",
        [
            (counts, "<i8"),
            (topology.links, "<i4"),
            (topology.bandwidth_gbytes_per_s, "<f8"),
            (topology.latency_ns, "<f8"),
            (flow_offsets, "<i8"),
            *((column, "<i4") for column in columns),
            *zip(routes, ("<i8", "<i4", "<i4"), strict=True),
            *([(waves, "<i8")] if waves else []),
        ],
    )
