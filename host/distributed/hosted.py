"""Collectives of a group on an engine that one of its ranks hosts for all."""

import threading
from typing import Any

import numpy as np
import torch

from multitree.host.buffers import to_tensor
from multitree.host.distributed.execution import Flows
from multitree.host.distributed.layouts import FLIT_BYTES, Layout, Planner
from multitree.host.engines import Engine, Plan, open_engine
from multitree.host.peers.mailbox import COLLECTIVES, Mailbox, Receive
from multitree.host.peers.member import bytes_of
from multitree.host.peers.progress import Progress, Steps, Waiting
from multitree.host.runner import Plans, run_on
from multitree.host.work import WorkReport
from multitree.sim.link_model import LinkModel
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = ["HOST", "HostedEngine", "sized_planner"]

HOST = 0
"""Rank of the group that runs the engine."""


def sized_planner(topology: Topology, algorithm: str) -> Planner:
    """Plans of an algorithm that suits schedules to sizes: "auto" asks the analytic engine."""
    plans = Plans(topology, algorithm, LinkModel())

    def plan(collective: str, root: int | None, size_bytes: int) -> tuple[Schedule, str | None]:
        made = plans.plan(collective, root, size_bytes)
        return made.schedule, made.dependency

    return plan


class HostedEngine:
    """Sends this rank's elements to the rank that hosts the engine, and gets the result back.

    Parameters
    ----------
    name : str
        "numpy" or "rtl".
    topology : Topology
    rank : int
    mailbox : Mailbox
    progress : Progress
        Whose helper thread the engine runs in.
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
        self._link_model = LinkModel()
        self._rank = rank
        self._mailbox = mailbox
        self._progress = progress
        self._engine: Engine | None = None
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
        if self._rank != HOST:
            yield from self._exchange(sequence, fingerprint, row)
        else:
            rows = yield from self._collect(sequence, row)
            plan = Plan(layout.schedule, layout.dependency)
            rows, report = yield from self._progress.in_thread(
                lambda: self._run_engine(plan, rows, op), lambda: Waiting(HOST)
            )
            yield from self._distribute(sequence, fingerprint, rows)
            row = rows[HOST]
        row = row.view(_any_of(flows).dtype)
        for flow, targets in flows.targets.items():
            _read(row, places[flow], targets)
        return report

    def _run_engine(self, plan: Plan, rows: torch.Tensor, op: str) -> tuple[Any, WorkReport]:
        with self._in_use:
            if self._engine is None:
                self._engine = open_engine(self.name, self._topology, self._link_model)
            op = "sum" if op == "none" else op
            image, report = run_on(self._engine, plan, rows, link_model=self._link_model, op=op)
            return to_tensor(image), report

    def _exchange(self, sequence: int, fingerprint: bytes, row: torch.Tensor) -> Steps[None]:
        """Send a row to the host, and receive what it becomes in its place."""
        sent = row.clone()
        ended: list[Exception | None] = []
        memory = bytes_of(row)
        self._mailbox.receive(Receive(HOST, COLLECTIVES, sequence, memory, ended.append))
        self._mailbox.send(
            HOST, COLLECTIVES, sequence, bytes_of(sent), ended.append, fingerprint=fingerprint
        )
        yield from _until(ended, 2, [HOST])

    def _collect(self, sequence: int, row: torch.Tensor) -> Steps[torch.Tensor]:
        """Receive every rank's row."""
        num_ranks = self._topology.num_ranks
        rows = row.new_empty((num_ranks, len(row)))
        rows[HOST] = row
        ended: list[Exception | None] = []
        missing = [rank for rank in range(num_ranks) if rank != HOST]
        for rank in list(missing):

            def done(error: Exception | None, rank: int = rank) -> None:
                missing.remove(rank)
                ended.append(error)

            memory = bytes_of(rows[rank])
            self._mailbox.receive(Receive(rank, COLLECTIVES, sequence, memory, done))
        yield from _until(ended, num_ranks - 1, missing)
        return rows

    def _distribute(self, sequence: int, fingerprint: bytes, rows: torch.Tensor) -> Steps[None]:
        """Send every rank its row."""
        ended: list[Exception | None] = []
        others = [rank for rank in range(len(rows)) if rank != HOST]
        for rank in others:
            memory = bytes_of(rows[rank].contiguous())
            self._mailbox.send(
                rank, COLLECTIVES, sequence, memory, ended.append, fingerprint=fingerprint
            )
        yield from _until(ended, len(others), others)

    def close(self) -> None:
        """Give back the engine."""
        with self._in_use:
            if self._engine is not None:
                self._engine.close()
                self._engine = None


def _any_of(flows: Flows) -> torch.Tensor:
    """One of the tensors, for its type."""
    return next(iter([*flows.sources.values(), *flows.targets.values()]))[0]


def _until(ended: list[Exception | None], count: int, peers: list[int]) -> Steps[None]:
    """Wait for so many messages; the first error is raised."""
    while len(ended) < count:
        yield Waiting(peers[0] if peers else -1)
    for error in ended:
        if error is not None:
            raise error


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
