"""Where nodes are drawn, and along which line each link runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from multitree.topology.arrays import positions_in_group
from multitree.topology.networks.topology import Topology

__all__ = ["Curve", "Layout", "Places", "lanes_of"]

Places = npt.NDArray[np.float64]


class Curve(NamedTuple):
    """How a link runs that is no straight line."""

    # Corners between the two nodes, to be rounded off; of a stub the outer ends of both its parts.
    points: tuple[tuple[float, float], ...]
    is_stub: bool = False  # leaves the drawing on one side and comes back on the other


@dataclass(frozen=True, eq=False)
class Layout:
    """A drawing of a topology; neighbours are about one unit apart, y grows downwards."""

    x: Places  # centres of nodes
    y: Places
    radius: float  # of a node; families' drawings leave twice as much free between nodes
    curves: Mapping[int, Curve] = field(default_factory=dict)  # by link, where it is not straight


def lanes_of(topology: Topology) -> Places:
    """Lanes by which each link is drawn to the right of the middle, seen in its direction.

    Links between two nodes are in different lanes, each direction on its own side.

    >>> lanes_of(Topology("pair", 2, 0, [[0, 1], [1, 0], [0, 1]], 16.0, 150.0)).tolist()
    [0.5, 0.5, 1.5]
    """
    src, dst = topology.links.astype(np.int64).T
    pair = src * topology.num_nodes + dst
    place = positions_in_group(pair)
    _, group, counts = np.unique(pair, return_inverse=True, return_counts=True)
    has_reverse = np.isin(dst * topology.num_nodes + src, pair)
    middle = np.where(has_reverse, -0.5, (counts[group] - 1) / 2)
    return np.asarray(place - middle, np.float64)
