"""Chooses a drawing for a topology; those of no family are placed by distances."""

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from multitree.host.view.layout import Layout, grid_layout, line_layout
from multitree.host.view.levels import (
    bigraph_layout,
    boxes_layout,
    circle_layout,
    dgx2_layout,
    dragonfly_layout,
    tree_layout,
)
from multitree.topology.errors import report
from multitree.topology.families.registry import FAMILIES
from multitree.topology.networks.topology import Topology

__all__ = ["LAYOUTS", "layout_of", "spring_layout"]

RADIUS = 0.29
LINK_LENGTH, LEAST_DISTANCE = 1.5, 0.75
MOST_PIVOTS, MOST_NODES = 64, 1024
ROUNDS, SETTLED = 300, 1e-4
GRID_LIKE = 0.6

Matrix = npt.NDArray[np.float64]


def spring_layout(topology: Topology) -> Layout:
    """Place nodes such that those far apart in hops are far apart in the drawing.

    Pivot multidimensional scaling (U. Brandes, C. Pich, Graph Drawing 2006), then for up to 1024
    nodes stress majorization (E. R. Gansner, Y. Koren, S. North, Graph Drawing 2004), in
    O(num_nodes^2) per round.
    """
    pivots, distance = _pivots(topology)
    xy = _scaled_to_pivots(distance)
    if len(pivots) == topology.num_nodes:
        xy = _majorized(xy, distance)
    xy = _upright(xy, topology)
    links = np.hypot(*(xy[topology.links[:, 0]] - xy[topology.links[:, 1]]).T)
    xy *= max(LINK_LENGTH / float(np.median(links)), LEAST_DISTANCE / _nearest(xy))
    return Layout(xy[:, 0], xy[:, 1], RADIUS)


def _pivots(topology: Topology) -> tuple[list[int], Matrix]:
    """Nodes far apart, or all, and hops to each of them: (num_nodes, num_pivots)."""
    count = topology.num_nodes if topology.num_nodes <= MOST_NODES else MOST_PIVOTS
    every = count == topology.num_nodes
    pivots, columns = [0], [topology.hop_distances(0)]
    nearest = columns[0].astype(np.int64)
    while len(pivots) < count:
        pivots.append(len(pivots) if every else int(nearest.argmax()))
        columns.append(topology.hop_distances(pivots[-1]))
        nearest = np.minimum(nearest, columns[-1])
        report("placing nodes", len(pivots), count)
    distance = np.stack(columns, axis=1).astype(np.float64)
    if every:  # links may lead one way only
        distance = (distance + distance.T) / 2
    return pivots, distance


def _scaled_to_pivots(distance: Matrix) -> Matrix:
    """Two coordinates that keep the distances to pivots best, float64 (num_nodes, 2)."""
    nodes, pivots = (np.arange(size) for size in distance.shape)
    # Symmetric networks have several best pictures: a part in a million of the nodes' numbers
    # decides, so that it is the same on every machine.
    tilted = distance * (1 + 1e-6 * np.sin(1.0 + nodes[:, None] + pivots))
    squared = tilted**2
    centred = squared - squared.mean(axis=0) - squared.mean(axis=1)[:, None] + squared.mean()
    left, sizes, _ = np.linalg.svd(-centred / 2, full_matrices=False)
    axes = min(2, len(sizes))
    xy = np.zeros((len(nodes), 2))
    xy[:, :axes] = left[:, :axes] * np.sqrt(sizes[:axes])
    # Nodes with the same neighbours would lie on each other, from where nothing moves them.
    turn = 2.4 * nodes
    return np.asarray(xy + 0.02 * np.stack([np.cos(turn), np.sin(turn)], axis=1))


def _majorized(xy: Matrix, distance: Matrix) -> Matrix:
    """Move nodes until distances in the drawing fit, near ones more exactly than far ones."""
    count = len(xy)
    wanted = distance + np.eye(count)
    weight = (1 - np.eye(count)) / wanted**2
    laplacian = np.diag(weight.sum(axis=1)) - weight
    # A constant is added, since the position of the whole is free; it cancels out below.
    inverse = np.linalg.inv(laplacian + 1 / count)
    for _ in range(ROUNDS):
        apart = xy[:, None] - xy[None]
        pull = weight * distance / np.maximum(np.hypot(apart[..., 0], apart[..., 1]), 1e-9)
        moved = inverse @ ((np.diag(pull.sum(axis=1)) - pull) @ xy)
        step = float(np.abs(moved - xy).max())
        xy = moved
        if step < SETTLED:
            break
    return xy


def _upright(xy: Matrix, topology: Topology) -> Matrix:
    """Links across and down where most can be, the wider side across, node 0 to the upper left."""
    _, _, axes = np.linalg.svd(xy - xy.mean(axis=0), full_matrices=False)
    turned = (xy - xy.mean(axis=0)) @ axes.T
    along = turned[topology.links[:, 1]] - turned[topology.links[:, 0]]
    # Directions that are a quarter turn apart count as the same.
    quarters = np.exp(4j * np.arctan2(along[:, 1], along[:, 0])).mean()
    if abs(quarters) > GRID_LIKE:
        angle = float(np.angle(quarters)) / 4
        cos, sin = np.cos(angle), np.sin(angle)
        turned = turned @ np.array([[cos, -sin], [sin, cos]])
    if np.ptp(turned[:, 1]) > np.ptp(turned[:, 0]) + 1e-6:
        turned = turned[:, ::-1]
    return np.asarray(turned * np.where(turned[0] > 0, -1.0, 1.0))


def _nearest(xy: Matrix) -> float:
    """Distance between neighbours in the drawing, without the nearest hundredth of them."""
    near = [float(np.partition(np.hypot(*(xy - here).T), 1)[1]) for here in xy[:MOST_NODES]]
    return max(float(np.quantile(near, 0.01)), 0.05)


LAYOUTS: dict[str, Callable[[Topology], Layout]] = {
    "circle": circle_layout,
    "wide circle": partial(circle_layout, pitch=1.9),
    "grid": grid_layout,
    "levels": tree_layout,
    "halves": bigraph_layout,
    "boards": dgx2_layout,
    "boxes": boxes_layout,
    "groups": dragonfly_layout,
    "distances": spring_layout,
}
"""What `Family.layout` names."""


def layout_of(topology: Topology) -> Layout:
    """Where to draw nodes and links: as the family says, by distances where there is none."""
    family = FAMILIES.get(topology.family)
    layout = "distances" if family is None else family.layout
    if layout == "grid" and len(topology.dims) == 1:
        wraps = topology.num_links == 2 * topology.num_ranks
        return circle_layout(topology) if wraps else line_layout(topology)
    return LAYOUTS[layout](topology)
