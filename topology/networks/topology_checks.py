"""Checks of a topology's counts, ends of links and figures."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from multitree.topology.arrays import Float64Array, Int32Array, int32s
from multitree.topology.errors import TopologyError
from multitree.topology.networks.measures import adjacency, hops_from

__all__ = [
    "MAX_LINKS",
    "MAX_RANKS",
    "Ids",
    "check_connected",
    "check_counts",
    "check_ids",
    "checked_links",
    "positive_figures",
]

MAX_RANKS = 65_536
MAX_LINKS = 4_194_304
Ids = Iterable[int]


def check_counts(num_ranks: int, num_switches: int) -> None:
    """Raise a TopologyError unless there are 2 to `MAX_RANKS` ranks, and no more switches."""
    if type(num_ranks) is not int or not 2 <= num_ranks <= MAX_RANKS:
        raise TopologyError(f"Number of ranks must be within 2..{MAX_RANKS}, not {num_ranks!r}")
    if type(num_switches) is not int or not 0 <= num_switches <= MAX_RANKS:
        raise TopologyError(
            f"Number of switches must be within 0..{MAX_RANKS}, not {num_switches!r}"
        )


def checked_links(given: Any, num_nodes: int) -> Int32Array:
    """Links as int32 (num_links, 2), or a TopologyError that names the first that cannot be."""
    links = int32s("Links", given)
    if links.ndim != 2 or links.shape[1] != 2:
        raise TopologyError(f"Links must be an array of shape (n, 2), not {links.shape}")
    if len(links) > MAX_LINKS:
        raise TopologyError(f"Links must be at most {MAX_LINKS}, not {len(links)}")
    wrong = np.flatnonzero(((links < 0) | (links >= num_nodes)).any(axis=1))
    if wrong.size:
        ends = links[wrong[0]].tolist()
        raise TopologyError(f"Link {wrong[0]} must join nodes 0..{num_nodes - 1}, not {ends}")
    loops = np.flatnonzero(links[:, 0] == links[:, 1])
    if loops.size:
        raise TopologyError(
            f"Link {loops[0]} must join two different nodes, not {links[loops[0]].tolist()}"
        )
    return links


def check_connected(
    name: str, links: Int32Array, num_nodes: int, label: Callable[[int], str] = str
) -> None:
    """Raise a TopologyError unless rank 0 reaches every node, and every node rank 0."""
    # Two searches from rank 0, forwards and backwards, prove that the graph is strongly connected.
    for ends, verb in ((links, "reachable from"), (links[:, ::-1], "able to reach")):
        hops = hops_from(adjacency(ends[:, 0], ends[:, 1], num_nodes), 0)
        missing = np.flatnonzero(hops < 0)
        if missing.size:
            lost = label(int(missing[0]))
            raise TopologyError(
                f"Every node of {name!r} must be {verb} rank 0, not all but node {lost}"
            )


def positive_figures(field: str, values: Any, num_links: int) -> Float64Array:
    """One positive, finite number per link, float64 (num_links,), or a TopologyError."""
    given = np.asarray(values, np.float64)
    if given.shape not in ((), (num_links,)):
        raise TopologyError(f"{field} must be one number per link, not of shape {given.shape}")
    numbers = np.broadcast_to(given, (num_links,)).copy()
    # Negated as a whole, so that NaN, for which each comparison is false, is wrong, too.
    wrong = np.flatnonzero(~(np.isfinite(numbers) & (numbers > 0)))
    if wrong.size:
        value = float(numbers[wrong[0]])
        raise TopologyError(f"{field} of link {wrong[0]} must be positive and finite, not {value}")
    numbers.flags.writeable = False
    return numbers


def check_ids(thing: str, ids: Ids, known: range) -> set[int]:
    """The ids as a set, or a TopologyError that names one which there is not."""
    numbers = set()
    for given in ids:
        if isinstance(given, bool) or not isinstance(given, int | np.integer):
            raise TopologyError(f"{thing} must be a number, not {given!r}")
        if given not in known:
            span = f"within {known.start}..{known.stop - 1}" if known else "absent, having none"
            raise TopologyError(f"{thing} must be {span}, not {given}")
        numbers.add(int(given))
    return numbers
