"""Trees grown in turns over links, each link for one of them at a time."""

from collections.abc import Iterator, Sequence

import numpy as np

from multitree.topology.arrays import Int32Array, Int64Array, positions_in_group

__all__ = ["NEIGHBOUR_ORDERS", "grow_trees"]

Edges = tuple[Int32Array, Int32Array, Int32Array]
NEIGHBOUR_ORDERS = ("mirrored", "link", "ascending", "backwards", "descending", "diagonal")
"""In which order a member of a tree tries its links.

`link`, `backwards`: by id, which on the families is by direction, or in reverse. `mirrored`: every
second link by id, then the others backwards, so that on tori opposite directions are as far from
the middle as each other. `ascending`, `descending`: by (rank, link id) of the neighbour.
`diagonal`: by id, beginning further on by one from rank to rank.
"""


def grow_trees(
    links: Int32Array,
    roots: Sequence[int],
    turns: Sequence[int],
    num_ranks: int,
    *,
    neighbour_order: str,
    slots: Int64Array | None = None,
) -> Edges:
    """Grow spanning trees in turns until each reaches every rank.

    Parameters
    ----------
    links : numpy.ndarray, int32 (num_links, 2)
    roots : sequence of int
        The root of each tree.
    turns : sequence of int
        The trees in the order of their turns.
    num_ranks : int
    neighbour_order : str
        One of `NEIGHBOUR_ORDERS`.
    slots : numpy.ndarray, int64 (num_links,), optional
        Steps that a chunk holds each link and needs to arrive; 1 when left out.

    Returns
    -------
    tuple of numpy.ndarray, int32 (num_trees * (num_ranks - 1),)
        Step, tree and link of each edge, in the order in which they were added.

    Notes
    -----
    Within a step links are only taken and trees only grow, so a link that was of no use to
    a tree stays so until the step's end: each tree walks once per step along the links that
    lead out of its members, and leaves the step when it comes to their end. So the cost is
    O(sum over steps and trees of such links): 16x16 torus 0.2 s, 32x32 some seconds. Steps in
    which nothing arrives and no link becomes free are passed over.
    """
    held = [1] * len(links) if slots is None else slots.tolist()
    targets = links[:, 1].tolist()
    ways_out = _ways_out(links, num_ranks, neighbour_order)
    outside = [bytearray(b"\1") * num_ranks for _ in roots]
    ahead = [list(ways_out[root]) for root in roots]
    for tree, root in enumerate(roots):
        outside[tree][root] = 0
    free = bytearray(b"\1") * len(targets)
    on_links: dict[int, list[tuple[int, int]]] = {}
    added: list[tuple[int, int, int]] = []
    step, total = 0, len(roots) * (num_ranks - 1)
    while len(added) < total:
        for tree, link in on_links.pop(step, ()):
            free[link] = 1
            ahead[tree] += ways_out[targets[link]]
        growing = [tree for tree in turns if ahead[tree]]
        for tree, link in _grown_in_turns(growing, ahead, outside, free, targets):
            added.append((step, tree, link))
            on_links.setdefault(step + held[link], []).append((tree, link))
        for tree in growing:
            unreached = outside[tree]
            ahead[tree] = [link for link in ahead[tree] if unreached[targets[link]]]
        step = min(on_links)
    table = np.array(added, np.int32)
    return table[:, 0], table[:, 1], table[:, 2]


def _grown_in_turns(
    growing: list[int],
    ahead: list[list[int]],
    outside: list[bytearray],
    free: bytearray,
    targets: list[int],
) -> Iterator[tuple[int, int]]:
    """The edges of one step, tree and link: a tree that adds none has no more turns."""
    walks = {tree: iter(ahead[tree]) for tree in growing}
    while growing:
        still = []
        for tree in growing:
            unreached = outside[tree]
            for link in walks[tree]:
                if free[link] and unreached[targets[link]]:
                    free[link] = unreached[targets[link]] = 0
                    still.append(tree)
                    yield tree, link
                    break
        growing = still


def _ways_out(links: Int32Array, num_ranks: int, neighbour_order: str) -> list[list[int]]:
    """Links that leave each rank, in the order in which they are tried."""
    src, dst = links.T
    port = positions_in_group(src.astype(np.int64))
    degree = np.bincount(src, minlength=num_ranks)[src]
    place = {
        "mirrored": np.where(port % 2, degree - port, port - degree),
        "link": port,
        "backwards": -port,
        "ascending": dst,
        "descending": -dst.astype(np.int64),
        "diagonal": (port + src) % degree,
    }[neighbour_order]
    port = -port if neighbour_order == "descending" else port
    ways: list[list[int]] = [[] for _ in range(num_ranks)]
    for link in np.lexsort((port, place)).tolist():
        ways[int(src[link])].append(link)
    return ways
