"""Models in step with a clock, and waiting for something in its cycles."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from cocotb.triggers import FallingEdge
from cocotb.utils import get_sim_time

__all__ = ["Model", "located", "run_models", "until"]


class Model(Protocol):
    """A model that does its part of each cycle."""

    def step(self) -> None:
        """One cycle, in its middle: outputs are settled, inputs are set for its end."""


@contextlib.contextmanager
def located(cycle: Callable[[], int]) -> Iterator[None]:
    """Put cycle and time before the message of an `AssertionError` that has none yet.

    Parameters
    ----------
    cycle : callable
        Returns the number of the present cycle.
    """
    try:
        yield
    except AssertionError as error:
        if str(error).startswith("cycle "):
            raise
        message = f"cycle {cycle()} ({get_sim_time('ns'):.0f} ns): {error}"
        raise AssertionError(message) from error


async def run_models(clock: Any, *models: Model) -> None:
    """Let models do their part of every cycle for ever, in the order in which they are given.

    To be started with ``cocotb.start_soon``. Cycles in messages are counted from that on.
    """
    cycle = 0
    with located(lambda: cycle):
        while True:
            await FallingEdge(clock)
            cycle += 1
            for model in models:
                model.step()


async def until(
    clock: Any,
    condition: Callable[[], bool],
    *,
    most_cycles: int,
    what: str | Callable[[], str],
) -> None:
    """Wait for something, looked for in the middle of each cycle.

    Parameters
    ----------
    clock : handle
    condition : callable
    most_cycles : int
    what : str or callable
        What is waited for, for the message.

    Raises
    ------
    AssertionError
        If it is not so after that many cycles; says what was waited for.
    """
    for _ in range(most_cycles):
        if condition():
            return
        await FallingEdge(clock)
    waited = what if isinstance(what, str) else what()
    raise AssertionError(f"{waited}: not within {most_cycles} cycles")
