"""Tests of the register map and of what is written from it."""

import shutil

import pytest

from multitree.hw.export.register_formats import markdown
from multitree.hw.export.register_map import Field, Register, RegisterMap, Window, c_header
from tests.programs import start

VALUES = (("NONE", 0, 'Not "late".'), ("LATE", 1 << 23, "Late."))
FIELDS = (Field("done", 0, 1, "Done."), Field("code", 8, 24, "Cause | origin.", VALUES))
COUNTERS = (Register("SENT", 0, "ro", "Flits | sent."), Register("LOW", 4, "ro", "Least."))
MAP = RegisterMap(
    name="device",
    description="Registers of a device.",
    registers=(
        Register("CONTROL", 0x0, "wo", "Commands."),
        Register("STATUS", 0x4, "ro", "What it does, /* or */ not.", FIELDS),
        Register("LIMIT", 0x10, "rw", "A number."),
    ),
    windows=(
        Window("TABLE", 0x100, 16, 8, 3, "wo", "Rows."),
        Window("PORT", 0x200, 8, 4, 2, "ro", "Counters.", COUNTERS),
    ),
)


def test_the_c_header_compiles_and_says_what_the_map_says(tmp_path):
    compiler = shutil.which("cc") or shutil.which("g++")
    assert compiler, "a C compiler is needed"
    (tmp_path / "device.h").write_text(c_header(MAP))
    wanted = {
        "DEVICE_CONTROL": 0x0,
        "DEVICE_STATUS": 0x4,
        "DEVICE_LIMIT": 0x10,
        "DEVICE_STATUS_DONE_LSB": 0,
        "DEVICE_STATUS_DONE_MASK": 0x1,
        "DEVICE_STATUS_CODE_LSB": 8,
        "DEVICE_STATUS_CODE_MASK": 0xFFFFFF00,
        "DEVICE_STATUS_CODE_NONE": 0,
        "DEVICE_STATUS_CODE_LATE": 1 << 23,
        "(0 DEVICE_STATUS_CODE_VALUES(OR_VALUE))": 1 << 23,
        "DEVICE_TABLE_BASE": 0x100,
        "DEVICE_TABLE_STRIDE": 16,
        "DEVICE_TABLE_COUNT": 8,
        "DEVICE_TABLE_WORDS": 3,
        "DEVICE_PORT_BASE": 0x200,
        "DEVICE_PORT_STRIDE": 8,
        "DEVICE_PORT_COUNT": 4,
        "DEVICE_PORT_WORDS": 2,
        "DEVICE_PORT_SENT_OFFSET": 0,
        "DEVICE_PORT_LOW_OFFSET": 4,
    }
    lines = 2 * ['#include "device.h"']
    lines += ["#define OR_VALUE(name, number, text) | (number + 0 * sizeof(text))"]
    for number, (name, value) in enumerate(wanted.items()):
        lines.append(f"typedef char check_{number}[({name} == {value}u) ? 1 : -1];")
    (tmp_path / "check.c").write_text("\n".join([*lines, ""]))
    command = [compiler, "-x", "c", "-Wall", "-Werror", "-fsyntax-only", "check.c"]
    start(*command, folder=tmp_path)
    assert c_header(MAP).count("#define DEVICE_") == len(wanted) + 1  # and the guard


def test_the_markdown_lists_every_register_field_and_window():
    text = markdown(MAP)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    for row in (
        "| 0x00000 | CONTROL | wo | Commands. |",
        "| 0x00004 | STATUS | ro | What it does, /* or */ not. |",
        "| | STATUS.done [0] | | Done. |",
        "| | STATUS.code [31:8] | | Cause \\| origin. 0 NONE; 8388608 LATE |",
        "| 0x00010 | LIMIT | rw | A number. |",
        "| 0x00100 | TABLE | wo | 16 | 8 | 3 | Rows. |",
        "| 0x00200 | PORT | ro | 8 | 4 | 2 | Counters. |",
        "| + 0x00 | PORT.SENT | | | | | Flits \\| sent. |",
        "| + 0x04 | PORT.LOW | | | | | Least. |",
    ):
        assert row in rows
    assert len(rows) == 9 + 4


def read_only(name, address, *fields):
    return Register(name, address, "ro", "", fields)


def map_of(*registers, windows=()):
    return RegisterMap("m", "", registers, windows)


def test_a_window_tells_its_addresses():
    window, _ = MAP.windows
    assert window.end == 0x180
    assert [window.address(0), window.address(7, 2)] == [0x100, 0x178]
    for place in ((8, 0), (0, 3), (-1, 0)):
        with pytest.raises(IndexError, match="TABLE has no word"):
            window.address(*place)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Field("two words", 0, 1), "Field name must be a name"),
        (lambda: Field("f", 30, 3), r"Field f must lie in 32 bits, not lsb, width \(30, 3\)"),
        (lambda: Field("f", 0, 0), "Field f must lie in 32 bits"),
        (lambda: Field("f", 0, 2, "", (("A", 4, ""),)), "Value A of field f must fit it, not 4"),
        (
            lambda: Field("f", 0, 2, "", (("a b", 1, ""),)),
            "Name of a value of field f must be a name",
        ),
        (lambda: Register("a/b", 0, "rw"), "Register name must be a name"),
        (lambda: Register("R", 2, "rw"), "Address of register R must be a multiple of 4"),
        (lambda: Register("R", -4, "rw"), "Address of register R must be a multiple of 4"),
        (lambda: Register("R", 0, "w"), "Access of register R must be one of ro, rw, wo, not 'w'"),
        (
            lambda: read_only("R", 0, Field("a", 0, 4), Field("b", 3, 4)),
            "Fields of register R must be disjoint, not overlap at 'b'",
        ),
        (lambda: Window("W", 0, 6, 4, 1, "ro"), "Stride of window W must be a multiple of 4"),
        (lambda: Window("W", 2, 8, 4, 1, "ro"), "Base of window W must be a multiple of 4"),
        (lambda: Window("W", 0, 8, 0, 1, "ro"), "Count of window W must be at least 1"),
        (
            lambda: Window("W", 0, 8, 4, 1, "r"),
            "Access of window W must be one of ro, rw, wo, not 'r'",
        ),
        (lambda: Window("W", 0, 8, 4, 3, "ro"), "Words of window W must be from 1 to its stride"),
        (
            lambda: Window("W", 0, 16, 4, 3, "ro", "", COUNTERS),
            r"Registers of window W must be its words in order, not \[\(0, 'ro'\), \(4, 'ro'\)\]",
        ),
        (lambda: Window("W", 0, 16, 4, 2, "rw", "", COUNTERS), "Registers of window W must be"),
        (lambda: Window("W", 0, 16, 4, 2, "ro", "", COUNTERS[::-1]), "Registers of window W must"),
        (
            lambda: map_of(read_only("A", 0), read_only("B", 0)),
            "Addresses of a register map must be disjoint, not 'A' and 'B'",
        ),
        (
            lambda: map_of(read_only("A", 8), windows=(Window("W", 0, 4, 3, 1, "ro"),)),
            "Addresses of a register map must be disjoint, not 'W' and 'A'",
        ),
        (
            lambda: map_of(read_only("A", 0), read_only("A", 4)),
            "Names of a register map must be unique in C, not 'M_A' twice",
        ),
        (
            lambda: map_of(read_only("A", 0, Field("b", 0, 1)), read_only("A_B_LSB", 4)),
            "Names of a register map must be unique in C, not 'M_A_B_LSB' twice",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
