"""Collectives of a group on an engine that one of its ranks hosts for all."""

import threading
from typing import Any

import numpy as np
import torch

from multitree.host.buffers import to_tensor
from multitree.host.engines import Collective, EngineError, Plan, check_runs_here
from multitree.host.plans import Plans
from multitree.host.report import WorkReport
from multitree.host.runner import Runner
from multitree.host.torch.collective import Flows
from multitree.host.torch.layouts import FLIT_BYTES, Layout, Planner
from multitree.host.torch.peers.mailbox import Mailbox, exchange_messages
from multitree.host.torch.peers.progress import Progress, Steps, Waiting
from multitree.sim.timing.link_model import LinkModel
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = ["HOST", "HostedEngine", "sized_planner", "why_not_here"]

HOST = 0
"""Rank of the group that runs the engine."""


def sized_planner(topology: Topology, algorithm: str) -> Planner:
    """Plans of an algorithm that suits schedules to sizes: "auto" asks the analytic engine."""
    plans = Plans(topology, algorithm, LinkModel())

    def plan(collective: str, root: int | None, size_bytes: int) -> tuple[Schedule, str | None]:
        made = plans.plan(collective, root, size_bytes)
        return made.schedule, made.dependency

    return plan


def why_not_here(name: str) -> str:
    """Why this rank cannot run an engine for all; empty if it can."""
    try:
        check_runs_here(name, next_down="numpy")
    except EngineError as error:
        return str(error)
    return ""


class HostedEngine:
    """Sends this rank's elements to the rank that hosts the engine, and gets the result back.

    The engine, "numpy" or "rtl", runs in the helper thread of `progress`.
    """

    def __init__(
        self,
        name: str,
        topology: Topology,
        rank: int,
        mailbox: Mailbox,
        progress: Progress,
    ) -> None:
        self.name = name
        self._topology = topology
        self._rank = rank
        self._mailbox = mailbox
        self._progress = progress
        self._runner: Runner | None = None
        self._in_use = threading.Lock()

    def run(
        self, sequence: int, fingerprint: bytes, layout: Layout, flows: Flows, op: str
    ) -> Steps[WorkReport | None]:
        """Run one collective; the host returns its report."""
        places, length = _places(layout, flows)
        row = _any_of(flows).new_zeros(length)
        for flow, slices in flows.sources.items():
            _write(row, places[flow], slices)
        if op == "none":
            row = row.view(torch.int32)
        report = None
        others = [rank for rank in range(self._topology.num_ranks) if rank != HOST]

        def exchange(
            sends: dict[int, torch.Tensor], receives: dict[int, torch.Tensor]
        ) -> Steps[None]:
            yield from exchange_messages(self._mailbox, sequence, fingerprint, sends, receives)

        if self._rank != HOST:
            yield from exchange({HOST: row.clone()}, {HOST: row})
        else:
            rows = row.new_empty((self._topology.num_ranks, len(row)))
            rows[HOST] = row
            yield from exchange({}, {rank: rows[rank] for rank in others})
            plan = Plan(layout.schedule, layout.dependency)
            rows, report = yield from self._progress.in_thread(
                lambda: self._run_engine(plan, rows, op), lambda: Waiting(HOST)
            )
            yield from exchange({rank: rows[rank].contiguous() for rank in others}, {})
            row = rows[HOST]
        row = row.view(_any_of(flows).dtype)
        for flow, targets in flows.targets.items():
            _read(row, places[flow], targets)
        return report

    def _run_engine(self, plan: Plan, rows: torch.Tensor, op: str) -> tuple[Any, WorkReport]:
        with self._in_use:
            if self._runner is None:
                self._runner = Runner(self._topology, self.name)
            op = "sum" if op == "none" else op
            outcome, report = self._runner.run(Collective.of(plan, rows, op))
            return to_tensor(outcome.memory), report

    def close(self) -> None:
        """Give back the engine."""
        with self._in_use:
            if self._runner is not None:
                self._runner.close()
                self._runner = None


def _any_of(flows: Flows) -> torch.Tensor:
    """One of the tensors, for its type."""
    return next(iter([*flows.sources.values(), *flows.targets.values()]))[0]


def _places(layout: Layout, flows: Flows) -> tuple[dict[int, list[tuple[int, int]]], int]:
    """Where each flow lies in a row that the engine cuts by itself, and the row's length."""
    schedule = layout.schedule
    if schedule.collective not in ("reduce_scatter", "all_gather"):
        places = {flow: list(slices) for flow, slices in enumerate(layout.ranges) if slices}
        return places, max(slices[-1][1] for slices in places.values())
    flit_elements = FLIT_BYTES // _any_of(flows).element_size()
    sizes = [sum(end - begin for begin, end in slices) for slices in layout.ranges]
    offsets = schedule.flow_offsets.tolist()
    # Chunks are cut by rounding down, so that a flit more may be needed than shares say.
    num_flits = max(
        -(-size // flit_elements) * offsets[-1] // (offsets[flow + 1] - offsets[flow])
        for flow, size in enumerate(sizes)
    )
    wanted = -(-np.array(sizes) // flit_elements)
    while (np.diff(schedule.chunks(num_flits)) < wanted).any():
        num_flits += 1
    bounds = (schedule.chunks(num_flits) * flit_elements).tolist()
    places = {f: [(bounds[f], bounds[f] + size)] for f, size in enumerate(sizes) if size}
    return places, bounds[-1]


def _write(row: torch.Tensor, places: list[tuple[int, int]], slices: list[torch.Tensor]) -> None:
    for (begin, end), part in zip(places, slices, strict=True):
        row[begin:end] = part


def _read(row: torch.Tensor, places: list[tuple[int, int]], targets: list[torch.Tensor]) -> None:
    for (begin, end), part in zip(places, targets, strict=True):
        part.copy_(row[begin:end])
