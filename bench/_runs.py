"""Runs of measurements: points of a sweep, collectives in RTL, what they staged."""

from collections.abc import Iterator
from typing import Any

from multitree import LinkModel, Schedule, Trace
from multitree.host.evaluation.definition import grid_of
from multitree.host.evaluation.point import Point
from multitree.host.evaluation.point_run import run_point
from multitree.host.evaluation.sources import Source
from multitree.host.runner import Runner, Seeded
from multitree.nic.driver.registers import ADDRESS
from multitree.sim.emulator.accesses import EmulatedBus
from multitree.sim.rtl.session import RtlSession


def grid(**values: Any) -> Iterator[tuple[Point, dict[str, Any]]]:
    """Points of a sweep, each with what came of it; one that cannot run is a RuntimeError."""
    for point in grid_of(values).points():
        result = run_point(point, Source(point.topology, None))
        if result.error is not None:
            raise RuntimeError(f"{point}: {result.error}")
        yield point, vars(result)


def in_rtl(
    schedule: Schedule, size_bytes: int, model: LinkModel | None = None, seed: int = 1
) -> tuple[Trace, bool]:
    """A collective of float32 in RTL: its trace, and whether results are those of `execute`."""
    with Runner.timed(schedule.topology, "rtl", link_model=model) as runner:
        report, trace = runner.simulate(schedule, size_bytes, Seeded(seed=seed))
    return trace, bool(report.exact)


def exact_in_rtl(schedule: Schedule, size_bytes: int, model: LinkModel) -> Trace:
    """The trace of a collective of float32 in RTL; a RuntimeError if it is not exact."""
    trace, exact = in_rtl(schedule, size_bytes, model)
    if not exact:
        raise RuntimeError(f"{schedule.topology.name}, {size_bytes} bytes: results differ")
    return trace


def num_staged(session: RtlSession) -> int:
    """Contributions staged since reset, at all ranks; a DeviceError on direct links."""
    ranks = range(session.network.topology.num_ranks)
    return sum(EmulatedBus(session.network, rank).read(ADDRESS["STAGED"]) for rank in ranks)
