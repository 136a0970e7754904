"""Calls by PyTorch: users' tensors as flat ones, arguments."""

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeAlias, TypeVar

import torch
import torch.distributed as dist

__all__ = [
    "Lists",
    "Staged",
    "Tensors",
    "check_contiguous",
    "check_parts",
    "check_total",
    "cut_rows",
    "is_called_by_cpp",
    "listed",
    "lists",
    "operator_of",
    "root_of",
    "timeout_of",
    "untraced",
]

Tensors: TypeAlias = torch.Tensor | Sequence[torch.Tensor]
Lists: TypeAlias = Sequence[Sequence[torch.Tensor]]

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")

_OPERATORS = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "average",
    dist.ReduceOp.PRODUCT: "product",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.BAND: "bitwise_and",
    dist.ReduceOp.BOR: "bitwise_or",
    dist.ReduceOp.BXOR: "bitwise_xor",
}
# Several elements lie in a byte, though PyTorch says that each has one.
_PACKED_DTYPES = (torch.quint4x2, torch.quint2x4)


class Staged:
    """Tensors of one call; those that are not contiguous, or on another device, are copied.

    Tensors of the types of devices that are given are taken where they are, others go to the CPU.
    """

    def __init__(self, devices: Sequence[str] = ("cpu",)) -> None:
        self._devices = devices
        self._backs: list[Callable[[], None]] = []

    def read(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor that is only read."""
        _check_dense(tensor)
        plain = tensor.detach().resolve_conj().resolve_neg()
        if tensor.device.type not in self._devices:
            plain = plain.to("cpu")
        flat = plain.contiguous().view(-1)
        _queue_behind_caller(flat)
        return flat

    def write(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor that is written, or read and written."""
        _check_dense(tensor)
        mine = tensor.detach()
        is_plain = not (mine.is_conj() or mine.is_neg())
        if is_plain and mine.is_contiguous() and mine.device.type in self._devices:
            _queue_behind_caller(mine)
            return mine.view(-1)
        staged = self.read(mine).clone()
        _queue_behind_caller(staged)
        self._backs.append(lambda: _copy_back(mine, staged))
        return staged

    def give_back(self) -> None:
        """Copy results to where they belong."""
        for back in self._backs:
            back()


def _copy_back(tensor: torch.Tensor, staged: torch.Tensor) -> None:
    tensor.copy_(staged.view(tensor.shape))
    if tensor.is_cuda:
        torch.cuda.current_stream(tensor.device).synchronize()


def _queue_behind_caller(tensor: torch.Tensor) -> None:
    """Let the default stream wait for the caller's."""
    # Whoever takes the tensors works on the default stream. The caller's waits for nothing, since
    # results have been written when the collective ends.
    if tensor.is_cuda:
        now = torch.cuda.current_stream(tensor.device).record_event()
        torch.cuda.default_stream(tensor.device).wait_event(now)


def _check_dense(tensor: torch.Tensor) -> None:
    if tensor.layout != torch.strided:
        raise TypeError(f"Tensors must be dense for this collective, not {tensor.layout}")
    if tensor.dtype in _PACKED_DTYPES:
        raise TypeError(f"Elements must be of whole bytes, not {tensor.dtype}")


def listed(tensors: torch.Tensor | Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """One tensor, or several, as a list."""
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def operator_of(*candidates: Any) -> str:
    """Name of the operator among a call's arguments: an operator itself, or options with one.

    ValueError if it is one that this backend does not have.
    """
    for candidate in candidates:
        op = getattr(candidate, "reduceOp", candidate)
        if isinstance(op, dist.ReduceOp | dist.ReduceOp.RedOpType):
            for known, name in _OPERATORS.items():
                if op == known:
                    return name
            raise ValueError(f"Operator must be one of {', '.join(_OPERATORS.values())}, not {op}")
    return "sum"


def root_of(*candidates: Any) -> int:
    """Root among a call's arguments: a number, or options with one."""
    for candidate in candidates:
        if isinstance(candidate, int) and not isinstance(candidate, bool):
            return candidate
        if hasattr(candidate, "rootRank"):
            return int(candidate.rootRank)
    return 0


def timeout_of(default_s: float, *candidates: Any) -> float:
    """Timeout among a call's arguments in seconds, or that of the group."""
    for candidate in candidates:
        timeout = getattr(candidate, "timeout", candidate)
        if hasattr(timeout, "total_seconds") and timeout.total_seconds() > 0:
            return float(timeout.total_seconds())
    return default_s


def lists(tensors: Tensors | Lists) -> list[list[torch.Tensor]]:
    """A list of lists, from that or from one list."""
    items = list(tensors)
    if items and isinstance(items[0], torch.Tensor):
        return [items]
    return [list(item) for item in items]


def check_contiguous(what: str, tensors: Sequence[torch.Tensor]) -> None:
    """Raise unless tensors are contiguous, as PyTorch demands of an all-to-all."""
    for place, tensor in enumerate(tensors):
        if not tensor.is_contiguous():
            raise ValueError(
                f"Tensors must be contiguous for all_to_all, but {what} {place} is not"
            )


def check_parts(
    what: str, parts: Sequence[torch.Tensor], num_ranks: int, dtype: torch.dtype
) -> None:
    """Raise unless there is a part for each rank, all of one type."""
    if len(parts) != num_ranks:
        raise ValueError(
            f"{what} list must have {num_ranks} tensors, one per rank, not {len(parts)}"
        )
    for rank, part in enumerate(parts):
        if part.dtype != dtype:
            raise TypeError(f"{what} of rank {rank} must be {dtype}, not {part.dtype}")


def check_total(whole: torch.Tensor, part: torch.Tensor, num_ranks: int) -> None:
    """Raise unless one tensor has the elements of all ranks' parts."""
    if whole.numel() != part.numel() * num_ranks:
        raise ValueError(
            f"Tensor of all ranks must have {num_ranks} x {part.numel()} elements, "
            f"not {whole.numel()}"
        )
    if whole.dtype != part.dtype:
        raise TypeError(f"Tensors must be of one type, not {whole.dtype} and {part.dtype}")


def cut_rows(
    what: str,
    flat: torch.Tensor,
    tensor: torch.Tensor,
    splits: Sequence[int] | None,
    num_ranks: int,
) -> list[torch.Tensor]:
    """Parts of a tensor along its first axis."""
    rows = tensor.shape[0] if tensor.ndim else 1
    if not splits:
        if rows % num_ranks:
            raise ValueError(f"{what} must have a multiple of {num_ranks} rows, not {rows}")
        splits = [rows // num_ranks] * num_ranks
    if len(splits) != num_ranks or sum(splits) != rows:
        raise ValueError(
            f"{what} splits must be {num_ranks} numbers with the sum {rows}, not {list(splits)}"
        )
    width = flat.numel() // rows if rows else 0
    return list(flat.split([split * width for split in splits]))


def is_called_by_cpp(name: str) -> bool:
    """Whether the method of this name, which calls this, was called by PyTorch's C++.

    DDP's own hooks do so in a backward pass, and read the Future of what they get. Python code that
    calls a method has its name.
    """
    if torch._C._current_graph_task_id() < 0:
        return False
    frame = sys._getframe(1).f_back
    return frame is None or name not in frame.f_code.co_names


def untraced(method: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """Keep `torch.compile` from tracing a method, which works on threads and sockets."""
    # `torch.compiler.disable` would load the compiler, for seconds, in every process that has a
    # group: it is called once something else has loaded that.
    disabled: list[Callable[Arguments, Returned]] = []

    @functools.wraps(method)
    def call(*arguments: Arguments.args, **named: Arguments.kwargs) -> Returned:
        if not disabled:
            if "torch._dynamo" not in sys.modules:
                return method(*arguments, **named)
            disabled.append(torch.compiler.disable(method))
        return disabled[0](*arguments, **named)

    return call
