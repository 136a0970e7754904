"""Pins of a design by name: read as numbers, driven only where they change."""

from typing import Any

from cocotb.types import Logic

__all__ = ["Pins", "is_high"]

# To be compared with: a number would be made a `Logic` each time.
_HIGH = Logic(1)


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
