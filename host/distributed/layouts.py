"""Which elements of users' tensors each flow carries, for each collective."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch

from multitree.host.distributed.rank_program import RankProgram, program_of
from multitree.topology.algorithms.build import build
from multitree.topology.checks.verify import verify
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = ["Layout", "Layouts", "flows_of", "parts_of"]

FLIT_BYTES = 16
"""Chunks are cut at whole flits, of the size that the hardware has by default."""

MAX_LAYOUTS = 256

Planner: TypeAlias = Callable[[str, int | None, int], tuple[Schedule, str | None]]


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


def planner_of(topology: Topology, algorithm: str) -> Planner:
    """Plans of an algorithm whose schedules do not depend on the size; they are kept.

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
