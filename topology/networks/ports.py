"""Ports of nodes: by which links leave, and which link comes back."""

from typing import Any

import numpy as np

from multitree.topology.arrays import Int32Array, int32s, positions_in_group
from multitree.topology.errors import TopologyError

__all__ = [
    "MOST_PORTS",
    "checked_port_counts",
    "checked_source_ports",
    "ports_in_order",
    "ports_in_use",
    "reverse_of",
]

MOST_PORTS = 65_536


def ports_in_order(links: Int32Array) -> Int32Array:
    """The port of each link, int32 (num_links,), where a node's links take 0, 1, 2, ... by id."""
    return int32s("Link ports", positions_in_group(links[:, 0].astype(np.int64)))


def checked_source_ports(given: Any, links: Int32Array) -> Int32Array | None:
    """The port by which each link leaves its source, where that is not as in order.

    Parameters
    ----------
    given : array_like, int (num_links,), or None
        None are the ports in order.
    links : numpy.ndarray, int32 (num_links, 2)

    Returns
    -------
    numpy.ndarray, int32 (num_links,), or None
        None for the ports in order, however they were given.

    Raises
    ------
    TopologyError
        If a port is out of range, or the links of a node do not take ports in ascending order.

    Examples
    --------
    >>> links = np.array([[0, 1], [1, 0], [1, 2], [2, 1]], np.int32)
    >>> checked_source_ports([0, 0, 1, 0], links) is None
    True
    >>> checked_source_ports([2, 0, 3, 1], links).tolist()
    [2, 0, 3, 1]
    """
    if given is None:
        return None
    ports = int32s("Link ports", given)
    if ports.shape != (len(links),):
        raise TopologyError(f"Link ports must be one per link, {len(links)}, not {ports.shape}")
    wrong = np.flatnonzero((ports < 0) | (ports >= MOST_PORTS))
    if wrong.size:
        raise TopologyError(
            f"Port of link {wrong[0]} must be within 0..{MOST_PORTS - 1}, not {ports[wrong[0]]}"
        )
    by_src = np.argsort(links[:, 0], kind="stable")
    same = np.diff(links[by_src, 0]) == 0
    wrong = by_src[1:][same & (np.diff(ports[by_src]) <= 0)]
    if wrong.size:
        raise TopologyError(
            f"Port of link {wrong[0]} must be higher than those of the links before it that leave "
            f"node {links[wrong[0], 0]}, not {ports[wrong[0]]}"
        )
    # None where nothing differs, so that equal networks are held and written alike.
    return None if np.array_equal(ports, ports_in_order(links)) else ports


def ports_in_use(links: Int32Array, link_ports: Int32Array, num_nodes: int) -> Int32Array:
    """Ports of each node up to the last by which a link leaves, int32 (num_nodes,)."""
    highest = np.full(num_nodes, -1, np.int32)
    np.maximum.at(highest, links[:, 0], link_ports)
    return int32s("Ports", highest + 1)


def checked_port_counts(given: Any, least: Int32Array) -> Int32Array | None:
    """The number of ports of each node, where that is not as `ports_in_use` has it.

    Parameters
    ----------
    given : array_like, int (num_nodes,), or None
        None are those in use.
    least : numpy.ndarray, int32 (num_nodes,)
        Those in use.

    Returns
    -------
    numpy.ndarray, int32 (num_nodes,), or None
        None for those in use, however they were given.

    Raises
    ------
    TopologyError
        If there is not one number per node, or one is out of range or less than are in use.

    Examples
    --------
    >>> in_use = np.array([1, 3], np.int32)
    >>> checked_port_counts([1, 3], in_use), checked_port_counts([4, 4], in_use).tolist()
    (None, [4, 4])
    """
    if given is None:
        return None
    counts = int32s("Numbers of ports", given)
    if counts.shape != least.shape:
        raise TopologyError(
            f"Numbers of ports must be one per node, {len(least)}, not {counts.shape}"
        )
    wrong = np.flatnonzero((counts < least) | (counts > MOST_PORTS))
    if wrong.size:
        node = wrong[0]
        raise TopologyError(
            f"Ports of node {node} must be within {least[node]}..{MOST_PORTS}, not {counts[node]}"
        )
    return None if np.array_equal(counts, least) else counts


def reverse_of(links: Int32Array, num_nodes: int) -> Int32Array:
    """Id of each link's reverse, int32 (num_links,); -1 where there is none.

    The k-th of several parallel links pairs with the k-th in the opposite direction.
    """
    src, dst = links.astype(np.int64).T
    position = positions_in_group(src * num_nodes + dst)
    depth = int(position.max()) + 1
    # At most 2^17 nodes and 2^22 parallel links: keys stay below 2^56.
    key = (src * num_nodes + dst) * depth + position
    wanted = (dst * num_nodes + src) * depth + position
    by_key = np.argsort(key)
    # A binary search for all links at once; what lies
    # behind the last key is clipped, then compared.
    found = by_key[np.minimum(np.searchsorted(key[by_key], wanted), len(links) - 1)]
    return int32s("Reverse", np.where(key[found] == wanted, found, -1))
