"""Runs one rank's program over a transport that moves chunks between ranks."""

from dataclasses import dataclass, field
from typing import Protocol

import torch

from multitree.host.distributed.rank_program import Action, Kind, RankProgram
from multitree.host.peers.progress import Steps
from multitree.host.tensors.operators import (
    combine,
    divide_by_ranks,
    make_canonical,
    reduction_of,
)
from multitree.topology.collectives import Op

__all__ = ["Flows", "Run", "Slices", "Transport", "copy_chunk", "run_program"]

Slices = list[torch.Tensor]


@dataclass
class Flows:
    """Where the chunks of one collective lie in this rank's own tensors, by flow and wave."""

    # elements before the collective, of one dimension
    sources: dict[int, Slices] = field(default_factory=dict)
    # where results go; flows without one are not kept
    targets: dict[int, Slices] = field(default_factory=dict)

    def template(self, flow: int) -> Slices:
        """Tensors with the sizes of a flow's slices."""
        return self.sources.get(flow) or self.targets[flow]


@dataclass(frozen=True)
class Run:
    """One collective as a transport needs it."""

    sequence: int
    fingerprint: bytes
    program: RankProgram
    flows: Flows
    op: str  # one of `OPERATORS`, or "none" where nothing is added
    num_ranks: int


class Transport(Protocol):
    """Moves chunks between ranks."""

    name: str

    def begin(self, run: Run) -> Steps[None]:
        """Get ready for a collective: memory, receives."""

    def advance(self, actions: Steps[None]) -> Steps[None]:
        """Run the actions of a collective that has begun."""

    def room(self, run: Run, action: Action) -> Slices:
        """Memory for a sum that is sent on."""

    def receive(self, run: Run, action: Action) -> Steps[Slices]:
        """Wait for a chunk, and return tensors that hold it."""

    def send(self, run: Run, action: Action, value: Slices) -> None:
        """Send a chunk."""

    def end(self, run: Run) -> Steps[None]:
        """Wait until what was sent needs this rank's tensors no more."""

    def close(self) -> None:
        """Give back what it holds; what still runs ends with an error."""


def run_program(run: Run, transport: Transport) -> Steps[None]:
    """Execute all actions of a rank.

    A sum begins with the rank's own elements, and contributions are added in the order of the
    schedule. NaN are made canonical, and averages divided, at the root alone, before the
    result is copied.
    """
    yield from transport.begin(run)
    yield from transport.advance(_actions(run, transport))


def _actions(run: Run, transport: Transport) -> Steps[None]:
    """All actions in order, once the transport is ready."""
    values = dict(run.flows.sources)
    for action in run.program.actions:
        if action.kind == Kind.SEND:
            transport.send(run, action, values[action.flow])
            continue
        contribution = yield from transport.receive(run, action)
        if action.op == Op.GATHER:
            values[action.flow] = contribution
            copy_chunk(contribution, run.flows.targets.get(action.flow))
        else:
            values[action.flow] = _added(run, transport, action, values[action.flow], contribution)
    yield from transport.end(run)


def _added(
    run: Run, transport: Transport, action: Action, value: Slices, contribution: Slices
) -> Slices:
    """Add a contribution; at the end of a root's sum also finish it and keep it."""
    targets = run.flows.targets.get(action.flow)
    # Nothing but the result is written to a target, so that inputs are never lost half-way.
    out = targets if action.is_last and targets is not None else transport.room(run, action)
    for mine, theirs, to in zip(value, contribution, out, strict=True):
        combine(mine, theirs, reduction_of(run.op), out=to)
    if action.ends_sum:
        for part in out:
            _finish(part, run)
        if out is not targets:
            copy_chunk(out, targets)
    return out


def _finish(sums: torch.Tensor, run: Run) -> None:
    """What becomes of sums at their root."""
    if run.op == "average":
        divide_by_ranks(sums, run.num_ranks)
    if sums.is_floating_point() and not bool(torch.isfinite(sums.sum())):
        # Sums of numbers that are far from overflow are finite: one pass instead of three.
        make_canonical(sums)


def copy_chunk(value: Slices, targets: Slices | None) -> None:
    """Copy a chunk to where it is kept, unless it lies there."""
    for source, target in zip(value, targets or [], strict=False):
        if source.data_ptr() != target.data_ptr():
            target.copy_(source)
