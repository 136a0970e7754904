"""What a drawing of a topology is, and the drawings of grids and lines."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from multitree.topology.arrays import positions_in_group
from multitree.topology.networks.topology import Topology

__all__ = ["Curve", "Layout", "Places", "grid_layout", "lanes_of", "line_layout"]

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


RADIUS = 0.29
STUB = 0.6
LAYER = 0.64
"""From layer to layer of a solid grid, across and up; more than a node and the links past it."""
PITCH, BLOCK_GAP = 1.6, 0.9
"""From node to node in a grid of grids, where bows run in between; and more from block to block."""
LANES, LANE, FIRST_LANE = 5, 0.19, 0.4
LONGEST_LINE = 16

IntArray = npt.NDArray[np.int64]
Place = tuple[float, float]


@dataclass(frozen=True)
class _Axis:
    """One dimension in the drawing."""

    dx: float  # from a node to the next
    dy: float
    level: int = 0  # 0 within a block, 1 between blocks, and so on

    @property
    def is_slanted(self) -> bool:
        """Whether it goes from layer to layer."""
        return self.dx != 0 and self.dy != 0


def grid_layout(topology: Topology) -> Layout:
    """A grid; the third dimension is a slanted one, of more than three all are blocks in blocks.

    Links that wrap around leave the grid as stubs; those from layer to layer that do, and all links
    between blocks, are bows.
    """
    dims = topology.dims
    axes = _solid_axes(dims) if len(dims) <= 3 else _nested_axes(dims)
    places = np.indices(dims).reshape(len(dims), -1)
    x, y = (np.array([[a.dx, a.dy] for a in axes]).T @ places).astype(np.float64)
    curves = {}
    for link, (src, dst) in enumerate(topology.links.tolist()):
        moved = int(np.flatnonzero(places[:, src] != places[:, dst])[0])
        axis, ends = axes[moved], ((x[src], y[src]), (x[dst], y[dst]))
        wraps = abs(int(places[moved, dst] - places[moved, src])) > 1
        if axis.level > 0 or (wraps and axis.is_slanted):
            curves[link] = _bow(*ends, _lane(axes, places[:, src], moved, dims))
        elif wraps:
            curves[link] = _stubs(*ends)
    return Layout(x, y, RADIUS, curves)


def line_layout(topology: Topology) -> Layout:
    """A mesh of one dimension: a line, which turns at the edge where it is long."""
    rank = np.arange(topology.num_ranks)
    width = topology.num_ranks
    if width > LONGEST_LINE:
        width = math.ceil(math.sqrt(2 * topology.num_ranks))
    row, place = np.divmod(rank, width)
    x = np.where(row % 2 == 1, width - 1 - place, place)
    return Layout(x.astype(np.float64), row.astype(np.float64), RADIUS)


def _solid_axes(dims: tuple[int, ...]) -> list[_Axis]:
    """Up to three dimensions: layers, down and across."""
    stride = 1.0 if len(dims) < 3 else (dims[0] - 1) * LAYER + 1.1
    return [_Axis(LAYER, -LAYER), _Axis(0.0, stride), _Axis(stride, 0.0)][3 - len(dims) :]


def _nested_axes(dims: tuple[int, ...]) -> list[_Axis]:
    """From the last dimension on in turns across and down, each pair around those before."""
    extent, axes = [PITCH, PITCH], []
    for turn, size in enumerate(reversed(dims)):
        direction, level = turn % 2, turn // 2
        stride = extent[direction] + (BLOCK_GAP if level > 0 else 0.0)
        axes.append(_Axis(0.0, stride, level) if direction else _Axis(stride, 0.0, level))
        extent[direction] = (size - 1) * stride + extent[direction]
    return axes[::-1]


def _lane(axes: list[_Axis], place: IntArray, moved: int, dims: tuple[int, ...]) -> int:
    """Which of the lanes between two lines of nodes a bow takes, so that parallel ones differ."""
    inner = range(moved + 2, len(axes), 2)
    lane = 0
    for k in inner:
        lane = lane * dims[k] + int(place[k])
    return (lane + sum(dims[k] for k in inner if axes[k].level > 0)) % LANES


def _stubs(src: Place, dst: Place) -> Curve:
    """Out of the grid behind the source, and into it in front of the destination."""
    (x0, y0), (x1, y1) = src, dst
    part = STUB / math.dist(src, dst)
    dx, dy = part * (x0 - x1), part * (y0 - y1)
    return Curve(((x0 + dx, y0 + dy), (x1 - dx, y1 - dy)), is_stub=True)


def _bow(src: Place, dst: Place, lane: int) -> Curve:
    """Along the line of nodes, next to it, from one end to the other."""
    far = math.dist(src, dst)
    dx, dy = (dst[0] - src[0]) / far, (dst[1] - src[1]) / far
    aside = FIRST_LANE + LANE * lane
    # Both directions of a link bow to the same side, down or to the right.
    across, down = abs(dy) * aside, abs(dx) * aside
    corners = [
        (x + sign * dx * part + across, y + sign * dy * part + down)
        for (x, y), sign, parts in ((src, 1, (0.3, 0.85)), (dst, -1, (0.85, 0.3)))
        for part in parts
    ]
    return Curve(tuple(corners))
