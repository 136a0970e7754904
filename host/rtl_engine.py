"""The rtl engine: a network of the generated Verilog."""

from typing import Any

from multitree.host.buffers import to_array
from multitree.host.engines import Collective, Engine, needs_of
from multitree.host.work import Outcome, finished, reduction_of
from multitree.sim.emulator.verilator import Waveform
from multitree.sim.native_build import Say
from multitree.sim.rtl.loads import Upcoming
from multitree.sim.rtl.session import RtlSession
from multitree.sim.timing.inputs import Progress
from multitree.sim.timing.link_model import LinkModel
from multitree.sim.timing.sizing import config_for, emulated_dtypes
from multitree.topology.lowering import lowered
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = ["RtlEngine"]


class RtlEngine(Engine):
    """Copies of the generated Verilog, one per rank; they stay between collectives.

    A waveform is of the first collective. Through the backdoor tables are in the interfaces'
    memories at once, so that no cycles are spent on loading.
    """

    name = "rtl"

    def __init__(
        self,
        topology: Topology,
        link_model: LinkModel,
        *,
        lockstep: bool = False,
        waveform: Waveform | None = None,
        backdoor: bool = False,
        num_threads: int | None = None,
        progress: Progress | None = None,
        say: Say | None = None,
    ) -> None:
        # As wired: with switches attached to ranks while schedules need them, and only then.
        self._topology = topology
        self._link_model = link_model
        self._lockstep = lockstep
        self._waveform = waveform
        self._backdoor = backdoor
        self._num_threads = num_threads
        self._progress = progress
        self._say = say
        self._needs: dict[str, int] = {}
        self._dtypes = emulated_dtypes("float32")
        config_for(topology, link_model)  # raises at once where no interface has so many ports
        self._session: RtlSession | None = None
        self._then: Upcoming | None = None
        self._loading_cycles: int | None = None

    def _grown(self, collective: Collective) -> dict[str, int]:
        """What interfaces need for all that ran and for this, too."""
        size = collective.schedule, self._link_model, collective.size_bytes
        needs = needs_of(*size, lockstep=self._lockstep)
        # Sizes only grow, so that collectives which take turns keep one network.
        return {name: max(value, self._needs.get(name, 0)) for name, value in needs.items()}

    def _wired_for(self, schedule: Schedule) -> Topology:
        """The network that a schedule is carried on, the one at hand if it is that."""
        topology = lowered(schedule).topology
        return self._topology if topology.num_switches == self._topology.num_switches else topology

    def prepare(self, collective: Collective) -> None:
        """Compile the interfaces and wire them, unless those at hand are large enough."""
        if collective.dtype not in self._dtypes:
            self._dtypes = emulated_dtypes(collective.dtype)
        wired = self._wired_for(collective.schedule)
        if wired is not self._topology:
            self.close()
            self._topology, self._needs = wired, {}
        needs = self._grown(collective)
        sizes: dict[str, Any] = {**needs, "dtypes": self._dtypes}
        config = config_for(self._topology, self._link_model, **sizes)
        # What is refused above must not be asked for again with what comes next.
        self._needs = needs
        if self._session is not None and self._session.config != config:
            self.close()
        if self._session is None:
            self._session = RtlSession(
                self._topology,
                link_model=self._link_model,
                waveform=self._waveform,
                backdoor=self._backdoor,
                num_threads=self._num_threads,
                say=self._say,
                **sizes,
            )
            # It is of the first collective: a later session would begin the file anew.
            self._waveform = None

    def expect(self, collective: Collective) -> None:
        """Load this during the next run, if the interfaces that are prepared can hold it."""
        schedule, dtype = collective.schedule, collective.dtype
        assert self._session is not None, "prepare comes first"
        # What needs another network cannot be loaded while this one runs.
        if self._wired_for(schedule) is not self._topology:
            return
        sizes: dict[str, Any] = {**self._grown(collective), "dtypes": self._dtypes}
        config = config_for(self._topology, self._link_model, **sizes)
        if dtype in self._dtypes and config == self._session.config:
            size, op = (collective.memory.shape[1], dtype), reduction_of(collective.op)
            self._then = Upcoming(schedule, *size, op, collective.plan.dependency)

    def run(self, collective: Collective) -> Outcome:
        """Run the interfaces; the division of an average is the host's."""
        assert self._session is not None, "prepare comes first"
        then, self._then = self._then, None
        try:
            runs = self._session.run(
                collective.schedule,
                [to_array(collective.memory)],
                op=reduction_of(collective.op),
                dependency=collective.plan.dependency,
                then=then,
                lockstep=self._lockstep,
                progress=self._progress,
            )
            ports = self._session.counts()
            # Through the backdoor they are not those of hosts.
            self._loading_cycles = None if self._backdoor else self._session.loading_cycles
        except BaseException:
            self.close()  # interfaces that have stopped half-way are of no more use
            raise
        image, trace = runs[0]
        image = finished(image, collective.op, len(image))
        return Outcome(image, trace.cycles, trace.link_utilization, ports, trace)

    def loading_cycles(self, collective: Collective) -> int | None:
        """What its hosts took before the last run; None through the backdoor."""
        return self._loading_cycles

    def close(self) -> None:
        """Give back the network."""
        if self._session is not None:
            self._session.close()
            self._session = None
