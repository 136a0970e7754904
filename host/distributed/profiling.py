"""What every method of a process group needs: its event in profiles, no tracing."""

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch

from multitree.host.distributed import BACKEND
from multitree.host.distributed.staging import listed
from multitree.host.peers.handles import Handle

__all__ = ["profiled", "untraced"]

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")
Method = Callable[Concatenate[Any, Arguments], Handle]


def profiled(name: str, inputs: int | None = 0) -> Callable[[Method[Arguments]], Method[Arguments]]:
    """Make a method that starts a collective appear in profiles as "multitree:NAME".

    `inputs` is the place of the argument whose tensors' shapes are recorded; None for none.
    """

    def decorate(method: Method[Arguments]) -> Method[Arguments]:
        @functools.wraps(method)
        def start(self: Any, /, *arguments: Arguments.args, **named: Arguments.kwargs) -> Handle:
            if not torch.autograd._profiler_enabled():
                return method(self, *arguments, **named)
            tensors = [] if inputs is None else _tensors_of(list(arguments)[inputs])
            event = torch.autograd._record_function_with_args_enter(f"{BACKEND}:{name}", *tensors)
            end = functools.partial(torch.autograd._record_function_with_args_exit, event)
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


def _tensors_of(argument: Any) -> list[torch.Tensor]:
    """Tensors of an argument: one, a list, or a list of lists."""
    if isinstance(argument, torch.Tensor):
        return [argument]
    return [part for item in argument for part in listed(item)]
