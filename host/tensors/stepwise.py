"""Schedules on tensors step by step: a few operators on all that is sent at once."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from multitree.host.tensors.operators import (
    combine,
    divide_by_ranks,
    make_canonical,
    reduction_of,
)
from multitree.topology.collectives import Op
from multitree.topology.lowering import unrolled
from multitree.topology.schedules.schedule import Schedule

__all__ = ["StepwisePlan", "run_stepwise"]

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class StepwisePlan:
    """Index tensors of one schedule, length and device.

    A rank's buffer is cut into `num_pieces` pieces of `piece` elements, so that one row number
    (rank x num_pieces + piece) names what a transfer carries and whole rows are moved.
    """

    num_ranks: int
    num_pieces: int
    piece: int
    spread: torch.Tensor | None  # element of the buffer for every place in the pieces
    collect: torch.Tensor | None  # place in the pieces for every element of the buffer
    additions: list[tuple[torch.Tensor, torch.Tensor]]  # source and destination rows of a kernel
    origin: torch.Tensor | None  # row that each row is a copy of in the end; None: itself
    one_origin: bool  # every rank ends with the same rows
    summed: torch.Tensor  # per row of the result: whether additions made it, so NaN is canonical

    @classmethod
    def of(
        cls, schedule: Schedule, n: int, flit_elements: int, device: torch.device
    ) -> "StepwisePlan":
        """Index tensors on n > 0 elements per rank of a schedule whose flows copy last."""
        # All transfers of one step that are no siblings are one group of a few kernels: gather the
        # rows that are sent, add the rows they are sent to, put them back. Siblings follow each
        # other in canonical order. GATHER rows only copy: their composition is one gather at the
        # end.
        schedule, bounds = _side_by_side(schedule, -(-n // flit_elements))
        bounds = bounds * flit_elements
        sizes = np.diff(bounds)
        # Pieces of the mean chunk: a flow is one piece where chunks are equal, and memory stays
        # below twice the buffers' where they are not.
        piece = -(-int(bounds[-1]) // (schedule.num_flows * flit_elements)) * flit_elements
        counts = -(-sizes // piece)
        first = np.concatenate([[0], np.cumsum(counts)])
        num_pieces = int(first[-1])
        spread, collect = _element_maps(bounds, first, piece, n)
        additions, origin, summed = _row_maps(schedule, first, num_pieces)
        by_rank = origin.reshape(-1, num_pieces)

        def on_device(array: npt.NDArray[Any]) -> torch.Tensor:
            return torch.from_numpy(array).to(device)

        is_itself = bool((origin == np.arange(len(origin))).all())
        return cls(
            num_ranks=schedule.topology.num_ranks,
            num_pieces=num_pieces,
            piece=piece,
            spread=None if spread is None else on_device(spread),
            collect=None if collect is None else on_device(collect),
            additions=[(on_device(source), on_device(to)) for source, to in additions],
            origin=None if is_itself else on_device(origin),
            one_origin=bool((by_rank == by_rank[0]).all()),
            summed=on_device(summed),
        )


def run_stepwise(plan: StepwisePlan, memory: torch.Tensor, op: str) -> torch.Tensor:
    """Run a schedule step by step, on any device, on n > 0 elements per rank.

    Takes a copy of the buffers, two index entries per element of one buffer where chunks differ in
    size, and two temporaries of one group. No operation is atomic: results do not depend on the
    run.
    """
    rows = _spread(memory, plan)
    for source, destination in plan.additions:
        # `_groups` makes the destinations of a group distinct, so that `index_copy_` is
        # deterministic, and `verify` proves that no step reads what it writes.
        value = rows.index_select(0, destination)
        contribution = rows.index_select(0, source)
        combine(value, contribution, reduction_of(op), out=value)
        rows.index_copy_(0, destination, value)
    return _collect(rows, plan, average=op == "average")


def _spread(memory: torch.Tensor, plan: StepwisePlan) -> torch.Tensor:
    """Copy buffers into rows of equal length; places past a chunk's end hold anything."""
    if plan.spread is None:
        return memory.clone().reshape(-1, plan.piece)
    return memory.index_select(1, plan.spread).reshape(-1, plan.piece)


def _collect(rows: torch.Tensor, plan: StepwisePlan, *, average: bool) -> torch.Tensor:
    """Do all copies at once, divide, make NaN canonical, and bring rows back into buffers."""
    origin, summed, num_ranks = plan.origin, plan.summed, plan.num_ranks
    if origin is not None and plan.one_origin:
        origin, summed = origin[: plan.num_pieces], summed[: plan.num_pieces]
    if origin is not None:
        rows = rows.index_select(0, origin)
    if average:
        divide_by_ranks(rows, num_ranks)
        summed = torch.ones_like(summed)
    # This is done once, at the end, since a NaN stays one through additions and copies.
    make_canonical(rows, where=summed[:, None])
    image = rows.reshape(-1, plan.num_pieces * plan.piece)
    if plan.collect is not None:
        image = image.index_select(1, plan.collect)
    # Expanded rows share memory; each rank gets its own, since results may be written to.
    return image.expand(num_ranks, -1).contiguous() if len(image) < num_ranks else image


def _side_by_side(schedule: Schedule, num_flits: int) -> tuple[Schedule, IntArray]:
    """All waves at once, a flow for each tree and wave, and where their chunks begin."""
    bounds, num_waves = schedule.chunks(num_flits), schedule.num_waves
    if num_waves == 1:
        return schedule, bounds
    begins = np.add.outer(bounds[-1] * np.arange(num_waves), bounds[:-1]).ravel()
    return unrolled(schedule, period=0), np.append(begins, bounds[-1] * num_waves)


def _element_maps(
    bounds: IntArray, first: IntArray, piece: int, n: int
) -> tuple[IntArray | None, IntArray | None]:
    """Where each place of the pieces comes from, and where each element went."""
    num_pieces = int(first[-1])
    flow = np.repeat(np.arange(len(bounds) - 1), np.diff(first))
    start = bounds[flow] + (np.arange(num_pieces) - first[flow]) * piece
    element = (start[:, None] + np.arange(piece)).reshape(-1)
    if len(element) == n and (element == np.arange(n)).all():
        return None, None
    # Neighbours' elements and repeats of the last one fill the room behind a chunk's end: what is
    # there is added and moved like the rest and never collected.
    owner = np.searchsorted(bounds, np.arange(n), side="right") - 1
    place = first[owner] * piece + np.arange(n) - bounds[owner]
    return np.minimum(element, n - 1), place


def _row_maps(
    schedule: Schedule, first: IntArray, num_pieces: int
) -> tuple[list[tuple[IntArray, IntArray]], IntArray, npt.NDArray[np.bool_]]:
    """Groups of additions, the origin of every row, and whether additions made its value."""
    num_rows = schedule.topology.num_ranks * num_pieces
    additions = []
    summed = np.zeros(num_rows, dtype=np.bool_)
    for transfers in _groups(schedule):
        source, destination = _rows_of(schedule, transfers, first, num_pieces)
        additions.append((source, destination))
        summed[destination] = True
    origin = np.arange(num_rows)
    copies = np.flatnonzero(schedule.op == Op.GATHER)
    for step in np.unique(schedule.step[copies]):
        transfers = copies[schedule.step[copies] == step]
        source, destination = _rows_of(schedule, transfers, first, num_pieces)
        origin[destination] = origin[source]
    return additions, origin, summed[origin]


def _groups(schedule: Schedule) -> list[IntArray]:
    """REDUCE transfers that may run together: one step, and the k-th of all siblings."""
    reduces = np.flatnonzero(schedule.op == Op.REDUCE)
    columns = (schedule.src, schedule.order, schedule.dst, schedule.flow, schedule.step)
    reduces = reduces[np.lexsort([column[reduces] for column in columns])]
    sibling = np.stack([column[reduces] for column in columns[2:]])
    starts = np.ones(len(reduces), dtype=np.bool_)
    starts[1:] = (sibling[:, 1:] != sibling[:, :-1]).any(axis=0)
    index = np.arange(len(reduces))
    place = index - np.maximum.accumulate(np.where(starts, index, 0))
    keys = np.stack([schedule.step[reduces], place])
    _, group = np.unique(keys, axis=1, return_inverse=True)
    return [reduces[group == number] for number in range(int(group.max(initial=-1)) + 1)]


def _rows_of(
    schedule: Schedule, transfers: IntArray, first: IntArray, num_pieces: int
) -> tuple[IntArray, IntArray]:
    """Source and destination row of every piece that the transfers carry."""
    flow = schedule.flow[transfers]
    counts = first[flow + 1] - first[flow]
    transfer = np.repeat(np.arange(len(transfers)), counts)
    within = np.arange(len(transfer)) - np.repeat(np.cumsum(counts) - counts, counts)
    piece = first[flow][transfer] + within
    source = schedule.src[transfers][transfer].astype(np.int64) * num_pieces + piece
    destination = schedule.dst[transfers][transfer].astype(np.int64) * num_pieces + piece
    return source, destination
