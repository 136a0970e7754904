"""Trees grown in turns over links, each link for one of them at a time."""

from collections.abc import Iterator, Sequence

import numpy as np

from multitree.topology.arrays import Int32Array, Int64Array, positions_in_group
from multitree.topology.progress import report

__all__ = ["HASTES", "NEIGHBOUR_ORDERS", "grow_trees"]

Edges = tuple[Int32Array, Int32Array, Int32Array]
NEIGHBOUR_ORDERS = ("mirrored", "link", "ascending", "backwards", "descending", "diagonal")
"""In which order a member of a tree tries its links.

`link`, `backwards`: by id, which on the families is by direction, or in reverse. `mirrored`: every
second link by id, then the others backwards, so that on tori opposite directions are as far from
the middle as each other. `ascending`, `descending`: by (rank, link id) of the neighbour.
`diagonal`: by id, beginning further on by one from rank to rank.
"""

HASTES = ("fast", "patient", "eager")
"""How trees take links of unequal speed.

`eager`: links of members that joined earlier first. `fast`: faster links first. `patient`: the
same, but none to a rank that another link would reach sooner, were it free, from a member that is
there or on its way.
"""


def grow_trees(
    links: Int32Array,
    roots: Sequence[int],
    turns: Sequence[int],
    num_ranks: int,
    *,
    neighbour_order: str,
    slots: Int64Array | None = None,
    haste: str = "eager",
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
    haste : str
        One of `HASTES`, which are one where all links are equally fast.

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
    links_out = _links_out(links, num_ranks, neighbour_order)
    outside = [bytearray(b"\1") * num_ranks for _ in roots]
    ahead = [list(links_out[root]) for root in roots]
    for tree, root in enumerate(roots):
        outside[tree][root] = 0
    free = bytearray(b"\1") * len(targets)
    patience = _Patience(links, held, roots) if haste == "patient" else None
    on_links: dict[int, list[tuple[int, int]]] = {}
    added: list[tuple[int, int, int]] = []
    step, total = 0, len(roots) * (num_ranks - 1)
    while len(added) < total:
        for tree, link in on_links.pop(step, ()):
            free[link] = 1
            ahead[tree] += links_out[targets[link]]
        growing = [tree for tree in turns if ahead[tree]]
        if haste != "eager":
            for tree in growing:
                ahead[tree].sort(key=held.__getitem__)
        for tree, link in _grown_in_turns(step, growing, ahead, outside, free, targets, patience):
            added.append((step, tree, link))
            on_links.setdefault(step + held[link], []).append((tree, link))
        report("growing trees, edges added", len(added), total)
        for tree in growing:
            unreached = outside[tree]
            ahead[tree] = [link for link in ahead[tree] if unreached[targets[link]]]
        step = min(on_links)
    table = np.array(added, np.int32)
    return table[:, 0], table[:, 1], table[:, 2]


class _Patience:
    """Says of a free link whether a tree had better wait for another one.

    Parameters
    ----------
    links : numpy.ndarray, int32 (num_links, 2)
    held : list of int
        Steps to the end of each.
    roots : sequence of int
        Of each tree.
    """

    def __init__(self, links: Int32Array, held: list[int], roots: Sequence[int]) -> None:
        self._held = held
        self._there: list[dict[int, int]] = [{root: 0} for root in roots]
        into: dict[int, list[tuple[int, int]]] = {}
        ends = links.tolist()
        for (src, dst), steps in zip(ends, held, strict=True):
            into.setdefault(dst, []).append((src, steps))
        self._faster = [
            [(src, steps) for src, steps in into[dst] if steps < held[link]]
            for link, (_, dst) in enumerate(ends)
        ]
        self._targets = links[:, 1].tolist()

    def take(self, step: int, tree: int, link: int) -> None:
        """A tree takes a link: its end is on its way."""
        self._there[tree][self._targets[link]] = step + self._held[link]

    def waits(self, step: int, tree: int, link: int) -> bool:
        """Whether a member has, or will have, a link by which the same rank is reached sooner."""
        there, arrives = self._there[tree], step + self._held[link]
        # Of members that are there already every faster link would be sooner.
        return any(
            src in there and there[src] + steps < arrives for src, steps in self._faster[link]
        )


def _grown_in_turns(
    step: int,
    growing: list[int],
    ahead: list[list[int]],
    outside: list[bytearray],
    free: bytearray,
    targets: list[int],
    patience: _Patience | None,
) -> Iterator[tuple[int, int]]:
    """The edges of one step, tree and link: a tree that adds none has no more turns."""
    walks = {tree: iter(ahead[tree]) for tree in growing}
    while growing:
        still = []
        for tree in growing:
            unreached = outside[tree]
            for link in walks[tree]:
                if free[link] and unreached[targets[link]]:
                    if patience is not None:
                        if patience.waits(step, tree, link):
                            continue
                        patience.take(step, tree, link)
                    free[link] = unreached[targets[link]] = 0
                    still.append(tree)
                    yield tree, link
                    break
        growing = still


def _links_out(links: Int32Array, num_ranks: int, neighbour_order: str) -> list[list[int]]:
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
    links_of: list[list[int]] = [[] for _ in range(num_ranks)]
    for link in np.lexsort((port, place)).tolist():
        links_of[int(src[link])].append(link)
    return links_of
