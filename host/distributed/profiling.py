"""Events of collectives in PyTorch's profiles, from their begin to their end."""

import functools
import threading
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec

import torch

from multitree.host.distributed import BACKEND
from multitree.host.distributed.staging import listed
from multitree.host.peers.handles import Handle

__all__ = ["profiled"]

Arguments = ParamSpec("Arguments")
Method = Callable[Concatenate[Any, Arguments], Handle]


def profiled(name: str, inputs: int | None = 0) -> Callable[[Method[Arguments]], Method[Arguments]]:
    """Have a method that starts a collective appear in profiles.

    Parameters
    ----------
    name : str
        Of the event, behind "multitree:", such as "all_reduce".
    inputs : int, optional
        Place of the argument whose tensors' shapes are recorded; None for none.

    Returns
    -------
    callable
        The decorator.
    """

    def decorate(method: Method[Arguments]) -> Method[Arguments]:
        @functools.wraps(method)
        def start(self: Any, /, *arguments: Arguments.args, **named: Arguments.kwargs) -> Handle:
            if not torch.autograd._profiler_enabled():
                return method(self, *arguments, **named)
            tensors = [] if inputs is None else _tensors_of(list(arguments)[inputs])
            event = torch._C._profiler._RecordFunctionFast(f"{BACKEND}:{name}", tensors)
            event.__enter__()
            try:
                handle = method(self, *arguments, **named)
            except BaseException:
                event.__exit__(None, None, None)
                raise
            # An event that another thread ends is an asynchronous one: the thread of the group
            # or, where that was faster than this one, one for this alone.
            if not handle.before_end(lambda: event.__exit__(None, None, None)):
                ending = threading.Thread(target=event.__exit__, args=(None, None, None))
                ending.start()
                ending.join()
            return handle

        return start

    return decorate


def _tensors_of(argument: Any) -> list[torch.Tensor]:
    """Tensors of an argument: one, a list, or a list of lists."""
    if isinstance(argument, torch.Tensor):
        return [argument]
    return [part for item in argument for part in listed(item)]
