"""What a collective runs by: a verified schedule, and what its rows wait for."""

from dataclasses import dataclass, replace

from multitree.sim.choice import AUTO, Chooser
from multitree.sim.link_model import LinkModel
from multitree.topology.algorithms.build import PACED, build
from multitree.topology.checks.verify import verify
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = ["Plan", "Plans"]

_LIKE = {"all_gather": "reduce_scatter"}
"""Collectives for which what is best for another one is taken: ranks own the same parts in both."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What is run.

    Parameters
    ----------
    schedule : Schedule
    dependency : str, optional
        What a row waits for; without it, what the link model says.
    """

    schedule: Schedule
    dependency: str | None = None

    def applied_to(self, link_model: LinkModel) -> LinkModel:
        """A link model with the dependency of the plan."""
        return replace(link_model, dependency=self.dependency or link_model.dependency)


class Plans:
    """Verified plans for one topology and algorithm; they are kept.

    Parameters
    ----------
    topology : Topology
    algorithm : str
        One of `ALGORITHMS`, or "auto": for each size the fastest by the analytic engine.
    link_model : LinkModel

    Raises
    ------
    ScheduleError
        If there is no such algorithm, or it has no all-reduce on this topology.
    """

    def __init__(self, topology: Topology, algorithm: str, link_model: LinkModel) -> None:
        self._topology = topology
        self._algorithm = algorithm
        self._link_model = link_model
        self._plans: dict[tuple[str, int | None, int | None], Plan] = {}
        self._verified: dict[str, Schedule] = {}
        self._chooser: Chooser | None = None
        if algorithm == AUTO:
            self._chooser = Chooser(topology, link_model)
        else:
            self.plan("all_reduce", None, None)

    def plan(self, collective: str, root: int | None, size_bytes: int | None) -> Plan:
        """Build and verify, or return what was.

        Parameters
        ----------
        collective : str
        root : int, optional
            As for `build`.
        size_bytes : int, optional
            Of one rank's buffer; matters where the algorithm is "auto", or one of `PACED`.

        Returns
        -------
        Plan

        Raises
        ------
        ScheduleError
            If there is no such schedule.
        ValueError
            If the algorithm is "auto" and no size is given.
        """
        if self._chooser is None and self._algorithm not in PACED:
            size_bytes = None
        elif self._chooser is not None and size_bytes is None:
            raise ValueError(f"Size must be given where the algorithm is {AUTO!r}, not None")
        key = collective, root, size_bytes
        if key not in self._plans:
            self._plans[key] = self._made(collective, root, size_bytes)
        return self._plans[key]

    def _made(self, collective: str, root: int | None, size_bytes: int | None) -> Plan:
        model = self._link_model
        num_flits = None if size_bytes is None else model.num_flits(size_bytes, 1)
        if self._chooser is None or num_flits is None:
            cost_model = None if num_flits is None else model.cost_model(self._topology, num_flits)
            schedule = build(self._topology, self._algorithm, collective, root, cost_model)
            verify(schedule)
            return Plan(schedule)
        best = self._chooser.choose(num_flits, _LIKE.get(collective, collective), root).best
        schedule = best.schedule
        if collective in _LIKE:
            schedule = build(self._topology, best.algorithm, collective, root)
        if schedule.hash not in self._verified:
            verify(schedule)
            self._verified[schedule.hash] = schedule
        return Plan(self._verified[schedule.hash], best.dependency)
