"""The drawing of any topology: by its family, or else by its distances."""

from collections.abc import Callable

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
from multitree.topology.networks.topology import Topology

__all__ = ["layout_of"]

_LAYOUTS: dict[str, Callable[[Topology], Layout]] = {
    "ring": circle_layout,
    "fully_connected": circle_layout,
    "torus": grid_layout,
    "mesh": grid_layout,
    "hypercube": grid_layout,
    "fat_tree": tree_layout,
    "kary_tree": tree_layout,
    "bigraph": bigraph_layout,
    "dgx2": dgx2_layout,
    "dgx_a100": boxes_layout,
    "dragonfly": dragonfly_layout,
}
_IN_ONE_DIMENSION = {"torus": circle_layout, "mesh": line_layout}


def layout_of(topology: Topology) -> Layout:
    """Where to draw nodes and links, the same for equal topologies."""
    if len(topology.dims) == 1 and topology.family in _IN_ONE_DIMENSION:
        return _IN_ONE_DIMENSION[topology.family](topology)
    return _LAYOUTS.get(topology.family, spring_layout)(topology)
