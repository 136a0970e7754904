"""Default routes from rank to rank, free of circular waiting."""

from collections.abc import Callable
from typing import Any

import numpy as np

from multitree.topology.arrays import Int32Array, Int64Array, int32s, int64s
from multitree.topology.errors import ScheduleError
from multitree.topology.families.registry import FAMILIES
from multitree.topology.networks.topology import Topology
from multitree.topology.routing.updown import UpDownRoutes

Nodes = Int64Array
Routes = tuple[Int64Array, Int32Array, Int32Array]


class LinkFinder:
    """The links that lead from one node straight to another, by binary search."""

    def __init__(self, topology: Topology) -> None:
        ends = topology.links.astype(np.int64)
        key = ends[:, 0] * topology.num_nodes + ends[:, 1]
        self._num_nodes = topology.num_nodes
        # Stable, so among parallel links the one of lowest id comes first.
        self._by_key = np.argsort(key, kind="stable")
        self._key = key[self._by_key]

    def lowest(self, src: Int64Array, dst: Int64Array) -> Int64Array:
        """The link of lowest id from each node to another, int64 (n,); -1 where there is none."""
        wanted = src * self._num_nodes + dst
        # What lies behind the last key is clipped; the comparison then finds that it differs.
        place = np.minimum(np.searchsorted(self._key, wanted), len(self._key) - 1)
        return np.where(self._key[place] == wanted, self._by_key[place], -1)

    def picked(self, src: Int64Array, dst: Int64Array, number: Int64Array) -> Int64Array:
        """Of the parallel links from each node to another that a number picks, int64 (n,)."""
        wanted = src * self._num_nodes + dst
        first, last = (np.searchsorted(self._key, wanted, side) for side in ("left", "right"))
        return self._by_key[first + number % (last - first)]


def routes(topology: Topology, src: Int32Array, dst: Int32Array) -> Routes:
    """One route for each pair of ranks, with a virtual-channel class per hop.

    A link that joins the pair is the route, else that of the family (`Family.routes`), else
    up*/down*. All (link, class) dependencies together have no cycle (Dally, Seitz, "Deadlock-free
    message routing in multiprocessor interconnection networks", IEEE Trans. Computers C-36 (5),
    1987). Columns are those of `Schedule`. O(hops) on families, else O(num_links x num_ranks) more.
    """
    sources, targets = (np.asarray(ends, np.int64) for ends in (src, dst))
    _check_pairs(topology, sources, targets)
    finder = LinkFinder(topology)
    link = finder.lowest(sources, targets)
    joined, row = np.flatnonzero(link >= 0), np.flatnonzero(link < 0)
    entries = [(joined, link[joined], np.zeros_like(joined))]
    onward = _onward(topology, finder, targets[row])
    at, turned = sources[row], np.zeros(len(row), bool)
    # Each turn is one hop of every message that has not arrived, in one array operation.
    while row.size:
        taken, vc_class, turned = onward(at, sources[row], targets[row], turned)
        entries.append((row, taken, vc_class))
        at = topology.links[taken, 1].astype(np.int64)
        goes_on = at != targets[row]
        row, at, turned = row[goes_on], at[goes_on], turned[goes_on]
    rows, links, classes = (np.concatenate(column) for column in zip(*entries, strict=True))
    # Stable, so the hops of a row stay in the order in which they were taken.
    by_row = np.argsort(rows, kind="stable")
    offsets = np.r_[0, np.cumsum(np.bincount(rows, minlength=len(sources)))]
    return (
        int64s("Route offsets", offsets),
        int32s("Route links", links[by_row]),
        int32s("Route classes", classes[by_row]),
    )


def routes_of_rows(
    topology: Topology, src: Int32Array, dst: Int32Array, links: Any, by_step: Int64Array
) -> Routes:
    """The routes of sorted rows: one given link each, in the rows' order before, or `routes`."""
    if links is None:
        return routes(topology, src, dst)
    if np.shape(links) != (len(src),):
        raise ScheduleError(f"Links must be one per row, not of shape {np.shape(links)}")
    # Routes of one link have no dependencies, so all take class 0.
    ones = int64s("Route offsets", np.arange(len(src) + 1))
    zeros = int32s("Route classes", np.zeros(len(src), np.int32))
    return ones, int32s("Links", int32s("Links", links)[by_step]), zeros


def _check_pairs(topology: Topology, src: Nodes, dst: Nodes) -> None:
    for ends in (src, dst):
        wrong = np.flatnonzero((ends < 0) | (ends >= topology.num_ranks))
        if wrong.size:
            raise ScheduleError(
                f"Row {wrong[0]}: src and dst must be within 0..{topology.num_ranks - 1}, "
                f"not {src[wrong[0]]} and {dst[wrong[0]]}"
            )
    same = np.flatnonzero(src == dst)
    if same.size:
        raise ScheduleError(
            f"Row {same[0]}: src and dst must be different ranks, not {src[same[0]]} twice"
        )


def _onward(
    topology: Topology, finder: LinkFinder, targets: Nodes
) -> Callable[..., tuple[Nodes, Nodes, np.ndarray]]:
    """What names the next link, its class and whether a message has turned down."""
    family = FAMILIES.get(topology.family)
    if family is None or family.routes is None:
        # Tables of all nodes and targets take long, so there are none where every pair has a link.
        return UpDownRoutes(topology, targets).onward if targets.size else _nowhere

    step = family.routes(topology.dims)

    def onward(
        at: Nodes, src: Nodes, dst: Nodes, turned: np.ndarray
    ) -> tuple[Nodes, Nodes, np.ndarray]:
        following, vc_class = step(at, src, dst)
        return finder.picked(at, following, dst), vc_class, turned

    return onward


def _nowhere(*_: Nodes) -> tuple[Nodes, Nodes, np.ndarray]:
    raise AssertionError("every pair is joined by a link")
