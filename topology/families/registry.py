"""All families of networks: one entry each, for specs, routes, help and tables."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

import numpy as np

from multitree.topology.families.clusters import (
    DragonflyShape,
    along_boxes,
    dgx_a100,
    dragonfly,
)
from multitree.topology.families.direct import (
    Step,
    along_cube,
    along_grid,
    fully_connected,
    hypercube,
    mesh,
    ring,
    torus,
)
from multitree.topology.families.switched import (
    Orders,
    along_bigraph,
    along_dgx2,
    bigraph,
    by_half,
    by_level,
    dgx2,
    fat_tree,
    kary_tree,
    tree_shape,
)
from multitree.topology.networks.nodes import MAX_RANKS
from multitree.topology.networks.topology import Topology

__all__ = ["FAMILIES", "SPECS", "Family"]


@dataclass(frozen=True)
class Family:
    """A family of networks: what builds them, and what the rest of the house asks of it."""

    # As `Topology.family` has it.
    name: str
    # Takes the sizes of a spec, one by one.
    build: Callable[..., Topology]
    # Specs, as help and tables show them: the family's word, a colon, sizes with "x" in between.
    examples: tuple[str, ...]
    # Cells of docs/reference/schedules.md: the network, the order of its links, its default routes
    # and their virtual-channel classes.
    help: str
    links: str
    route: str
    classes: str
    # How many sizes a spec may have.
    sizes: Collection[int] = (1,)
    # Makes the `Step` of default routes from `Topology.dims`; up*/down* routes without it.
    routes: Callable[[tuple[int, ...]], Step] | None = None
    # The orders of nodes that searches over switches obey; those of up*/down* without it.
    orders: Callable[[Topology], Orders] | None = None
    # One of the `LAYOUTS` of `host.view`.
    layout: str = "distances"

    @property
    def spec(self) -> str:
        """The word that a spec begins with."""
        return self.examples[0].partition(":")[0]


def _grid_routes(dims: tuple[int, ...], *, wraps: bool) -> Step:
    return partial(along_grid, dims, wraps=wraps)


def _cube_routes(dims: tuple[int, ...]) -> Step:
    return lambda at, src, dst: along_cube(at, dst)


def _tree_routes(dims: tuple[int, ...], *, family: str) -> Step:
    shape = tree_shape(family, dims)
    return lambda at, src, dst: (shape.onward(at, dst), np.zeros_like(at))


_ANY = range(1, MAX_RANKS)
_GRID_LINKS = "rank by rank, dimension by dimension, minus before plus"
_SWITCH_LINKS = "node by node, a switch's down before those up or across, ascending"
_WRAPPED = "dimension by dimension, slowest first, in the shorter direction"
_TREE_ROUTE = "up no higher than needed, on a path that the destination selects, then down [2]"
_ENTRIES = (
    Family(
        "ring",
        ring,
        ("ring:16",),
        help="16 ranks, each linked with two",
        links=_GRID_LINKS,
        route="in the shorter direction",
        classes="1 after the link that wraps, else 0",
        routes=partial(_grid_routes, wraps=True),
        layout="circle",
    ),
    Family(
        "torus",
        torus,
        ("torus:4x4",),
        help="any number of dimensions, which wrap around",
        links=_GRID_LINKS,
        route=_WRAPPED,
        classes="1 after the link that wraps, else 0",
        sizes=_ANY,
        routes=partial(_grid_routes, wraps=True),
        layout="grid",
    ),
    Family(
        "mesh",
        mesh,
        ("mesh:8x8",),
        help="a torus without the links that wrap around",
        links=_GRID_LINKS,
        route="dimension by dimension",
        classes="0",
        sizes=_ANY,
        routes=partial(_grid_routes, wraps=False),
        layout="grid",
    ),
    Family(
        "hypercube",
        hypercube,
        ("hypercube:6",),
        help="2^6 ranks, linked where their numbers differ in one bit",
        links="rank by rank, by the bit in which the neighbour differs, lowest first",
        route="bit by bit, lowest first",
        classes="0",
        routes=_cube_routes,
        layout="grid",
    ),
    Family(
        "fully_connected",
        fully_connected,
        ("full:8",),
        help="8 ranks, each linked with every other",
        links="by source, then destination",
        route="the link",
        classes="0",
        layout="wide circle",
    ),
    Family(
        "fat_tree",
        fat_tree,
        ("fat_tree:4x8",),
        help="4 leaf switches with 8 ranks each, 8 spine switches, each linked with every leaf",
        links=_SWITCH_LINKS,
        route=_TREE_ROUTE,
        classes="0",
        sizes=(2,),
        routes=partial(_tree_routes, family="fat_tree"),
        orders=by_level,
        layout="levels",
    ),
    Family(
        "kary_tree",
        kary_tree,
        ("kary_tree:4x3", "kary_tree:4x3x2"),
        help="4^3 ranks below 3 levels of switches with 4 links down and 4 up, or 4 / 2 up",
        links=_SWITCH_LINKS,
        route=_TREE_ROUTE,
        classes="0",
        sizes=(2, 3),
        routes=partial(_tree_routes, family="kary_tree"),
        orders=by_level,
        layout="levels",
    ),
    Family(
        "bigraph",
        bigraph,
        ("bigraph:4x8",),
        help="8 switches with 4 ranks each, in two halves, each switch linked with the other half "
        "(EFLOPS)",
        links=_SWITCH_LINKS,
        route="between halves over the one link; within a half through a switch of the other half, "
        "which the destination selects",
        classes="half of the source",
        sizes=(2,),
        routes=lambda dims: partial(along_bigraph, dims),
        orders=by_half,
        layout="halves",
    ),
    Family(
        "dgx2",
        dgx2,
        ("dgx2",),
        help="16 GPUs on two boards, six switch planes",
        links=_SWITCH_LINKS,
        route="in the plane that both ends select",
        classes="0",
        sizes=(0,),
        routes=lambda dims: partial(along_dgx2, dims),
        orders=by_level,
        layout="boards",
    ),
    Family(
        "dgx_a100",
        dgx_a100,
        ("dgx_a100:4", "dgx_a100:4x2"),
        help="4 boxes of 8 GPUs and six switch planes, a rail for each GPU of a box: 8 leaf "
        "switches below 4 spines, or 2; links of rails half as fast",
        links=_SWITCH_LINKS,
        route="within a box in the plane that both ends select; else on the source's rail, and to "
        "another rail through a spine that the destination's box selects",
        classes="0",
        sizes=(1, 2),
        routes=lambda dims: partial(along_boxes, dims),
        orders=by_level,
        layout="boxes",
    ),
    Family(
        "dragonfly",
        dragonfly,
        ("dragonfly:4x2x2",),
        help="groups of 4 routers with 2 links each to other groups, and so 9 groups; 2 ranks on "
        "each router",
        links=f"{_SWITCH_LINKS}; of those of a group to others, counted router by router, link k "
        "of group i leads to group i + k + 1",
        route="within the group to the link between the two groups, over it, within the other "
        "group; through no third group",
        classes="0 up to and including that link; 1 behind it, and into ranks",
        sizes=(3,),
        routes=lambda dims: DragonflyShape(*dims).onward,
        orders=lambda topology: DragonflyShape(*topology.dims).orders(),
        layout="groups",
    ),
)
FAMILIES = {entry.name: entry for entry in _ENTRIES}
SPECS = {entry.spec: entry for entry in _ENTRIES}
