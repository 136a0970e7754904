"""Pins of a design, and models in step with its clock."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from cocotb.triggers import FallingEdge
from cocotb.types import Logic
from cocotb.utils import get_sim_time

__all__ = ["Model", "Pins", "is_high", "located", "run_models", "until"]

# To be compared with: a number would be made a `Logic` each time.
_HIGH = Logic(1)


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


def is_high(value: Any) -> bool:
    # Verilator shows some ports of one bit as arrays, which equal no bit.
    return bool(value == (_HIGH if isinstance(value, Logic) else 1))


class Pins:
    """Inputs and outputs of a design with a common prefix; AttributeError if one is missing.

    `outputs` are driven by the design, `inputs` by the bench, which start as 0. A write costs more
    than anything else in a bench, so that a pin is driven only when its value changes.
    """

    def __init__(
        self, dut: Any, prefix: str, *, outputs: tuple[str, ...], inputs: tuple[str, ...]
    ) -> None:
        self.prefix = prefix
        self._outputs = {name: getattr(dut, prefix + name) for name in outputs}
        self._inputs = {name: getattr(dut, prefix + name) for name in inputs}
        self._driven = dict.fromkeys(inputs, 0)
        for handle in self._inputs.values():
            handle.value = 0

    def high(self, name: str) -> bool:
        return is_high(self._outputs[name].value)

    def number(self, name: str) -> int:
        """Value of an output; ValueError if a bit of it is unknown."""
        return int(self._outputs[name].value)

    def drive(self, **values: int) -> None:
        for name, value in values.items():
            if value != self._driven[name]:
                self._driven[name] = value
                self._inputs[name].value = value
