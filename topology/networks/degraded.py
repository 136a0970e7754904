"""What is left of a network without some of its links and nodes."""

from collections.abc import Collection

import numpy as np

from multitree.topology.arrays import Int32Array, Int64Array

__all__ = ["degraded_links", "degraded_name"]

MOST_NAMED = 4


def degraded_links(
    links: Int32Array,
    num_ranks: int,
    num_nodes: int,
    lost_links: Collection[int],
    lost_nodes: Collection[int],
) -> tuple[Int64Array, tuple[int, int], Int32Array]:
    """The links that are left, and nodes numbered anew.

    Parameters
    ----------
    links : numpy.ndarray, int32 (num_links, 2)
    num_ranks, num_nodes : int
        Ranks come first, then switches.
    lost_links, lost_nodes : collection of int
        Ids; with a node all its links are lost.

    Returns
    -------
    kept : numpy.ndarray, int64
        Ids of the links that are left.
    counts : tuple of int
        Ranks and switches that are left.
    ends : numpy.ndarray, int32 (len(kept), 2)
        Of the links that are left, in the new numbers.

    Examples
    --------
    >>> links = np.array([[0, 1], [1, 2], [2, 0]], np.int32)
    >>> kept, counts, ends = degraded_links(links, 2, 3, [0], [])
    >>> kept.tolist(), counts, ends.tolist()
    ([1, 2], (2, 1), [[1, 2], [2, 0]])
    """
    stays = ~np.isin(np.arange(num_nodes), list(lost_nodes))
    number = np.cumsum(stays) - 1
    there = stays[links].all(axis=1) & ~np.isin(np.arange(len(links)), list(lost_links))
    kept = np.flatnonzero(there)
    counts = int(stays[:num_ranks].sum()), int(stays[num_ranks:].sum())
    return kept, counts, number[links[kept]].astype(np.int32)


def degraded_name(name: str, lost_links: Collection[int], lost_nodes: Collection[int]) -> str:
    """What messages call a network without some links and nodes.

    Examples
    --------
    >>> degraded_name("torus:4x4", [3, 1], []), degraded_name("ring:9", [], range(5))
    ('torus:4x4 without links 1, 3', 'ring:9 without 5 nodes')
    """
    parts = []
    for kind, lost in (("link", sorted(lost_links)), ("node", sorted(lost_nodes))):
        kinds = kind if len(lost) == 1 else f"{kind}s"
        if len(lost) > MOST_NAMED:
            parts.append(f"{len(lost)} {kinds}")
        elif lost:
            parts.append(f"{kinds} {', '.join(map(str, lost))}")
    return f"{name} without {' and '.join(parts)}" if parts else name
