"""How long a collective takes, by the analytic engine, in one call."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from multitree.nic.driver.commands import DEPENDENCIES
from multitree.sim.analytic.engine import analytic
from multitree.sim.choice import AUTO, Chooser
from multitree.sim.timing.link_model import LinkModel
from multitree.sim.timing.sizing import LinkLimit, link_limits
from multitree.sim.timing.trace import Trace
from multitree.topology.algorithms.build import build_compact
from multitree.topology.algorithms.registry import SIZED
from multitree.topology.checks.implicit import (
    AnySchedule,
    ImplicitSchedule,
    verify_any,
    written_out,
)
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = ["Estimate", "estimate", "schedule_for"]


@dataclass(frozen=True, eq=False)
class Estimate:
    """Time of a collective by the analytic engine.

    Parameters
    ----------
    cycles : int
        From the first rank's start to the last rank's done, table load excluded.
    time_us : float
        The same at the link model's clock, in microseconds.
    trace : Trace
        Cycle in which each transfer was sent and had arrived; `trace.schedule` is what was timed.
    link_model : LinkModel
        With "auto" its dependency is the chosen one.
    limits : tuple of LinkLimit
        Links that interfaces cannot use at their speed, and why.
    """

    cycles: int
    time_us: float
    trace: Trace
    link_model: LinkModel
    limits: tuple[LinkLimit, ...]

    @property
    def translated(self) -> bool:
        """True if one tree was timed for all, and `trace` has its rows only."""
        return self.trace.engine == "translated"


def estimate(
    what: Topology | Schedule | ImplicitSchedule,
    size_bytes: int,
    *,
    algorithm: str | None = None,
    collective: str | None = None,
    root: int | None = None,
    link_model: LinkModel | None = None,
    lockstep: bool = False,
    start: Sequence[int] | None = None,
) -> Estimate:
    """Time a collective without running it.

    Parameters
    ----------
    what : Topology, Schedule or ImplicitSchedule
        A network, for which a schedule is built, or a schedule, which is verified. Of one that is
        a tree, translated to every rank, the tree is timed: `Estimate.translated`.
    size_bytes : int
        Of one rank's buffer, 0 or more; it is padded to whole flits.
    algorithm, collective, root : optional
        Of a topology, as for `build`; an all-reduce by "multitree" if not said. Algorithm "auto"
        takes the algorithm, the dependency and the sibling order that are the fastest.
    link_model : LinkModel, optional
        Clock, flits, buffers, memory and pipelines; `dependency` and `flow_control`.
    lockstep : bool
        Interfaces wait out the estimated time of every step.
    start : sequence of int, optional
        Cycles in which ranks are started; all at once if not said. They do not influence which
        algorithm "auto" takes.

    Returns
    -------
    Estimate

    Raises
    ------
    TypeError
        If `what` is neither, or the size no integer.
    ValueError
        If the size or a start is negative, there is not one start per rank, an algorithm,
        collective or root is given with a schedule, which has its own, or "auto" is to choose in
        lockstep; as a ScheduleError if there is no such schedule, one that is given is wrong, or a
        translated one is not the same at all ranks.

    Examples
    --------
    >>> from multitree import estimate, torus
    >>> found = estimate(torus(4, 4), 1 << 20)
    >>> found.cycles == found.trace.cycles, round(found.time_us) == round(found.cycles / 1000)
    (True, True)
    """
    model = link_model or LinkModel()
    num_flits = _num_flits(size_bytes, model)
    if isinstance(what, Topology):
        asked_for = algorithm or "multitree", collective or "all_reduce", root
        schedule, model = schedule_for(what, num_flits, model, *asked_for, lockstep=lockstep)
    elif isinstance(what, Schedule | ImplicitSchedule):
        asked = {"Algorithm": algorithm, "Collective": collective, "Root": root}
        for name, value in asked.items():
            if value is not None:
                raise ValueError(f"{name} must be the schedule's, not {value!r}")
        schedule = what
    else:
        raise TypeError(f"What is timed must be a Topology or a Schedule, not {what!r}")
    verify_any(schedule)
    trace = analytic(schedule, num_flits, model, lockstep=lockstep, start=start)
    limits = link_limits(schedule.topology, model)
    return Estimate(trace.cycles, model.microseconds(trace.cycles), trace, model, limits)


def _num_flits(size_bytes: int, model: LinkModel) -> int:
    if isinstance(size_bytes, bool) or not isinstance(size_bytes, int):
        raise TypeError(f"Size must be an int, in bytes, not {size_bytes!r}")
    if size_bytes < 0:
        raise ValueError(f"Size must be at least 0 bytes, not {size_bytes}")
    return model.num_flits(size_bytes, 1)


def schedule_for(
    topology: Topology,
    num_flits: int,
    link_model: LinkModel,
    algorithm: str,
    collective: str,
    root: int | None = None,
    *,
    lockstep: bool = False,
    dependencies: Sequence[str] = DEPENDENCIES[::-1],
) -> tuple[AnySchedule, LinkModel]:
    """Schedule of an algorithm, or of the fastest for "auto", and the model to time it with.

    One that is too long to be written out is a tree, translated. With "auto" the model's dependency
    is the chosen one of `dependencies`. ScheduleError if there is no such schedule; ValueError if
    "auto" is to choose in lockstep, in which algorithms are not timed.
    """
    if algorithm != AUTO:
        sized = algorithm in SIZED
        cost_model = link_model.cost_model(topology, num_flits) if sized else None
        built = build_compact(topology, algorithm, collective, root, cost_model)
        return written_out(built), link_model
    if lockstep:
        raise ValueError(f"Algorithm must be named in lockstep, not {AUTO!r}")
    chooser = Chooser(topology, link_model, dependencies=dependencies)
    best = chooser.choose(num_flits, collective, root).best
    return best.schedule, replace(link_model, dependency=best.dependency)
