"""Which elements of users' tensors each flow carries, for each collective."""

import itertools
from dataclasses import dataclass

import torch

from multitree.host.distributed.rank_program import RankProgram, program_of
from multitree.host.engines import Plan
from multitree.host.runner import Plans
from multitree.sim.link_model import LinkModel
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = ["Layout", "Layouts", "flows_of", "parts_of"]

MAX_LAYOUTS = 256


@dataclass(frozen=True)
class Layout:
    """A schedule and a rank's part in it, for one size.

    Parameters
    ----------
    schedule : Schedule
    dependency : str or None
        What rows wait for on engines with a clock.
    program : RankProgram
        Without flows of no elements.
    ranges : tuple
        Per flow the slices of a flat buffer that it carries, one (begin, end) for each wave that
        has any. For reduce_scatter and all_gather the buffer is that of all ranks' parts.
    """

    schedule: Schedule
    dependency: str | None
    program: RankProgram
    ranges: tuple[tuple[tuple[int, int], ...], ...]


class Layouts:
    """Layouts of one rank in one group; the last few are kept.

    Parameters
    ----------
    topology : Topology
    algorithm : str
    rank : int
    link_model : LinkModel
        Bytes of a flit.
    """

    def __init__(
        self, topology: Topology, algorithm: str, rank: int, link_model: LinkModel
    ) -> None:
        self._plans = Plans(topology, algorithm, link_model)
        self._rank = rank
        self._flit_bytes = link_model.flit_bytes
        self._kept: dict[tuple[object, ...], Layout] = {}
        self._programs: dict[str, RankProgram] = {}

    def of_buffer(
        self, collective: str, root: int | None, num_elements: int, element_bytes: int
    ) -> Layout:
        """Layout of an all-reduce, a broadcast or a reduce: chunks as `execute` cuts them."""
        key = collective, root, num_elements, element_bytes
        if key not in self._kept:
            plan = self._plans.plan(collective, root, max(num_elements, 1) * element_bytes)
            self._keep(key, plan, self._cut(plan.schedule, num_elements, element_bytes))
        return self._kept[key]

    def of_parts(self, collective: str, sizes: tuple[int, ...], element_bytes: int) -> Layout:
        """Layout of a reduce-scatter or an all-gather: a flow carries its root's part.

        Parameters
        ----------
        collective : str
        sizes : tuple of int
            Elements of each rank's part.
        element_bytes : int
        """
        key = collective, sizes, element_bytes
        if key not in self._kept:
            plan = self._plans.plan(collective, None, max(sum(sizes), 1) * element_bytes)
            ends = [0, *itertools.accumulate(sizes)]
            roots = plan.schedule.flow_roots.tolist()
            self._keep(key, plan, [[(ends[root], ends[root + 1])] for root in roots])
        return self._kept[key]

    def _keep(self, key: tuple[object, ...], plan: Plan, cut: list[list[tuple[int, int]]]) -> None:
        """Keep a layout, and forget the oldest."""
        schedule = plan.schedule
        if schedule.hash not in self._programs:
            self._programs[schedule.hash] = program_of(schedule, self._rank)
        ranges = tuple(tuple(r for r in slices if r[0] < r[1]) for slices in cut)
        program = self._programs[schedule.hash].of_flows([bool(slices) for slices in ranges])
        self._kept[key] = Layout(schedule, plan.dependency, program, ranges)
        if len(self._kept) > MAX_LAYOUTS:
            self._kept.pop(next(iter(self._kept)))

    def _cut(
        self, schedule: Schedule, num_elements: int, element_bytes: int
    ) -> list[list[tuple[int, int]]]:
        """Chunks of whole flits, in each wave."""
        flit_elements = self._flit_bytes // element_bytes
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
