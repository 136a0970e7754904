"""What C++ and Python both know has one home: a header is written from Python."""

import re
from pathlib import Path

import pytest

import multitree.sim.exact.structs as structs
from multitree.hw.codes import Kind

FOLDER = Path(structs.__file__).parent
HEADER = structs.header()


def test_the_header_has_every_constant_and_code():
    found = dict(re.findall(r"constexpr u?int32_t (\w+) = (-?\d+);", HEADER))
    assert {name: int(value) for name, value in found.items()} == structs.CONSTANTS
    for kind in (Kind.HEAD, Kind.BODY, Kind.TAIL, Kind.SINGLE):
        assert f"{kind.name} = {kind.value}" in HEADER


@pytest.mark.parametrize(
    ("struct", "dtype"),
    [
        ("Parameters", structs.PARAMETERS),
        ("Row", structs.ROW),
        ("Transfer", structs.TRANSFER),
        ("Hop", structs.HOP),
        ("LinkOf", structs.LINK),
    ],
)
@pytest.mark.every_set
def test_structs_are_the_arrays_byte_for_byte(struct, dtype):
    bits, fields = re.search(rf"struct {struct} {{ int(\d+)_t ([\w, ]+); }};", HEADER).groups()
    assert tuple(fields.split(", ")) == dtype.names
    assert dtype.itemsize == len(dtype.names) * int(bits) // 8


def test_no_source_has_a_constant_of_its_own_for_one_of_the_header():
    sources = [path for path in FOLDER.iterdir() if path.suffix in (".h", ".cpp")]
    text = "\n".join(path.read_text() for path in sources)
    defined = set(re.findall(r"\b(\w+) = -?\d+[,;]", text))
    assert not defined & set(structs.CONSTANTS)
