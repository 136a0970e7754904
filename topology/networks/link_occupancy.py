"""How many steps a chunk takes on each link, where links differ in speed."""

import numpy as np

from multitree.topology.arrays import Int64Array, int64s
from multitree.topology.networks.topology import Topology

__all__ = ["link_occupancy"]

MOST_SLOTS = 4
"""On the fastest link, where that makes slower ones come out even."""
ROUNDING = 1e-9
"""Speeds that differ by less count as multiples of each other."""


def link_occupancy(topology: Topology) -> Int64Array:
    """Steps that a chunk holds each link, and needs to be at its end, latency left out.

    Parameters
    ----------
    topology : Topology

    Returns
    -------
    numpy.ndarray, int64 (num_links,)
        Whole numbers, 1 on all links of equal speed; else 1 to `MOST_SLOTS` on the fastest, such
        that rounding up costs the slower ones least.

    Examples
    --------
    >>> links = [[0, 1], [1, 0]] * 2
    >>> link_occupancy(Topology("pair", 2, 0, links, [16, 16, 16, 4], 150.0)).tolist()
    [1, 1, 1, 4]
    >>> link_occupancy(Topology("pair", 2, 0, links, [24, 24, 24, 16], 150.0)).tolist()
    [2, 2, 2, 3]
    """
    speeds = topology.bandwidth_gbytes_per_s
    ratio = speeds.max() / speeds
    whole = [np.ceil(unit * ratio - ROUNDING) for unit in range(1, MOST_SLOTS + 1)]
    worst = [round(float((slots / ratio).max()) / unit, 9) for unit, slots in enumerate(whole, 1)]
    return int64s("Slots", whole[worst.index(min(worst))].astype(np.int64))
