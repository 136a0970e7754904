"""Schedules on the CPU, a block that fits into the caches at a time."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch

from multitree.host.tensors.operators import (
    combine,
    divide_by_ranks,
    make_canonical,
    reduction_of,
)
from multitree.host.tensors.programs import Program, compiled
from multitree.topology.schedules.schedule import Schedule

__all__ = ["Block", "FusedPlan", "blocks_of", "run_fused"]

BLOCK_BYTES_PER_THREAD = 1 << 18
"""Of one rank: the few blocks that wait for each other stay in a core's second-level cache."""


class Block(NamedTuple):
    """The same elements of every rank's buffer: `width` in each of `num_waves` waves."""

    begin: int
    num_waves: int
    width: int


class _Code(NamedTuple):
    """A program with the place of every result."""

    additions: list[tuple[tuple[int, int], int | None, int]]
    """Operands, scratch memory of the result, or None and the place of the rank in whose row."""
    holders: list[tuple[int, list[int]]]
    """Values that are left in the end, and the places of the ranks that have them."""


@dataclass(frozen=True, eq=False)
class FusedPlan:
    """What is computed once for a verified schedule; it serves all lengths and types."""

    schedule: Schedule
    codes: list[_Code]  # of each flow
    ranks: list[list[int]]  # of each flow, at the places of its code
    num_slots: int  # blocks of scratch memory

    @classmethod
    def of(cls, schedule: Schedule) -> "FusedPlan":
        """Compile a schedule; see `compiled` for the cost."""
        codes: dict[int, _Code] = {}
        ranks: dict[int, list[int]] = {}
        num_slots = 0
        for family in compiled(schedule):
            slots = _slots(family.program)
            num_slots = max([num_slots, *(1 + slot for slot in slots if slot is not None)])
            code = _code(family.program, slots)
            for flow, of_flow in zip(family.flows.tolist(), family.ranks.tolist(), strict=True):
                codes[flow], ranks[flow] = code, of_flow
        flows = range(schedule.num_flows)
        return cls(schedule, [codes[f] for f in flows], [ranks[f] for f in flows], num_slots)


def _code(program: Program, slots: list[int | None]) -> _Code:
    holders = program.holders()
    values = range(program.num_ranks, program.num_ranks + len(slots))
    places = [holders[value][0] if value in holders else -1 for value in values]
    additions = list(zip(program.additions, slots, places, strict=True))
    return _Code(additions, list(holders.items()))


def _slots(program: Program) -> list[int | None]:
    """The scratch memory of each addition's result; None: the row of the only rank that has it."""
    uses = Counter(value for pair in program.additions for value in pair)
    only_row = set()
    for value, places in program.holders().items():
        uses[value] += 1  # kept to the end
        if len(places) == 1:
            only_row.add(value)
    slot_of: dict[int, int] = {}
    free: list[int] = []
    found: list[int | None] = []
    for value, pair in enumerate(program.additions, start=program.num_ranks):
        for operand in pair:
            uses[operand] -= 1
            if uses[operand] == 0 and operand in slot_of:
                free.append(slot_of[operand])
        if value not in only_row:
            # Slots that were ever taken are in use or free.
            slot_of[value] = free.pop() if free else len(set(slot_of.values()))
        found.append(slot_of.get(value))
    return found


def blocks_of(
    schedule: Schedule, n: int, flit_elements: int, block_elements: int
) -> Iterator[tuple[int, Block]]:
    """Cut buffers of n elements into blocks of one flow each, which have every element once.

    Where chunks are short, a block holds those of several waves, at most `block_elements` elements.
    """
    bounds = (schedule.chunks(-(-n // flit_elements)) * flit_elements).tolist()
    wave = bounds[-1]
    num_full = n // wave
    for flow, (begin, end) in enumerate(pairwise(bounds)):
        together = max(1, min(num_full, block_elements // max(end - begin, 1)))
        for first in range(0, num_full, together):
            num_waves = min(together, num_full - first)
            for column in range(begin, end, block_elements):
                width = min(block_elements, end - column)
                yield flow, Block(first * wave + column, num_waves, width)
        # The last wave may be cut off anywhere.
        for column in range(begin, min(end, n - num_full * wave), block_elements):
            width = min(block_elements, min(end, n - num_full * wave) - column)
            yield flow, Block(num_full * wave + column, 1, width)


def run_fused(
    plan: FusedPlan,
    memory: torch.Tensor,
    op: str,
    flit_elements: int,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Run a schedule on the CPU, on n > 0 elements per rank; every input is read once.

    Takes some PyTorch operators per transfer and block, each divided among PyTorch's threads, and
    scratch memory of one block for each level of the highest tree.
    """
    memory = memory.contiguous()
    result = torch.empty_like(memory) if out is None else out
    schedule, n = plan.schedule, memory.shape[1]
    block_elements = BLOCK_BYTES_PER_THREAD * torch.get_num_threads() // memory.element_size()
    wave = int(schedule.chunks(-(-n // flit_elements))[-1]) * flit_elements
    scratch = memory.new_empty(plan.num_slots, block_elements)
    for flow, (begin, num_waves, width) in blocks_of(schedule, n, flit_elements, block_elements):
        shape, strides = (len(memory), num_waves, width), (n, wave, 1)
        run = _BlockRun(
            memory.as_strided(shape, strides, memory.storage_offset() + begin).unbind(),
            result.as_strided(shape, strides, result.storage_offset() + begin),
            scratch[:, : num_waves * width].view(-1, num_waves, width).unbind(),
            op,
        )
        run.do(plan.codes[flow], plan.ranks[flow])
    return result


class _BlockRun:
    """All that a flow does to one block of all ranks."""

    def __init__(
        self,
        sources: tuple[torch.Tensor, ...],
        targets: torch.Tensor,
        scratch: tuple[torch.Tensor, ...],
        op: str,
    ) -> None:
        self._sources, self._scratch = sources, scratch
        self._targets, self._rows = targets, targets.unbind()
        self._op, self._reduction = op, reduction_of(op)

    def do(self, code: _Code, ranks: list[int]) -> None:
        """Add, finish what is left in the end, and copy it to all ranks that have it."""
        values = [self._sources[rank] for rank in ranks]
        for (left, right), slot, place in code.additions:
            out = self._rows[ranks[place]] if slot is None else self._scratch[slot]
            combine(values[left], values[right], self._reduction, out=out)
            values.append(out)
        for value, places in code.holders:
            rows = [self._rows[ranks[place]] for place in places]
            block = self._finished(values[value], rows[0], is_sum=value >= len(ranks))
            if len(rows) == len(ranks) and block is not rows[0]:
                self._targets.copy_(block)  # one call in place of one for each rank
                continue
            for row in rows:
                if row is not block:
                    row.copy_(block)

    def _finished(self, block: torch.Tensor, row: torch.Tensor, *, is_sum: bool) -> torch.Tensor:
        """Divide for an average, and make NaN canonical; an input is copied before."""
        if self._op == "average":
            block = block if is_sum else row.copy_(block)
            divide_by_ranks(block, len(self._rows))
        may_be_wrong = block.is_floating_point() and (is_sum or self._op == "average")
        # A sum that is a number proves that no element is NaN, in less time than a look at each.
        if may_be_wrong and bool(block.sum().isnan()):
            make_canonical(block)
        return block
