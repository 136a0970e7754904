"""The rtl engine: every interface's generated Verilog, clocked until all are done."""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from multitree.nic.config import Config
from multitree.nic.faults import DeviceError
from multitree.nic.program import PortCounts
from multitree.nic.table import Table
from multitree.sim.emulator.library import most_switch_ports, network_library
from multitree.sim.emulator.network import Network
from multitree.sim.emulator.verilator import Say
from multitree.sim.emulator.waveform import Waveform
from multitree.sim.faults.diagnosis import StallError, findings
from multitree.sim.faults.injection import Injection
from multitree.sim.inputs import Buffers, check_buffers, check_skews, elements_of, memory_of
from multitree.sim.link_model import LinkModel, MemoryTiming
from multitree.sim.rtl.hosts import RtlHost
from multitree.sim.rtl.loads import Loader, Upcoming, check_queue
from multitree.sim.sizing import config_for, emulated_dtypes
from multitree.sim.trace import Trace, trace_of, turns_of
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = ["MemoryTiming", "Progress", "RtlSession", "Upcoming", "Waveform"]

Progress = Callable[[int], None]


class RtlSession(AbstractContextManager["RtlSession"]):
    """A network in RTL that stays, so that compiling and loading tables is done once.

    To be closed, or used in a `with` statement. After a DeviceError it is of no use until `reset`.

    Parameters
    ----------
    topology : Topology
        Each link with a reverse link. Schedules whose routes lead through ranks need a switch
        attached to each: `lowered` gives the topology that has them.
    link_model : LinkModel
        Clock, flits, buffers and memory latency.
    memory_timing : MemoryTiming
        Random memory latencies.
    waveform : Waveform or None
        Dumped from the first collective's first start on.
    num_rows, num_flows, memory_flits, num_classes, max_children, num_waves : int
        Least sizes of the interfaces; `run` says so where they are too small.
    dtypes : tuple of str
        Types of elements that the interfaces can reduce.
    config : Config, optional
        The interfaces, in place of such as follow from the above.
    num_threads : int, optional
        As for `Network`.
    sleeps, backdoor : bool
        As for `Network`.
    library : Path, optional
        Compiled for `config` by `network_library`, if it is known already.
    say : callable, optional
        Called with a sentence before something takes long; by default it is printed on stderr.

    Raises
    ------
    TopologyError
        If interfaces cannot be wired like this.
    DeviceError
        If the network cannot be compiled here; the message says what is missing.
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
            library
            or network_library(
                self.config,
                num_switch_ports=most_switch_ports(topology),
                waveform=None if waveform is None else waveform.kind,
                ports_only=waveform is not None and waveform.ports_only,
                say=say,
            ),
            link_model=self.link_model,
            memory_timing=timing,
            num_threads=num_threads,
            sleeps=sleeps,
            backdoor=backdoor,
        )
        self._host = RtlHost(self.network)
        self._loader = Loader(topology, self.config, self.link_model, timing)

    def close(self) -> None:
        """Give back the network and finish the waveform."""
        self.network.close()

    def __exit__(self, *error: object) -> None:
        """Close it; an error goes on."""
        self.close()

    def reset(self, sequence: int = 0) -> None:
        """Reset interfaces, by their hosts, and switches; nothing goes wrong on purpose any more.

        The next collective has the number `sequence`, as heads and registers count.

        Raises
        ------
        DeviceError
            If an interface does not come to rest.
        """
        self.network.heal()
        # They are held until no interface has the old fault, which would reach them once more.
        self.network.hold_switches(True)
        self._host.reset(sequence=sequence)
        self.network.hold_switches(False)

    def rejoin(self, rank: int) -> None:
        """Reset one rank's interface between collectives; the next one is run with it again.

        Raises
        ------
        DeviceError
            If what a rank has sent is not taken yet, so that a reset could lose it; as `reset`.
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
        """Run a schedule on one set of buffers after the other, without a barrier between them.

        Parameters
        ----------
        schedule : Schedule
            One that `verify` accepts, on the session's topology, or on the one from which that
            was made by attaching switches to ranks.
        buffers : sequence of float32, int32 or bfloat16 arrays, each of shape (num_ranks, n)
            One per collective, all of one shape and type; never modified.
        op, dependency : str
            As in `Upcoming`.
        start_skew_cycles : sequence of int, optional
            How long after the first possible cycle each rank starts.
        lockstep : bool
            Interfaces wait out the estimated time of every step.
        idle_ranks : collection of int
            Ranks whose host never starts, to see what the others do.
        tables : sequence of Table, optional
            Loaded in place of those the schedule compiles to.
        then : Upcoming, optional
            What the next `run` will be of: its tables are loaded while the last of these runs.
        faults : collection of Injection
            What goes wrong, in cycles after the hosts begin to run.
        progress : callable, optional
            Called with the cycles run, now and then.

        Returns
        -------
        list of (memory, Trace)
            Per collective every rank's memory afterwards, like the buffers, and what was sent when,
            on the schedule's own topology.

        Raises
        ------
        TypeError, ValueError, ScheduleError
            If schedule, buffers, op or skews do not fit each other or the interfaces.
        DeviceError
            For the fault nearest to its cause, what was awaited, the first message missing, and
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
        """Run one collective after the other, of any kind, without a barrier between them.

        Where tables differ, each rank's host loads the next one while one runs, and starts it at
        once: it begins two cycles after that is done, or when it is loaded.

        Parameters
        ----------
        queue : sequence of Upcoming
            What is run.
        buffers : sequence of arrays, each of shape (num_ranks, n)
            One for each, of its length and type; never modified.
        start_skew_cycles, progress
            As for `run`.

        Returns
        -------
        list of (memory, Trace)
            As of `run`; a rank's `done` is when its host saw that, which first loads what follows.

        Raises
        ------
        TypeError, ValueError, ScheduleError, DeviceError
            As `run`.
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
        """Load what comes first, let the hosts run it all, and take the results."""
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
        """Counters of the last collective, per rank and port that has a link."""
        return self._host.counts()

    @property
    def loading_cycles(self) -> int:
        """Cycles that hosts took to load what was not there before the last `run` began."""
        return self._host.loading_cycles

    def _open_waveform(self) -> None:
        """Begin to dump, counting cycles from the start that comes next."""
        waveform, self._waveform = self._waveform, None
        if waveform is not None:
            self.network.trace_to(waveform.path, waveform.first_cycle, waveform.last_cycle)
