"""What a compiler of SystemRDL reads is the register map that was declared."""

import dataclasses

import pytest
from systemrdl import RDLCompiler
from systemrdl.node import RegNode

from multitree.hw.export.register_formats import system_rdl
from multitree.hw.export.register_map import Field, Register, RegisterMap, Window
from multitree.nic.driver.registers import REGISTERS

WHOLE = (Field("value", 0, 32),)
KEYWORDS = RegisterMap(
    name="mem",
    description='Says "no" to a \\ and names of the language.',
    registers=(
        Register(
            "reg",
            0x0,
            "wo",
            'A "word".',
            (
                Field("field", 3, 1, "x\\y"),
                Field("rw1", 8, 24, "", (("ALL", 2**24 - 1, '"All".'), ("enum", 1, "E."))),
            ),
        ),
        Register("STATUS", 0x10, "ro"),
    ),
    windows=(Window("regfile", 0x100, 16, 3, 2, "ro", "Rows."),),
)
MAPS = {"interface": REGISTERS, "keywords": KEYWORDS}


@pytest.fixture(params=MAPS)
def declared(request):
    return MAPS[request.param]


@pytest.fixture
def compiled(declared, tmp_path):
    file = tmp_path / "map.rdl"
    file.write_text(system_rdl(declared))
    compiler = RDLCompiler()
    compiler.compile_file(str(file))
    return compiler.elaborate().top


def access_of(field):
    """How software sees a field; what it sees must have another side, in hardware."""
    assert field.is_sw_writable is field.is_hw_readable
    assert field.is_hw_writable is not field.is_sw_writable
    return {(1, 0): "ro", (1, 1): "rw", (0, 1): "wo"}[field.is_sw_readable, field.is_sw_writable]


def by_lsb(fields):
    return tuple(sorted(fields, key=lambda field: field.lsb))


def values_of(field):
    """Names of values, as an enum of the language has them."""
    encoding = field.get_property("encode")
    members = encoding.members.values() if encoding else ()
    return tuple((member.name, member.value, member.rdl_desc) for member in members)


def read_register(node):
    """The register that the compiler found, as this project declares one."""
    assert (node.size, node.get_property("accesswidth")) == (4, 32)
    fields = tuple(
        Field(f.inst_name, f.lsb, f.width, f.get_property("desc") or "", values_of(f))
        for f in by_lsb(node.fields())
    )
    (access,) = set(map(access_of, node.fields()))
    description = node.get_property("desc") or ""
    address = node.raw_absolute_address
    return Register(node.inst_name, address, access, description, fields)


def test_every_register_and_field_is_where_the_declaration_has_it(declared, compiled):
    found = [read_register(node) for node in compiled.children() if isinstance(node, RegNode)]
    wanted = [
        dataclasses.replace(register, fields=by_lsb(register.fields or WHOLE))
        for register in declared.registers
    ]
    assert found == sorted(wanted, key=lambda register: register.address)


@pytest.mark.slow
def test_every_window_is_an_array_of_its_words(declared, compiled):
    found = []
    for node in compiled.children():
        if isinstance(node, RegNode):
            continue
        assert node.external
        words = [read_register(word) for word in node.registers()]
        base = node.raw_absolute_address
        assert [word.address for word in words] == [base + 4 * k for k in range(len(words))]
        assert {word.fields for word in words} == {WHOLE}
        (access,) = {word.access for word in words}
        (count,) = node.array_dimensions
        description = node.get_property("desc")
        place = base, node.array_stride, count, len(words)
        named = [dataclasses.replace(w, address=w.address - base, fields=()) for w in words]
        registers = () if words[0].name == "word_0" else tuple(named)
        found.append(Window(node.inst_name, *place, access, description, registers))
    assert found == sorted(declared.windows, key=lambda window: window.base)


def test_the_map_keeps_its_name_and_description(declared, compiled):
    assert compiled.inst_name == declared.name
    assert compiled.get_property("desc") == declared.description
