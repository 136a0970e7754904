"""Memories held against the definition of a schedule, bit for bit."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from cocotb.utils import get_sim_time

from multitree.sim.rtl.loads import Load, Upcoming
from multitree.topology.schedules.execute import execute

__all__ = ["as_flits", "check_rank", "expected"]

Buffers = npt.NDArray[Any]
Flits = npt.NDArray[np.uint8]
_SHOWN = 4


def as_flits(row: Buffers, num_flits: int, flit_bytes: int) -> Flits:
    """Bytes of a buffer, padded with zeros to whole flits.

    Parameters
    ----------
    row : numpy.ndarray, shape (num_elements,)
    num_flits, flit_bytes : int

    Returns
    -------
    uint8 array, shape (num_flits, flit_bytes)
    """
    padded = np.zeros(num_flits * flit_bytes // row.itemsize, row.dtype)
    padded[: len(row)] = row
    return padded.view(np.uint8).reshape(num_flits, flit_bytes)


def expected(collectives: Sequence[Upcoming], buffers: Buffers, flit_bytes: int) -> Buffers:
    """All ranks' buffers after some collectives on the same memory, by the definition.

    Parameters
    ----------
    collectives : sequence of Upcoming
        What was run, in order.
    buffers : numpy.ndarray, shape (num_ranks, num_elements)
    flit_bytes : int

    Returns
    -------
    numpy.ndarray, of the same shape and type
    """
    for each in collectives:
        buffers = execute(each.schedule, buffers, each.op, flit_bytes=flit_bytes)
    return buffers


def check_rank(load: Load, rank: int, found: Flits, wanted: Flits) -> None:
    """Assert that a rank's buffer in memory is as defined.

    Parameters
    ----------
    load : Load
        Of the last collective.
    rank : int
    found, wanted : uint8 arrays, shape (num_flits, flit_bytes)

    Raises
    ------
    AssertionError
        Names rank, flits, flow, what is there and what should be.
    """
    wrong = np.flatnonzero((found != wanted).any(axis=1))
    if not len(wrong):
        return
    table = load.tables[rank]
    first = int(wrong[0])
    waves_first = first % int(table.stride[0]) if table.stride.any() else first
    flow = int(np.flatnonzero((table.base <= waves_first) & (table.size > 0))[-1])
    flits = ", ".join(map(str, wrong[:_SHOWN])) + (" ..." if len(wrong) > _SHOWN else "")
    shown = [int.from_bytes(flit[first].tobytes(), "little") for flit in (found, wanted)]
    raise AssertionError(
        f"rank {rank}: {len(wrong)} of {len(found)} flits are wrong ({flits}); flit {first}, of "
        f"flow {flow}, is {shown[0]:#x} instead of {shown[1]:#x} at {get_sim_time('ns'):.0f} ns"
    )
