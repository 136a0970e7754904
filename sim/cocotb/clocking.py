"""Models in step with a clock, and waiting for something in its cycles."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from cocotb.triggers import FallingEdge
from cocotb.utils import get_sim_time

__all__ = ["Model", "located", "run_models", "until"]


class Model(Protocol):
    """Model of a part of a bench that steps once per cycle."""

    def step(self) -> None:
        """Step in the middle of a cycle: outputs are settled, inputs are set for its end."""


@contextlib.contextmanager
def located(cycle: Callable[[], int]) -> Iterator[None]:
    """Put cycle and time before the message of an `AssertionError` that has none yet."""
    try:
        yield
    except AssertionError as error:
        if str(error).startswith("cycle "):
            raise
        message = f"cycle {cycle()} ({get_sim_time('ns'):.0f} ns): {error}"
        raise AssertionError(message) from error


async def run_models(clock: Any, *models: Model) -> None:
    """Step models in every cycle for ever, in their order.

    To be started with ``cocotb.start_soon``; cycles in messages count from then on.
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
    """Wait for a condition, checked in the middle of each cycle of a clock.

    An AssertionError after `most_cycles` says what was awaited, `what`, a text or a callable.
    """
    for _ in range(most_cycles):
        if condition():
            return
        await FallingEdge(clock)
    waited = what if isinstance(what, str) else what()
    raise AssertionError(f"{waited}: not within {most_cycles} cycles")
