"""Drawings of networks with switches: levels, mirrored halves and rings of groups."""

import math
from dataclasses import dataclass

import numpy as np

from multitree.host.view.layout import Curve, Layout, Places
from multitree.topology.families.clusters import BOX_GPUS, BOX_PLANES, DragonflyShape
from multitree.topology.families.switched import DGX2_GPUS, DGX2_PLANES, tree_shape
from multitree.topology.networks.topology import Topology

__all__ = [
    "bigraph_layout",
    "boxes_layout",
    "circle_layout",
    "dgx2_layout",
    "dragonfly_layout",
    "tree_layout",
]

RADIUS = 0.29
GROUP_GAP = 0.4
ASPECT = 1.8
"""Width over height of a drawing in levels, as far as levels may be stretched for it."""


@dataclass(frozen=True)
class _Rows:
    """Ranks in rows, each set off against the one above, so that links reach all of them."""

    count: int
    pitch: float  # from one rank to the next, across
    radius: float  # links to lower rows pass between the nodes of the rows above

    @classmethod
    def of(cls, num_ranks: int, group_size: int) -> "_Rows":
        """As few rows as keep nodes large."""
        most = next((rows for rows, limit in ((1, 16), (2, 40), (3, 64)) if num_ranks <= limit), 4)
        return (
            cls(1, 1.0, 0.3),
            cls(2, 0.52, 0.36),
            cls(3, 0.4, 0.29),
            cls(4, 0.34, 0.25),
        )[min(most, group_size) - 1]

    def places(self, num_ranks: int, group_size: int) -> tuple[Places, Places]:
        """Where ranks are, in groups; the first row is at 0."""
        rank = np.arange(num_ranks)
        group, place = np.divmod(rank, group_size)
        pitch = 1.0 if group_size == 1 else self.pitch
        x = rank * pitch + group * (GROUP_GAP if group_size > 1 else 0.0)
        return x, place % self.count * 2.6 * self.radius


def circle_layout(topology: Topology, pitch: float = 1.0) -> Layout:
    """Nodes on a circle, by number, the first one on top; wider where links cross inside."""
    turn = np.arange(topology.num_nodes) * (2 * np.pi / topology.num_nodes)
    size = max(pitch * topology.num_nodes / (2 * np.pi), 1.0)
    return Layout(size * np.sin(turn), -size * np.cos(turn), RADIUS)


def tree_layout(topology: Topology) -> Layout:
    """A fat tree: ranks below, level above level of switches, each above its subtree."""
    shape = tree_shape(topology.family, topology.dims)
    hosts = shape.num_below[0]
    rows = _Rows.of(topology.num_ranks, hosts)
    x, y = np.zeros(topology.num_nodes), np.zeros(topology.num_nodes)
    x[: topology.num_ranks], below = rows.places(topology.num_ranks, hosts)
    y[: topology.num_ranks] = below
    width = float(np.ptp(x)) + 1
    gap = _level_gap(width, len(shape.num_below))
    for level, nodes in enumerate(shape.levels()):
        if level > 0:
            under = int(shape.ranks_below[level])
            subtree, place = np.divmod(nodes - nodes[0], int(shape.width[level]))
            first = x[subtree * under] - 0.5
            span = x[subtree * under + under - 1] + 0.5 - first
            x[nodes] = first + (place + 0.5) / shape.width[level] * span
            y[nodes] = -(gap * (level - 1) + max(1.6, gap / 2))
    return Layout(x, y, rows.radius, _fans(topology, x, y, 0.0))


def bigraph_layout(topology: Topology) -> Layout:
    """Two rows of switches, the ranks of one half above them, those of the other below."""
    hosts, num_switches = topology.dims
    half, ranks = num_switches // 2, topology.num_ranks // 2
    rows = _Rows.of(ranks, hosts)
    rank_x, rank_y = rows.places(ranks, hosts)
    switch_x = rank_x.reshape(half, hosts).mean(axis=1)
    gap = _level_gap(float(np.ptp(rank_x)) + 1, 2)
    down, lower = gap / 2 + 1.6, gap / 2
    x = np.concatenate([rank_x, rank_x, switch_x, switch_x])
    y = np.concatenate(
        [-(down + rank_y), down + rank_y, np.full(half, -lower), np.full(half, lower)]
    )
    return Layout(x, y, rows.radius, _fans(topology, x, y, down))


def dgx2_layout(topology: Topology) -> Layout:
    """Two boards, mirrored: GPUs outside, switch planes inside."""
    gpus, planes = _spread(DGX2_GPUS, 1.25), _spread(DGX2_PLANES, 1.9)
    x = np.concatenate([gpus, gpus, planes, planes])
    y = np.repeat([-3.4, 3.4, -1.0, 1.0], [DGX2_GPUS, DGX2_GPUS, DGX2_PLANES, DGX2_PLANES])
    return Layout(x, y, 0.3)


def boxes_layout(topology: Topology) -> Layout:
    """Boxes side by side, each with its planes below its GPUs; leaves and spines above."""
    boxes, spines = topology.dims
    box = np.arange(boxes)[:, None] * (BOX_GPUS + 1.0)
    gpus = (box + _spread(BOX_GPUS, 1.0)).ravel()
    planes = (box + _spread(BOX_PLANES, 1.25)).ravel()
    middle, width = float(box.mean()), float(np.ptp(gpus)) + 1
    leaves = middle + _spread(BOX_GPUS, width / BOX_GPUS)
    above = middle + _spread(spines, width / max(spines, 2))
    gap = max(2.4, width / ASPECT / 3)
    x = np.concatenate([gpus, planes, leaves, above])
    y = np.repeat([0.0, 2.5, -gap, -1.8 * gap], [len(gpus), len(planes), BOX_GPUS, spines])
    return Layout(x, y, 0.3)


def dragonfly_layout(topology: Topology) -> Layout:
    """Groups around a circle: routers inside, their ranks outside on two circles."""
    shape = DragonflyShape(*topology.dims)
    of_group = shape.hosts * shape.routers
    rank, router = np.arange(shape.num_ranks), np.arange(shape.num_routers)
    # A group is set off by the room of two ranks more.
    total = shape.num_ranks + 2 * shape.num_groups
    at_rank = rank + 2 * (rank // of_group) + 0.5
    at_router = (router + 0.5) * shape.hosts + 2 * (router // shape.routers)
    size = max(0.8 * total / (2 * np.pi), 3.5)
    turn = np.concatenate([at_rank, at_router]) * (2 * np.pi / total)
    far = np.concatenate([size + 0.95 * (rank % 2), np.full(shape.num_routers, size - 1.5)])
    x, y = far * np.sin(turn), -far * np.cos(turn)
    return Layout(x, y, 0.4, _bows_in_groups(topology, shape, x, y))


def _bows_in_groups(
    topology: Topology, shape: DragonflyShape, x: Places, y: Places
) -> dict[int, Curve]:
    """Links between routers of one group that are no neighbours, drawn around those between."""
    curves = {}
    for link, (src, dst) in enumerate(topology.links.tolist()):
        if min(src, dst) < shape.num_ranks:
            continue
        one, other = src - shape.num_ranks, dst - shape.num_ranks
        if one // shape.routers == other // shape.routers and abs(one - other) > 1:
            middle = np.array([x[src] + x[dst], y[src] + y[dst]]) / 2
            inwards = 1 - 0.9 * (abs(one - other) - 1) / float(np.hypot(*middle))
            curves[link] = Curve((tuple((middle * max(inwards, 0.2)).tolist()),))
    return curves


def _spread(count: int, pitch: float) -> Places:
    """So many places at equal distances around 0."""
    return np.asarray((np.arange(count) - (count - 1) / 2) * pitch, np.float64)


def _level_gap(width: float, num_gaps: int) -> float:
    """From one level of switches to the next."""
    return min(max(1.6, width / ASPECT / num_gaps), 7.0)


def _fans(topology: Topology, x: Places, y: Places, first_row: float) -> dict[int, Curve]:
    """Links of ranks, which run straight through the rows of ranks and then to their switch.

    `first_row` is how far the row of ranks that is nearest to switches is from the middle.
    """
    curves = {}
    for link, (src, dst) in enumerate(topology.links.tolist()):
        rank, switch = min(src, dst), max(src, dst)
        is_straight = math.isclose(x[rank], x[switch])
        if rank >= topology.num_ranks or switch < topology.num_ranks or is_straight:
            continue
        side = math.copysign(1, y[rank] - y[switch])
        bend = side * (first_row - 0.85)
        corners = ((x[rank], bend), (x[rank], bend + side * 0.4))
        curves[link] = Curve(corners if dst == rank else corners[::-1])
    return curves
