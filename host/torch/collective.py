"""A collective: what it carries, and how a rank runs its part over a transport."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import torch

from multitree.host.tensors.operators import combine, divide_by_ranks, make_canonical, reduction_of
from multitree.host.torch.layouts import Action, Kind, Layout, RankProgram
from multitree.host.torch.peers.frames import DTYPE_NAMES, Fingerprint, Frame
from multitree.host.torch.peers.progress import Steps
from multitree.topology.collectives import DTYPES, Op

__all__ = [
    "ROUND_SHIFT",
    "Collective",
    "CollectiveReport",
    "Flows",
    "ReadyFrames",
    "Run",
    "Slices",
    "Transport",
    "copy_chunk",
    "name_of",
    "run_program",
    "split_like",
    "why_not_hosted",
]

_HARDWARE_OPERATORS = ("none", "sum", "max", "average")

ROUND_SHIFT = 32
"""Bits of the `offset` of READY frames, above which is the number of the round."""

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
    round: int = 0  # number of the part of the collective that this is


class Transport(Protocol):
    """Moves chunks between ranks."""

    name: str

    def rounds(self, run: Run) -> Iterable[Run]:
        """The parts of a collective that run one after another, if not all of it at once."""

    def begin(self, run: Run) -> Steps[None]:
        """Get ready for a round: memory, receives."""

    def advance(self, actions: Steps[None]) -> Steps[None]:
        """Run the actions of a round that has begun."""

    def accumulator(self, run: Run, action: Action) -> Slices:
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
    for part in transport.rounds(run):
        yield from transport.begin(part)
        yield from transport.advance(_actions(part, transport))


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
    out = targets if action.is_last and targets is not None else transport.accumulator(run, action)
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


def split_like(chunk: torch.Tensor, template: Slices) -> Slices:
    """A chunk in one piece as slices of a template's sizes."""
    if len(template) == 1:
        return [chunk]
    return list(chunk.split([len(part) for part in template]))


class ReadyFrames:
    """READY frames, by collective; those of later ones are kept until these begin."""

    def __init__(self) -> None:
        self._frames: dict[int, dict[tuple[int, int, int, int], Frame]] = defaultdict(dict)

    def begin(self, sequence: int) -> None:
        """Start a collective: frames of older ones are forgotten."""
        for old in [number for number in self._frames if number < sequence]:
            del self._frames[old]

    def add(self, peer: int, frame: Frame) -> None:
        """Keep a frame."""
        key = peer, frame.channel, frame.index, frame.offset >> ROUND_SHIFT
        self._frames[frame.sequence][key] = frame

    def find(self, run: Run, action: Action) -> Frame | None:
        """The frame that an action waits for, if it is there."""
        key = action.peer, action.op, action.flow, run.round
        return self._frames[run.sequence].get(key)


@dataclass(frozen=True)
class CollectiveReport:
    """What ran, and how long it took at this rank.

    Parameters
    ----------
    sequence : int
        Number of the collective in its group.
    collective : str
    op : str
        Its operator, "none" where elements are only copied.
    dtype : str
    num_elements : int
        Of one rank's whole buffer.
    engine, transport : str
        What ran it: "torch", "numpy" or "rtl", and between ranks "shared_memory", "gloo" or
        "nccl", or "messages" of this project's own.
    reason : str or None
        Why another engine than the group's ran it.
    schedule_hash : str or None
        None where no schedule was executed.
    algorithm, topology : str or None
    cycles : int or None
        On emulated interfaces; known to the rank that hosts them.
    seconds : float
        From its begin to its end at this rank.
    """

    sequence: int
    collective: str
    op: str
    dtype: str
    num_elements: int
    engine: str
    transport: str
    reason: str | None
    schedule_hash: str | None
    algorithm: str | None
    topology: str | None
    cycles: int | None
    seconds: float


@dataclass(frozen=True)
class Collective:
    """A collective that executes a schedule: what it carries, from where and to where."""

    name: str
    op: str
    root: int  # rank in the group; -1 without one
    num_elements: int
    dtype: torch.dtype
    layout: Layout | None  # None in a group of one rank
    flows: Callable[[], Flows]  # makes the tensors when the collective begins
    after: Callable[[], None] = lambda: None  # called when it has ended well
    device: str = "cpu"  # type of the tensors' device

    @classmethod
    def on(
        cls,
        tensor: torch.Tensor,
        name: str,
        op: str,
        root: int,
        num_elements: int,
        layout: Layout | None,
        flows: Callable[[], Flows],
    ) -> "Collective":
        """A collective on tensors like one, on its device."""
        device = tensor.device.type
        return cls(name, op, root, num_elements, tensor.dtype, layout, flows, device=device)

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """What all ranks must agree on."""
        digest = bytes(8) if self.layout is None else bytes.fromhex(self.layout.schedule.hash[:16])
        name = name_of(self.dtype)
        dtype = name if name in DTYPE_NAMES else DTYPE_NAMES[-1]
        agreed = self.name, dtype, self.op, self.root, self.num_elements, digest, self.device
        return Fingerprint(*agreed)

    @property
    def text(self) -> str:
        """What it is, for messages."""
        op = "" if self.op == "none" else f" ({self.op})"
        return f"{self.name}{op} of {self.num_elements} {name_of(self.dtype)}"


def name_of(dtype: torch.dtype) -> str:
    """Name of a type without its module."""
    return str(dtype).removeprefix("torch.")


def why_not_hosted(dtype: torch.dtype, op: str, num_bytes: int) -> str | None:
    """The reason why the hardware has no such collective, where it has none."""
    name = name_of(dtype)
    if op == "none":
        # What is only copied may be of any type, as long as it is whole words.
        return None if num_bytes % 4 == 0 else f"{num_bytes} bytes are no whole words"
    if name not in DTYPES:
        return f"no adder for {name}"
    if op == "average" and not dtype.is_floating_point:
        return f"no average of {name}"
    return None if op in _HARDWARE_OPERATORS else f"no operator {op}"
