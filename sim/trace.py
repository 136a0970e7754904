"""When every message of a schedule was sent and had arrived, as an engine saw it."""

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from multitree.topology.schedules.schedule import Schedule

__all__ = ["Trace"]

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Trace:
    """Cycle by cycle result of one collective, comparable between engines by subtraction.

    Cycle 0 is the first rank's start. The arrays are read-only copies.

    Parameters
    ----------
    schedule : Schedule
        What ran.
    engine : str
        Which engine, "rtl" or "analytic".
    num_flits : int
        Length of the padded buffer in flits.
    sent : int64 array, shape (num_waves, num_transfers)
        Cycle in which a message's head flit is on its link.
    arrived : int64 array, shape (num_waves, num_transfers)
        Cycle in which the message's last flit is reduced or written, and acknowledged.
    start, done : int64 array, shape (num_ranks,)
        Cycle in which a rank was started, and in which it said that it is done.
    link_flits : int64 array, shape (num_links,)
        Payload flits that went over each link; counted in RTL, computed otherwise.

    Raises
    ------
    ValueError
        If shapes do not fit the schedule, a message arrives before it is sent, or a rank is done
        before it starts.
    """

    schedule: Schedule
    engine: str
    num_flits: int
    sent: IntArray
    arrived: IntArray
    start: IntArray
    done: IntArray
    link_flits: IntArray

    def __post_init__(self) -> None:
        """Copy, check and freeze the arrays."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                frozen = np.array(value, dtype=np.int64)
                frozen.setflags(write=False)
                object.__setattr__(self, field.name, frozen)
        self._check_shapes()
        if (self.arrived < self.sent).any():
            row = int(np.argwhere(self.arrived < self.sent)[0][1])
            raise ValueError(f"Trace arrived must be after sent, not before it at transfer {row}")
        if (self.done < self.start).any():
            rank = int(np.flatnonzero(self.done < self.start)[0])
            raise ValueError(f"Trace done must be after start, not before it at rank {rank}")

    def _check_shapes(self) -> None:
        """Raise unless every array has the shape that the schedule asks for."""
        topology = self.schedule.topology
        transfers = (self.schedule.num_waves, self.schedule.num_transfers)
        for name, shape in (
            ("sent", transfers),
            ("arrived", transfers),
            ("start", (topology.num_ranks,)),
            ("done", (topology.num_ranks,)),
            ("link_flits", (topology.num_links,)),
        ):
            found = getattr(self, name).shape
            if found != shape:
                raise ValueError(f"Trace {name} must be of shape {shape}, not {found!r}")

    @property
    def cycles(self) -> int:
        """Cycles from the first rank's start to the last rank's done."""
        return int(self.done.max() - self.start.min())

    @property
    def link_utilization(self) -> float:
        """Payload flits over links times cycles, between 0 and 1."""
        available = self.schedule.topology.num_links * self.cycles
        return float(self.link_flits.sum()) / available if available else 0.0

    @property
    def busiest_link_utilization(self) -> float:
        """Payload flits of the busiest link over cycles, between 0 and 1."""
        return float(self.link_flits.max(initial=0)) / self.cycles if self.cycles else 0.0

    def step_spans(self) -> npt.NDArray[np.int64]:
        """First cycle sent and last cycle arrived of every step, in any wave.

        Returns
        -------
        int64 array, shape (num_steps, 2)
        """
        spans = np.zeros((self.schedule.num_steps, 2), dtype=np.int64)
        for step in range(self.schedule.num_steps):
            rows = self.schedule.step == step
            if rows.any():
                spans[step] = self.sent[:, rows].min(), self.arrived[:, rows].max()
        return spans
