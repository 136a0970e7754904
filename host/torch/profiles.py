"""Events of collectives in PyTorch's profiles."""

import functools
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Concatenate, ParamSpec

import torch
import torch.distributed as dist
from torch._C._profiler import _RecordFunctionFast

from multitree.host.torch import BACKEND
from multitree.host.torch.peers.handles import Handle
from multitree.host.torch.staging import listed, untraced

__all__ = ["profiled"]

Arguments = ParamSpec("Arguments")
Method = Callable[Concatenate[Any, Arguments], Handle]

# Operators of PyTorch's dispatcher, which backends in C++ are called by, and tools look for.
_OPERATORS = {
    "all_reduce": "allreduce_",
    "reduce": "reduce_",
    "broadcast": "broadcast_",
    "reduce_scatter": "reduce_scatter_",
    "_reduce_scatter_base": "_reduce_scatter_base_",
    "all_gather": "allgather_",
    "_all_gather_base": "_allgather_base_",
    "gather": "gather_",
    "scatter": "scatter_",
    "all_to_all": "alltoall_",
    "barrier": "barrier",
    "send": "send",
    "recv": "recv_",
    "recvAnySource": "recv_any_source_",
}


def profiled(name: str, inputs: int | None = 0) -> Callable[[Method[Arguments]], Method[Arguments]]:
    """Make a method that starts a collective appear in profiles, from its start to its end.

    The whole is "multitree:NAME", and the start an operator "c10d::..." as with PyTorch's own
    backends. `inputs` is the place of the argument that is sent, behind the one that is written.
    """

    def decorate(method: Method[Arguments]) -> Method[Arguments]:
        @functools.wraps(method)
        def start(self: Any, /, *arguments: Arguments.args, **named: Arguments.kwargs) -> Handle:
            self.check_devices()
            if not torch.autograd._profiler_enabled():
                return method(self, *arguments, **named)
            given: list[Any] = [[]] if inputs is None else list(arguments)
            written, read = _tensors_of(given[0]), _tensors_of(given[inputs or 0])
            with _operator(self, name, read, written):
                end = _begin(f"{BACKEND}:{name}", read)
                try:
                    handle = method(self, *arguments, **named)
                except BaseException:
                    end()
                    raise
            caller = threading.get_ident()

            def ended(error: BaseException | None) -> None:
                # An event that another thread ends is an asynchronous one: the thread of the group
                # or, where that was faster than this one, one for this alone.
                if threading.get_ident() != caller:
                    end()
                    return
                ending = threading.Thread(target=end)
                ending.start()
                ending.join()

            handle.when_done(ended)
            return handle

        return untraced(start)

    return decorate


def _begin(name: str, tensors: Sequence[torch.Tensor]) -> Callable[[], None]:
    """Begin an event; the function that is returned ends it in any thread."""
    event = torch.autograd._record_function_with_args_enter(name, *tensors)
    # An event that is ended in a thread without this one's profiler never ends in the profile: a
    # Future's callbacks have the profiler of the thread that gave them.
    future: torch.futures.Future[None] = torch.futures.Future()
    torch.ops.profiler._call_end_callbacks_on_jit_fut._RecordFunction(event, future)
    return functools.partial(future.set_result, None)


def _operator(
    group: Any, name: str, read: Sequence[torch.Tensor], written: Sequence[torch.Tensor]
) -> AbstractContextManager[Any]:
    """The event of the operator that starts a collective, with the arguments that NCCL's has."""
    # PyTorch makes this event itself where it calls a backend of a group of its own. The event
    # `record_param_comms`, in which NCCL has these arguments, ends a process that makes it in
    # Python.
    if not isinstance(group, dist.ProcessGroup):
        return nullcontext()
    operator, member = _OPERATORS[name], group.group.member
    facts = {
        "Collective name": operator.removesuffix("_"),
        "dtype": read[0].type().rpartition(".")[2].removesuffix("Tensor") if read else "Byte",
        "In msg nelems": sum(tensor.numel() for tensor in read),
        "Out msg nelems": sum(tensor.numel() for tensor in written),
        "Group size": group.group.num_ranks,
        "Process Group Name": member.group,
        "Process Group Description": group._description,
        "Process Group Ranks": str(member.flight.global_ranks),
    }
    return _RecordFunctionFast(f"c10d::{operator}", list(read), facts)


def _tensors_of(argument: Any) -> list[torch.Tensor]:
    """Tensors of an argument: one, a list, or a list of lists."""
    if isinstance(argument, torch.Tensor):
        return [argument]
    return [part for item in argument for part in listed(item)]
