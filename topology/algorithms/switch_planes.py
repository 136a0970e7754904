"""Planes of switches, the boxes of ranks that they join, and rails between boxes."""

from typing import NamedTuple

import numpy as np

from multitree.topology.arrays import Int64Array, int32s, int64s
from multitree.topology.errors import ScheduleError, TopologyError
from multitree.topology.networks.topology import Topology
from multitree.topology.routing.default_routes import Routes, routes

__all__ = ["BoxedPlanes", "SwitchPlane", "boxed_planes", "plane_routes", "switch_planes"]


class SwitchPlane(NamedTuple):
    """Switches that are connected without ranks, and the ranks with a link to one of them.

    `links` are those with a switch of the plane at an end. All are int64, ascending.
    """

    ranks: Int64Array
    switches: Int64Array
    links: Int64Array


class BoxedPlanes(NamedTuple):
    """Boxes of ranks with planes of their own, and the rails that join all boxes.

    `boxes`, int64 (num_boxes, box_ranks), has the rank at each place of each box; `rails` are empty
    where there is one box, whose planes join all ranks.
    """

    boxes: Int64Array
    planes: tuple[tuple[SwitchPlane, ...], ...]
    rails: tuple[SwitchPlane, ...]


def switch_planes(topology: Topology) -> list[SwitchPlane]:
    """The connected components of a network's switches that join ranks, by their lowest switch."""
    import networkx as nx

    num_ranks, ends = topology.num_ranks, topology.links
    graph = nx.Graph()
    graph.add_nodes_from(range(num_ranks, topology.num_nodes))
    graph.add_edges_from(ends[(ends >= num_ranks).all(axis=1)].tolist())
    # Both ends of a link between switches are in one component, so the larger one tells it.
    number = np.full(topology.num_nodes, -1)
    parts = [int64s("Switches", sorted(part)) for part in nx.connected_components(graph)]
    for index, part in enumerate(parts):
        number[part] = index
    of_links = number[ends].max(axis=1)
    found = []
    for index, part in enumerate(parts):
        links = np.flatnonzero(of_links == index)
        nodes = np.unique(ends[links])
        ranks = int64s("Ranks", nodes[nodes < num_ranks])
        if len(ranks) > 1:
            found.append(SwitchPlane(ranks, part, int64s("Links", links)))
    return sorted(found, key=lambda plane: int(plane.switches[0]))


def boxed_planes(topology: Topology, algorithm: str) -> BoxedPlanes:
    """The planes of a network, and its boxes and rails where planes join some ranks only.

    A ScheduleError, which names the network and the algorithm that needs planes, says if there are
    no switches, none that join all ranks, a rank has several links to a plane or one way only, or
    boxes overlap or differ in ranks or in planes.
    """
    if not topology.num_switches:
        raise ScheduleError(f"{topology.name!r}: {algorithm} must have switches, not ranks alone")
    found = switch_planes(topology)
    complete = tuple(plane for plane in found if len(plane.ranks) == topology.num_ranks)
    if not complete:
        most = max((len(plane.ranks) for plane in found), default=0)
        raise ScheduleError(
            f"{topology.name!r}: {algorithm} must have connected switches that join all "
            f"{topology.num_ranks} ranks, not {most} at most"
        )
    for plane in found:
        _check_ports(topology, plane, algorithm)
    local = [plane for plane in found if len(plane.ranks) < topology.num_ranks]
    if not local:
        return BoxedPlanes(complete[0].ranks[None], (complete,), ())
    of_boxes: dict[tuple[int, ...], list[SwitchPlane]] = {}
    for plane in local:
        of_boxes.setdefault(tuple(plane.ranks.tolist()), []).append(plane)
    _check_boxes(topology, of_boxes, algorithm)
    # Boxes in the order of their lowest ranks, whatever the numbers of their switches.
    boxes = sorted(of_boxes)
    planes = tuple(tuple(of_boxes[box]) for box in boxes)
    return BoxedPlanes(int64s("Boxes", boxes), planes, complete)


def _check_ports(topology: Topology, plane: SwitchPlane, algorithm: str) -> None:
    """Raise unless each rank has one link to the plane and one from it."""
    ends = topology.links[plane.links]
    for side, direction in ((0, "to"), (1, "from")):
        counts = np.bincount(ends[:, side], minlength=topology.num_nodes)[plane.ranks]
        wrong = np.flatnonzero(counts != 1)
        if wrong.size:
            rank = topology.label(int(plane.ranks[wrong[0]]))
            raise ScheduleError(
                f"{topology.name!r}: {algorithm} must have one link {direction} the switches that "
                f"join a rank, not {counts[wrong[0]]} of rank {rank}"
            )


def _check_boxes(
    topology: Topology, of_boxes: dict[tuple[int, ...], list[SwitchPlane]], algorithm: str
) -> None:
    """Raise unless boxes part the ranks into as many each, with as many planes."""
    members = sorted(rank for box in of_boxes for rank in box)
    if members != list(range(topology.num_ranks)):
        counts = np.bincount(members, minlength=topology.num_ranks)
        rank = int(np.flatnonzero(counts != 1)[0])
        raise ScheduleError(
            f"{topology.name!r}: {algorithm} must have boxes that hold each rank once, "
            f"not rank {topology.label(rank)} in {counts[rank]}"
        )
    for what, numbers in (
        ("ranks", {len(box) for box in of_boxes}),
        ("planes", {len(planes) for planes in of_boxes.values()}),
    ):
        if len(numbers) > 1:
            raise ScheduleError(
                f"{topology.name!r}: {algorithm} must have boxes with as many {what} each, "
                f"not {min(numbers)} to {max(numbers)}"
            )


def plane_routes(
    topology: Topology, plane: SwitchPlane, src: Int64Array, dst: Int64Array, *, algorithm: str
) -> Routes:
    """One route over a plane for each pair of places among its ranks.

    Those are the network's default routes where the plane is all of it, and otherwise those of the
    plane alone, which are free of circular waiting as well.
    """
    if len(plane.links) == topology.num_links:
        ranks = (int32s("Ranks", plane.ranks[places]) for places in (src, dst))
        return routes(topology, *ranks)
    number = np.zeros(topology.num_nodes, np.int64)
    nodes = np.concatenate([plane.ranks, plane.switches])
    number[nodes] = np.arange(len(nodes))
    counts, same = (len(plane.ranks), len(plane.switches)), np.ones(len(plane.links))
    ends = int32s("Links", number[topology.links[plane.links]])
    try:
        alone = Topology("plane", *counts, ends, same, same)
    except TopologyError as error:
        raise ScheduleError(
            f"{topology.name!r}: {algorithm} must have switches that lead from every rank to every "
            f"other, not those from switch {topology.label(int(plane.switches[0]))} on"
        ) from error
    offsets, links, classes = routes(alone, int32s("Places", src), int32s("Places", dst))
    return offsets, int32s("Links", plane.links[links]), classes
