"""A field of a register: some of its bits, and what their values are called."""

import re
from dataclasses import dataclass

__all__ = ["REGISTER_BYTES", "Field", "check_name"]

REGISTER_BYTES = 4
"""Bytes of a register."""


def check_name(thing: str, name: str) -> None:
    """Raise unless a name can be one in C, SystemRDL and Python.

    Raises
    ------
    ValueError
        If it has other characters than letters, digits and _, or begins with none of the first.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise ValueError(f"{thing} must be a name of letters, digits and _, not {name!r}")


@dataclass(frozen=True)
class Field:
    """Some bits of a register.

    Parameters
    ----------
    name : str
        Name.
    lsb : int
        Lowest bit.
    width : int
        Number of bits.
    description : str
        One line.
    values : tuple of (str, int, str)
        Name, number and meaning of its values, where these are a list of things.

    Raises
    ------
    ValueError
        If it does not lie in 32 bits, has no proper name, or a value is too wide.
    """

    name: str
    lsb: int
    width: int
    description: str = ""
    values: tuple[tuple[str, int, str], ...] = ()

    def __post_init__(self) -> None:
        check_name("Field name", self.name)
        for name, value, _ in self.values:
            check_name(f"Name of a value of field {self.name}", name)
            if not 0 <= value < 1 << self.width:
                raise ValueError(f"Value {name} of field {self.name} must fit it, not {value!r}")
        if self.lsb < 0 or self.width < 1 or self.lsb + self.width > 8 * REGISTER_BYTES:
            raise ValueError(
                f"Field {self.name} must lie in 32 bits, not lsb, width {(self.lsb, self.width)!r}"
            )

    @property
    def mask(self) -> int:
        """The bits of the field in its register, all ones."""
        return ((1 << self.width) - 1) << self.lsb
