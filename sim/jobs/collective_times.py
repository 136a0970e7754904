"""Times of collectives in the groups of a job, by the analytic engine."""

from collections.abc import Callable, Iterable
from operator import itemgetter

import numpy as np

from multitree.nic.driver.config import LIMITS
from multitree.sim.analytic.engine import analytic
from multitree.sim.jobs.groups import GroupNetwork, Placement
from multitree.sim.jobs.job import GROUPS, Collective
from multitree.sim.timing.link_model import LinkModel
from multitree.topology.algorithms.build import build
from multitree.topology.algorithms.registry import SIZED, check_algorithm
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
    return analytic(schedule, num_flits, model).cycles


class CollectiveTimes:
    """Cycles of collectives in the groups of a placement, each size timed once.

    Nothing is interpolated. A schedule is built and verified once for each collective and network,
    for algorithms in `SIZED` once for each size. Timing costs about 0.05 CPU seconds for 64 ranks
    on private links and 1 to 4 on shared ones, whatever the size.
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

        JobError if groups are not connected by links of their own; ScheduleError if the algorithm
        has no such schedule, groups share links, or the buffer exceeds an interface's addresses;
        TopologyError if the engine cannot time it.
        """
        return self._time(collective)[0]

    def schedule(self, collective: Collective) -> Schedule | None:
        """Schedule timed on the slowest group; None for one rank."""
        return self._time(collective)[1]

    def share_links(self, collectives: Iterable[Collective]) -> bool:
        """True if groups of both kinds use a common link."""
        taken = {kind: [np.zeros(0, np.int64)] for kind in GROUPS}
        for each in collectives:
            if self.cycles(each):
                num_flits = self.link_model.num_flits(each.size_bytes, 1)
                taken[each.group].append(self._links[self._key(each.group, each.kind, num_flits)])
        tensor, data = (np.concatenate(links) for links in taken.values())
        return bool(np.isin(tensor, data).any())

    def _time(self, collective: Collective) -> tuple[int, Schedule | None]:
        kind, group = collective.kind, collective.group
        num_flits = self.link_model.num_flits(collective.size_bytes, 1)
        if (group, kind, num_flits) not in self._timed:
            self._timed[group, kind, num_flits] = self._slowest(collective, num_flits)
        return self._timed[group, kind, num_flits]

    def _slowest(self, collective: Collective, num_flits: int) -> tuple[int, Schedule | None]:
        """Cycles of the slowest network of the groups, and its schedule."""
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
        # All groups run at the same time, so that one that used another's link would be delayed.
        self._say(f"Timing {self.algorithm}, {kind} of {collective.size_bytes} bytes")
        key = self._key(group, kind, num_flits)
        if key not in self._links:
            used = self.placement.used_links(
                group, lambda each: self._schedule(each, kind, num_flits)
            )
            self._links[key] = np.concatenate([*used.values()])
        schedules = [self._schedule(each, kind, num_flits) for each in networks]
        cycles = [self._cycles_of(each, num_flits, self.link_model) for each in schedules]
        # Groups of a kind run at the same time, so that the slowest network counts.
        return max(zip(cycles, schedules, strict=True), key=itemgetter(0))

    def _key(self, group: str, kind: str, num_flits: int) -> tuple[str, str, int | None]:
        """Key of a schedule; it holds the size only for algorithms that depend on it."""
        return group, kind, num_flits if self.algorithm in SIZED else None

    def _schedule(self, network: GroupNetwork, kind: str, num_flits: int) -> Schedule:
        """Verified schedule on a network."""
        sized = self.algorithm in SIZED
        key = network, kind, num_flits if sized else None
        if key not in self._schedules:
            cost_model = self.link_model.cost_model(network.topology, num_flits) if sized else None
            # Each group has its root at its first rank.
            root = 0 if kind in ROOTED else None
            schedule = build(network.topology, self.algorithm, kind, root, cost_model)
            verify(schedule)
            self._schedules[key] = schedule
        return self._schedules[key]
