"""A collective in progress, and what an engine returns."""

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from multitree.host.report import WorkReport
from multitree.nic.driver.commands import PortCounts
from multitree.sim.timing.trace import Trace
from multitree.topology.collectives import make_canonical
from multitree.topology.errors import not_one_of

__all__ = [
    "OPS",
    "Outcome",
    "Result",
    "Work",
    "average_of",
    "checked_op",
    "finished",
    "reduction_of",
]

OPS = {"sum": "sum", "max": "max", "average": "average", "avg": "average"}
"""What becomes of all ranks' elements, by all its names: those of `execute`, and the sum divided.

PyTorch and NCCL say avg.
"""


def checked_op(op: str, dtype: Any) -> str:
    """The op of a name: "sum", "max" or "average".

    ValueError if there is no such op, TypeError if it is an average of integers.
    """
    if not isinstance(op, str) or op not in OPS:
        raise ValueError(not_one_of("Op", op, OPS))
    if OPS[op] == "average" and "float" not in str(dtype):
        raise TypeError(f"Buffers must be floats for an average, not {dtype}")
    return OPS[op]


@dataclass(frozen=True)
class Outcome:
    """What an engine hands back; without a clock, or without interfaces, the rest is None."""

    memory: Any  # every rank's at the end: array or tensor of shape (num_ranks, n)
    cycles: int | None = None  # from the first rank's start to the last rank's done
    link_utilization: float | None = None  # payload flits over links x cycles
    ports: tuple[tuple[PortCounts, ...], ...] | None = None  # counted per rank and port
    trace: Trace | None = None  # when each message went


def average_of(image: npt.NDArray[Any], num_ranks: int) -> npt.NDArray[Any]:
    """Divide sums of float32 or bfloat16 by the number of ranks; NaN becomes canonical.

    Each takes one float32 division, whose quotient is rounded to bfloat16 where sums are.
    """
    with np.errstate(all="ignore"):
        # The divisor stays float32: bfloat16 does not hold every number of ranks.
        quotient = np.divide(image.astype(np.float32), np.float32(num_ranks), dtype=np.float32)
        average = quotient.astype(image.dtype, copy=False)
    make_canonical(average)
    return average


def reduction_of(op: str) -> str:
    """The op of `execute` that comes first."""
    return "sum" if op == "average" else op


def finished(image: npt.NDArray[Any], op: str, num_ranks: int) -> npt.NDArray[Any]:
    """What is left to the host once the sums or maxima are there: the division of an average."""
    return average_of(image, num_ranks) if op == "average" else image


Result = TypeVar("Result")


class Work(Generic[Result]):
    """A collective that was started: wait for its result, then read its report.

    Made by a `Communicator`. Errors of the engine come up in `wait` and in `report`, with the
    rank, port and flow they name.
    """

    def __init__(self, future: Future[tuple[Result, WorkReport]]) -> None:
        self._future = future

    def wait(self, timeout_seconds: float | None = None) -> Result:
        """Wait for the end and return the result.

        Parameters
        ----------
        timeout_seconds : float, optional
            Longest time to wait; without it, until the engine ends. Engines end by themselves,
            with a fault where something hangs.

        Returns
        -------
        array, tensor or list of them
            In the form of the collective's input, of which type checkers know.

        Raises
        ------
        TimeoutError
            If `timeout_seconds` pass first; the collective goes on.
        DeviceError, ScheduleError, TopologyError
            What the engine raised.
        """
        return self._future.result(timeout_seconds)[0]

    def done(self) -> bool:
        """Whether `wait` would return at once."""
        return self._future.done()

    @property
    def report(self) -> WorkReport:
        """The report; waits for the end of the collective."""
        return self._future.result()[1]
