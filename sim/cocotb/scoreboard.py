"""Data of a bench, and memories compared with what the schedule defines."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.sim.rtl.loads import Load, Upcoming
from multitree.topology.collectives import DTYPES
from multitree.topology.schedules.execute import execute

__all__ = ["as_flits", "check_rank", "draw_buffers", "expected"]

Buffers = npt.NDArray[Any]
Flits = npt.NDArray[np.uint8]
_SHOWN = 4
_SPREAD = 20


def draw_buffers(shape: tuple[int, int], dtype: str, rng: np.random.Generator) -> Buffers:
    """Draw buffers whose sums depend on the order of additions.

    The shape is (ranks, elements of one). Integers are any of "int32"; numbers of "float32" and
    "bfloat16" are spread over 2^-20 to 2^20.
    """
    if dtype == "int32":
        return rng.integers(-(1 << 31), 1 << 31, size=shape).astype(np.int32)
    numbers = rng.normal(size=shape) * 2.0 ** rng.integers(-_SPREAD, _SPREAD + 1, size=shape)
    return numbers.astype(DTYPES[dtype])


def as_flits(row: Buffers, num_flits: int, flit_bytes: int) -> Flits:
    """Bytes of a rank's buffer, padded with zeros to an array of shape (num_flits, flit_bytes)."""
    padded = np.zeros(num_flits * flit_bytes // row.itemsize, row.dtype)
    padded[: len(row)] = row
    return padded.view(np.uint8).reshape(num_flits, flit_bytes)


def expected(collectives: Sequence[Upcoming], buffers: Buffers, flit_bytes: int) -> Buffers:
    """All ranks' buffers, shape (num_ranks, num_elements), after collectives by `execute`."""
    for each in collectives:
        buffers = execute(each.schedule, buffers, each.op, flit_bytes=flit_bytes)
    return buffers


def check_rank(load: Load, rank: int, found: Flits, wanted: Flits) -> None:
    """Assert that a rank's buffer in memory, uint8 of shape (num_flits, flit_bytes), is right.

    The AssertionError names rank, flits, flow, and the values found and wanted.
    """
    wrong = np.flatnonzero((found != wanted).any(axis=1))
    if not len(wrong):
        return
    table = load.tables[rank]
    first = int(wrong[0])
    # Tables hold addresses of the first wave; the others follow at one stride.
    waves_first = first % int(table.stride[0]) if table.stride.any() else first
    flow = int(np.flatnonzero((table.base <= waves_first) & (table.size > 0))[-1])
    flits = ", ".join(map(str, wrong[:_SHOWN])) + (" ..." if len(wrong) > _SHOWN else "")
    shown = [int.from_bytes(flit[first].tobytes(), "little") for flit in (found, wanted)]
    raise AssertionError(
        f"memory of rank {rank}: {len(wrong)} of {len(found)} flits are wrong ({flits}); "
        f"flit {first}, of flow {flow}, is {shown[0]:#x} instead of {shown[1]:#x}"
    )
