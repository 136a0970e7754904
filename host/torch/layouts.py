"""What a rank does in a schedule, in order, and which elements each flow carries."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import torch

from multitree.topology.algorithms.build import build
from multitree.topology.checks.verify import verify
from multitree.topology.collectives import Op
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = [
    "FLIT_BYTES",
    "Action",
    "Kind",
    "Layout",
    "Layouts",
    "Planner",
    "RankProgram",
    "flows_of",
    "parts_of",
    "planner_of",
    "program_of",
]
FLIT_BYTES = 16
"""Chunks are cut at whole flits, of the size that the hardware has by default."""

MAX_LAYOUTS, MAX_PLANNERS = 256, 32

Planner: TypeAlias = Callable[[str, int | None, int], tuple[Schedule, str | None]]
"""From a collective, a root and the bytes of one rank's buffer to a verified schedule, and what its
rows wait for on engines with a clock."""


class Kind(IntEnum):
    """What an action does."""

    SEND = 0
    RECEIVE = 1


@dataclass(frozen=True, slots=True)
class Action:
    """A row of the rank's table, or the arrival of another rank's row."""

    kind: Kind
    op: int  # `Op.REDUCE` or `Op.GATHER`
    flow: int
    peer: int  # the rank at the other end
    step: int
    is_last: bool  # the last action of the flow at this rank: nothing is sent on
    ends_sum: bool  # the last contribution to a sum whose root this rank is


@dataclass(frozen=True)
class RankProgram:
    """All actions of one rank in an order without deadlock.

    Steps ascend, and sends follow the arrivals that they wait for: a send of step s waits only for
    rows of smaller steps, so that some rank can always go on.
    """

    rank: int
    actions: tuple[Action, ...]
    roots: tuple[int, ...]  # of each flow's tree

    def of_flows(self, carries: Sequence[bool]) -> "RankProgram":
        """The same without flows of no elements, which carry nothing."""
        kept = tuple(action for action in self.actions if carries[action.flow])
        return RankProgram(self.rank, kept, self.roots)


def program_of(schedule: Schedule, rank: int) -> RankProgram:
    """Put a rank's rows and arrivals of a verified schedule in order, in O(num_transfers) steps.

    A sum's contributions follow each other by (step, order), as `execute` adds them.
    """
    arrivals: dict[int, list[int]] = {}
    by_order = np.lexsort((schedule.src, schedule.order, schedule.step))
    for row in by_order[schedule.dst[by_order] == rank].tolist():
        arrivals.setdefault(int(schedule.flow[row]), []).append(row)
    rows: list[tuple[Kind, int]] = []
    for row in by_order[schedule.src[by_order] == rank].tolist():
        waiting = arrivals.get(int(schedule.flow[row]), [])
        while waiting and schedule.step[waiting[0]] < schedule.step[row]:
            rows.append((Kind.RECEIVE, waiting.pop(0)))
        rows.append((Kind.SEND, row))
    left = [row for waiting in arrivals.values() for row in waiting]
    rows += [(Kind.RECEIVE, row) for row in by_order[np.isin(by_order, left)].tolist()]
    roots = tuple(schedule.flow_roots.tolist())
    return RankProgram(rank, tuple(_actions(schedule, rank, rows, roots)), roots)


def _actions(
    schedule: Schedule, rank: int, rows: list[tuple[Kind, int]], roots: tuple[int, ...]
) -> list[Action]:
    """Actions of rows in their order."""
    last = {int(schedule.flow[row]): place for place, (_, row) in enumerate(rows)}
    last_sum = {
        int(schedule.flow[row]): place
        for place, (kind, row) in enumerate(rows)
        if kind == Kind.RECEIVE and schedule.op[row] == Op.REDUCE
    }
    actions = []
    for place, (kind, row) in enumerate(rows):
        flow = int(schedule.flow[row])
        actions.append(
            Action(
                kind=kind,
                op=int(schedule.op[row]),
                flow=flow,
                peer=int((schedule.dst if kind == Kind.SEND else schedule.src)[row]),
                step=int(schedule.step[row]),
                is_last=last[flow] == place,
                ends_sum=roots[flow] == rank and last_sum.get(flow) == place,
            )
        )
    return actions


@dataclass(frozen=True)
class Layout:
    """A schedule and a rank's part in it, for one size."""

    schedule: Schedule
    dependency: str | None  # what rows wait for on engines with a clock
    program: RankProgram  # without flows of no elements
    # Per flow the slices of a flat buffer that it carries, one (begin, end) for each wave that
    # has any. For reduce_scatter and all_gather the buffer is that of all ranks' parts.
    ranges: tuple[tuple[tuple[int, int], ...], ...]


class Layouts:
    """Layouts of one rank in one group; the last few are kept."""

    def __init__(self, planner: Planner, rank: int) -> None:
        self._planner = planner
        self._rank = rank
        self._kept: dict[tuple[object, ...], Layout] = {}
        self._programs: dict[str, RankProgram] = {}

    def of_buffer(
        self, collective: str, root: int | None, num_elements: int, element_bytes: int
    ) -> Layout:
        """Layout of an all-reduce, a broadcast or a reduce: chunks as `execute` cuts them."""
        key = collective, root, num_elements, element_bytes
        if key not in self._kept:
            plan = self._planner(collective, root, max(num_elements, 1) * element_bytes)
            self._keep(key, plan, self._cut(plan[0], num_elements, element_bytes))
        return self._kept[key]

    def of_parts(self, collective: str, sizes: tuple[int, ...], element_bytes: int) -> Layout:
        """Layout of a reduce-scatter or an all-gather: a flow carries its root's part."""
        key = collective, sizes, element_bytes
        if key not in self._kept:
            plan = self._planner(collective, None, max(sum(sizes), 1) * element_bytes)
            ends = [0, *itertools.accumulate(sizes)]
            roots = plan[0].flow_roots.tolist()
            self._keep(key, plan, [[(ends[root], ends[root + 1])] for root in roots])
        return self._kept[key]

    def _keep(
        self,
        key: tuple[object, ...],
        plan: tuple[Schedule, str | None],
        cut: list[list[tuple[int, int]]],
    ) -> None:
        """Keep a layout, and forget the oldest."""
        schedule, dependency = plan
        if schedule.hash not in self._programs:
            self._programs[schedule.hash] = program_of(schedule, self._rank)
        ranges = tuple(tuple(r for r in slices if r[0] < r[1]) for slices in cut)
        program = self._programs[schedule.hash].of_flows([bool(slices) for slices in ranges])
        self._kept[key] = Layout(schedule, dependency, program, ranges)
        if len(self._kept) > MAX_LAYOUTS:
            self._kept.pop(next(iter(self._kept)))

    def _cut(
        self, schedule: Schedule, num_elements: int, element_bytes: int
    ) -> list[list[tuple[int, int]]]:
        """Chunks of whole flits, in each wave."""
        flit_elements = FLIT_BYTES // element_bytes
        num_flits = schedule.padded(-(-num_elements // flit_elements))
        bounds = (schedule.chunks(num_flits) * flit_elements).tolist()
        begins = [wave * bounds[-1] for wave in range(schedule.num_waves)]
        return [
            [
                (min(begin + bounds[f], num_elements), min(begin + bounds[f + 1], num_elements))
                for begin in begins
            ]
            for f in range(schedule.num_flows)
        ]


@lru_cache(maxsize=MAX_PLANNERS)
def planner_of(topology: Topology, algorithm: str) -> Planner:
    """Plans of an algorithm whose schedules do not depend on the size; all groups share them.

    ScheduleError if there is no such algorithm, or it has no all-reduce on this topology.
    """
    kept: dict[tuple[str, int | None], Schedule] = {}

    def plan(collective: str, root: int | None, size_bytes: int) -> tuple[Schedule, None]:
        if (collective, root) not in kept:
            schedule = build(topology, algorithm, collective, root)
            verify(schedule)
            kept[collective, root] = schedule
        return kept[collective, root], None

    plan("all_reduce", None, 0)
    return plan


def flows_of(layout: Layout, buffer: torch.Tensor) -> dict[int, list[torch.Tensor]]:
    """The slices of a flat buffer that each flow carries; flows of no elements are left out."""
    return {
        flow: [buffer[begin:end] for begin, end in slices]
        for flow, slices in enumerate(layout.ranges)
        if slices
    }


def parts_of(layout: Layout, parts: list[torch.Tensor]) -> dict[int, list[torch.Tensor]]:
    """The part of its root that each flow carries, where each rank has a tensor of its own."""
    return {
        flow: [parts[root]] for flow, root in enumerate(layout.program.roots) if parts[root].numel()
    }
