"""Rings over switch planes, one on each, as NCCL runs them in a box of GPUs."""

from collections.abc import Sequence

import numpy as np

from multitree.topology.algorithms.rings import once_around, ring_order
from multitree.topology.algorithms.switch_planes import boxed_planes, plane_routes
from multitree.topology.collectives import chosen_roots
from multitree.topology.errors import ScheduleError
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = ["build_plane_rings"]


def build_plane_rings(topology: Topology, *, roots: Sequence[int] | None = None) -> Schedule:
    """Build as many rings as ranks have links to switch planes, each with its part of the buffer.

    A ring fills the link of each rank to its plane, in both directions. So rings on all planes at
    once come to the bound of large buffers where one ring has one link of each rank. NCCL does the
    same: it has a ring per channel, and spreads channels over links.

    Parameters
    ----------
    topology : Topology
        Ranks behind switches; those connected without ranks are a plane, and join all ranks.
    roots : sequence of int, optional
        As many flows as planes, each with an equal part of the buffer, for each entry; every rank
        once when left out.

    Returns
    -------
    Schedule

    Raises
    ------
    ScheduleError
        If the topology is another one, as where planes join boxes, or a root is no rank.

    Notes
    -----
    O(flows x ranks); deterministic. N-1 steps per phase on K planes, each of a chunk of 1/(NK) of
    the buffer. With one plane it is `build_ring`.

    References
    ----------
    S. Jeaugey, "NCCL 2.0", GPU Technology Conference, NVIDIA, 2017.

    Examples
    --------
    >>> from multitree.topology.families.switched import dgx2
    >>> schedule = build_plane_rings(dgx2())
    >>> schedule.num_flows, schedule.steps_all_gather, schedule.max_link_load
    (96, 15, 1)
    """
    chosen = chosen_roots(roots, topology.num_ranks)
    boxed = boxed_planes(topology, "plane_rings")
    if boxed.rails:
        raise ScheduleError(
            f"{topology.name!r}: plane_rings must have planes that join all ranks, not "
            f"{len(boxed.boxes)} boxes"
        )
    (planes,) = boxed.planes
    ring = once_around(ring_order(topology), chosen)
    rows, offsets, links, classes = [], [np.zeros(1, np.int64)], [], []
    for number, plane in enumerate(planes):
        own = ring.copy()
        own[:, 2] = len(planes) * ring[:, 2] + number
        # The plane's ranks are all ranks, so that their places are their numbers.
        src, dst = ring[:, 3:].T.astype(np.int64)
        route = plane_routes(topology, plane, src, dst, algorithm="plane_rings")
        rows.append(own)
        offsets.append(offsets[-1][-1] + route[0][1:])
        links.append(route[1])
        classes.append(route[2])
    return Schedule.from_rows(
        topology,
        algorithm="plane_rings",
        collective="all_reduce",
        flow_offsets=np.arange(len(planes) * len(chosen) + 1),
        rows=np.concatenate(rows),
        routes=(np.concatenate(offsets), np.concatenate(links), np.concatenate(classes)),
    )
