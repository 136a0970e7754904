"""The engines a Communicator can run on, and why one cannot run here."""

import importlib.util
from typing import Any, Protocol

import numpy as np

from multitree.host.engines.rtl import RtlEngine
from multitree.host.outcome import Outcome, finished, reduction_of
from multitree.host.plans import Plan
from multitree.host.tensors import to_array, to_tensor
from multitree.sim.emulator import verilator
from multitree.sim.link_model import LinkModel
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.execute import execute
from multitree.topology.schedules.schedule import Schedule

__all__ = [
    "ENGINES",
    "Engine",
    "EngineError",
    "check_runs_here",
    "open_engine",
    "why_not",
]

ENGINES = ("numpy", "torch", "rtl")


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

        from multitree.host.engines.torch import TorchExecutor

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
        One of `ENGINES`.

    Returns
    -------
    str or None
        The reason; None if it can run.
    """
    if name == "torch" and importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed (pip install 'multitree[torch]')"
    return verilator.why_not() if name == "rtl" else None


def check_runs_here(name: str, *, next_down: str) -> None:
    """Raise where an engine cannot run on this machine.

    Parameters
    ----------
    name : str
        One of `ENGINES`.
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
    if name == "analytic":
        raise ValueError("Engine must carry data (numpy, torch or rtl), not 'analytic'")
    if name not in ENGINES:
        raise ValueError(f"Engine must be one of {', '.join(ENGINES)}, not {name!r}")
    check_runs_here(name, next_down="numpy")
    if name == "rtl":
        return RtlEngine(topology, link_model)
    return TorchEngine(link_model) if name == "torch" else NumpyEngine(link_model)
