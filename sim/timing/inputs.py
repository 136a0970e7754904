"""What engines are given: schedules, buffers and skews that fit each other."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.nic.driver.commands import DEPENDENCIES, FLOW_CONTROLS
from multitree.sim.timing.link_model import LinkModel
from multitree.topology.collectives import DTYPES, check_dtype
from multitree.topology.errors import ScheduleError, TopologyError
from multitree.topology.lowering import lowered, through_switches
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = [
    "Buffers",
    "Progress",
    "check_buffers",
    "check_private",
    "check_skews",
    "check_store_and_forward",
    "elements_of",
    "lowered_onto",
    "memory_of",
    "shares_links",
]

Buffers = npt.NDArray[Any]
"""Elements of all ranks, shape (num_ranks, n)."""
Progress = Callable[[int], None]
"""Called with the cycles run so far, now and then."""

_MOST_SKEW = 2**32 - 1
"""Cycles that a host of the emulation can wait for."""


def lowered_onto(schedule: Schedule, topology: Topology) -> Schedule:
    """The schedule lowered onto a network, row for row: as it is, or through switches attached to
    its ranks. Raises ValueError if the network has other ranks or links.
    """
    if _alike(schedule.topology, topology):
        return schedule
    with suppress(TopologyError):
        lowered = through_switches(schedule)
        if _alike(lowered.topology, topology):
            return lowered
    raise ValueError(f"Schedule must be for {topology.name}, not for {schedule.topology.name}")


def _alike(one: Topology, other: Topology) -> bool:
    return one is other or (
        one.num_ranks == other.num_ranks
        and np.array_equal(one.links, other.links)
        and np.array_equal(one.link_ports, other.link_ports)
    )


def check_buffers(
    schedule: Schedule, buffers: Sequence[Buffers], dtypes: Collection[str] = tuple(DTYPES)
) -> Buffers:
    """First of several sets of buffers, each of shape (num_ranks, n); raises TypeError or
    ValueError where they differ, or their type is not among `dtypes`, those that interfaces are
    built for.
    """
    if not buffers:
        raise ValueError("Buffers must be at least one set, not none")
    num_ranks = schedule.topology.num_ranks
    for buffer in buffers:
        if not isinstance(buffer, np.ndarray):
            raise TypeError(f"Buffers must be NumPy arrays, not {type(buffer).__name__}")
        check_dtype("Buffers", buffer.dtype)
        if buffer.dtype.name not in dtypes:
            built = " or ".join(dtypes)
            raise TypeError(
                f"Buffers must be of a type that is built ({built}), not {buffer.dtype}"
            )
        if buffer.ndim != 2 or len(buffer) != num_ranks:
            raise ValueError(f"Buffers must be of shape ({num_ranks}, n), not {buffer.shape}")
        if buffer.shape != buffers[0].shape or buffer.dtype != buffers[0].dtype:
            raise ValueError("Buffers of successive collectives must agree in shape and type")
    return buffers[0]


def check_skews(skews: Sequence[int] | None, num_ranks: int) -> list[int]:
    """Skews of all ranks in cycles, 0 where none are given; raises ValueError unless there is one
    per rank that a host can wait.
    """
    if skews is None:
        return [0] * num_ranks
    listed = list(skews)
    whole = all(isinstance(skew, int | np.integer) for skew in listed)
    if len(listed) != num_ranks or not whole or not 0 <= min(listed) <= max(listed) <= _MOST_SKEW:
        raise ValueError(
            f"Start skews must be {num_ranks} whole numbers in 0..{_MOST_SKEW}, not {listed!r}"
        )
    return [int(skew) for skew in listed]


def memory_of(buffers: Sequence[Buffers], num_flits: int, flit_bytes: int) -> npt.NDArray[np.uint8]:
    """Memory of all ranks, one buffer after the other, each padded with zeros to `num_flits`:
    uint8, shape (num_ranks, num_buffers, num_flits * flit_bytes).
    """
    num_ranks = len(buffers[0])
    memory = np.zeros((num_ranks, len(buffers), num_flits * flit_bytes), dtype=np.uint8)
    for k, buffer in enumerate(buffers):
        content = np.ascontiguousarray(buffer).view(np.uint8).reshape(num_ranks, -1)
        memory[:, k, : content.shape[1]] = content
    return memory


def elements_of(memory: npt.NDArray[np.uint8], like: Buffers) -> Buffers:
    """Elements of all ranks in the shape and type of `like`, from memory of shape (num_ranks,
    num_bytes).
    """
    content = memory[:, : like.shape[1] * like.dtype.itemsize]
    return np.ascontiguousarray(content).view(like.dtype).reshape(like.shape)


_WHOLE = {"dependency": DEPENDENCIES[0], "flow_control": FLOW_CONTROLS[0]}


def shares_links(schedule: Schedule) -> bool:
    """Whether a schedule runs through switches, of the network or attached to ranks."""
    return lowered(schedule).topology.num_switches > 0


def check_private(topology: Topology, link_model: LinkModel) -> None:
    """Raise ScheduleError for forwarding, which only interfaces on private links do."""
    if link_model.forward_flits:
        raise ScheduleError(
            f"{topology.name}: forward_flits must be 0 in interfaces on shared links, not "
            f"{link_model.forward_flits}"
        )


def check_store_and_forward(schedule: Schedule, link_model: LinkModel) -> None:
    """Raise ScheduleError unless a schedule on shared links runs by whole chunks and messages: once
    begun, a message waits for nothing, and has one head.
    """
    for what, whole in _WHOLE.items():
        found = getattr(link_model, what)
        if found != whole:
            raise ScheduleError(
                f"{schedule.topology.name}: {what} must be {whole} where links are shared, "
                f"not {found!r}"
            )
