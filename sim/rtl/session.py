"""The rtl engine: every interface's generated Verilog, clocked until all are done."""

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from multitree.nic.driver.commands import PortCounts
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import DeviceError
from multitree.nic.driver.table import Table
from multitree.sim.emulator.library import network_library
from multitree.sim.emulator.network import Network
from multitree.sim.emulator.verilator import Waveform
from multitree.sim.faults.diagnosis import StallError, findings
from multitree.sim.faults.injection import Injection
from multitree.sim.native_build import Say
from multitree.sim.rtl.hosts import RtlHost
from multitree.sim.rtl.loads import Loader, Upcoming, check_queue
from multitree.sim.timing.inputs import (
    Buffers,
    Progress,
    check_buffers,
    check_skews,
    elements_of,
    memory_of,
)
from multitree.sim.timing.link_model import LinkModel, MemoryTiming
from multitree.sim.timing.sizing import config_for, emulated_dtypes
from multitree.sim.timing.trace import Trace, trace_of, turns_of
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = ["RtlSession"]


class RtlSession(AbstractContextManager["RtlSession"]):
    """Network in RTL that stays, so that compiling and loading tables is done once.

    To be closed, or used in a `with` statement; of no use after a DeviceError until `reset`.
    Schedules with routes through ranks need the topology that `lowered` gives. Sizes of interfaces
    are the least ones; `config` replaces them. TopologyError if interfaces cannot be wired like
    this, DeviceError if the network cannot be compiled here.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        link_model: LinkModel | None = None,
        memory_timing: MemoryTiming | None = None,
        waveform: Waveform | None = None,
        num_rows: int = 0,
        num_flows: int = 0,
        memory_flits: int = 0,
        num_classes: int = 0,
        max_children: int = 1,
        num_waves: int = 1,
        dtypes: tuple[str, ...] = emulated_dtypes("float32"),
        config: Config | None = None,
        num_threads: int | None = None,
        sleeps: bool = True,
        backdoor: bool = False,
        library: Path | None = None,
        say: Say | None = None,
    ) -> None:
        self.link_model = link_model or LinkModel()
        timing = memory_timing or MemoryTiming()
        self._waveform = waveform
        self.config = config or config_for(
            topology,
            self.link_model,
            num_rows=num_rows,
            num_flows=num_flows,
            memory_flits=memory_flits,
            num_classes=num_classes,
            max_children=max_children,
            num_waves=num_waves,
            dtypes=dtypes,
        )
        self.network = Network(
            topology,
            self.config,
            library or _compiled(topology, self.config, waveform, say),
            link_model=self.link_model,
            memory_timing=timing,
            num_threads=num_threads,
            sleeps=sleeps,
            backdoor=backdoor,
        )
        self._host = RtlHost(self.network)
        self._loader = Loader(topology, self.config, self.link_model, timing)

    def close(self) -> None:
        """Close the network, and finish the waveform."""
        self.network.close()

    def __exit__(self, *error: object) -> None:
        self.close()

    def reset(self, sequence: int = 0) -> None:
        """Reset interfaces, by their hosts, and switches, and end all injected faults.

        `sequence` is the number of the next collective in heads and registers. DeviceError if an
        interface does not come to rest.
        """
        self.network.heal()
        # They are held until no interface has the old fault, which would reach them once more.
        self.network.hold_switches(True)
        self._host.reset(sequence=sequence)
        self.network.hold_switches(False)

    def rejoin(self, rank: int) -> None:
        """Reset one rank's interface between collectives; the next one runs with it again.

        DeviceError if something sent is not taken yet, so that a reset could lose it.
        """
        self._host.rejoin(rank)

    def run(
        self,
        schedule: Schedule,
        buffers: Sequence[Buffers],
        *,
        op: str = "sum",
        dependency: str | None = None,
        start_skew_cycles: Sequence[int] | None = None,
        lockstep: bool = False,
        idle_ranks: Collection[int] = (),
        tables: Sequence[Table] | None = None,
        then: Upcoming | None = None,
        faults: Collection[Injection] = (),
        progress: Progress | None = None,
    ) -> list[tuple[Buffers, Trace]]:
        """Run a schedule on sets of buffers, one after the other, without a barrier between them.

        `idle_ranks` never start; `then` is loaded while the last set runs; faults count cycles
        after the hosts begin. Returns all ranks' memory and a Trace on the schedule's topology for
        each set. DeviceError names the fault nearest to its cause, the first missing message, and
        on shared links the circle of waits.
        """
        first = check_buffers(schedule, buffers, self.config.dtypes)
        this = Upcoming(schedule, first.shape[1], first.dtype.name, op, dependency)
        options = {"idle_ranks": idle_ranks, "faults": faults, "progress": progress}
        modes = {"lockstep": lockstep, "tables": tables}
        skews = start_skew_cycles
        return self._run([this] * len(buffers), buffers, skews, modes, then=then, **options)

    def run_each(
        self,
        queue: Sequence[Upcoming],
        buffers: Sequence[Buffers],
        *,
        start_skew_cycles: Sequence[int] | None = None,
        progress: Progress | None = None,
    ) -> list[tuple[Buffers, Trace]]:
        """Run collectives of any kind one after the other, without a barrier between them.

        Where tables differ, each rank's host loads the next one while one runs; it begins two
        cycles after that is done, or when it is loaded. A rank's `done` is when its host saw it.
        """
        check_queue(queue, buffers, self.config.dtypes)
        options = {"idle_ranks": (), "faults": (), "progress": progress}
        return self._run(queue, buffers, start_skew_cycles, {}, then=None, **options)

    def _run(
        self,
        queue: Sequence[Upcoming],
        buffers: Sequence[Buffers],
        start_skew_cycles: Sequence[int] | None,
        modes: dict[str, Any],
        *,
        then: Upcoming | None,
        **options: Any,
    ) -> list[tuple[Buffers, Trace]]:
        """Load the first collective, let the hosts run all, and take the results."""
        skews = check_skews(start_skew_cycles, self.network.topology.num_ranks)
        loads = self._loader.load_all(queue, max_skew_cycles=max(skews, default=0), **modes)
        following = None if then is None else self._loader.load(then)
        window = max(load.settings.window_flits for load in loads)
        memory = memory_of(buffers, window, self.config.flit_bytes)
        # This is a view, so that what the harness writes appears in `memory`.
        self.network.set_memory(memory.reshape(len(memory), -1, self.config.flit_bytes))
        self._host.load(loads[0], options["faults"])
        self._open_waveform()
        self.network.forget_messages()
        ran = [load.schedule for load in loads]
        max_cycles = max(load.limits.run_cycles(len(loads)) for load in loads)
        options |= {"skews": skews, "then": following, "max_cycles": max_cycles}
        try:
            start, done = self._host.run(loads, **options)
        except DeviceError as error:
            found = findings(ran, self.network, stalled=isinstance(error, StallError))
            raise DeviceError("; ".join([str(error), *found])) from None
        turns = turns_of(ran, self.network.sent(), self.network.arrived())
        return [
            (
                elements_of(memory[:, k], buffers[k]),
                trace_of(queue[k].schedule, ran[k], loads[k].num_flits, *found),
            )
            for k, found in enumerate(zip(turns, start, done, strict=True))
        ]

    def counts(self) -> tuple[tuple[PortCounts, ...], ...]:
        """Counters of the last collective, per rank and port with a link."""
        return self._host.counts()

    @property
    def loading_cycles(self) -> int:
        """Cycles that hosts loaded before the last `run` began."""
        return self._host.loading_cycles

    def _open_waveform(self) -> None:
        waveform, self._waveform = self._waveform, None
        # From the first start on, of which cycles are counted; loading is of no interest.
        if waveform is not None:
            self.network.trace_to(waveform.path, waveform.first_cycle, waveform.last_cycle)


def _compiled(
    topology: Topology, config: Config, waveform: Waveform | None, say: Say | None
) -> Path:
    """The library of a network, made now if it is not in the cache."""
    switch_ports = topology.num_ports[topology.num_ranks :]
    return network_library(
        config,
        num_switch_ports=int(switch_ports.max(initial=0)),
        waveform=None if waveform is None else waveform.kind,
        ports_only=waveform is not None and waveform.ports_only,
        say=say,
    )
