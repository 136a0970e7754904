"""What an engine hands back, and what the host does to it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.nic.counts import PortCounts
from multitree.topology.elements import make_canonical

__all__ = ["OPS", "Outcome", "average_of", "finished", "reduction_of"]

OPS = ("sum", "max", "average")
"""What becomes of all ranks' elements: those of `execute`, and the sum divided."""


@dataclass(frozen=True)
class Outcome:
    """What an engine hands back.

    Parameters
    ----------
    memory : numpy.ndarray or torch.Tensor, shape (num_ranks, n)
        Every rank's memory at the end.
    cycles : int or None
        From the first rank's start to the last rank's done; None without a clock.
    link_utilization : float or None
        Payload flits over links x cycles; None without a clock.
    ports : tuple of tuples of PortCounts, or None
        What interfaces counted, per rank and port; None where there are no interfaces.
    """

    memory: Any
    cycles: int | None = None
    link_utilization: float | None = None
    ports: tuple[tuple[PortCounts, ...], ...] | None = None


def average_of(image: npt.NDArray[Any], num_ranks: int) -> npt.NDArray[Any]:
    """Divide sums by the number of ranks: one float32 division each, NaN made canonical.

    Parameters
    ----------
    image : float32 or bfloat16 array
        Sums.
    num_ranks : int
        What to divide by.

    Returns
    -------
    array of the same shape and type
        bfloat16 sums are divided as float32, and the quotient is rounded to bfloat16.
    """
    with np.errstate(all="ignore"):
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
