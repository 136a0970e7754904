"""A training job: what each layer computes and which collectives it needs."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from multitree.sim.jobs.systolic_arrays import SystolicArrays
from multitree.topology.collectives import COLLECTIVES

__all__ = [
    "BYTES_PER_PARAMETER",
    "DATA",
    "GROUPS",
    "TENSOR",
    "Collective",
    "Job",
    "JobError",
    "Layer",
    "LeftOut",
    "Stage",
    "together",
]

TENSOR, DATA = "tensor", "data"
GROUPS = (TENSOR, DATA)
"""Ranks that share a layer, and ranks that hold the same part of the parameters."""
BYTES_PER_PARAMETER = 4
"""Of a gradient, unless something else is said."""


class JobError(ValueError):
    """A job that cannot be read or timed; the message names line, rule and value."""


@dataclass(frozen=True)
class Collective:
    """Collective that every group of ranks of one kind runs at the same time.

    Parameters
    ----------
    kind : str
        One of `COLLECTIVES`; a broadcast or a reduce has its root at the first rank of each group.
    size_bytes : int
        Of one rank's whole buffer: what an all-gather leaves, what a reduce-scatter begins with.
    group : str
        "tensor" or "data".
    """

    kind: str
    size_bytes: int
    group: str = DATA

    def __post_init__(self) -> None:
        for what, value, known in (("kind", self.kind, COLLECTIVES), ("group", self.group, GROUPS)):
            if value not in known:
                raise JobError(f"Collective {what} must be {' or '.join(known)}, not {value!r}")
        size = self.size_bytes
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise JobError(f"Collective size must be at least 1 byte, not {size!r}")


@dataclass(frozen=True)
class Stage:
    """Computation in ns, and the collective that needs its result."""

    compute_ns: float = 0.0
    collective: Collective | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.compute_ns < math.inf:
            raise JobError(f"Stage time must be at least 0 ns and finite, not {self.compute_ns!r}")


@dataclass(frozen=True)
class Layer:
    """Work of a rank for one layer in an iteration.

    Parameters
    ----------
    name : str
    forward, input_gradient, weight_gradient : Stage
        In this order: all layers forward, then all backward, the last first. The next stage waits
        for the collectives of the first two.
    update_ns : float
        Until the layer's parameters are updated, once all gradients are in.
    num_parameters : int
        Whose gradients are all-reduced among the data-parallel ranks, on their own or with those
        of other layers; 0 where `weight_gradient` says what is sent.
    """

    name: str
    forward: Stage = field(default_factory=Stage)
    input_gradient: Stage = field(default_factory=Stage)
    weight_gradient: Stage = field(default_factory=Stage)
    update_ns: float = 0.0
    num_parameters: int = 0

    @property
    def stages(self) -> tuple[Stage, Stage, Stage]:
        """Forward, input gradient, weight gradient."""
        return self.forward, self.input_gradient, self.weight_gradient


@dataclass(frozen=True)
class LeftOut:
    """Collectives of a file that are not timed, and their bytes together; `kind` as in the file."""

    kind: str
    count: int
    size_bytes: int
    why: str

    def __str__(self) -> str:
        these = "collective" if self.count == 1 else "collectives"
        return f"{self.count} {these} {self.kind}, {self.size_bytes} bytes, not timed: {self.why}"


def together(entries: Iterable[LeftOut]) -> tuple[LeftOut, ...]:
    """Entries merged by kind and reason, in the order of their first."""
    found: dict[tuple[str, str], LeftOut] = {}
    for each in entries:
        key = each.kind, each.why
        before = found.get(key, LeftOut(each.kind, 0, 0, each.why))
        count, size_bytes = before.count + each.count, before.size_bytes + each.size_bytes
        found[key] = LeftOut(each.kind, count, size_bytes, each.why)
    return tuple(found.values())


@dataclass(frozen=True)
class Job:
    """Layers in the order of the forward pass, and what is common to them.

    Parameters
    ----------
    name : str
        Of the model, or the path of the file.
    layers : tuple of Layer
    tensor_parallel : int
        Ranks of a tensor-parallel group.
    bytes_per_parameter : int
        Of a gradient.
    arrays : SystolicArrays, optional
        Arrays that compute, and add up the gradients of one rank's samples; None where a file has
        the times.
    has_compute : bool
        Whether compute times are known.
    num_iterations : int
        Iterations that the layers stand for.
    recorded_ranks : int, optional
        Ranks that the file was written for.
    setup : tuple of Collective
        Run once, before the first iteration.
    left_out : tuple of LeftOut

    Raises
    ------
    JobError
        If there is no layer, or none that communicates, or a number is out of range.
    """

    name: str
    layers: tuple[Layer, ...]
    tensor_parallel: int = 1
    bytes_per_parameter: int = BYTES_PER_PARAMETER
    arrays: SystolicArrays | None = None
    has_compute: bool = True
    num_iterations: int = 1
    recorded_ranks: int | None = None
    setup: tuple[Collective, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    def __post_init__(self) -> None:
        if not self.layers:
            raise JobError(f"{self.name}: layers must be at least one, not none")
        for what in ("tensor_parallel", "bytes_per_parameter", "num_iterations"):
            value = getattr(self, what)
            if value < 1:
                raise JobError(f"{self.name}: {what} must be at least 1, not {value}")
        if self.num_parameters and self.collectives:
            raise JobError(f"{self.name}: layers must have parameters or collectives, not both")
        if not (self.num_parameters or self.collectives):
            others = "; ".join(map(str, self.left_out)) or "there is none"
            raise JobError(f"{self.name}: collectives must be at least one, but {others}")

    @property
    def num_parameters(self) -> int:
        """Parameters of all layers."""
        return sum(layer.num_parameters for layer in self.layers)

    @property
    def collectives(self) -> tuple[Collective, ...]:
        """Collectives that the layers name, in no particular order."""
        stages = (stage for layer in self.layers for stage in layer.stages)
        return tuple(stage.collective for stage in stages if stage.collective is not None)
