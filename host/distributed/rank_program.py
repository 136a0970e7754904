"""What one rank does in a schedule: its own rows and arrivals, in order."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from multitree.topology.collectives import Op
from multitree.topology.schedules.schedule import Schedule

__all__ = ["Action", "Kind", "RankProgram", "program_of"]


class Kind(IntEnum):
    """What an action does."""

    SEND = 0
    TAKE = 1


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
            rows.append((Kind.TAKE, waiting.pop(0)))
        rows.append((Kind.SEND, row))
    left = [row for waiting in arrivals.values() for row in waiting]
    rows += [(Kind.TAKE, row) for row in by_order[np.isin(by_order, left)].tolist()]
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
        if kind == Kind.TAKE and schedule.op[row] == Op.REDUCE
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
