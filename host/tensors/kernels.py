"""Schedules on a GPU: a Triton kernel for each shape of tree."""

import hashlib
import linecache
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from multitree.host.tensors.kernel_source import kernel_source
from multitree.host.tensors.operators import as_integers
from multitree.host.tensors.programs import Program, compiled
from multitree.topology.schedules.schedule import Schedule

__all__ = ["CUDA_OPTIONS", "KernelPlan", "compiled_kernel", "functions_of", "run_kernels"]

BLOCK_ELEMENTS = 1024
"""Elements of a rank that an instance takes: 8 for each of the 128 threads of four warps."""


CUDA_OPTIONS = {"enable_fp_fusion": False}
"""Each addition is an instruction that rounds; the interpreter has no such option."""


@dataclass(frozen=True, eq=False)
class _Launch:
    """The flows that one kernel runs on."""

    program: Program
    flows: torch.Tensor  # int64 (num_flows, 3): first element, elements of all waves, of one
    ranks: torch.Tensor  # int32 (num_flows, num_ranks), at the places of the program
    longest: int


@dataclass(frozen=True, eq=False)
class KernelPlan:
    """What is computed once for a schedule, length, and device: one launch for each program."""

    launches: list[_Launch]
    wave: int  # elements
    num_waves: int
    align: int  # a divisor of where chunks begin and end, in elements

    @classmethod
    def of(
        cls, schedule: Schedule, n: int, flit_elements: int, device: torch.device
    ) -> "KernelPlan":
        """Compile a schedule for buffers of n elements; see `compiled` for the cost."""
        bounds = schedule.chunks(-(-n // flit_elements)) * flit_elements
        one_wave = schedule.num_waves == 1
        begins, sizes = bounds[:-1], np.diff(bounds)
        # Of one wave what is beyond the buffer is cut off here, of several in the kernel.
        lengths = np.clip(n - begins, 0, sizes) if one_wave else sizes * schedule.num_waves
        table = np.stack([begins, lengths, np.maximum(sizes, 1)], axis=1)
        launches = [
            _Launch(
                family.program,
                torch.from_numpy(table[family.flows]).to(device),
                torch.from_numpy(family.ranks.astype(np.int32)).to(device),
                int(lengths[family.flows].max()),
            )
            for family in compiled(schedule)
        ]
        align = math.gcd(flit_elements, n) if one_wave else 1
        return cls(launches, int(bounds[-1]), schedule.num_waves, align)


@lru_cache(maxsize=256)
def compiled_kernel(program: Program, dtype: str, op: str) -> Any:
    """The kernel of a program, which Triton compiles when it is first launched."""
    return functions_of(kernel_source(program, dtype, op))["run"]


def functions_of(text: str) -> dict[str, Any]:
    """What a kernel's text defines, by name."""
    # Triton reads a function's text by `inspect`, which also looks here: no file is needed.
    name = f"<kernel {hashlib.sha256(text.encode()).hexdigest()}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    namespace: dict[str, Any] = {"triton": triton, "tl": tl, "__name__": __name__}
    exec(compile(text, name, "exec"), namespace)
    return namespace


def run_kernels(
    plan: KernelPlan, memory: torch.Tensor, op: str, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Run a schedule on n > 0 elements per rank; every element is read and written once.

    The first run of a program, type and operator compiles a kernel.
    """
    memory = memory.contiguous()
    result = torch.empty_like(memory) if out is None else out
    n = memory.shape[1]
    dtype = str(memory.dtype).removeprefix("torch.")
    # Triton launches on the current device, whichever the tensors are on.
    with torch.cuda.device(memory.device if memory.is_cuda else -1):
        for launch in plan.launches:
            blocks = -(-launch.longest // BLOCK_ELEMENTS)
            if blocks == 0:
                continue
            compiled_kernel(launch.program, dtype, op)[(blocks * len(launch.flows),)](
                as_integers(memory),
                as_integers(result),
                launch.flows,
                launch.ranks,
                n,
                n,
                plan.wave,
                blocks,
                ALIGN=plan.align,
                ONE_WAVE=plan.num_waves == 1,
                BLOCK=BLOCK_ELEMENTS,
                **CUDA_OPTIONS,
            )
    return result
