"""What a collective is, and the report of one that ran."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch

from multitree.host.distributed.execution import Flows
from multitree.host.distributed.layouts import Layout
from multitree.host.peers.frames import Fingerprint
from multitree.topology.collectives import DTYPES

__all__ = ["Collective", "CollectiveReport", "name_of", "why_not_hosted"]

_HARDWARE_OPERATORS = ("none", "sum", "max", "average")
_DTYPES = (
    torch.float32,
    torch.int32,
    torch.bfloat16,
    torch.float64,
    torch.float16,
    torch.int64,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
    torch.complex128,
)


@dataclass(frozen=True)
class CollectiveReport:
    """What ran, and how long it took at this rank.

    Parameters
    ----------
    sequence : int
        Number of the collective in its group.
    collective : str
    op : str
        Its operator, "none" where elements are only copied.
    dtype : str
    num_elements : int
        Of one rank's whole buffer.
    engine, transport : str
        What ran it: "torch", "numpy" or "rtl", and between ranks "shared_memory", "gloo" or
        "nccl", or "messages" of this project's own.
    reason : str or None
        Why another engine than the group's ran it.
    schedule_hash : str or None
        None where no schedule was executed.
    algorithm, topology : str or None
    cycles : int or None
        On emulated interfaces; known to the rank that hosts them.
    seconds : float
        From its begin to its end at this rank.
    """

    sequence: int
    collective: str
    op: str
    dtype: str
    num_elements: int
    engine: str
    transport: str
    reason: str | None
    schedule_hash: str | None
    algorithm: str | None
    topology: str | None
    cycles: int | None
    seconds: float


@dataclass(frozen=True)
class Collective:
    """A collective that executes a schedule: what it carries, from where and to where."""

    name: str
    op: str
    root: int  # rank in the group; -1 without one
    num_elements: int
    dtype: torch.dtype
    layout: Layout | None  # None in a group of one rank
    flows: Callable[[], Flows]  # makes the tensors when the collective begins
    after: Callable[[], None] = lambda: None  # called when it has ended well
    device: str = "cpu"  # type of the tensors' device

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """What all ranks must agree on."""
        digest = bytes(8) if self.layout is None else bytes.fromhex(self.layout.schedule.hash[:16])
        number = _DTYPES.index(self.dtype)
        agreed = self.name, number, self.op, self.root, self.num_elements, digest, self.device
        return Fingerprint(*agreed)

    @property
    def text(self) -> str:
        """What it is, for messages."""
        op = "" if self.op == "none" else f" ({self.op})"
        return f"{self.name}{op} of {self.num_elements} {name_of(self.dtype)}"


def name_of(dtype: torch.dtype) -> str:
    """Name of a type without its module."""
    return str(dtype).removeprefix("torch.")


def why_not_hosted(dtype: torch.dtype, op: str, num_bytes: int) -> str | None:
    """The reason why the hardware has no such collective, where it has none."""
    name = name_of(dtype)
    if op == "none":
        # What is only copied may be of any type, as long as it is whole words.
        return None if num_bytes % 4 == 0 else f"{num_bytes} bytes are no whole words"
    if name not in DTYPES:
        return f"no adder for {name}"
    return None if op in _HARDWARE_OPERATORS else f"no operator {op}"
