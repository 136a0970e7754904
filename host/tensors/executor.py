"""The torch engine: a schedule executed on tensors, on CPU or CUDA."""

import importlib.util
from collections import OrderedDict
from typing import Any

import numpy as np
import torch

from multitree.host.tensors.fused import FusedPlan, run_fused
from multitree.host.tensors.operators import check_operator
from multitree.host.tensors.programs import compiled
from multitree.host.tensors.stepwise import StepwisePlan, run_stepwise
from multitree.topology.collectives import Op, check_dtype
from multitree.topology.errors import ScheduleError
from multitree.topology.schedules.schedule import Schedule

__all__ = ["MODES", "TorchExecutor"]

MODES = ("auto", "fused", "stepwise")
"""How a schedule is run: block by block, step by step, or by a rule on sizes."""

MAX_PLANS = 8

# "auto" is fused on the CPU where a rank has at least these bytes per flow; on CUDA where Triton is
# installed and there are at most so many ranks, and loads in kernels; else stepwise.
FUSED_FLOW_BYTES = 1 << 14
"""Least bytes of a rank and flow that run fused on the CPU: below, calls take longer than data."""

MAX_KERNEL_RANKS = 64
"""Most ranks that auto takes a kernel for: time to compile it grows faster than their number."""

MAX_LOADS = 256
"""Most loads in all kernels of a schedule that auto takes them for, as each is compiled."""


class TorchExecutor:
    """Schedules on tensors with the bits of `execute`. Plans of the last few schedules are kept."""

    def __init__(self) -> None:
        self._plans: OrderedDict[tuple[Any, ...], Any] = OrderedDict()

    def execute(
        self,
        schedule: Schedule,
        memory: torch.Tensor,
        op: str = "sum",
        *,
        flit_bytes: int = 16,
        mode: str = "auto",
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Run a verified schedule on the device of its memory, a tensor of shape (num_ranks, n).

        The modes "fused", "stepwise" and "auto" give the same bits. Results go to `out`, other
        contiguous memory like the input, or to fresh memory, whose pages a CPU has to clear first.
        ScheduleError where a flow adds after it has begun to copy.
        """
        _check_memory(schedule, memory, op)
        _check_out(memory, out)
        chosen = self._chosen(schedule, memory, mode)
        if memory.shape[1] == 0:
            return memory.clone() if out is None else out
        flit_elements = flit_bytes // memory.dtype.itemsize
        size = memory.shape[1], flit_elements, memory.device
        if chosen == "stepwise":
            steps = self._plan(StepwisePlan, schedule, *size)
            image = run_stepwise(steps, memory, op)
            return image if out is None else out.copy_(image)
        if memory.device.type == "cpu":
            return run_fused(self._plan(FusedPlan, schedule), memory, op, flit_elements, out)
        from multitree.host.tensors.kernels import KernelPlan, run_kernels

        return run_kernels(self._plan(KernelPlan, schedule, *size), memory, op, out)

    def _chosen(self, schedule: Schedule, memory: torch.Tensor, mode: str) -> str:
        """The mode that runs: as asked for, or by the rule on sizes."""
        if mode not in MODES:
            raise ValueError(f"Mode must be one of {', '.join(MODES)}, not {mode!r}")
        device, num_flows = memory.device.type, schedule.num_flows
        if mode == "fused":
            _check_fused(device)
        if mode != "auto":
            return mode
        if device == "cpu":
            size_bytes = memory.shape[1] * memory.element_size()
            return "fused" if size_bytes >= FUSED_FLOW_BYTES * num_flows else "stepwise"
        num_ranks = schedule.topology.num_ranks
        if device != "cuda" or not _has_triton() or num_ranks > MAX_KERNEL_RANKS:
            return "stepwise"
        _check_copies_last(schedule)
        return "fused" if len(compiled(schedule)) * num_ranks <= MAX_LOADS else "stepwise"

    def _plan(self, kind: Any, schedule: Schedule, *size: Any) -> Any:
        """Look a plan up, or make it and forget the one used longest ago."""
        key = (kind, schedule.hash, *size)
        if key not in self._plans:
            _check_copies_last(schedule)
            self._plans[key] = kind.of(schedule, *size)
            if len(self._plans) > MAX_PLANS:
                self._plans.popitem(last=False)
        self._plans.move_to_end(key)
        return self._plans[key]


def _check_memory(schedule: Schedule, memory: torch.Tensor, op: str) -> None:
    """Raise where a memory is not of the schedule's ranks, or an operator not of its type."""
    num_ranks = schedule.topology.num_ranks
    check_dtype("Memory", memory.dtype)
    check_operator(op, memory.dtype)
    if op == "average" and not memory.is_floating_point():
        raise TypeError(f"Buffers must be floats for an average, not {memory.dtype}")
    if memory.ndim != 2 or len(memory) != num_ranks:
        shape = tuple(memory.shape)
        raise ValueError(f"Memory must have shape ({num_ranks}, n), not {shape}")


def _check_out(memory: torch.Tensor, out: torch.Tensor | None) -> None:
    """Raise where results cannot be written to what is given for them."""
    if out is None:
        return
    for field in ("shape", "dtype", "device"):
        wanted, found = getattr(memory, field), getattr(out, field)
        if wanted != found:
            raise ValueError(f"Out must have the {field} of memory, {wanted}, not {found}")
    if not out.is_contiguous():
        raise ValueError(f"Out must be contiguous, not have strides {out.stride()}")
    if out.untyped_storage().data_ptr() == memory.untyped_storage().data_ptr():
        raise ValueError("Out must be other memory than the buffers, not a part of the same")


def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def _check_fused(device: str) -> None:
    """Raise where nothing fused runs on a type of device."""
    if device not in ("cpu", "cuda"):
        raise ValueError(f"Mode 'fused' must be on cpu or cuda, not on {device}")
    if device == "cuda" and not _has_triton():
        raise ValueError("Mode 'fused' on cuda needs Triton (pip install 'multitree[triton]')")


def _check_copies_last(schedule: Schedule) -> None:
    """Raise where a flow still adds when it has begun to copy: copies are done at the end."""
    last_add = np.full(schedule.num_flows, -1)
    first_copy = np.full(schedule.num_flows, schedule.num_steps)
    adds = schedule.op == Op.REDUCE
    np.maximum.at(last_add, schedule.flow[adds], schedule.step[adds])
    np.minimum.at(first_copy, schedule.flow[~adds], schedule.step[~adds])
    late = np.flatnonzero(last_add >= first_copy)
    if len(late):
        flow = int(late[0])
        raise ScheduleError(
            f"Flow {flow}: REDUCE in step {last_add[flow]} must be before "
            f"GATHER in step {first_copy[flow]}"
        )
