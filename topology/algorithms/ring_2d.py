"""Rings in two dimensions: along rows, then columns, which are open on a mesh."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from multitree.topology.arrays import Int32Array, Int64Array, int32s, positions_in_group
from multitree.topology.collectives import Op, chosen_roots
from multitree.topology.errors import ScheduleError
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

Grid = npt.NDArray[np.int64]


def build_ring_2d(topology: Topology, *, roots: Sequence[int] | None = None) -> Schedule:
    """Build the 2D ring all-reduce in one direction, on a torus or a mesh of two dimensions.

    Half of the buffer is reduce-scattered around each row, then what a rank got of it around each
    column; the other half goes around columns first, so that both dimensions are always busy.
    On HxW ranks, H <= W, there are N-1+W-H steps per phase, each of a chunk of 1/(2N) of the
    buffer. On a mesh rows and columns are open lines, see `_Lines`, in as many steps.

    C. Ying, S. Kumar, D. Chen, T. Wang, Y. Cheng, "Image Classification at Supercomputer Scale",
    arXiv:1811.06992, 2018. H. Mikami et al., arXiv:1811.05233, have one dimension busy at a time.
    """
    grid = _grid(topology, "ring_2d", ("torus", "mesh"), least_side=2)
    return _along(topology, "ring_2d", [grid, grid.T], roots)


def build_bidirectional_ring_2d(
    topology: Topology, *, roots: Sequence[int] | None = None
) -> Schedule:
    """Build the 2D ring all-reduce in both directions: quarters of the buffer on four links.

    It is for tori of two dimensions with sides of at least 3, so that both directions differ. Flows
    4i and 4i+2 go along rows first, the others along columns, the last two backwards, as those of
    `build_ring_2d`, with chunks of 1/(4N) of the buffer. On a square torus no link is ever idle but
    for latency: 2(N-1)/N of the buffer over four links is what no schedule can beat there. On a
    mesh the links at the ends of lines are busy in every step of `build_ring_2d` already.
    """
    grid = _grid(topology, "bidirectional_ring_2d", ("torus",), least_side=3)
    backwards = grid[::-1, ::-1]
    grids = [grid, grid.T, backwards, backwards.T]
    return _along(topology, "bidirectional_ring_2d", grids, roots)


def _grid(topology: Topology, algorithm: str, families: Sequence[str], least_side: int) -> Grid:
    dims = topology.dims
    if topology.family not in families or len(dims) != 2 or min(dims) < least_side:
        raise ScheduleError(
            f"{algorithm} must have a {' or '.join(families)} of two dimensions with sides of at "
            f"least {least_side}, not {topology.name!r}"
        )
    return np.arange(topology.num_ranks, dtype=np.int64).reshape(dims)


def _along(
    topology: Topology, algorithm: str, grids: Sequence[Grid], roots: Sequence[int] | None
) -> Schedule:
    chosen = chosen_roots(roots, topology.num_ranks)
    kind_of = _Rings if topology.family == "torus" else _Lines
    kinds: list[_Kind] = [kind_of(grid, np.array(chosen)) for grid in grids]
    # All kinds change dimensions in the same step, so that no two of them meet on a link.
    across = max(kind.steps_across for kind in kinds)
    down = max(kind.steps_down for kind in kinds)
    rows = []
    for number, kind in enumerate(kinds):
        sums = kind.rows(Op.REDUCE, across_at=0, down_at=across)
        results = kind.rows(Op.GATHER, across_at=across + 2 * down, down_at=across + down)
        both = np.concatenate([sums, results])
        both[:, 2] = len(grids) * both[:, 2] + number
        rows.append(both)
    return Schedule.from_rows(
        topology,
        algorithm=algorithm,
        collective="all_reduce",
        flow_offsets=np.arange(len(grids) * len(chosen) + 1),
        rows=np.concatenate(rows),
    )


class _Kind(Protocol):
    """Flows that go across the rows of a grid, and down its columns."""

    @property
    def steps_across(self) -> int:
        """Steps of a phase along rows."""

    @property
    def steps_down(self) -> int:
        """Steps of a phase along columns."""

    def rows(self, op: Op, *, across_at: int, down_at: int) -> Int32Array:
        """step, op, flow, src and dst of one phase, int32 (flows * (ranks - 1), 5)."""


class _Flows:
    """Roots of one kind of flows on a grid, and how many of them share rows and columns."""

    def __init__(self, grid: Grid, roots: Int64Array) -> None:
        self._grid = grid
        place = np.argsort(grid.ravel())[roots]
        self._row, self._column = np.divmod(place, grid.shape[1])
        # Flows of one column of roots share what goes across, those of one root what goes down.
        self._of_column = int(np.bincount(self._column).max())
        self._of_root = positions_in_group(place)
        self._most_of_root = int(self._of_root.max()) + 1


class _Rings(_Flows):
    """One kind of flows: across the rows of a grid, and down its columns."""

    @property
    def steps_across(self) -> int:
        return (int(self._grid.shape[1]) - 1) * self._of_column

    @property
    def steps_down(self) -> int:
        return (int(self._grid.shape[0]) - 1) * self._most_of_root

    def rows(self, op: Op, *, across_at: int, down_at: int) -> Int32Array:
        """step, op, flow, src and dst of one phase, int32 (flows * (ranks - 1), 5)."""
        height, width = self._grid.shape
        behind = 1 if op == Op.REDUCE else 0  # a sum begins behind its root, a result at it
        flow, row, hop = np.indices((len(self._row), height, width - 1))
        across = self._columns(
            op,
            flow,
            across_at + hop * self._of_column + self._turns(behind)[:, :, None],
            (row, self._column[flow] + behind + hop),
            (row, self._column[flow] + behind + hop + 1),
        )
        flow, hop = np.indices((len(self._row), height - 1))
        down = self._columns(
            op,
            flow,
            down_at + hop * self._most_of_root + self._of_root[flow],
            (self._row[flow] + behind + hop, self._column[flow]),
            (self._row[flow] + behind + hop + 1, self._column[flow]),
        )
        return int32s("Rows", np.concatenate([across, down]))

    def _turns(self, behind: int) -> Int64Array:
        """A flow's turn in each row's ring: first what goes down first, or came first."""
        height, width = self._grid.shape
        flow, row = (index.ravel() for index in np.indices((len(self._row), height)))
        soonest = np.lexsort((flow, (row - behind - self._row[flow]) % height))
        turn = np.empty(len(flow), np.int64)
        turn[soonest] = positions_in_group((row * width + self._column[flow])[soonest])
        return turn.reshape(-1, height)

    def _columns(
        self,
        op: Op,
        flow: Int64Array,
        step: Int64Array,
        src: tuple[Int64Array, Int64Array],
        dst: tuple[Int64Array, Int64Array],
    ) -> Int64Array:
        height, width = self._grid.shape
        ends = [self._grid[row % height, column % width] for row, column in (src, dst)]
        columns = (step, np.full(flow.shape, op), flow, *ends)
        return np.stack([np.broadcast_to(c, flow.shape).ravel() for c in columns], axis=1)


class _Lines(_Flows):
    """One kind of flows on a mesh: each line sums towards the root's place from both ends.

    In a line of n ranks a chunk for place c leaves rank i for rank i + 1 in turn i + n - 1 - c,
    below c, and for rank i - 1 in turn n - 1 - i + c, above. So it goes on a turn after it came, no
    two chunks want a link in one turn, and n - 1 turns do. All-gather is the same backwards.
    """

    def __init__(self, grid: Grid, roots: Int64Array) -> None:
        super().__init__(grid, roots)
        # Turns in which nothing is sent, where no root is at an end.
        self._first_across = _first_turn(self._column, grid.shape[1])
        self._first_down = _first_turn(self._row, grid.shape[0])

    @property
    def steps_across(self) -> int:
        return (int(self._grid.shape[1]) - 1 - self._first_across) * self._of_column

    @property
    def steps_down(self) -> int:
        return (int(self._grid.shape[0]) - 1 - self._first_down) * self._most_of_root

    def rows(self, op: Op, *, across_at: int, down_at: int) -> Int32Array:
        height, width = self._grid.shape
        flow, row, column = np.indices((len(self._row), height, width))
        place, to = column, self._column[flow]
        turn = _turn(place, to, width) - self._first_across
        step = turn * self._of_column + self._turns()[:, :, None]
        here, there = self._grid[row, place], self._grid[row, place + np.sign(to - place)]
        across = self._columns(op, flow, step, across_at, self.steps_across, here, there)

        flow, place = np.indices((len(self._row), height))
        to, column = self._row[flow], self._column[flow]
        turn = _turn(place, to, height) - self._first_down
        step = turn * self._most_of_root + self._of_root[flow]
        here, there = self._grid[place, column], self._grid[place + np.sign(to - place), column]
        down = self._columns(op, flow, step, down_at, self.steps_down, here, there)
        return int32s("Rows", np.concatenate([across, down]))

    def _turns(self) -> Int64Array:
        """A flow's turn in each row's line: first what goes down first, last what stays."""
        height = self._grid.shape[0]
        flow, row = (index.ravel() for index in np.indices((len(self._row), height)))
        to = self._row[flow]
        leaves = np.where(row == to, height, _turn(row, to, height))
        soonest = np.lexsort((flow, leaves))
        turn = np.empty(len(flow), np.int64)
        turn[soonest] = positions_in_group((row * len(self._grid.T) + self._column[flow])[soonest])
        return turn.reshape(-1, height)

    def _columns(
        self,
        op: Op,
        flow: Int64Array,
        step: Int64Array,
        begin: int,
        steps: int,
        here: Int64Array,
        there: Int64Array,
    ) -> Int64Array:
        """Rows of those that send: towards the root, or backwards from it."""
        src, dst = here, there
        if op == Op.GATHER:
            src, dst, step = there, here, steps - 1 - step
        columns = (begin + step, np.full(flow.shape, op), flow, src, dst)
        sends = here != there
        return np.stack([column[sends] for column in columns], axis=1)


def _turn(place: Int64Array, to: Int64Array, length: int) -> Int64Array:
    """When a chunk for place `to` of a line leaves another place."""
    turn: Int64Array = np.where(place < to, place + length - 1 - to, length - 1 - place + to)
    return turn


def _first_turn(to: Int64Array, length: int) -> int:
    """The first turn in which anything is sent in lines towards some places."""
    return int(np.minimum(to, length - 1 - to).min())
