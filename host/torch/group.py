"""Collectives of one group, on flat tensors."""

import json
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import asdict
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

import torch

from multitree.host.tensors.operators import check_operator
from multitree.host.torch.collective import (
    Collective,
    CollectiveReport,
    Flows,
    Run,
    Transport,
    copy_chunk,
    name_of,
    run_program,
    why_not_hosted,
)
from multitree.host.torch.layouts import Layout, Layouts, flows_of, parts_of
from multitree.host.torch.peers.handles import Handle, QueuedCollective
from multitree.host.torch.peers.mailbox import bytes_of, carrier_of, exchange_messages
from multitree.host.torch.peers.member import Member
from multitree.host.torch.peers.progress import Steps

if TYPE_CHECKING:
    from multitree.host.report import WorkReport

__all__ = ["Group", "OtherEngine", "slices_of"]

_KEPT_REPORTS = 1000


class OtherEngine(Protocol):
    """An engine that is not each rank's own."""

    name: str

    def run(
        self, sequence: int, fingerprint: bytes, layout: Layout, flows: Flows, op: str
    ) -> "Steps[WorkReport | None]":
        """Run a collective; the report is None where another rank has it."""

    def close(self) -> None:
        """Give back what it holds."""


class Group:
    """One rank's collectives, on contiguous tensors of one dimension.

    Collectives that execute a schedule take tensors of the devices that there are transports for,
    all others tensors on the CPU. In a group of one rank there are no layouts and no transports.
    """

    def __init__(
        self,
        member: Member,
        num_ranks: int,
        layouts: Layouts | None,
        transports: dict[str, Transport],
        hosted: OtherEngine | None,
        log: str | None,
    ) -> None:
        self.member = member
        self.rank, self.num_ranks = member.rank, num_ranks
        self._layouts, self._transports, self._hosted = layouts, transports, hosted
        self._log = None if log is None else log.replace("{rank}", str(member.global_rank))
        self.reports: deque[CollectiveReport] = deque(maxlen=_KEPT_REPORTS)
        self.counts: Counter[tuple[str, str]] = Counter()

    # Collectives that execute a schedule.

    def reduce_all(self, tensor: torch.Tensor, op: str, handle: Handle, timeout_s: float) -> None:
        """Reduce elements of all ranks, in place."""
        check_operator(op, tensor.dtype)
        layout = self.buffer_layout("all_reduce", None, tensor)

        def flows() -> Flows:
            slices = slices_of(layout, tensor)
            return Flows(slices, slices)

        collective = Collective.on(tensor, "all_reduce", op, -1, len(tensor), layout, flows)
        self.start(collective, handle, timeout_s)

    def reduce(
        self, tensor: torch.Tensor, root: int, op: str, handle: Handle, timeout_s: float
    ) -> None:
        """Reduce elements of all ranks to the root; other ranks keep theirs."""
        check_operator(op, tensor.dtype)
        layout = self.buffer_layout("reduce", root, tensor)

        def flows() -> Flows:
            slices = slices_of(layout, tensor)
            return Flows(slices, slices if self.rank == root else {})

        collective = Collective.on(tensor, "reduce", op, root, len(tensor), layout, flows)
        self.start(collective, handle, timeout_s)

    def broadcast(self, tensor: torch.Tensor, root: int, handle: Handle, timeout_s: float) -> None:
        """Copy the root's elements to all ranks, in place."""
        layout = self.buffer_layout("broadcast", root, tensor)

        def flows() -> Flows:
            slices = slices_of(layout, carrier_of(tensor))
            return Flows(slices, {}) if self.rank == root else Flows({}, slices)

        collective = Collective.on(tensor, "broadcast", "none", root, len(tensor), layout, flows)
        self.start(collective, handle, timeout_s)

    def scatter_reduced(
        self,
        output: torch.Tensor,
        inputs: Sequence[torch.Tensor],
        op: str,
        handle: Handle,
        timeout_s: float,
    ) -> None:
        """Reduce every rank's part; each rank gets its own."""
        check_operator(op, output.dtype)
        layout = self.part_layout("reduce_scatter", inputs)
        total = sum(len(part) for part in inputs)

        def flows() -> Flows:
            return self.part_flows(layout, output, inputs)

        collective = Collective.on(output, "reduce_scatter", op, -1, total, layout, flows)
        self.start(collective, handle, timeout_s)

    def part_flows(
        self, layout: Layout | None, output: torch.Tensor, inputs: Sequence[torch.Tensor]
    ) -> Flows:
        """What the flows of a reduce-scatter carry."""
        sources = _parts(layout, list(inputs))
        own = self._own_flows(layout)
        return Flows(sources, {flow: [output] for flow in own if flow in sources})

    def all_gather(
        self,
        outputs: Sequence[torch.Tensor],
        tensor: torch.Tensor,
        handle: Handle,
        timeout_s: float,
    ) -> None:
        """Copy every rank's part to all ranks."""
        layout = self.part_layout("all_gather", outputs)
        total = sum(len(part) for part in outputs)

        def flows() -> Flows:
            targets = _parts(layout, [carrier_of(part) for part in outputs])
            own = self._own_flows(layout)
            return Flows({flow: [carrier_of(tensor)] for flow in own if flow in targets}, targets)

        collective = Collective.on(tensor, "all_gather", "none", -1, total, layout, flows)
        self.start(collective, handle, timeout_s)

    def barrier(self, handle: Handle, timeout_s: float) -> None:
        """Wait until all ranks have come: an all-reduce of one element, whose tree spans all."""
        self.reduce_all(torch.zeros(1, dtype=torch.int32), "sum", handle, timeout_s)

    def start(self, collective: Collective, handle: Handle, timeout_s: float) -> None:
        """Queue a collective that executes a schedule."""

        def steps(sequence: int) -> Steps[None]:
            yield from self._execute(sequence, collective)
            collective.after()

        self.queue(collective, steps, handle, timeout_s)

    def queue(
        self,
        collective: Collective,
        steps: Callable[[int], Steps[None]],
        handle: Handle,
        timeout_s: float,
        moved: tuple[int, int] | None = None,
    ) -> None:
        """Queue the steps of a collective, which are made from its number."""
        queued = QueuedCollective(
            collective.fingerprint, collective.text, steps, handle, timeout_s, moved=moved
        )
        self.member.submit(queued)

    def _execute(self, sequence: int, collective: Collective) -> Steps[None]:
        """Run it on the group's engine, or on each rank's own where that has no such thing."""
        begun = perf_counter()
        flows, layout = collective.flows(), collective.layout
        engine, reason, cycles = "torch", None, None
        packed = collective.fingerprint.packed()
        if layout is None or not layout.program.actions:
            _copy_own(flows)
        else:
            if self._hosted is not None:
                num_bytes = collective.num_elements * collective.dtype.itemsize
                reason = why_not_hosted(collective.dtype, collective.op, num_bytes)
            if self._hosted is not None and reason is None:
                engine = self._hosted.name
                report = yield from self._hosted.run(sequence, packed, layout, flows, collective.op)
                cycles = None if report is None else report.cycles
            else:
                if collective.op == "none":
                    _copy_own(flows)
                run = Run(sequence, packed, layout.program, flows, collective.op, self.num_ranks)
                yield from run_program(run, self._transports[collective.device])
        self.report(sequence, collective, engine, reason, cycles, perf_counter() - begun)

    # Collectives and messages without a schedule.

    def exchange(
        self,
        name: str,
        sends: dict[int, torch.Tensor],
        receives: dict[int, torch.Tensor],
        handle: Handle,
        timeout_s: float,
        *,
        root: int = -1,
        num_elements: int = 0,
    ) -> None:
        """Send and receive one message for each rank: gather, scatter, all-to-all.

        Ranks must agree on root and number of elements; a message to oneself is copied.
        """
        kept = next(iter([*sends.values(), *receives.values()])).dtype
        collective = Collective(name, "none", root, num_elements, kept, None, Flows)

        def steps(sequence: int) -> Steps[None]:
            begun = perf_counter()
            yield from self.messages(sequence, collective, sends, receives)
            seconds = perf_counter() - begun
            self.report(sequence, collective, "torch", None, None, seconds)

        moved = _count(sends), _count(receives)
        self.queue(collective, steps, handle, timeout_s, moved)

    def messages(
        self,
        sequence: int,
        collective: Collective,
        sends: dict[int, torch.Tensor],
        receives: dict[int, torch.Tensor],
    ) -> Steps[None]:
        """All receives, then all sends, then their ends."""
        packed = collective.fingerprint.packed()
        yield from exchange_messages(self.member.mailbox, sequence, packed, sends, receives)

    def send(
        self, peer: int, tag: int, tensor: torch.Tensor, handle: Handle, timeout_s: float
    ) -> None:
        """Send a tensor, which must not change until the handle's end."""
        self.counts["send", "torch"] += 1
        handle.keep(tensor)
        self.member.send(self._checked_peer(peer), tag, bytes_of(tensor), handle, timeout_s)

    def receive(
        self, peer: int | None, tag: int, tensor: torch.Tensor, handle: Handle, timeout_s: float
    ) -> None:
        """Receive a tensor from a rank, or from any where it is None."""
        self.counts["recv", "torch"] += 1
        source = None if peer is None else self._checked_peer(peer)
        self.member.receive(source, tag, bytes_of(tensor), handle, timeout_s)

    # Helpers.

    def _checked_peer(self, peer: int) -> int:
        if not 0 <= peer < self.num_ranks:
            raise ValueError(f"Rank must be in 0..{self.num_ranks - 1}, not {peer}")
        return peer

    def buffer_layout(self, name: str, root: int | None, tensor: torch.Tensor) -> Layout | None:
        """Layout of an all-reduce, broadcast or reduce; None in a group of one rank."""
        if self._layouts is None:
            return None
        return self._layouts.of_buffer(name, root, len(tensor), tensor.element_size())

    def part_layout(self, name: str, parts: Sequence[torch.Tensor]) -> Layout | None:
        """Layout of a reduce-scatter or all-gather; None in a group of one rank."""
        if self._layouts is None:
            return None
        sizes = tuple(len(part) for part in parts)
        return self._layouts.of_parts(name, sizes, parts[0].element_size())

    def _own_flows(self, layout: Layout | None) -> list[int]:
        roots = (0,) if layout is None else layout.program.roots
        return [flow for flow, root in enumerate(roots) if root == self.rank]

    def report(
        self,
        sequence: int,
        collective: Collective,
        engine: str,
        reason: str | None,
        cycles: int | None,
        seconds: float,
    ) -> None:
        """Keep what ran, and append it to the log."""
        schedule = None if collective.layout is None else collective.layout.schedule
        transport = "messages"
        if engine == "torch" and schedule is not None:
            transport = self._transports[collective.device].name
        report = CollectiveReport(
            sequence=sequence,
            collective=collective.name,
            op=collective.op,
            dtype=name_of(collective.dtype),
            num_elements=collective.num_elements,
            engine=engine,
            transport=transport,
            reason=reason,
            schedule_hash=None if schedule is None else schedule.hash,
            algorithm=None if schedule is None else schedule.algorithm,
            topology=None if schedule is None else schedule.topology.name,
            cycles=cycles,
            seconds=seconds,
        )
        self.reports.append(report)
        self.counts[collective.name, engine] += 1
        if self._log is not None:
            with open(self._log, "a") as file:
                file.write(json.dumps({"group": self.member.group, **asdict(report)}) + "\n")

    @property
    def devices(self) -> tuple[str, ...]:
        """Types of devices whose tensors need not be copied to the CPU."""
        return tuple(self._transports) or ("cpu",)

    def close(self) -> None:
        """End the group's thread and its engine."""
        self.member.stop()
        for transport in self._transports.values():
            transport.close()
        self.member.progress.join()
        if self._hosted is not None:
            self._hosted.close()


def _count(tensors: dict[int, torch.Tensor]) -> int:
    """Elements of all tensors."""
    return sum(tensor.numel() for tensor in tensors.values())


def _copy_own(flows: Flows) -> None:
    """Copy what this rank itself contributes to its result."""
    for flow, slices in flows.sources.items():
        copy_chunk(slices, flows.targets.get(flow))


def slices_of(layout: Layout | None, tensor: torch.Tensor) -> dict[int, list[torch.Tensor]]:
    """What each flow carries of a flat tensor; one flow has all in a group of one rank."""
    return {0: [tensor]} if layout is None else flows_of(layout, tensor)


def _parts(layout: Layout | None, parts: list[torch.Tensor]) -> dict[int, list[torch.Tensor]]:
    return {0: parts} if layout is None else parts_of(layout, parts)
