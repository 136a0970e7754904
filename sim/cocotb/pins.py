"""Pins of a design by name: read as numbers, driven only where they change."""

from typing import Any

from cocotb.types import Logic

__all__ = ["Pins", "is_high"]

# To be compared with: a number would be made a `Logic` each time.
_HIGH = Logic(1)


def is_high(value: Any) -> bool:
    """Whether one bit is 1; Verilator shows some ports of one bit as arrays, which equal no bit."""
    return bool(value == (_HIGH if isinstance(value, Logic) else 1))


class Pins:
    """Inputs and outputs of a design that share a prefix.

    A write costs more than anything else in a bench: what is driven already is not driven again.

    Parameters
    ----------
    dut : handle
        The design.
    prefix : str
        What their names begin with.
    outputs, inputs : tuple of str
        The rest of the names of those that the design drives, and of those that the bench drives,
        which begin as 0.

    Raises
    ------
    AttributeError
        If the design has no such pin.
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
        """Whether an output of one bit is 1."""
        return is_high(self._outputs[name].value)

    def number(self, name: str) -> int:
        """An output as a number.

        Raises
        ------
        ValueError
            If a bit of it is unknown.
        """
        return int(self._outputs[name].value)

    def drive(self, **values: int) -> None:
        """Set inputs to numbers."""
        for name, value in values.items():
            if value != self._driven[name]:
                self._driven[name] = value
                self._inputs[name].value = value
