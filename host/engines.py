"""The engines a Communicator can run on, and why one cannot run here."""

import importlib.util
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from multitree.host.buffers import to_array, to_tensor
from multitree.host.work import Outcome, finished, reduction_of
from multitree.sim.emulator import verilator
from multitree.sim.emulator.verilator import Say
from multitree.sim.emulator.waveform import Waveform
from multitree.sim.exact import library as exact_library
from multitree.sim.link_model import LinkModel
from multitree.sim.rtl.loads import Upcoming
from multitree.sim.rtl.session import Progress, RtlSession
from multitree.sim.sizing import config_for, emulated_dtypes, least_sizes
from multitree.topology.lowering import lowered
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.execute import execute, owned_range
from multitree.topology.schedules.schedule import Schedule

__all__ = [
    "ENGINES",
    "WITHOUT_DATA",
    "Engine",
    "EngineError",
    "Plan",
    "Queued",
    "RtlEngine",
    "check_runs_here",
    "needs_of",
    "open_engine",
    "why_not",
]


@dataclass(frozen=True, eq=False)
class Plan:
    """What an engine runs: a schedule that `verify` accepts, and what its rows wait for.

    Parameters
    ----------
    schedule : Schedule
    dependency : str, optional
        What a row waits for; without it, what the link model says.
    """

    schedule: Schedule
    dependency: str | None = None

    def applied_to(self, link_model: LinkModel) -> LinkModel:
        """A link model with the dependency of the plan."""
        return replace(link_model, dependency=self.dependency or link_model.dependency)

    def owned(self, num_elements: int, element_bytes: int, flit_bytes: int) -> list[slice]:
        """Part of the buffer that each rank owns, where one flow is rooted at each."""
        sizes = {"flit_bytes": flit_bytes, "element_bytes": element_bytes}
        return [
            slice(*owned_range(self.schedule, rank, num_elements, **sizes))
            for rank in range(self.schedule.topology.num_ranks)
        ]


@dataclass(frozen=True, eq=False)
class Queued:
    """A collective that was started and has not run: its plan, memory and op."""

    plan: Plan
    memory: Any
    op: str


def needs_of(
    schedule: Schedule, link_model: LinkModel, size_bytes: int, *, lockstep: bool = False
) -> dict[str, Any]:
    """Sizes that interfaces must have at least to run a schedule.

    Parameters
    ----------
    schedule : Schedule
    link_model : LinkModel
        Flits.
    size_bytes : int
        Bytes of one rank's buffer.
    lockstep : bool

    Returns
    -------
    dict
        As `config_for` takes them, see `least_sizes`.
    """
    return least_sizes(schedule, link_model.num_flits(size_bytes, 1), lockstep=lockstep)


class RtlEngine:
    """Copies of the generated Verilog, one per rank; they stay between collectives.

    Parameters
    ----------
    topology : Topology
        Direct links only, each with a reverse link.
    link_model : LinkModel
        Clock, flits, buffers and memory.
    lockstep : bool
        Interfaces wait out the estimated time of every step, as in the paper.
    waveform : Waveform, optional
        Where to dump the first collective.
    backdoor : bool
        Tables are in the interfaces' memories at once, so that no cycles are spent on loading.
    num_threads : int, optional
        Of the emulation; by default one per core.
    progress, say : callable, optional
        Called with the cycles run, and with what takes long.
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

    def _grown(self, schedule: Schedule, memory: Any) -> dict[str, int]:
        """What interfaces need for all that ran and for this, too."""
        size_bytes = memory.shape[1] * memory.dtype.itemsize
        needs = needs_of(schedule, self._link_model, size_bytes, lockstep=self._lockstep)
        # Sizes only grow, so that collectives which take turns keep one network.
        return {name: max(value, self._needs.get(name, 0)) for name, value in needs.items()}

    def _wired_for(self, schedule: Schedule) -> Topology:
        """The network that a schedule is carried on, the one at hand if it is that."""
        topology = lowered(schedule).topology
        return self._topology if topology.num_switches == self._topology.num_switches else topology

    def prepare(self, schedule: Schedule, memory: Any) -> None:
        """Compile the interfaces and wire them, unless those at hand are large enough."""
        dtype = _dtype_name(memory)
        if dtype not in self._dtypes:
            self._dtypes = emulated_dtypes(dtype)
        wired = self._wired_for(schedule)
        if wired is not self._topology:
            self.close()
            self._topology, self._needs = wired, {}
        needs = self._grown(schedule, memory)
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

    def expect(self, plan: Plan, memory: Any, *, op: str) -> None:
        """Load this during the next run, if the interfaces that are prepared can hold it."""
        schedule = plan.schedule
        assert self._session is not None, "prepare comes first"
        # What needs another network cannot be loaded while this one runs.
        if self._wired_for(schedule) is not self._topology:
            return
        dtype = _dtype_name(memory)
        sizes: dict[str, Any] = {**self._grown(schedule, memory), "dtypes": self._dtypes}
        config = config_for(self._topology, self._link_model, **sizes)
        if dtype in self._dtypes and config == self._session.config:
            size = memory.shape[1], dtype
            self._then = Upcoming(schedule, *size, reduction_of(op), plan.dependency)

    def run(self, plan: Plan, memory: Any, *, op: str) -> Outcome:
        """Run the interfaces; the division of an average is the host's."""
        assert self._session is not None, "prepare comes first"
        then, self._then = self._then, None
        try:
            runs = self._session.run(
                plan.schedule,
                [to_array(memory)],
                op=reduction_of(op),
                dependency=plan.dependency,
                then=then,
                lockstep=self._lockstep,
                progress=self._progress,
            )
            ports = self._session.counts()
            # Through the backdoor they are not those of hosts.
            loading_cycles = None if self._backdoor else self._session.loading_cycles
        except BaseException:
            self.close()  # interfaces that have stopped half-way are of no more use
            raise
        image, trace = runs[0]
        image = finished(image, op, len(image))
        return Outcome(image, trace.cycles, trace.link_utilization, ports, loading_cycles, trace)

    def close(self) -> None:
        """Give back the network."""
        if self._session is not None:
            self._session.close()
            self._session = None


def _dtype_name(memory: Any) -> str:
    """Name of an array's or tensor's type."""
    return str(memory.dtype).removeprefix("torch.")


ENGINES = ("numpy", "torch", "rtl")
WITHOUT_DATA = ("analytic", "exact")
"""Engines that only say how long a schedule takes."""


class EngineError(RuntimeError):
    """An engine cannot run on this machine; the text says why and names the next one down."""


class Engine(Protocol):
    """Runs schedules on memory."""

    name: str

    def prepare(self, schedule: Schedule, memory: Any) -> None:
        """Build what a run needs, so that the run's time is the run's."""

    def expect(self, plan: Plan, memory: Any, *, op: str) -> None:
        """Say what is queued behind the next run, so that it can be loaded meanwhile."""

    def run(self, plan: Plan, memory: Any, *, op: str) -> Outcome:
        """Run a verified schedule on memory of shape (num_ranks, n), which is not modified.

        `op` is "sum", "max" or "average".
        """

    def close(self) -> None:
        """Give back what the engine holds."""


class NumpyEngine:
    """The definition: `execute`, and one division for an average."""

    name = "numpy"

    def __init__(self, link_model: LinkModel) -> None:
        self._flit_bytes = link_model.flit_bytes

    def prepare(self, schedule: Schedule, memory: Any) -> None:
        """Nothing is built."""

    def expect(self, plan: Plan, memory: Any, *, op: str) -> None:
        """Nothing is loaded."""

    def run(self, plan: Plan, memory: Any, *, op: str) -> Outcome:
        """Run `execute`; tensors come through the host's memory."""
        reduction = reduction_of(op)
        image = execute(plan.schedule, to_array(memory), reduction, flit_bytes=self._flit_bytes)
        return Outcome(finished(image, op, len(image)))

    def close(self) -> None:
        """Nothing is held."""


class TorchEngine:
    """Tensors on the device they are on; arrays as tensors on the CPU."""

    name = "torch"

    def __init__(self, link_model: LinkModel) -> None:
        # PyTorch is an extra, so these two are imported only where the engine is asked for.
        import torch

        from multitree.host.tensors.executor import TorchExecutor

        self._torch = torch
        self._executor = TorchExecutor()
        self._flit_bytes = link_model.flit_bytes

    def prepare(self, schedule: Schedule, memory: Any) -> None:
        """Index tensors are made on the device of the first run."""

    def expect(self, plan: Plan, memory: Any, *, op: str) -> None:
        """Nothing is loaded."""

    def run(self, plan: Plan, memory: Any, *, op: str) -> Outcome:
        """Run the schedule on the device, and wait for it."""
        image = self._executor.execute(
            plan.schedule, to_tensor(memory), op, flit_bytes=self._flit_bytes
        )
        # Kernels are only queued so far: without this, the time of the run would end too early.
        if image.is_cuda:
            self._torch.cuda.current_stream(image.device).synchronize()
        return Outcome(to_array(image) if isinstance(memory, np.ndarray) else image)

    def close(self) -> None:
        """Forget the index tensors."""
        self._executor = type(self._executor)()


def why_not(name: str) -> str | None:
    """Say why an engine cannot run on this machine.

    Parameters
    ----------
    name : str
        One of `ENGINES`, or one that carries no data, "analytic" or "exact".

    Returns
    -------
    str or None
        The reason; None if it can run.
    """
    if name == "torch" and importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed (pip install 'multitree[torch]')"
    if name == "exact":
        return exact_library.why_not()
    return verilator.why_not() if name == "rtl" else None


def check_runs_here(name: str, *, next_down: str) -> None:
    """Raise where an engine cannot run on this machine.

    Parameters
    ----------
    name : str
        As for `why_not`.
    next_down : str
        The engine that the message offers; it is not put in the other's place.

    Raises
    ------
    EngineError
        Says why, and names the next engine down.
    """
    reason = why_not(name)
    if reason is not None:
        raise EngineError(
            f"Engine {name!r} cannot run here: {reason}; the next engine down is {next_down!r}"
        )


def open_engine(name: str, topology: Topology, link_model: LinkModel) -> Engine:
    """Open an engine by name; never another one in its place.

    Raises
    ------
    ValueError
        If there is no such engine, or it carries no data.
    EngineError
        If it cannot run on this machine.
    TopologyError
        If it cannot run this topology.
    """
    if name in WITHOUT_DATA:
        raise ValueError(f"Engine must carry data (numpy, torch or rtl), not {name!r}")
    if name not in ENGINES:
        raise ValueError(f"Engine must be one of {', '.join(ENGINES)}, not {name!r}")
    check_runs_here(name, next_down="numpy")
    if name == "rtl":
        return RtlEngine(topology, link_model)
    return TorchEngine(link_model) if name == "torch" else NumpyEngine(link_model)
