"""One collective in RTL, on a network of its own."""

from collections.abc import Sequence

from multitree.sim.emulator.verilator import Say
from multitree.sim.emulator.waveform import Waveform
from multitree.sim.inputs import Buffers, check_buffers
from multitree.sim.link_model import LinkModel
from multitree.sim.memory_timing import MemoryTiming
from multitree.sim.rtl.session import Progress, RtlSession
from multitree.sim.sizing import emulated_dtypes, least_sizes
from multitree.sim.trace import Trace
from multitree.topology.mapping.attached_routers import lowered
from multitree.topology.schedules.schedule import Schedule

__all__ = ["run_rtl"]


def run_rtl(
    schedule: Schedule,
    buffers: Buffers,
    *,
    op: str = "sum",
    link_model: LinkModel | None = None,
    start_skew_cycles: Sequence[int] | None = None,
    memory_timing: MemoryTiming | None = None,
    waveform: Waveform | None = None,
    progress: Progress | None = None,
    say: Say | None = None,
) -> tuple[Buffers, Trace]:
    """Run one collective on a network of its own; see `RtlSession` for many.

    Parameters
    ----------
    schedule : Schedule
        One that `verify` accepts.
    buffers : float32, int32 or bfloat16 array, shape (num_ranks, n)
        Never modified.
    link_model, memory_timing, waveform, say
        As for `RtlSession`.
    op, start_skew_cycles, progress
        As for `RtlSession.run`.

    Returns
    -------
    memory : array of the buffers' shape and type
        Every rank's memory afterwards.
    trace : Trace
        What was sent and had arrived when.

    Raises
    ------
    TypeError, ValueError, TopologyError, DeviceError
        As `RtlSession` and its `run`.
    """
    model = link_model or LinkModel()
    first = check_buffers(schedule, [buffers])
    with RtlSession(
        lowered(schedule).topology,
        link_model=model,
        memory_timing=memory_timing,
        waveform=waveform,
        **least_sizes(schedule, model.num_flits(first.shape[1], first.dtype.itemsize)),
        dtypes=emulated_dtypes(first.dtype.name),
        say=say,
    ) as session:
        skews = start_skew_cycles
        runs = session.run(schedule, [buffers], op=op, start_skew_cycles=skews, progress=progress)
        return runs[0]
