"""Runs that campaigns draw from a seed, and what became of them in RTL."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt
from _campaign import Run

from multitree import DeviceError, LinkModel, Topology, Trace, execute
from multitree.host.runner import make_buffers
from multitree.nic.driver.config import Config
from multitree.sim.rtl.loads import Upcoming
from multitree.sim.rtl.session import RtlSession
from multitree.sim.timing.link_model import MemoryTiming
from multitree.sim.timing.sizing import config_for
from multitree.topology.lowering import lowered

__all__ = ["Draw", "outcome_of"]

Buffers = npt.NDArray[Any]
More = Callable[[RtlSession, list[Trace]], tuple[dict[str, Any], list[str]]]


@dataclass(frozen=True)
class Draw:
    """What a run does: collectives, links, memory, starts, and the seed of its data."""

    seed: int
    spec: str  # the network, as the campaign's table has it
    queue: list[Upcoming]  # one after the other, all on one network
    timing: MemoryTiming
    skews: list[int]  # cycles until each rank starts
    model: LinkModel = field(default_factory=LinkModel)
    sizes: dict[str, int] = field(default_factory=dict)  # of the interfaces, as for `RtlSession`

    @property
    def topology(self) -> Topology:
        return self.queue[0].schedule.topology

    @property
    def config(self) -> Config:
        wired = lowered(self.queue[0].schedule).topology
        return config_for(wired, self.model, **self.sizes)

    @property
    def buffers(self) -> list[Buffers]:
        """What all ranks have, for each collective."""
        return [
            make_buffers(
                self.seed * len(self.queue) + k, len(self.skews), each.num_elements, each.dtype
            )
            for k, each in enumerate(self.queue)
        ]


def outcome_of(
    drawn: Draw,
    kind: type[Run],
    more: More = lambda session, traces: ({}, []),
    *,
    repeated: bool = False,
    **options: Any,
) -> Run:
    """What became of all collectives, run without a barrier between them.

    `more` has further fields of the outcome, and what else is wrong. With `repeated` all are the
    first one, whose table stays.
    """
    begin, buffers = time.process_time(), drawn.buffers
    options |= {"link_model": drawn.model, "memory_timing": drawn.timing, "num_threads": 1}
    with RtlSession(drawn.topology, **options) as session:
        try:
            run = session.run if repeated else session.run_each
            what = drawn.queue[0].schedule if repeated else drawn.queue
            results = run(what, buffers, start_skew_cycles=drawn.skews)
            fields, said = more(session, [trace for _, trace in results])
        except DeviceError as error:
            return kind(drawn.seed, drawn.spec, False, f"stuck: {error}")
        cycles = session.network.cycle
    wrong = [
        k
        for k, (each, given, (memory, _)) in enumerate(
            zip(drawn.queue, buffers, results, strict=True)
        )
        if memory.tobytes() != execute(each.schedule, given, op=each.op).tobytes()
    ]
    said = [f"wrong results of collectives {wrong}"] * bool(wrong) + said
    seconds = time.process_time() - begin
    return kind(drawn.seed, drawn.spec, not said, "; ".join(said), cycles, seconds, **fields)
