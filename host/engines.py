"""The engines a Communicator can run on, and why one cannot run here."""

import importlib.util
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from multitree.topology.execute import execute
from multitree.topology.schedule import Schedule

__all__ = [
    "ENGINES",
    "Engine",
    "EngineError",
    "Outcome",
    "average_of",
    "open_engine",
    "why_not",
]

ENGINES = ("numpy", "torch", "rtl")

_NEXT_DOWN = {"torch": "numpy", "rtl": "numpy"}


class EngineError(RuntimeError):
    """An engine cannot run on this machine; the text says why and names the next one down."""


@dataclass(frozen=True)
class Outcome:
    """What an engine hands back.

    Parameters
    ----------
    memory : numpy.ndarray or torch.Tensor, shape (num_ranks, n)
        Every rank's memory at the end.
    cycles : int or None
        From the first rank's start to the last rank's done; None without a clock.
    link_utilization : float or None
        Payload flits over links x cycles; None without a clock.
    """

    memory: Any
    cycles: int | None = None
    link_utilization: float | None = None


class Engine(Protocol):
    """Runs schedules on memory."""

    name: str

    def run(self, schedule: Schedule, memory: Any, *, average: bool, flit_bytes: int) -> Outcome:
        """Run a verified schedule on memory of shape (num_ranks, n), which is not modified."""

    def close(self) -> None:
        """Give back what the engine holds."""


class NumpyEngine:
    """The definition: `execute`, and one IEEE division for an average."""

    name = "numpy"

    def run(self, schedule: Schedule, memory: Any, *, average: bool, flit_bytes: int) -> Outcome:
        """Run `execute`; tensors come through the host's memory."""
        array = memory if isinstance(memory, np.ndarray) else memory.cpu().numpy()
        image = execute(schedule, array, flit_bytes=flit_bytes)
        return Outcome(average_of(image, schedule.topology.num_ranks) if average else image)

    def close(self) -> None:
        """Nothing is held."""


class TorchEngine:
    """Tensors on the device they are on; arrays as tensors on the CPU."""

    name = "torch"

    def __init__(self) -> None:
        # PyTorch is an extra, so these two are imported only where the engine is asked for.
        import torch

        from multitree.host.torch_engine import TorchExecutor

        self._torch = torch
        self._executor = TorchExecutor()

    def run(self, schedule: Schedule, memory: Any, *, average: bool, flit_bytes: int) -> Outcome:
        """Run the schedule on the device."""
        is_array = isinstance(memory, np.ndarray)
        tensor = self._torch.from_numpy(memory) if is_array else memory
        image = self._executor.execute(schedule, tensor, average=average, flit_bytes=flit_bytes)
        if image.is_cuda:
            self._torch.cuda.current_stream(image.device).synchronize()
        return Outcome(image.numpy() if is_array else image)

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
    return None


def open_engine(name: str) -> Engine:
    """Open an engine by name; never another one in its place.

    Raises
    ------
    ValueError
        If there is no such engine, or it carries no data.
    EngineError
        If it cannot run on this machine.
    """
    if name == "analytic":
        raise ValueError("Engine must carry data (numpy, torch or rtl), not 'analytic'")
    if name not in ENGINES:
        raise ValueError(f"Engine must be one of {', '.join(ENGINES)}, not {name!r}")
    reason = why_not(name)
    if reason is not None:
        raise EngineError(
            f"Engine {name!r} cannot run here: {reason}; "
            f"the next engine down is {_NEXT_DOWN[name]!r}"
        )
    return TorchEngine() if name == "torch" else NumpyEngine()


def average_of(image: npt.NDArray[Any], num_ranks: int) -> npt.NDArray[np.float32]:
    """Divide sums by the number of ranks: one IEEE division each, NaN made canonical.

    Parameters
    ----------
    image : float32 array
        Sums.
    num_ranks : int
        What to divide by.

    Returns
    -------
    float32 array of the same shape
    """
    quotient: npt.NDArray[np.float32] = np.divide(image, np.float32(num_ranks), dtype=np.float32)
    quotient.view(np.uint32)[np.isnan(quotient)] = 0x7FC00000
    return quotient
