"""Users' buffers, in and out: arrays or tensors, stacked or one per rank."""

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.topology.collectives import DTYPES, check_dtype

__all__ = ["Form", "same_stream", "take_buffers", "take_pieces", "to_array", "to_tensor"]

_BFLOAT16 = DTYPES["bfloat16"]


def to_array(memory: Any) -> npt.NDArray[Any]:
    """Memory as an array on the host, wherever it is; shares what it can."""
    # Neither PyTorch nor NumPy turns bfloat16 into `ml_dtypes.bfloat16`.
    if isinstance(memory, np.ndarray):
        return memory
    # Where there is a tensor torch was imported; it is an extra, so that this module does not.
    torch = sys.modules["torch"]
    tensor = memory.cpu()
    if tensor.dtype == torch.bfloat16:
        # Both know int16, so that the bits are passed on as such.
        array: npt.NDArray[Any] = tensor.view(torch.int16).numpy().view(_BFLOAT16)
        return array
    array = tensor.numpy()
    return array


def to_tensor(memory: Any) -> Any:
    """Memory as a tensor, on the device where it is or on the CPU; shares what it can."""
    torch = sys.modules["torch"]
    if not isinstance(memory, np.ndarray):
        return memory
    if memory.dtype == _BFLOAT16:
        return torch.from_numpy(memory.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(memory)


@dataclass(frozen=True)
class Form:
    """How a caller passes buffers, so that results come back in the same form."""

    shape: tuple[int, ...]  # of one rank's buffer
    stacked: bool  # one array of shape (num_ranks, *shape), not a list
    device: Any  # of tensors; None for arrays

    def give_back(self, memory: Any) -> Any:
        """Bring fresh memory of shape (num_ranks, n) into the caller's form."""
        rows = self.to_home(memory).reshape((len(memory), *self.shape))
        return rows if self.stacked else list(rows)

    def to_home(self, memory: Any) -> Any:
        """Turn an array into the caller's kind: an array, or a tensor on the caller's device."""
        if self.device is None:
            return to_array(memory)
        return to_tensor(memory).to(self.device)


def take_buffers(buffers: Any, num_ranks: int) -> tuple[Any, Form]:
    """A copy of a caller's buffers, of shape (num_ranks, n) on their device, and their form.

    TypeError if they are no arrays or tensors of float32, int32 or bfloat16, or are masked.
    ValueError if their number, shapes or devices do not agree, or gradients would be recorded.
    """
    stacked = not isinstance(buffers, Sequence)
    parts = [buffers] if stacked else list(buffers)
    _check_kinds(parts)
    if not stacked:
        _check_agreement(parts, num_ranks, ("shape", "dtype", "device"))
    tensors = not isinstance(parts[0], np.ndarray)
    if stacked:
        # It is a copy in any case: the caller may overwrite the buffers as soon as this returns.
        memory = buffers.detach().clone() if tensors else np.array(buffers, order="C")
        if memory.ndim < 1 or len(memory) != num_ranks:
            shape = tuple(memory.shape)
            raise ValueError(f"Buffers must have {num_ranks} rows, one per rank, not shape {shape}")
    elif tensors:
        memory = sys.modules["torch"].stack([part.detach() for part in parts])
    else:
        memory = np.stack(parts)
    form = _form_of(memory, stacked=stacked)
    return memory.reshape(num_ranks, int(np.prod(form.shape, dtype=np.int64))), form


def _form_of(memory: Any, *, stacked: bool) -> Form:
    """Form of memory whose first axis counts ranks."""
    return Form(
        shape=tuple(memory.shape[1:]),
        stacked=stacked,
        device=None if isinstance(memory, np.ndarray) else memory.device,
    )


def _check_kinds(parts: list[Any]) -> None:
    """Raise unless every part is an array or a tensor of a type the adders know, and no more."""
    torch = sys.modules.get("torch")  # where torch was never imported nothing is a tensor
    for part in parts:
        if not isinstance(part, np.ndarray) and (
            torch is None or not isinstance(part, torch.Tensor)
        ):
            raise TypeError(f"Buffers must be arrays or tensors, not {type(part).__name__}")
        if isinstance(part, np.ma.MaskedArray):
            raise TypeError(
                "Buffers must be arrays without a mask, which no sum would heed, not masked "
                "arrays: `.filled(0)` gives masked elements a value"
            )
        check_dtype("Buffers", part.dtype)
        if torch is not None and isinstance(part, torch.Tensor):
            _check_layout(part)
        # Collectives are not differentiated: what backward would miss is not begun.
        if torch is not None and getattr(part, "requires_grad", False) and torch.is_grad_enabled():
            raise ValueError(
                "Buffers must not require grad, since collectives are not differentiated: pass "
                "`.detach()` of them, or call under `torch.no_grad()`"
            )


def _check_layout(tensor: Any) -> None:
    """Raise where a tensor is not dense."""
    layout = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")
    if layout != "strided":
        raise TypeError(f"Buffers must be dense tensors, not {layout}")


def _check_agreement(parts: list[Any], num_ranks: int, names: tuple[str, ...]) -> None:
    """Raise unless there is one buffer per rank, and all agree in what is named."""
    if len(parts) != num_ranks:
        raise ValueError(f"Buffers must be {num_ranks}, one per rank, not {len(parts)}")
    for rank, part in enumerate(parts):
        for what in names:
            first, mine = getattr(parts[0], what, None), getattr(part, what, None)
            if first != mine:
                raise ValueError(
                    f"Buffers must agree in {what}: rank 0 {first}, rank {rank} {mine}"
                )


def take_pieces(
    pieces: Any, num_ranks: int, owned: Callable[[int, int], list[slice]]
) -> tuple[Any, Form]:
    """Memory of an all-gather, each piece where its rank owns it, and the form of its result.

    `owned` gives every rank's part by the number of elements and the bytes of one. TypeError or
    ValueError if the pieces are of the wrong kind, type, number or length.
    """
    if not isinstance(pieces, Sequence):
        raise TypeError(f"Pieces must be a list, one per rank, not {type(pieces).__name__}")
    parts = list(pieces)
    _check_kinds(parts)
    _check_agreement(parts, num_ranks, ("ndim", "dtype", "device"))
    num_elements = sum(len(part.reshape(-1)) for part in parts)
    slices = owned(num_elements, parts[0].dtype.itemsize)
    is_array = isinstance(parts[0], np.ndarray)
    shape = (num_ranks, num_elements)
    memory = np.zeros(shape, parts[0].dtype) if is_array else parts[0].new_zeros(shape)
    for rank, (place, part) in enumerate(zip(slices, parts, strict=True)):
        length = place.stop - place.start
        if tuple(part.shape) != (length,):
            found = tuple(part.shape)
            raise ValueError(f"Piece of rank {rank} must have shape ({length},), not {found}")
        memory[rank, place] = part if is_array else part.detach()
    return memory, _form_of(memory, stacked=True)


def same_stream(memory: Any) -> AbstractContextManager[Any]:
    """Context in which another thread's kernels follow those of the caller's stream of now."""
    if isinstance(memory, np.ndarray) or not memory.is_cuda:
        return nullcontext()
    # PyTorch has a current stream per thread: that of the caller, not of the worker, is meant.
    cuda = sys.modules["torch"].cuda
    context: AbstractContextManager[Any] = cuda.stream(cuda.current_stream(memory.device))
    return context
