"""What a schedule means: the NumPy definition that every engine must equal."""

from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.topology.arrays import Int64Array
from multitree.topology.collectives import OPS, Op, check_dtype, combine
from multitree.topology.errors import ScheduleError, check_type
from multitree.topology.schedules.schedule import Schedule

Buffers = npt.NDArray[Any]


def execute(
    schedule: Schedule, buffers: Buffers, op: str = "sum", *, flit_bytes: int = 16
) -> Buffers:
    """Run a schedule on the ranks' memories, and return these memories.

    In each wave row by row in ascending (step, order): REDUCE adds the chunk at `src` into the one
    at `dst`, or keeps the larger elements, GATHER replaces it. So a rank's own value comes first in
    a sum, then the arrivals by ascending (step, order), and every engine that carries data gives
    the same bits everywhere, partial sums at inner nodes included.

    Parameters
    ----------
    schedule : Schedule
        One that `verify` accepts.
    buffers : numpy.ndarray, float32, int32 or bfloat16 (num_ranks, n)
        Each rank's buffer; never modified. bfloat16 is `ml_dtypes.bfloat16`.
    op : str
        "sum" or "max".
    flit_bytes : int
        Chunks begin at whole flits of so many bytes; the buffer counts as padded with zeros
        to whole flits.

    Returns
    -------
    numpy.ndarray, of the same dtype and shape
        The memory of each rank. all_reduce and broadcast: every row is the result. reduce:
        the root's row is. reduce_scatter: rank r's `owned_range` is, the rest are partial
        sums. all_gather: each chunk as its flow's root had it.

    Raises
    ------
    TypeError
        If the schedule or the buffers are of another type.
    ValueError
        If their shape, `op` or `flit_bytes` is wrong.

    Notes
    -----
    int32 wraps around; float32 and bfloat16 round to nearest even with subnormals, and every
    result that is not a number is 0x7FC00000 or 0x7FC0. A bfloat16 sum is rounded where it is
    written, which is where it is sent on from. The maximum of floats is that of IEEE 754-2019,
    so that it does not depend on the order. O(num_transfers + bytes moved).

    Examples
    --------
    >>> from multitree.topology.families.direct import ring
    >>> from multitree.topology.algorithms.multitree import build_multitree
    >>> execute(build_multitree(ring(3)), np.arange(6, dtype=np.int32).reshape(3, 2)).tolist()
    [[6, 9], [6, 9], [6, 9]]
    """
    check_type("Schedule", schedule, Schedule)
    if op not in OPS:
        raise ValueError(f"Op must be one of {', '.join(OPS)}, not {op!r}")
    _check_buffers(schedule, buffers)
    num_elements, flit_elements = buffers.shape[1], _flit_elements(flit_bytes, buffers.itemsize)
    num_flits = schedule.padded(-(-num_elements // flit_elements))
    padding = num_flits * flit_elements - num_elements
    # All waves at once: they are alike, and no two touch the same elements.
    bounds = (schedule.chunks(num_flits) * flit_elements).tolist()
    # A copy, so that buffers stay as they were.
    memory = np.pad(buffers, ((0, 0), (0, padding)))
    memory = memory.reshape(len(buffers), schedule.num_waves, bounds[-1])
    _run(schedule, memory, bounds, op)
    return np.ascontiguousarray(
        memory.reshape(len(buffers), num_elements + padding)[:, :num_elements]
    )


def _run(schedule: Schedule, memory: Buffers, bounds: list[int], op: str) -> None:
    """Do all rows, in place, on memory of shape (num_ranks, num_waves, elements of a wave)."""
    # Rows of a step commute but for siblings, as `verify`
    # proves: none writes what another one reads.
    by_order = np.lexsort((schedule.src, schedule.order, schedule.step))
    columns = (schedule.op, schedule.flow, schedule.src, schedule.dst)
    rows = zip(*(column[by_order].tolist() for column in columns), strict=True)
    for row_op, flow, src, dst in rows:
        chunk = slice(bounds[flow], bounds[flow + 1])
        if row_op == Op.GATHER:
            memory[dst, :, chunk] = memory[src, :, chunk]
        else:
            combine(memory[dst, :, chunk], memory[src, :, chunk], op)


def flow_ranges(
    schedule: Schedule, num_elements: int, *, flit_bytes: int = 16, element_bytes: int = 4
) -> Int64Array:
    """Where each flow's chunk begins in a buffer of elements, int64 (num_flows + 1,).

    Padding is cut off. A ScheduleError says that there are several waves, in each of which a flow
    has a chunk.
    """
    flit_elements = _flit_elements(flit_bytes, element_bytes)
    if num_elements < 0:
        raise ValueError(f"Number of elements must be at least 0, not {num_elements!r}")
    if schedule.num_waves > 1:
        raise ScheduleError(
            f"Waves must be one where a flow has one chunk, not {schedule.num_waves}"
        )
    num_flits = -(-num_elements // flit_elements)
    # Chunks are cut at flits of the padded buffer, so the last ones may reach beyond its elements.
    return np.minimum(schedule.chunks(num_flits) * flit_elements, num_elements)


def owned_range(
    schedule: Schedule,
    rank: int,
    num_elements: int,
    *,
    flit_bytes: int = 16,
    element_bytes: int = 4,
) -> tuple[int, int]:
    """The first element, and the one after the last, that a rank owns after reduce_scatter.

    A ScheduleError says that not exactly one flow is rooted at the rank.
    """
    flows = np.flatnonzero(schedule.flow_roots == rank)
    if len(flows) != 1:
        raise ScheduleError(f"Flows rooted at rank {rank} must be one, not {len(flows)}")
    ranges = flow_ranges(schedule, num_elements, flit_bytes=flit_bytes, element_bytes=element_bytes)
    return int(ranges[flows[0]]), int(ranges[flows[0] + 1])


def _flit_elements(flit_bytes: int, element_bytes: int) -> int:
    if flit_bytes < element_bytes or flit_bytes % element_bytes:
        raise ValueError(
            f"Flit bytes must be a positive multiple of {element_bytes}, not {flit_bytes!r}"
        )
    return flit_bytes // element_bytes


def _check_buffers(schedule: Schedule, buffers: Buffers) -> None:
    if not isinstance(buffers, np.ndarray):
        raise TypeError(f"Buffers must be a NumPy array, not {type(buffers).__name__}")
    check_dtype("Buffers", buffers.dtype)
    num_ranks = schedule.topology.num_ranks
    if buffers.ndim != 2 or len(buffers) != num_ranks:
        raise ValueError(f"Buffers must be of shape ({num_ranks}, n), not {buffers.shape}")
