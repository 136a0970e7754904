"""Times of collectives in the groups of a job, by the analytic engine."""

from collections.abc import Callable, Iterable
from operator import itemgetter

import numpy as np

from multitree.nic.config import LIMITS
from multitree.sim.analytic.engine import analytic
from multitree.sim.jobs.groups import GroupNetwork, Placement
from multitree.sim.jobs.job import GROUPS, Collective
from multitree.sim.link_model import LinkModel
from multitree.topology.algorithms.build import PACED, build, check_algorithm
from multitree.topology.arrays import Int64Array
from multitree.topology.checks.verify import verify
from multitree.topology.collectives import ROOTED
from multitree.topology.errors import ScheduleError
from multitree.topology.schedules.schedule import Schedule

__all__ = ["CollectiveTimes", "cycles_of_engine"]

MOST_FLITS = (1 << LIMITS["address_width"][1]) - 1
"""That an interface addresses."""
CyclesOf = Callable[[Schedule, int, LinkModel], int]


def cycles_of_engine(schedule: Schedule, num_flits: int, model: LinkModel) -> int:
    """Cycles by the engine analytic."""
    return analytic(schedule, num_flits, model).cycles


class CollectiveTimes:
    """Times collectives on the groups of a placement; each size once.

    Every size is timed as it is: nothing is interpolated or extrapolated.

    Parameters
    ----------
    placement : Placement
    algorithm : str
        One of `ALGORITHMS`.
    link_model : LinkModel
    cycles_of : callable, optional
        Cycles of a schedule on so many flits with a model of links; without it, the engine's.
    say : callable, optional
        Called with what is being timed, as that may take long.

    Raises
    ------
    ScheduleError
        If there is no such algorithm.

    Notes
    -----
    A schedule is built and verified once for each collective and network, or for each size where
    the algorithm is one of `PACED`. A size costs the time of `analytic`, whatever the size is:
    about 0.05 CPU seconds for 64 ranks on private links, and 1 to 4 on shared ones.

    Examples
    --------
    >>> from multitree.topology.families.direct import torus
    >>> times = CollectiveTimes(Placement(torus(4, 4)), "multitree", LinkModel())
    >>> times.cycles(Collective("all_reduce", 1 << 20)) < 35_000
    True
    """

    def __init__(
        self,
        placement: Placement,
        algorithm: str,
        link_model: LinkModel,
        *,
        cycles_of: CyclesOf = cycles_of_engine,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.placement = placement
        self.algorithm = check_algorithm(algorithm)
        self.link_model = link_model
        self._cycles_of = cycles_of
        self._say = say or (lambda text: None)
        self._schedules: dict[tuple[object, ...], Schedule] = {}
        self._timed: dict[tuple[str, str, int], tuple[int, Schedule | None]] = {}
        self._links: dict[tuple[str, str, int | None], Int64Array] = {}

    def cycles(self, collective: Collective) -> int:
        """Cycles from the first start to the last done of all groups of a kind; 0 for one rank.

        Raises
        ------
        JobError
            If groups are not connected over links of their own.
        ScheduleError
            If the algorithm has no such schedule on a group, groups share links, or an interface
            does not address such a buffer.
        TopologyError
            If the engine cannot time it.
        """
        return self._time(collective)[0]

    def schedule(self, collective: Collective) -> Schedule | None:
        """What was timed, on the slowest of the groups; None for one rank. Errors as `cycles`."""
        return self._time(collective)[1]

    def share_links(self, collectives: Iterable[Collective]) -> bool:
        """Whether some of both kinds of groups use a common link. Errors as `cycles`."""
        taken = {kind: [np.zeros(0, np.int64)] for kind in GROUPS}
        for each in collectives:
            if self.cycles(each):
                num_flits = self.link_model.num_flits(each.size_bytes, 1)
                taken[each.group].append(self._links[self._key(each.group, each.kind, num_flits)])
        tensor, data = (np.concatenate(links) for links in taken.values())
        return bool(np.isin(tensor, data).any())

    def _time(self, collective: Collective) -> tuple[int, Schedule | None]:
        """Time it on every network of the groups: the slowest counts."""
        kind, group = collective.kind, collective.group
        num_flits = self.link_model.num_flits(collective.size_bytes, 1)
        if (group, kind, num_flits) not in self._timed:
            self._timed[group, kind, num_flits] = self._slowest(collective, num_flits)
        return self._timed[group, kind, num_flits]

    def _slowest(self, collective: Collective, num_flits: int) -> tuple[int, Schedule | None]:
        """Cycles of the slowest network, and the schedule that takes them."""
        kind, group = collective.kind, collective.group
        if num_flits > MOST_FLITS:
            most = MOST_FLITS * self.link_model.flit_bytes
            raise ScheduleError(
                f"{kind}: size must be at most {most} bytes, which an interface addresses, not "
                f"{collective.size_bytes}"
            )
        networks = self.placement.networks(group)
        if not networks:
            return 0, None
        self._say(f"Timing {self.algorithm}, {kind} of {collective.size_bytes} bytes")
        key = self._key(group, kind, num_flits)
        if key not in self._links:
            used = self.placement.used_links(
                group, lambda each: self._schedule(each, kind, num_flits)
            )
            self._links[key] = np.concatenate([*used.values()])
        schedules = [self._schedule(each, kind, num_flits) for each in networks]
        cycles = [self._cycles_of(each, num_flits, self.link_model) for each in schedules]
        return max(zip(cycles, schedules, strict=True), key=itemgetter(0))

    def _key(self, group: str, kind: str, num_flits: int) -> tuple[str, str, int | None]:
        """What has a schedule of its own: a size only where the algorithm is suited to that."""
        return group, kind, num_flits if self.algorithm in PACED else None

    def _schedule(self, network: GroupNetwork, kind: str, num_flits: int) -> Schedule:
        """The schedule on a network, verified."""
        paced = self.algorithm in PACED
        key = network, kind, num_flits if paced else None
        if key not in self._schedules:
            cost_model = self.link_model.cost_model(network.topology, num_flits) if paced else None
            root = 0 if kind in ROOTED else None
            schedule = build(network.topology, self.algorithm, kind, root, cost_model)
            verify(schedule)
            self._schedules[key] = schedule
        return self._schedules[key]
