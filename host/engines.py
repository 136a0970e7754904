"""The engines: what runs a collective, with data, with a clock or with both."""

import importlib.util
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from multitree.host.buffers import to_array, to_tensor
from multitree.host.work import Outcome, finished, reduction_of
from multitree.sim.analytic.engine import analytic
from multitree.sim.emulator import verilator
from multitree.sim.exact.engine import exact
from multitree.sim.native_build import why_no_compiler
from multitree.sim.timing.link_model import LinkModel
from multitree.sim.timing.offload import Host
from multitree.sim.timing.sizing import least_sizes
from multitree.sim.timing.trace import Trace
from multitree.topology.checks.implicit import AnySchedule
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.execute import execute, owned_range
from multitree.topology.schedules.schedule import Schedule

__all__ = [
    "CLOCKED_ENGINES",
    "ENGINES",
    "Collective",
    "Engine",
    "EngineError",
    "Plan",
    "check_runs_here",
    "needs_of",
    "why_not",
]


ENGINES = ("numpy", "torch", "rtl")
"""Engines that carry data."""
CLOCKED_ENGINES = ("analytic", "exact", "rtl")
"""Engines that say how long a schedule takes."""


class EngineError(RuntimeError):
    """An engine cannot run on this machine; the text says why and names the next one down."""


@dataclass(frozen=True, eq=False)
class Plan:
    """A schedule that is verified, and what its rows wait for; only a model has one translated."""

    any_schedule: AnySchedule
    dependency: str | None = None  # without it, what the link model says

    @property
    def schedule(self) -> Schedule:
        """The schedule with all its rows."""
        return self.any_schedule.schedule()

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
class Collective:
    """A collective for an engine: its plan, the size of its buffers, and those with data."""

    plan: Plan
    size_bytes: int  # of one rank's buffer
    memory: Any = None  # array or tensor of shape (num_ranks, n); never modified
    op: str = "sum"  # "sum", "max" or "average"

    @classmethod
    def of(cls, plan: Plan, memory: Any, op: str = "sum") -> "Collective":
        """One with data, whose size follows from its memory."""
        return cls(plan, memory.shape[1] * memory.dtype.itemsize, memory, op)

    @property
    def schedule(self) -> Schedule:
        """The schedule of its plan."""
        return self.plan.schedule

    @property
    def dtype(self) -> str:
        """Name of the elements' type, the same for arrays and tensors."""
        return str(self.memory.dtype).removeprefix("torch.")


def needs_of(
    schedule: Schedule, link_model: LinkModel, size_bytes: int, *, lockstep: bool = False
) -> dict[str, Any]:
    """Sizes that interfaces must have at least for a buffer of so many bytes per rank.

    They are what `config_for` takes, see `least_sizes`.
    """
    return least_sizes(schedule, link_model.num_flits(size_bytes, 1), lockstep=lockstep)


class Engine(Protocol):
    """Runs collectives; `data` and `clock` say what it has."""

    name: str

    @property
    def data(self) -> bool:
        """Whether it carries data: outcomes have every rank's memory."""
        return self.name in ENGINES

    @property
    def clock(self) -> bool:
        """Whether it has a clock: outcomes have cycles and a trace."""
        return self.name in CLOCKED_ENGINES

    def prepare(self, collective: Collective) -> None:
        """Build what a run needs, so that the run's time is the run's."""

    def expect(self, collective: Collective) -> None:
        """Say what is queued behind the next run, so that it can be loaded meanwhile."""

    @abstractmethod
    def run(self, collective: Collective) -> Outcome:
        """Run a collective whose schedule is verified."""

    def loading_cycles(self, collective: Collective) -> int | None:
        """Cycles in which tables and settings of the last run were loaded; None if unknown."""
        return None

    def close(self) -> None:
        """Give back what the engine holds."""


class NumpyEngine(Engine):
    """The definition: `execute`, and one division for an average."""

    name = "numpy"

    def __init__(self, topology: Topology, link_model: LinkModel) -> None:
        self._flit_bytes = link_model.flit_bytes

    def run(self, collective: Collective) -> Outcome:
        """Run `execute`; tensors come through the host's memory."""
        return Outcome(defined(collective, self._flit_bytes))


def defined(collective: Collective, flit_bytes: int) -> Any:
    """Every rank's memory by the definition, as an array."""
    memory, op = to_array(collective.memory), collective.op
    image = execute(collective.schedule, memory, reduction_of(op), flit_bytes=flit_bytes)
    return finished(image, op, len(image))


class TorchEngine(Engine):
    """Tensors on the device they are on; arrays as tensors on the CPU."""

    name = "torch"

    def __init__(self, topology: Topology, link_model: LinkModel) -> None:
        # PyTorch is an extra, so these two are imported only where the engine is asked for.
        import torch

        from multitree.host.tensors.executor import TorchExecutor

        self._torch = torch
        self._executor = TorchExecutor()
        self._flit_bytes = link_model.flit_bytes

    def run(self, collective: Collective) -> Outcome:
        """Run the schedule on the device, and wait for it."""
        memory, op = collective.memory, collective.op
        image = self._executor.execute(
            collective.schedule, to_tensor(memory), op, flit_bytes=self._flit_bytes
        )
        # Kernels are only queued so far: without this, the time of the run would end too early.
        if image.is_cuda:
            self._torch.cuda.current_stream(image.device).synchronize()
        return Outcome(to_array(image) if isinstance(memory, np.ndarray) else image)

    def close(self) -> None:
        """Forget the index tensors."""
        self._executor = type(self._executor)()


_MODELS: dict[str, Callable[..., Trace]] = {"analytic": analytic, "exact": exact}


class _ModelEngine(Engine):
    """Times schedules without data, by the model of its name."""

    def __init__(
        self,
        topology: Topology,
        link_model: LinkModel,
        *,
        lockstep: bool = False,
        host: Host | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self._link_model, self._lockstep, self._host = link_model, lockstep, host or Host()
        self._progress = progress

    def run(self, collective: Collective) -> Outcome:
        """Time every message."""
        model = collective.plan.applied_to(self._link_model)
        num_flits = model.num_flits(collective.size_bytes, 1)
        trace = _MODELS[self.name](
            collective.plan.any_schedule,
            num_flits,
            model,
            lockstep=self._lockstep,
            progress=self._progress,
        )
        return Outcome(None, trace.cycles, trace.link_utilization, trace=trace)

    def loading_cycles(self, collective: Collective) -> int | None:
        """What its host takes: no interface is there to measure it."""
        model = self._link_model
        if collective.plan.any_schedule.group is not None:
            return None  # an interface has tables of fewer ranks
        size = collective.schedule, model.num_flits(collective.size_bytes, 1)
        return self._host.loading_cycles(*size, model, lockstep=self._lockstep)


class AnalyticEngine(_ModelEngine):
    """In closed form on private links."""

    name = "analytic"


class ExactEngine(_ModelEngine):
    """Cycle by cycle, as the RTL does."""

    name = "exact"


def why_not(name: str) -> str | None:
    """Why an engine cannot run on this machine; None if it can."""
    if name == "torch" and importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed (pip install 'multitree[torch]')"
    if name == "exact":
        return why_no_compiler()
    return verilator.why_not() if name == "rtl" else None


def check_runs_here(name: str, *, next_down: str) -> None:
    """Raise EngineError where an engine cannot run on this machine.

    The text says why and offers the next engine down, which is not put in the other's place.
    """
    reason = why_not(name)
    if reason is not None:
        raise EngineError(
            f"Engine {name!r} cannot run here: {reason}; the next engine down is {next_down!r}"
        )
