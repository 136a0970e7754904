"""The drawing of any topology: by its family, or else by its distances."""

from collections.abc import Callable
from functools import partial

from multitree.host.view.grids import grid_layout, line_layout
from multitree.host.view.layout import Layout
from multitree.host.view.levels import (
    bigraph_layout,
    boxes_layout,
    circle_layout,
    dgx2_layout,
    dragonfly_layout,
    tree_layout,
)
from multitree.host.view.springs import spring_layout
from multitree.topology.families.registry import FAMILIES
from multitree.topology.networks.topology import Topology

__all__ = ["LAYOUTS", "layout_of"]

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
