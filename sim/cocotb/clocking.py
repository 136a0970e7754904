"""Models in step with a clock, and waiting for something in its cycles."""

from collections.abc import Callable
from typing import Any, Protocol

from cocotb.triggers import FallingEdge

__all__ = ["Model", "run_models", "until"]


class Model(Protocol):
    """A model that does its part of each cycle."""

    def step(self) -> None:
        """One cycle, in its middle: outputs are settled, inputs are set for its end."""


async def run_models(clock: Any, *models: Model) -> None:
    """Let models do their part of every cycle for ever, in the order in which they are given.

    To be started with ``cocotb.start_soon``.
    """
    while True:
        await FallingEdge(clock)
        for model in models:
            model.step()


async def until(clock: Any, condition: Callable[[], bool], *, most_cycles: int, what: str) -> None:
    """Wait for something, looked for in the middle of each cycle.

    Raises
    ------
    AssertionError
        If it is not so after that many cycles; says what was waited for.
    """
    for _ in range(most_cycles):
        if condition():
            return
        await FallingEdge(clock)
    raise AssertionError(f"{what}: not within {most_cycles} cycles")
