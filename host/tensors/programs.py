"""What each flow does to an element, as a straight line of additions."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from multitree.topology.collectives import Op
from multitree.topology.schedules.schedule import Schedule

__all__ = ["Family", "Program", "compiled"]

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Program:
    """The additions of a tree, ranks numbered by their place in it.

    Values 0 to num_ranks-1 are what the ranks have at first, value num_ranks + k is the result of
    addition k. Trees that are equal but for the names of ranks have equal programs.
    """

    num_ranks: int
    # Operands of each addition, the receiver's first, in depth-first order: few values wait at
    # any time, at most one per level of the tree and one per visible sum.
    additions: tuple[tuple[int, int], ...]
    finals: tuple[int, ...]  # the value that each rank has in the end

    def is_sum(self, value: int) -> bool:
        """Whether an addition made a value, so that its NaN are canonical."""
        return value >= self.num_ranks

    def holders(self) -> dict[int, list[int]]:
        """For each value that is left in the end, the places of the ranks that have it."""
        found = defaultdict(list)
        for place, value in enumerate(self.finals):
            found[value].append(place)
        return dict(found)


@dataclass(frozen=True, eq=False)
class Family:
    """All flows of a schedule that have one program."""

    program: Program
    flows: IntArray  # (num_flows,), ascending
    ranks: IntArray  # (num_flows, num_ranks): the rank at each place


@lru_cache(8)
def compiled(schedule: Schedule) -> tuple[Family, ...]:
    """The programs of a verified schedule by their first flow; of several waves, of one.

    Additions and their order are those of `execute`, by (step, order); unrelated ones are put depth
    first. Takes O(num_transfers + num_flows x num_ranks) steps in Python.
    """
    members: dict[Program, list[tuple[int, list[int]]]] = defaultdict(list)
    for flow, rows in enumerate(_rows_by_flow(schedule)):
        program, ranks = _program(rows, schedule.topology.num_ranks)
        members[program].append((flow, ranks))
    return tuple(
        Family(program, np.array([flow for flow, _ in found]), np.array([r for _, r in found]))
        for program, found in members.items()
    )


def _rows_by_flow(schedule: Schedule) -> Iterator[list[tuple[int, int, int]]]:
    """(op, src, dst) of each flow's rows, as `execute` orders them."""
    by_order = np.lexsort((schedule.src, schedule.order, schedule.step, schedule.flow))
    ends = np.searchsorted(schedule.flow[by_order], np.arange(schedule.num_flows + 1))
    columns = (schedule.op, schedule.src, schedule.dst)
    table = [column[by_order].tolist() for column in columns]
    for begin, end in pairwise(ends.tolist()):
        yield list(zip(*(column[begin:end] for column in table), strict=True))


def _program(rows: list[tuple[int, int, int]], num_ranks: int) -> tuple[Program, list[int]]:
    """The program of one flow and the rank at each of its places."""
    held = list(range(num_ranks))
    operands: dict[int, tuple[int, int]] = {}
    for op, src, dst in rows:
        if op == Op.REDUCE:
            value = num_ranks + len(operands)
            operands[value] = held[dst], held[src]
            held[dst] = value
        else:
            held[dst] = held[src]
    used = {value for pair in operands.values() for value in pair}
    order = _depth_first(sorted(set(held) - used), operands)
    places = [value for value in order if value < num_ranks]
    places += sorted(set(range(num_ranks)) - set(places))
    sums = [value for value in order if value >= num_ranks]
    number = {value: index for index, value in enumerate(places + sums)}
    additions = tuple((number[operands[v][0]], number[operands[v][1]]) for v in sums)
    return Program(num_ranks, additions, tuple(number[held[rank]] for rank in places)), places


def _depth_first(tops: list[int], operands: dict[int, tuple[int, int]]) -> list[int]:
    """Values, each behind its operands, the left one's subtree first; recursion as a stack."""
    order: dict[int, None] = {}
    waiting = tops[::-1]
    while waiting:
        value = waiting[-1]
        missing = [operand for operand in operands.get(value, ()) if operand not in order]
        if missing:
            waiting.append(missing[0])
        else:
            order[waiting.pop()] = None
    return list(order)
