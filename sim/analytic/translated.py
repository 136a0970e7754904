"""Times of a schedule that is one tree, translated to every rank."""

import numpy as np
import numpy.typing as npt

from multitree.sim.analytic.forwarding_links import ForwardingLinks
from multitree.sim.analytic.generations import generations_of
from multitree.sim.analytic.private_links import PrivateLinks
from multitree.sim.analytic.table_rows import Ranks, TableRows
from multitree.sim.timing.model import Run
from multitree.sim.timing.trace import Trace
from multitree.topology.errors import ScheduleError
from multitree.topology.networks.translations import Translations

__all__ = ["translated"]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


class _OneTable(TableRows):
    """Table that all ranks have: each row of the tree once, over the link of its direction."""

    def read(self, rows: IntArray, src: Ranks, room: FloatArray) -> FloatArray:
        """Cycles for the next rows of every rank, one after the other."""
        turn = np.arange(1, len(rows) + 1)
        read: FloatArray = np.maximum(self._read[0] + turn * self._row, room)
        # One rank stands for all.
        self._read[0] = read.max()
        return read

    def over(self, num_steps: int) -> FloatArray:
        """Cycle in which all ranks are through their tables."""
        return np.full_like(self._read, self._read[0])


def translated(run: Run, group: Translations) -> Trace:
    """Trace of one tree's rows; all others do the same at the same time from ranks of their own.

    A rank's table has each row of the tree once, and each of its links those of one direction, so
    that a rank, its links and one flow stand for all. Tables have rows of a step in the order of
    their flows, which differs between ranks; here it is the tree's. ScheduleError if chunks or
    starts are not all the same, or in lockstep. O(num_transfers) of the tree.
    """
    tree, model, num_flits = run.schedule, run.model, run.num_flits
    topology, directions = tree.topology, group.directions_of(tree.route_links)
    name, num_ranks = topology.name, topology.num_ranks
    if num_flits % num_ranks:
        raise ScheduleError(
            f"{name}: flits of a translated schedule must be a multiple of {num_ranks}, so that "
            f"chunks are equal, not {num_flits}"
        )
    if run.start.any():
        raise ScheduleError(f"{name}: ranks of a translated schedule must start at once")
    if run.lockstep:
        raise ScheduleError(f"{name}: lockstep must be off in a translated schedule")
    links, chunk = group.links, num_flits // num_ranks
    begins = np.zeros(num_ranks)
    timing = (ForwardingLinks if model.forward_flits else PrivateLinks)(
        tree,
        chunk,
        model,
        _OneTable(tree, model, begins),
        begins,
        link=links[0][directions].astype(np.int64),
    )
    generations, sibling = generations_of(tree, lane=directions)
    for rows in generations:
        timing.advance(rows, sibling[rows])
    times = timing.times()
    flits = np.zeros(topology.num_links, np.int64)
    flits[links] = chunk * np.bincount(directions, minlength=links.shape[1])
    done = np.full(num_ranks, times.done.max())
    return run.trace("translated", times._replace(done=done), flits)
