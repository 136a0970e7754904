"""A schedule: who sends which chunk to whom, in which step and over which links."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from multitree.topology.arrays import (
    Int32Array,
    Int64Array,
    int32s,
    int64s,
    largest_group,
    reordered_routes,
    rows_of_entries,
    select_routes,
)
from multitree.topology.collectives import OPS_OF, ROOTED, Op, check_collective, check_roots
from multitree.topology.errors import ScheduleError
from multitree.topology.networks.topology import Topology
from multitree.topology.routing.default_routes import routes_of_rows
from multitree.topology.schedules.columns import (
    ROW_FIELDS,
    check_ranges,
    check_route_ranges,
    check_shapes,
    check_waves,
    describe_row,
    schedule_fingerprint,
)
from multitree.topology.schedules.trees import (
    LARGE_CHUNKS,
    Journeys,
    Times,
    expected_arrivals,
    expected_order,
    tree_height,
    tree_roots,
)

__all__ = [
    "Op",
    "Schedule",
    "phase_of",
]


@dataclass(frozen=True, eq=False)
class Schedule:
    """Transfers, one row each, that together do one collective on one topology.

    A flow is one tree and the chunk it carries. A row of op REDUCE adds the chunk in the
    memory of `src` into that of `dst`; GATHER replaces it. A row may leave when every
    arrival of its flow at `src` of an earlier step is in. Construction checks shapes and
    ranges; whether the schedule does what it says is what `verify` proves.

    Parameters
    ----------
    topology : Topology
    algorithm : str
        Who built it.
    collective : str
        "all_reduce", "reduce_scatter", "all_gather", "broadcast" or "reduce".
    root : int or None
        Of broadcast and reduce; None otherwise.
    flow_offsets : array_like, int64 (num_flows + 1,)
        From 0 to D: flow f carries the part off[f]/D to off[f+1]/D of the buffer.
    step, op, flow, src, dst, order : array_like, int32 (num_transfers,)
        The rows, sorted by (step, flow, src, dst). `order` tells siblings of one step apart:
        arrivals are added by ascending (step, order).
    route_offsets : array_like, int64 (num_transfers + 1,)
        Row i's route is entries off[i] to off[i+1] of the next two.
    route_links, route_classes : array_like, int32 (num_hops,)
        Link and virtual-channel class of each hop.
    num_waves : int
        Equal slices of the buffer that the rows are run on, wave w at step + w * period.
    period : int
        Steps from one wave to the next; 1 where there is only one wave.

    Raises
    ------
    TypeError
        If a column is no array of integers.
    ScheduleError
        If a shape is wrong or an entry out of range; the message names the row.
    """

    topology: Topology
    algorithm: str
    collective: str
    root: int | None
    flow_offsets: Int64Array
    step: Int32Array
    op: Int32Array
    flow: Int32Array
    src: Int32Array
    dst: Int32Array
    order: Int32Array
    route_offsets: Int64Array
    route_links: Int32Array
    route_classes: Int32Array
    num_waves: int = 1
    period: int = 1

    def __post_init__(self) -> None:
        for field in (*ROW_FIELDS, "route_links", "route_classes"):
            object.__setattr__(self, field, int32s(field, getattr(self, field)))
        for field in ("flow_offsets", "route_offsets"):
            object.__setattr__(self, field, int64s(field, getattr(self, field)))
        check_collective(self.collective, self.root, self.topology.num_ranks)
        check_waves(self.collective, self.num_waves, self.period)
        routes = (self.route_offsets, self.route_links, self.route_classes)
        check_shapes(self._columns, self.flow_offsets, *routes)
        check_ranges(self._columns, self.num_flows, self.topology.num_ranks)
        check_route_ranges(self._columns, *routes, self.topology.num_links)

    @classmethod
    def from_rows(
        cls,
        topology: Topology,
        *,
        algorithm: str,
        collective: str,
        root: int | None = None,
        flow_offsets: Any,
        rows: Any,
        links: Any = None,
        routes: Any = None,
        times: Times = LARGE_CHUNKS,
    ) -> "Schedule":
        """Sort rows, route them, and fill in the expected order.

        Parameters
        ----------
        topology : Topology
        algorithm, collective, root, flow_offsets
            As for `Schedule`.
        rows : array_like, int (num_transfers, 5)
            step, op, flow, src, dst of each transfer, in any order.
        links : array_like, int (num_transfers,), optional
            The one link each transfer takes.
        routes : tuple of array_like, optional
            Offsets, links and classes as for `Schedule`, in the order of `rows`. Without links
            and routes each row takes the one that `default_routes.routes` gives its src and dst.
        times : tuple of int
            What `expected_order` takes a chunk and a hop to be.

        Returns
        -------
        Schedule

        Raises
        ------
        ScheduleError
            If a field is out of range or links and routes are not one per row; rows are
            numbered as sorted.
        """
        table = int32s("Rows", rows)
        if table.ndim != 2 or table.shape[1] != 5:
            raise ScheduleError(f"Rows must be of shape (n, 5), not {table.shape}")
        by_step = np.lexsort((table[:, 4], table[:, 3], table[:, 2], table[:, 0]))
        step, op, flow, src, dst = np.ascontiguousarray(table[by_step].T)
        if routes is None:
            route_columns = routes_of_rows(topology, src, dst, links, by_step)
        else:
            route_columns = reordered_routes(routes, by_step)
        zeros = np.zeros(len(table), np.int32)
        named = (topology, algorithm, collective, root, flow_offsets)
        # Orders follow from when rows arrive, and that from the sorted rows and their routes.
        draft = cls(*named, step, op, flow, src, dst, zeros, *route_columns)
        return draft.reordered(times)

    @property
    def _journeys(self) -> Journeys:
        topology, first = self.topology, self.route_links[self.route_offsets[:-1]]
        counts = (topology.num_ranks, self.num_flows, topology.num_links)
        return Journeys(self._columns, first, np.diff(self.route_offsets), *counts)

    def expected_end(self, times: Times) -> int:
        """When the last transfer has arrived, as `trees.expected_arrivals` has it."""
        return int(expected_arrivals(self._journeys, times).max(initial=0))

    def reordered(self, times: Times) -> "Schedule":
        """The same with siblings added as `trees.expected_order` expects them; other bits."""
        return replace(self, order=expected_order(self._journeys, times))

    @property
    def _columns(self) -> dict[str, Int32Array]:
        return {field: getattr(self, field) for field in ROW_FIELDS}

    def describe(self, row: int) -> str:
        """Name a row for a message: its number, step, flow, op and ends."""
        return describe_row(row, self._columns)

    @property
    def num_flows(self) -> int:
        """Number of trees, and of chunks."""
        return len(self.flow_offsets) - 1

    @property
    def num_transfers(self) -> int:
        """Number of rows."""
        return len(self.step)

    @property
    def num_steps(self) -> int:
        """Steps of all phases together, of one wave."""
        return int(self.step.max(initial=-1)) + 1

    @property
    def steps_reduce_scatter(self) -> int:
        """Steps from the first to the last REDUCE row."""
        return self._steps_of(Op.REDUCE)

    @property
    def steps_all_gather(self) -> int:
        """Steps from the first to the last GATHER row."""
        return self._steps_of(Op.GATHER)

    def _steps_of(self, op: Op) -> int:
        steps = self.step[self.op == op]
        return int(steps[-1] - steps[0]) + 1 if steps.size else 0

    def roots_of(self, op: Op) -> Int32Array:
        """The root of each flow as its rows of one op have it, int32 (num_flows,).

        Raises
        ------
        ScheduleError
            If a flow's rows do not have exactly one root.
        """
        return tree_roots(self.num_flows, self.topology.num_ranks, self._columns, op)

    @cached_property
    def flow_roots(self) -> Int32Array:
        """The root of each flow's tree, int32 (num_flows,)."""
        return self.roots_of(OPS_OF[self.collective][0])

    @cached_property
    def hash(self) -> str:
        """SHA-256, in hex, of all that the schedule does on its topology, names left out."""
        routes = (self.route_offsets, self.route_links, self.route_classes)
        named = (self.topology, self.collective, self.root)
        # One wave adds nothing, so its hash is the same as before there were waves.
        waves = (self.num_waves, self.period) if self.num_waves > 1 else ()
        columns = self._columns.values()
        return schedule_fingerprint(*named, self.flow_offsets, columns, routes, waves)

    @cached_property
    def tree_height_hops(self) -> int:
        """The most hops on any path from a root to a rank, over both phases."""
        hops = np.diff(self.route_offsets)
        shape = (self.num_flows, self.topology.num_ranks)
        return max(tree_height(*shape, self._columns, op, hops) for op in OPS_OF[self.collective])

    @cached_property
    def max_link_load(self) -> int:
        """The largest number of transfers on one link in one step, of all waves."""
        # As if waves never ended: where there are few, this may count steps that do not meet.
        step = self.step % self.period if self.num_waves > 1 else self.step
        of_hops = step[rows_of_entries(self.route_offsets)]
        # In 64 bits: steps times links may exceed 32.
        return largest_group(of_hops.astype(np.int64) * self.topology.num_links + self.route_links)

    @property
    def tree(self) -> "Schedule":
        """The rows that are held: all of them."""
        return self

    @property
    def group(self) -> None:
        """What moves `tree` to the flows that are not held: nothing, since all are."""
        return None

    def schedule(self) -> "Schedule":
        """The schedule with all its rows: itself."""
        return self

    def at(self, rank: int) -> "Schedule":
        """A schedule that has all rows of a rank: itself."""
        return self

    def padded(self, num_flits: int) -> int:
        """Flits of a buffer that is padded with zeros until all waves are of the same length."""
        return -(-num_flits // self.num_waves) * self.num_waves

    def chunks(self, num_flits: int) -> Int64Array:
        """Where each flow's chunk begins in a wave, int64 (num_flows + 1,).

        Flow f owns flits floor(L off[f] / D) up to floor(L off[f+1] / D), where L is the length of
        a wave, which is all of `num_flits` where there is only one; the last entry is L. Waves
        are the `padded` buffer's slices, one behind the other.

        Raises
        ------
        ValueError
            If the number is negative or beyond what 64 bits can divide.
        """
        whole = int(self.flow_offsets[-1])
        # The product below is made in 64 bits, where it must not overflow.
        if not 0 <= num_flits <= (2**63 - 1) // max(whole, 1):
            raise ValueError(f"Number of flits must be within 0..2^63/{whole}, not {num_flits!r}")
        wave_flits = self.padded(num_flits) // self.num_waves
        return int64s("Chunks", wave_flits * self.flow_offsets // whole)


def phase_of(schedule: Schedule, collective: str) -> Schedule:
    """The rows of a schedule that do another collective, steps renumbered from 0.

    A ScheduleError says that it lacks these rows, or that its trees do not suit the collective: one
    flow rooted at each rank for reduce_scatter and all_gather, one root of all for broadcast and
    reduce.
    """
    if len(OPS_OF.get(collective, ())) != 1:
        known = ", ".join(name for name, ops in OPS_OF.items() if len(ops) == 1)
        raise ScheduleError(f"Phase must be one of {known}, not {collective!r}")
    (op,) = OPS_OF[collective]
    kept = schedule.op == op
    if not kept.any():
        raise ScheduleError(f"{collective} must have {op.name} rows, not only others")
    roots = schedule.flow_roots
    check_roots(collective, roots, schedule.root, schedule.topology.num_ranks)
    routes = (schedule.route_links, schedule.route_classes)
    offsets, (links, classes) = select_routes(schedule.route_offsets, kept, routes)
    columns = {field: getattr(schedule, field)[kept] for field in ROW_FIELDS}
    # Rows are sorted by step, so the first has the lowest.
    columns["step"] = columns["step"] - columns["step"][0]
    return replace(
        schedule,
        collective=collective,
        root=int(roots[0]) if collective in ROOTED else None,
        **columns,
        route_offsets=offsets,
        route_links=links,
        route_classes=classes,
    )
