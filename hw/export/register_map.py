"""A register map, described once, and its C header."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["REGISTER_BYTES", "Field", "Register", "RegisterMap", "Window", "c_header", "check_name"]

REGISTER_BYTES = 4
"""Bytes of a register."""


def check_name(thing: str, name: str) -> None:
    """Raise unless a name can be one in C, SystemRDL and Python."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise ValueError(f"{thing} must be a name of letters, digits and _, not {name!r}")


@dataclass(frozen=True)
class Field:
    """Some bits of a register; where its values are a list of things, name, number and meaning of
    each.
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


ACCESSES = {"ro": "read-only", "rw": "read and write", "wo": "write-only"}


def _check_aligned(thing: str, value: int) -> None:
    if value < 0 or value % REGISTER_BYTES:
        raise ValueError(
            f"{thing} must be a multiple of {REGISTER_BYTES} and not negative, not {value!r}"
        )


def _check_access(thing: str, value: str) -> None:
    if value not in ACCESSES:
        raise ValueError(f"{thing} must be one of {', '.join(ACCESSES)}, not {value!r}")


@dataclass(frozen=True)
class Register:
    """A register of 32 bits at a byte address, a multiple of 4; access is "ro", "rw" or "wo"."""

    name: str
    address: int
    access: str
    description: str = ""
    fields: tuple[Field, ...] = ()

    def __post_init__(self) -> None:
        check_name("Register name", self.name)
        _check_aligned(f"Address of register {self.name}", self.address)
        _check_access(f"Access of register {self.name}", self.access)
        used = 0
        for field in self.fields:
            if used & field.mask:
                raise ValueError(
                    f"Fields of register {self.name} must be disjoint, not overlap at "
                    f"{field.name!r}"
                )
            used |= field.mask

    @property
    def end(self) -> int:
        """The byte address behind it."""
        return self.address + REGISTER_BYTES


@dataclass(frozen=True)
class Window:
    """An address range that holds an array of `count` entries, `stride` bytes apart, each of
    `words` words of 32 bits in use; the hardware may hold fewer. `registers` are the words by name,
    all or none, at their addresses in an entry and with the window's access.
    """

    name: str
    base: int
    stride: int
    count: int
    words: int
    access: str
    description: str = ""
    registers: tuple[Register, ...] = ()

    def __post_init__(self) -> None:
        check_name("Window name", self.name)
        _check_aligned(f"Base of window {self.name}", self.base)
        _check_aligned(f"Stride of window {self.name}", self.stride)
        _check_access(f"Access of window {self.name}", self.access)
        if self.count < 1:
            raise ValueError(f"Count of window {self.name} must be at least 1, not {self.count!r}")
        if not 1 <= self.words <= self.stride // REGISTER_BYTES:
            raise ValueError(
                f"Words of window {self.name} must be from 1 to its stride, not {self.words!r}"
            )
        found = [(register.address, register.access) for register in self.registers]
        if found not in ([], [(REGISTER_BYTES * k, self.access) for k in range(self.words)]):
            raise ValueError(
                f"Registers of window {self.name} must be its words in order, not {found!r}"
            )

    @property
    def end(self) -> int:
        """The byte address behind it."""
        return self.base + self.stride * self.count

    def address(self, index: int, word: int = 0) -> int:
        """Byte address of a word of an entry."""
        if not (0 <= index < self.count and 0 <= word < self.words):
            raise IndexError(f"Window {self.name} has no word {word!r} of entry {index!r}")
        return self.base + self.stride * index + REGISTER_BYTES * word


@dataclass(frozen=True)
class RegisterMap:
    """All registers and windows of a device, whose name is the prefix of the C names; no two share
    an address, or a name in the C header.
    """

    name: str
    description: str
    registers: tuple[Register, ...]
    windows: tuple[Window, ...] = ()

    def __post_init__(self) -> None:
        check_name("Map name", self.name)
        names = Counter(name for name, _, _ in _c_lines(self))
        for name, times in names.items():
            if times > 1:
                raise ValueError(f"Names of a register map must be unique in C, not {name!r} twice")
        ranges = [(register.address, register.end, register.name) for register in self.registers]
        ranges += [(window.base, window.end, window.name) for window in self.windows]
        ranges.sort()
        for (_, end, name), (begin, _, other) in itertools.pairwise(ranges):
            if begin < end:
                raise ValueError(
                    f"Addresses of a register map must be disjoint, not {name!r} and {other!r}"
                )


def _c_string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _c_lines(register_map: RegisterMap) -> Iterator[tuple[str, str, str]]:
    """Name, value and remark of every definition."""
    prefix = register_map.name.upper()
    for register in register_map.registers:
        name = f"{prefix}_{register.name}"
        remark = f"{ACCESSES[register.access]}: {register.description}"
        yield name, f"0x{register.address:05X}u", remark
        for field in register.fields:
            part = f"{name}_{field.name}".upper()
            yield f"{part}_LSB", f"{field.lsb}u", field.description
            yield f"{part}_MASK", f"0x{field.mask:08X}u", ""
            for value, number, meaning in field.values:
                yield f"{part}_{value}", f"{number}u", meaning
            if field.values:
                texts = (
                    (value, number, _c_string(meaning)) for value, number, meaning in field.values
                )
                listed = " ".join(f"X({value}, {number}u, {text})" for value, number, text in texts)
                yield f"{part}_VALUES(X)", listed, ""
    for window in register_map.windows:
        name = f"{prefix}_{window.name}"
        remark = f"{ACCESSES[window.access]}: {window.description}"
        yield f"{name}_BASE", f"0x{window.base:05X}u", remark
        yield f"{name}_STRIDE", f"{window.stride}u", "bytes from one entry to the next"
        yield f"{name}_COUNT", f"{window.count}u", "entries that fit in the range"
        yield f"{name}_WORDS", f"{window.words}u", "words of an entry in use"
        for register in window.registers:
            place = f"0x{register.address:02X}u"
            yield f"{name}_{register.name}_OFFSET", place, register.description


def c_header(register_map: RegisterMap) -> str:
    """Return the map as a C header: byte addresses, fields' lowest bits, masks and values. Where
    values have names, a macro `..._VALUES(X)` is `X(name, number, "meaning")` for each.
    """
    guard = f"{register_map.name.upper()}_H"
    lines = [
        "/* SPDX-License-Identifier: Apache-2.0 */",
        f"/* {register_map.description} Byte addresses. Generated by MultiTree. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
    ]
    for name, value, remark in _c_lines(register_map):
        remark = remark.replace("/*", "/ *").replace("*/", "* /")
        lines.append(f"#define {name} {value}" + (f" /* {remark} */" if remark else ""))
    return "\n".join([*lines, "", f"#endif /* {guard} */", ""])
