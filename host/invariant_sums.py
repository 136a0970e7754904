"""Invariant sums on an engine: two integer collectives, and one report of both."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from multitree.host.buffers import to_tensor
from multitree.host.engines import Collective, EngineError, Plan, why_not
from multitree.host.report import WorkReport, report_on
from multitree.nic.driver.commands import PortCounts, sum_of
from multitree.sim.timing.link_model import LinkModel

__all__ = ["LEVELS", "InvariantSum", "check_level", "depends_on_order"]

LEVELS = ("schedule", "invariant")
"""What the bits of a sum of floats depend on but the buffers: the schedule, or nothing."""

_LIMB_BYTES = 4

RunOne = Callable[[Collective, Collective | None], tuple[Any, WorkReport]]
Plans = Callable[[str, int | None, int | None], Plan]
"""From a collective, a root and a size in bytes."""


def check_level(reproducible: str) -> None:
    """Raise unless sums can be made reproducible to a level on this machine.

    ValueError if there is no such level, EngineError if it needs PyTorch, which is not installed.
    """
    if reproducible not in LEVELS:
        raise ValueError(f"Reproducible must be one of {', '.join(LEVELS)}, not {reproducible!r}")
    reason = why_not("torch") if reproducible == "invariant" else None
    if reason is not None:
        raise EngineError(
            f"Sums cannot be invariant here: {reason}; the next level down is 'schedule'"
        )


def depends_on_order(collective: str, op: str, dtype: Any) -> bool:
    """Whether the bits of a collective depend on the order in which its schedule combines."""
    adds = collective in ("all_reduce", "reduce_scatter", "reduce") and op != "max"
    return adds and "float" in str(dtype)


@dataclass(frozen=True)
class _Part:
    """Elements whose limbs lie together: the high ones from `begin` on, the low ones behind."""

    rows: slice  # ranks that get their sums
    elements: slice
    begin: int

    @property
    def limbs(self) -> slice:
        """Where in the buffer of the sums."""
        return slice(self.begin, self.begin + 2 * (self.elements.stop - self.elements.start))


class InvariantSum:
    """A sum or average of floats, shape (num_ranks, n), as an int32 maximum and an int32 sum.

    ValueError if there are more ranks than the limbs have room for, ScheduleError if one of the two
    collectives has no schedule. Memory is not modified.
    """

    def __init__(
        self,
        collective: str,
        memory: Any,
        op: str,
        *,
        plans: Plans,
        root: int | None,
        link_model: LinkModel,
    ) -> None:
        from multitree.host.tensors import invariant

        self._tensors = invariant
        self._memory = memory = to_tensor(memory)
        invariant.check_invariant(op, memory.dtype, len(memory))
        self._op, self._link_model = op, link_model
        self._wall_seconds = self._cpu_seconds = 0.0
        num_elements, element_bytes = memory.shape[1], memory.dtype.itemsize
        sums = plans(collective, root, 2 * num_elements * _LIMB_BYTES)
        parts, length = [_Part(slice(None), slice(0, num_elements), 0)], 2 * num_elements
        if collective == "reduce_scatter":
            flit_bytes = link_model.flit_bytes
            whole = plans(collective, root, num_elements * element_bytes)
            owned = whole.owned(num_elements, element_bytes, flit_bytes)
            parts, length = _scattered(owned, sums, flit_bytes)
        self._parts = parts
        # Of what comes, engines want to know the shape: no memory is taken before its turn.
        self.first = Collective.of(
            plans("all_reduce", None, num_elements * _LIMB_BYTES),
            self._integers("empty", num_elements, device="meta"),
            "max",
        )
        self._second = Collective.of(sums, self._integers("empty", length, device="meta"), "sum")

    def _integers(self, make: str, length: int, *, device: Any) -> Any:
        """An int32 tensor of a length for every rank."""
        torch = sys.modules["torch"]
        return getattr(torch, make)((len(self._memory), length), dtype=torch.int32, device=device)

    def run(self, run_one: RunOne, then: Collective | None) -> tuple[Any, WorkReport]:
        """Run both collectives by `run_one`, which knows the one that follows, and round the sums.

        Returns every rank's memory at the end (after a reduce_scatter, what it owns) and a report
        of the cycles, stalls and seconds of both, work on tensors included; `stages` has each
        one's.
        """
        keys = self._timed(self._keys)
        image, of_keys = run_one(replace(self.first, memory=keys), self._second)
        largest = to_tensor(image).to(keys.device)
        limbs = self._timed(self._limbs, largest)
        image, of_sums = run_one(replace(self._second, memory=limbs), then)
        result = self._timed(self._rounded, to_tensor(image).to(keys.device), largest)
        return result, self._report((of_keys, of_sums))

    def _timed(self, work: Callable[..., Any], *tensors: Any) -> Any:
        """Do work on tensors, whose seconds are the sum's as those of its stages are."""
        wall, cpu = time.perf_counter(), time.process_time()
        made = work(*tensors)
        # Kernels are only queued so far.
        if made.is_cuda:
            sys.modules["torch"].cuda.current_stream(made.device).synchronize()
        self._wall_seconds += time.perf_counter() - wall
        self._cpu_seconds += time.process_time() - cpu
        return made

    def _keys(self) -> Any:
        """Every rank's keys."""
        return self._tensors.keys_of(self._memory).view(self._memory.shape)

    def _limbs(self, largest: Any) -> Any:
        """What every rank adds, each part's limbs where its sums are wanted."""
        memory = self._memory
        limbs = self._integers("zeros", self._second.memory.shape[1], device=memory.device)
        pairs = self._tensors.limbs_of(memory, largest).view(2, *memory.shape).transpose(0, 1)
        for part in self._parts:
            limbs[:, part.limbs] = pairs[:, :, part.elements].reshape(len(memory), -1)
        return limbs

    def _rounded(self, image: Any, largest: Any) -> Any:
        """Sums or averages of each part, on the ranks that get them."""
        result = self._memory.new_zeros(self._memory.shape)
        divisor = len(result) if self._op == "average" else None
        for part in self._parts:
            target = result[part.rows, part.elements]
            pairs = image[part.rows, part.limbs].reshape(len(target), 2, -1).transpose(0, 1)
            keys = largest[part.rows, part.elements]
            sums = self._tensors.sum_of(pairs.reshape(2, -1), keys, result.dtype, divisor)
            target.copy_(sums.view(target.shape))
        return result

    def _report(self, stages: tuple[WorkReport, ...]) -> WorkReport:
        """One report of all stages, against the bound of the sum that they stand for."""
        last = stages[-1]
        cycles = _total([stage.cycles for stage in stages])
        used = [(stage.link_utilization, stage.cycles) for stage in stages]
        busy = _total([None if u is None or c is None else u * c for u, c in used])
        report = report_on(
            self._second.plan.schedule,
            engine=last.engine,
            size_bytes=self._memory.shape[1] * self._memory.dtype.itemsize,
            link_model=self._second.plan.applied_to(self._link_model),
            cycles=cycles,
            link_utilization=busy / cycles if busy is not None and cycles else None,
            ports=_together([stage.ports for stage in stages]),
            loading_cycles=_total([stage.loading_cycles for stage in stages]),
            exact=None if last.exact is None else all(stage.exact for stage in stages),
            wall_seconds=self._wall_seconds + sum(stage.wall_seconds for stage in stages),
            cpu_seconds=self._cpu_seconds + sum(stage.cpu_seconds for stage in stages),
        )
        return replace(report, stages=stages)


def _scattered(owned: list[slice], plan: Plan, flit_bytes: int) -> tuple[list[_Part], int]:
    """Parts such that each rank gets the limbs of what it owns, and the length they take."""
    length = 2 * sum(part.stop - part.start for part in owned)
    step = plan.schedule.num_flows * flit_bytes // _LIMB_BYTES
    while True:
        places = plan.owned(length, _LIMB_BYTES, flit_bytes)
        parts = [
            _Part(slice(rank, rank + 1), elements, place.start)
            for rank, (elements, place) in enumerate(zip(owned, places, strict=True))
        ]
        if all(part.limbs.stop <= place.stop for part, place in zip(parts, places, strict=True)):
            return parts, length
        # Chunks of both are cut at whole flits, which may make one a little shorter than it must.
        length += step


def _total(values: list[Any]) -> Any:
    """The sum; None where one is unknown."""
    return None if None in values else sum(values)


def _together(
    stages: list[tuple[tuple[PortCounts, ...], ...] | None],
) -> tuple[tuple[PortCounts, ...], ...] | None:
    """Counters of every port over all stages."""
    known = [stage for stage in stages if stage is not None]
    if len(known) < len(stages):
        return None
    return tuple(
        tuple(sum_of(counts) for counts in zip(*ranks, strict=True))
        for ranks in zip(*known, strict=True)
    )
