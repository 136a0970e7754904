"""What an engine hands back, and what the host does to it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.nic.counts import PortCounts

__all__ = ["Outcome", "average_of", "on_host"]


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


def average_of(image: npt.NDArray[Any], num_ranks: int) -> npt.NDArray[np.float32]:
    """Divide sums by the number of ranks: one IEEE division each, NaN made canonical.

    Parameters
    ----------
    image : float32 array
        Sums.
    num_ranks : int
        What to divide by.

    Returns
    -------
    float32 array of the same shape
    """
    with np.errstate(all="ignore"):
        divisor = np.float32(num_ranks)
        quotient: npt.NDArray[np.float32] = np.divide(image, divisor, dtype=np.float32)
    quotient.view(np.uint32)[np.isnan(quotient)] = 0x7FC00000
    return quotient


def on_host(memory: Any) -> npt.NDArray[Any]:
    """Memory as an array, wherever it is."""
    return memory if isinstance(memory, np.ndarray) else memory.cpu().numpy()
