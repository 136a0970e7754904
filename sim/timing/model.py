"""Interface of all models of time, which turn a schedule into a Trace."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from multitree.sim.timing.inputs import check_skews, shares_links
from multitree.sim.timing.link_model import LinkModel
from multitree.sim.timing.trace import Trace
from multitree.topology.checks.proofs import check_switches
from multitree.topology.errors import ScheduleError, check_type
from multitree.topology.schedules.schedule import Schedule

__all__ = ["Run", "TimeModel", "Times"]

IntArray = npt.NDArray[np.int64]


class Times(NamedTuple):
    """Cycles in which transfers were sent and had arrived, and in which ranks were done.

    Of transfers the shape is (num_waves, num_transfers), or (num_transfers,) for a single wave.
    """

    sent: IntArray
    arrived: IntArray
    done: IntArray


class TimeModel(Protocol):
    """Model of time: when every message of a verified schedule goes and comes, without data.

    `num_flits` are those of one rank's padded buffer. In `lockstep` interfaces wait out the
    estimated time of every step. `start` has the cycle of each rank's start, all at once by
    default. Models that go cycle by cycle call `progress` with the cycles run, now and then.
    """

    def __call__(
        self,
        schedule: Schedule,
        num_flits: int,
        link_model: LinkModel | None = None,
        *,
        lockstep: bool = False,
        start: Sequence[int] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Trace:
        """Trace whose cycle 0 is the first rank's start."""


@dataclass(frozen=True, eq=False)
class Run:
    """Checked arguments of a `TimeModel`; `start` is int64, shape (num_ranks,), from 0 on."""

    schedule: Schedule
    num_flits: int
    model: LinkModel
    lockstep: bool
    start: IntArray

    @classmethod
    def of(
        cls,
        schedule: Schedule,
        num_flits: int,
        link_model: LinkModel | None,
        lockstep: bool,
        start: Sequence[int] | None,
    ) -> "Run":
        """Run with these arguments; TypeError or ValueError if one is wrong."""
        check_type("Schedule", schedule, Schedule)
        if not isinstance(num_flits, int | np.integer):
            raise TypeError(f"Number of flits must be an integer, not {num_flits!r}")
        if num_flits < 0:
            raise ValueError(f"Number of flits must be at least 0, not {num_flits!r}")
        check_switches(schedule)
        # Interfaces on shared links have the waves written out.
        if lockstep and schedule.num_waves > 1 and not shares_links(schedule):
            raise ScheduleError(f"Waves must be one in lockstep, not {schedule.num_waves}")
        starts = np.array(check_skews(start, schedule.topology.num_ranks), np.int64)
        model = link_model or LinkModel()
        return cls(schedule, int(num_flits), model, lockstep, starts - starts.min())

    def trace(self, engine: str, times: Times, link_flits: IntArray | None = None) -> Trace:
        """Trace of these times; flits on links follow from the schedule unless they are given."""
        schedule = self.schedule
        if link_flits is None:
            chunks = np.diff(schedule.chunks(self.num_flits)).astype(np.int64)[schedule.flow]
            flits = np.repeat(chunks * schedule.num_waves, np.diff(schedule.route_offsets))
            num_links = schedule.topology.num_links
            link_flits = np.bincount(schedule.route_links, flits, num_links).astype(np.int64)
        return Trace(
            schedule=schedule,
            engine=engine,
            num_flits=self.num_flits,
            sent=np.atleast_2d(times.sent),
            arrived=np.atleast_2d(times.arrived),
            start=self.start,
            done=times.done,
            link_flits=link_flits,
        )
