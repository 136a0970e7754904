"""A schedule held as one tree and the group that translates it to every rank."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from multitree.topology.arrays import Int32Array, Int64Array, largest_group
from multitree.topology.checks.verify import (
    Report,
    check_schedule,
    is_causal,
    links_overlap,
    verify,
)
from multitree.topology.errors import ScheduleError, check_type
from multitree.topology.networks.bounds import bound_steps, link_occupancy
from multitree.topology.networks.topology import Topology
from multitree.topology.networks.translations import Translations
from multitree.topology.schedules.columns import ROW_FIELDS, Blocks, schedule_fingerprint
from multitree.topology.schedules.schedule import Schedule

__all__ = [
    "AnySchedule",
    "ImplicitSchedule",
    "check_rows",
    "hash_of",
    "verify_any",
    "verify_implicit",
    "written_out",
]

MAX_ROWS = 1 << 25
"""More rows than that are not written out: some gigabytes."""


class AnySchedule(Protocol):
    """What a `Schedule` and an `ImplicitSchedule` both answer, with the same values."""

    @property
    def topology(self) -> Topology: ...
    @property
    def algorithm(self) -> str: ...
    @property
    def collective(self) -> str: ...
    @property
    def root(self) -> int | None: ...
    @property
    def num_flows(self) -> int: ...
    @property
    def num_transfers(self) -> int: ...
    @property
    def num_steps(self) -> int: ...
    @property
    def steps_reduce_scatter(self) -> int: ...
    @property
    def steps_all_gather(self) -> int: ...
    @property
    def tree_height_hops(self) -> int: ...
    @property
    def max_link_load(self) -> int: ...
    @property
    def num_waves(self) -> int: ...
    @property
    def period(self) -> int: ...
    @property
    def hash(self) -> str: ...
    @property
    def tree(self) -> Schedule: ...
    @property
    def group(self) -> Translations | None: ...
    def schedule(self) -> Schedule: ...
    def at(self, rank: int) -> Schedule: ...


@dataclass(frozen=True, eq=False)
class ImplicitSchedule:
    """One tree of a schedule that is the same seen from every rank, and what moves it there.

    The flow of rank r is rooted at r and is the tree moved by r's element, every row over the
    link of its own direction. So a schedule of N ranks is held in the space of 2 (N-1) rows, and
    any rank's part of it is written out without the others'.

    Parameters
    ----------
    tree : Schedule
        One flow, rooted at the rank of element 0; each row takes one link.
    group : Translations
        Of the tree's topology, by number of links; these may differ in speed and latency.

    Raises
    ------
    TypeError
        If one is of another class.
    ScheduleError
        If rows take other routes, or the translations do not move links to links.
    """

    tree: Schedule
    group: Translations

    def __post_init__(self) -> None:
        check_type("Tree", self.tree, Schedule)
        check_type("Group", self.group, Translations)
        # All that a reader takes for granted of other ranks than the one that it looks at.
        problem = self.group.problem_on(self.topology)
        if problem is not None:
            raise ScheduleError(
                f"Translations of {self.topology.name!r} must move links to links: {problem}"
            )
        if self.tree.num_flows != 1 or (np.diff(self.tree.route_offsets) != 1).any():
            raise ScheduleError(
                "An implicit schedule must have one tree, whose rows take one link each"
            )
        if (self.directions < 0).any():
            row = int(np.flatnonzero(self.directions < 0)[0])
            raise ScheduleError(
                f"{self.tree.describe(row)}: route must be a link that the translations move, "
                f"not link {self.tree.route_links[row]}"
            )

    @property
    def topology(self) -> Topology:
        """What the schedule runs on."""
        return self.tree.topology

    @property
    def algorithm(self) -> str:
        """Who built the tree."""
        return self.tree.algorithm

    @property
    def collective(self) -> str:
        """What the schedule does."""
        return self.tree.collective

    @property
    def root(self) -> int | None:
        """None: each rank is the root of a flow."""
        return self.tree.root

    @property
    def num_steps(self) -> int:
        """Steps of all phases together."""
        return self.tree.num_steps

    @property
    def steps_reduce_scatter(self) -> int:
        """Steps from the first to the last REDUCE row."""
        return self.tree.steps_reduce_scatter

    @property
    def steps_all_gather(self) -> int:
        """Steps from the first to the last GATHER row."""
        return self.tree.steps_all_gather

    @property
    def tree_height_hops(self) -> int:
        """The most hops on any path from a root to a rank, over both phases."""
        return self.tree.tree_height_hops

    @property
    def num_waves(self) -> int:
        """Slices of the buffer that the rows of all flows are run on."""
        return self.tree.num_waves

    @property
    def period(self) -> int:
        """Steps from one wave to the next."""
        return self.tree.period

    @property
    def num_flows(self) -> int:
        """Trees, and chunks of the buffer: one per rank."""
        return self.topology.num_ranks

    @property
    def num_transfers(self) -> int:
        """Rows of all flows together."""
        return self.tree.num_transfers * self.num_flows

    @cached_property
    def directions(self) -> Int32Array:
        """The direction of each of the tree's rows, int32 (tree.num_transfers,)."""
        return self.group.directions_of(self.tree.route_links)

    @cached_property
    def max_link_load(self) -> int:
        """The largest number of transfers on one link in one step, of all waves."""
        step = self.tree.step % self.period if self.num_waves > 1 else self.tree.step
        # N translations take a row in one direction to all N links of that direction, each once.
        return largest_group(step.astype(np.int64) * self.group.num_directions + self.directions)

    def schedule(self, roots: Sequence[int] | None = None) -> Schedule:
        """Write all rows out, in O(rows log rows).

        Parameters
        ----------
        roots : sequence of int, optional
            One flow, with an equal part of the buffer, for each; every rank once when left out.

        Returns
        -------
        Schedule

        Raises
        ------
        ScheduleError
            If there are more than `MAX_ROWS`.
        """
        chosen = np.arange(self.topology.num_ranks) if roots is None else np.asarray(roots)
        num_rows = len(chosen) * self.tree.num_transfers
        check_rows("symmetric", self.topology, num_rows)
        flow, row = np.divmod(np.arange(num_rows), self.tree.num_transfers)
        return self._written(flow, row, chosen[flow], len(chosen))

    def at(self, rank: int) -> Schedule:
        """The rows that leave or reach one rank: all that its interface's table is made of.

        Parameters
        ----------
        rank : int

        Returns
        -------
        Schedule
            Not one that `verify` accepts, since its trees are parts; its hash is its own.

        Raises
        ------
        ScheduleError
            If there is no such rank.

        Notes
        -----
        O(num_ranks log num_ranks).
        """
        if not 0 <= rank < self.topology.num_ranks:
            raise ScheduleError(f"Rank must be in 0..{self.topology.num_ranks - 1}, not {rank!r}")
        # The tree of element g has a row at `here` where the first tree has it at here - g.
        here = self.group.element[[rank]]
        rows = np.arange(self.tree.num_transfers)
        moved = [
            self.group.rank[self.group.minus(here, self.group.element[ends])]
            for ends in (self.tree.src, self.tree.dst)
        ]
        flow, row = np.concatenate(moved).astype(np.int64), np.concatenate([rows, rows])
        return self._written(flow, row, flow, self.topology.num_ranks)

    def _written(
        self, flow: Int64Array, row: Int64Array, root: Int64Array, num_flows: int
    ) -> Schedule:
        """A schedule of the tree's rows, each moved to a root, for a flow, sorted."""
        group, tree = self.group, self.tree
        by = group.element[root]
        src, dst = (group.plus(group.element[ends][row], by) for ends in (tree.src, tree.dst))
        links = group.links[src, self.directions[row]]
        columns = {"step": tree.step[row], "op": tree.op[row], "flow": flow.astype(np.int32)}
        columns |= {"src": group.rank[src], "dst": group.rank[dst], "order": tree.order[row]}
        columns |= {"route_links": links, "route_classes": tree.route_classes[row]}
        by_step = np.lexsort([columns[field] for field in ("dst", "src", "flow", "step")])
        fields: dict[str, Any] = {field: column[by_step] for field, column in columns.items()}
        fields |= {"flow_offsets": np.arange(num_flows + 1)}
        return replace(tree, route_offsets=np.arange(len(links) + 1), **fields)

    @cached_property
    def hash(self) -> str:
        """The hash of the schedule written out, which is never held as a whole.

        Notes
        -----
        O(rows x columns), step by step: some 7 CPU s for `MAX_ROWS`.
        """
        num_ranks, num_rows = self.topology.num_ranks, self.num_transfers
        names = (*ROW_FIELDS, "route_links", "route_classes")
        blocks = {name: Blocks(num_rows, self._blocks(name)) for name in names}
        # Routes are one link long, so offsets are 0, 1, 2, ...; how they are cut changes no hash.
        at_once = num_rows // self.tree.num_steps + 1
        offsets = Blocks(num_rows + 1, _counted(num_rows + 1, at_once))
        return schedule_fingerprint(
            self.topology,
            self.tree.collective,
            self.tree.root,
            np.arange(num_ranks + 1),
            [blocks[field] for field in ROW_FIELDS],
            (offsets, blocks["route_links"], blocks["route_classes"]),
            (self.num_waves, self.period) if self.num_waves > 1 else (),
        )

    def _blocks(self, name: str) -> Iterator[Int32Array]:
        """A column of the schedule written out, int32 (num_ranks, rows of a step), step by step."""
        tree, num_ranks = self.tree, self.topology.num_ranks
        # Rows ascend by (step, flow, src, dst): blocks of a step, flow by flow, are the column.
        ends = np.flatnonzero(np.r_[True, np.diff(tree.step) > 0, True])
        for first, last in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            shape = num_ranks, last - first
            if name == "step":
                yield np.full(shape, tree.step[first])
            elif name == "flow":
                yield np.broadcast_to(np.arange(num_ranks, dtype=np.int32)[:, None], shape)
            else:
                yield self._moved_everywhere(name, slice(first, last))

    def _moved_everywhere(self, name: str, rows: slice) -> Int32Array:
        """A column of rows of one step, moved to every root and sorted, int32 (num_ranks, rows)."""
        group, tree = self.group, self.tree
        by = group.element[:, None]
        src = group.plus(group.element[tree.src[rows]], by)
        columns = {"src": group.rank[src]}
        columns["dst"] = group.rank[group.plus(group.element[tree.dst[rows]], by)]
        # Within a step and flow rows ascend by (src, dst): each flow has an order of its own.
        key = columns["src"].astype(np.int64) * self.topology.num_ranks + columns["dst"]
        by_key = np.argsort(key, axis=1)
        if name == "route_links":
            columns[name] = group.links[src, self.directions[rows]]
        elif name not in columns:
            columns[name] = np.broadcast_to(getattr(tree, name)[rows], src.shape)
        return np.take_along_axis(columns[name], by_key, axis=1)


def _counted(until: int, at_once: int) -> Iterator[Int64Array]:
    """The numbers from 0, some at once."""
    for first in range(0, until, at_once):
        yield np.arange(first, min(first + at_once, until))


def check_rows(algorithm: str, topology: Topology, num_rows: int) -> None:
    """Raise a ScheduleError where a schedule has more than `MAX_ROWS` rows."""
    if num_rows > MAX_ROWS:
        raise ScheduleError(
            f"Rows of {algorithm} on {topology.name!r} must be at most {MAX_ROWS} to be written "
            f"out, not {num_rows}"
        )


def written_out(schedule: AnySchedule) -> AnySchedule:
    """All rows of a schedule, but one that is a tree, translated, where they are too many."""
    return schedule.schedule() if schedule.num_transfers <= MAX_ROWS else schedule


def hash_of(schedule: AnySchedule) -> str | None:
    """The hash of a schedule; None where rows are too many, for which it takes minutes."""
    return schedule.hash if schedule.num_transfers <= MAX_ROWS else None


def verify_any(schedule: AnySchedule) -> Report:
    """Prove a schedule, by `verify` or by `verify_implicit`; raise a ScheduleError where wrong."""
    if isinstance(schedule, ImplicitSchedule):
        return verify_implicit(schedule)
    return verify(schedule.tree)


def verify_implicit(implicit: ImplicitSchedule) -> Report:
    """Prove that the schedule written out is right, from one tree and the group.

    What holds for the tree holds for each of its translations. Between them they take a row to
    every link of its direction, so that the slowest one tells whether any is late or in the way.

    Parameters
    ----------
    implicit : ImplicitSchedule

    Returns
    -------
    Report
        What `verify` returns for the schedule written out.

    Raises
    ------
    TypeError
        If it is no ImplicitSchedule.
    ScheduleError
        If the tree is wrong.

    Notes
    -----
    O(num_links + rows of the tree), but for the logarithm of a sort.
    """
    check_type("Implicit schedule", implicit, ImplicitSchedule)
    group, tree, topology = implicit.group, implicit.tree, implicit.topology
    check_schedule(tree, roots=group.rank)
    if int(tree.flow_roots[0]) != int(group.rank[0]):
        raise ScheduleError(
            f"An implicit schedule must have one tree, rooted at rank {int(group.rank[0])}"
        )
    slots = link_occupancy(topology)[group.links].max(axis=0)[implicit.directions]
    load = implicit.max_link_load
    return Report(
        contention_free=load <= 1 and not links_overlap(tree, implicit.directions, slots),
        causal=is_causal(tree, slots),
        max_link_load=load,
        num_messages=implicit.num_transfers,
        max_messages_per_rank=tree.num_transfers,
        max_siblings=int(tree.order.max()) + 1,
        num_steps=implicit.num_steps,
        bound_steps=bound_steps(topology),
        tree_height_hops=implicit.tree_height_hops,
    )
