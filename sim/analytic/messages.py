"""Messages on shared links as plain lists, and the queue of their events."""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.hw.codes import AHEAD_FLITS
from multitree.nic.driver.routed_rows import places_in_sums
from multitree.sim.timing.link_model import LinkModel
from multitree.topology.collectives import Op
from multitree.topology.errors import report
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = ["LAST", "Channels", "EventQueue", "Messages", "channels_of", "messages_of"]

IntArray = npt.NDArray[np.int64]

_EVENTS_BETWEEN_REPORTS = 1 << 10
LAST = 1 << 30
"""Rank of what sees all else of its cycle."""


@dataclass(frozen=True)
class Channels:
    """Virtual-channel classes of all links, link by link; lists per channel.

    Channel c is class c % classes of link c // classes. `depth` is the buffer at the far end in
    flits, `place` the channel's number there: port, then class; times are cycles.
    """

    classes: int
    latency: list[float]
    credit_latency: list[float]
    interval: list[float]
    depth: list[int]
    place: list[int]


@dataclass(frozen=True)
class Messages:
    """Size, ends, route and needs of every message; lists in the order of the schedule's rows.

    `step` tells switches the older message, `order` is the place in a sum, `sum` the sum or result
    that it brings and `needs` the one that it waits for, -1 for none; `num_children` counts
    contributions per sum.
    """

    size: list[int]
    step: list[int]
    src: list[int]
    dst: list[int]
    route: list[list[int]]
    adds: list[bool]
    order: list[int]
    sum: list[int]
    needs: list[int]
    num_children: list[int]

    @property
    def num_sums(self) -> int:
        """Sums and results of all flows at all ranks."""
        return len(self.num_children)


def channels_of(topology: Topology, classes: int, model: LinkModel) -> Channels:
    ends = topology.reverse.tolist()
    # The number of a port only breaks ties, so that any will do for a link without a reverse.
    ports = [0 if back < 0 else topology.port_of_link(back) for back in ends]
    to_rank = np.repeat(topology.links[:, 1] < topology.num_ranks, classes)
    # Where it ends at a rank, a head is taken out and some payload is let in behind it (queue
    # `ahead` of nic/receive/shared_lane.py).
    depth = model.buffer_flits_on(topology) + np.where(to_rank, AHEAD_FLITS - 1, 0)
    credits = model.credit_latency_cycles(topology)
    return Channels(
        classes=classes,
        latency=np.repeat(model.latency_cycles(topology), classes).astype(float).tolist(),
        credit_latency=np.repeat(credits, classes).astype(float).tolist(),
        interval=np.repeat(model.cycles_per_flit(topology), classes).tolist(),
        depth=depth.tolist(),
        place=[port * classes + k for port in ports for k in range(classes)],
    )


def messages_of(schedule: Schedule, size: IntArray, classes: int) -> Messages:
    """Messages of a schedule `as_sent`, with payloads of `size` flits."""
    num_ranks = schedule.topology.num_ranks
    flow, adds = schedule.flow.astype(np.int64), schedule.op == Op.REDUCE
    results = schedule.num_flows * num_ranks
    brings = flow * num_ranks + schedule.dst + np.where(adds, 0, results)
    num_children = np.bincount(brings[adds], minlength=2 * results)
    comes = np.zeros(2 * results, bool)
    comes[brings] = True
    # Like `_shared_job` of nic/send/fetcher.py, a GATHER waits for the result from its parent, or
    # at the root, as a REDUCE does, for the whole sum.
    whole = flow * num_ranks + schedule.src
    needs = np.where(comes[whole], whole, -1)
    needs = np.where(~adds & comes[whole + results], whole + results, needs)
    # Channels of the other parity belong to other collectives, and only one is timed.
    channels = schedule.route_links.astype(np.int64) * classes + schedule.route_classes
    offsets, along = schedule.route_offsets.tolist(), channels.tolist()
    return Messages(
        size=size.tolist(),
        step=schedule.step.tolist(),
        src=schedule.src.tolist(),
        dst=schedule.dst.tolist(),
        route=[along[a:b] for a, b in pairwise(offsets)],
        adds=adds.tolist(),
        order=places_in_sums(schedule).tolist(),
        sum=brings.tolist(),
        needs=needs.tolist(),
        num_children=num_children.tolist(),
    )


class EventQueue:
    """Queue of actions in the order of their cycles.

    In one cycle those of lower rank go first, then those that were queued first.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._count = 0
        self._heap: list[tuple[float, int, int, Callable[..., None], tuple[Any, ...]]] = []

    def at(self, cycle: float, action: Callable[..., None], *given: Any, rank: int = 0) -> None:
        """Note an action; one for a cycle that is past comes at once."""
        self._count += 1
        # The count makes each entry unique, so that actions are never compared.
        heappush(self._heap, (max(cycle, self.now), rank, self._count, action, given))

    def run(self) -> None:
        """Until nothing is left to do."""
        heap = self._heap
        while heap:
            for _ in range(min(_EVENTS_BETWEEN_REPORTS, len(heap))):
                self.now, _, _, action, given = heappop(heap)
                action(*given)
            report(f"cycle {self.now:,.0f}")
