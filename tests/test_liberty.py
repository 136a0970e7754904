"""Liberty libraries: cells that may be used, and memories as black boxes."""

import gzip
import re

import pytest

from tests.benches import bench_module
from tests.libraries import BUFFERS, FLIP_FLOP, GATES, HEAD, LIBRARY, UNWANTED, gate, read_library

cells, mapped, memories = map(bench_module, ("_liberty", "_mapped", "_memories"))


@pytest.fixture
def library(tmp_path):
    return read_library(tmp_path)


def test_cells_have_their_area_load_pins_and_kind(library):
    assert set(library.cells) >= {"NAND2X1", "DFF1", "BUF1", "INV"} and not library.left_out
    nand = library.cells["NAND2X1"]
    assert (nand.area_um2, nand.pin_ff, nand.flip_flop) == (24.0, 12.5, False)
    assert nand.outputs == {"Y"} and nand.buffer is None
    assert library.cells["DFF1"].flip_flop and library.cells["INV"].buffer is None
    assert library.cells["BUF4"].buffer == ("A", "Y")
    assert library.nand2().name == "NAND2X1"
    assert mapped.buffer_cell(library) == ("BUF2", "A", "Y")
    assert library.files[0].read_text() == LIBRARY
    text = LIBRARY.replace("(1,pf)", '(1,"ff")')
    assert cells.select_cells(text)[1]["INV"].pin_ff == 0.0125


@pytest.mark.parametrize("name", [*UNWANTED, "NO_AREA"])
def test_cells_that_are_not_to_be_used_are_left_out(name):
    other = gate(name, 9, extra=UNWANTED.get(name, ""))
    other = other.replace("    area : 9;\n", "") if name == "NO_AREA" else other
    text, own, left_out = cells.select_cells(HEAD + GATES + other + FLIP_FLOP + "}\n")
    assert left_out == [name] and name not in own and "DFF1" in own
    assert text.split() == (HEAD + GATES + FLIP_FLOP + "}\n").split()


def test_a_gate_equivalent_is_the_smallest_nand_of_two_whatever_stands_before_its_name(tmp_path):
    gates = gate("x_nand2_2", 7) + gate("x_nand2_1", 6) + gate("x_nor2_1", 5)
    (tmp_path / "a.lib").write_text(HEAD + FLIP_FLOP + gates + BUFFERS + "}\n")
    assert cells.read_libraries([tmp_path / "a.lib"], tmp_path).nand2().name == "x_nand2_1"


def test_cells_are_left_out_by_a_pattern():
    _, own, left_out = cells.select_cells(LIBRARY, ["BUF[48]", "NAND3*"])
    assert left_out == ["NAND3X1", "BUF4", "BUF8"] and "BUF2" in own


def test_several_files_and_packed_ones_are_one_library(tmp_path):
    (tmp_path / "a.lib.gz").write_bytes(gzip.compress((HEAD + FLIP_FLOP + "}\n").encode()))
    (tmp_path / "b.lib").write_text(HEAD + GATES + BUFFERS + "}\n")
    (tmp_path / "c.lib").write_text(HEAD + gate("L", 1, extra=UNWANTED["LATCH"]) + "}\n")
    files = [tmp_path / name for name in ("a.lib.gz", "b.lib", "c.lib")]
    library = cells.read_libraries(files, tmp_path)
    assert [path.name for path in library.files] == ["library_0.lib", "library_1.lib"]
    assert "DFF1" in library.files[0].read_text() and "NAND2X1" in library.cells


@pytest.mark.parametrize(
    "texts, message",
    [
        (["cell (x) { area : 1; }"], "it has no library"),
        ([b"\x1f\x8bnot packed"], "must be a Liberty file"),
        ([b"\xff\xfe"], "must be a Liberty file"),
        ([LIBRARY, HEAD + gate("INV", 5) + "}\n"], "cell INV must be in one of the files only"),
        ([HEAD + GATES + BUFFERS + "}\n"], "must have a flip-flop and gates"),
        ([HEAD + FLIP_FLOP + "}\n"], "must have a flip-flop and gates"),
        ([HEAD + FLIP_FLOP + BUFFERS + "}\n"], "must have a NAND of two inputs"),
        ([HEAD + FLIP_FLOP + GATES + "}\n"], "must have a buffer"),
        ([HEAD + "  cell (A) {\n"], "Cell A must end"),
    ],
)
def test_a_library_that_cannot_be_used_says_why(texts, message, tmp_path):
    files = [tmp_path / f"{number}.lib" for number in range(len(texts))]
    for path, text in zip(files, texts, strict=True):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(cells.LibertyError, match=message):
        cells.read_libraries(files, tmp_path)


def memory(words=64, bits=4, clocked="1", write_ports=1, clock=2, reset="0"):
    """A memory as Yosys writes it, with two bits for each of two enables."""
    parameters = {"SIZE": f"{words:032b}", "WIDTH": f"{bits:032b}"}
    parameters |= {"RD_PORTS": f"{1:032b}", "WR_PORTS": f"{write_ports:032b}"}
    parameters |= {"RD_CLK_ENABLE": clocked, "WR_CLK_ENABLE": "1"}
    return {
        "type": "$mem_v2",
        "parameters": parameters,
        "attributes": {"src": "x"},
        "port_directions": {},
        "connections": {
            **{"RD_CLK": [2], "WR_CLK": [clock], "RD_ARST": ["0"], "RD_SRST": [reset]},
            **{"RD_EN": [3], "RD_ADDR": [4, 5, 6], "RD_DATA": [7, 8, 9, 10]},
            **{"WR_EN": [11, 11, 12, 12], "WR_ADDR": [13, 14, 15], "WR_DATA": [16, "0", 17, 18]},
        },
    }


def test_a_memory_becomes_a_black_box_between_edges():
    netlist = {"modules": {"top": {"cells": {"core.m": memory(), "core.n": memory()}}}}
    boxes = memories.leave_out(netlist)
    assert set(boxes) == {"core.m", "core.n"} and len(set(boxes.values())) == 1
    box = boxes["core.m"]
    cell = netlist["modules"]["top"]["cells"]["core.m"]
    assert cell["type"] == box.name and (box.words, box.bits) == (64, 4)
    assert cell["connections"] == {
        "CLK": [2],
        "READ": [3],
        "READ_ADDRESS": [4, 5, 6],
        "WRITE": [11, 12],
        "WRITE_ADDRESS": [13, 14, 15],
        "WRITE_DATA": [16, "0", 17, 18],
        "READ_DATA": [7, 8, 9, 10],
    }
    outputs = [pin for pin, kind in cell["port_directions"].items() if kind == "output"]
    assert outputs == ["READ_DATA"] and cell["attributes"]["keep"].endswith("1")
    declared = netlist["modules"][box.name]
    assert int(declared["attributes"]["blackbox"], 2) == 1
    widths = {pin: len(port["bits"]) for pin, port in declared["ports"].items()}
    assert widths == dict(box.widths) and declared["ports"]["READ_DATA"]["direction"] == "output"
    numbers = [bit for port in declared["ports"].values() for bit in port["bits"]]
    assert numbers == list(range(2, 2 + len(numbers)))


@pytest.mark.parametrize(
    "sizes", [{"words": 15}, {"clocked": "0"}, {"write_ports": 0}, {"clock": 99}, {"reset": 5}]
)
def test_other_memories_are_made_of_flip_flops(sizes):
    netlist = {"modules": {"top": {"cells": {"core.m": memory(**sizes)}}}}
    assert not memories.leave_out(netlist) and list(netlist["modules"]) == ["top"]
    assert memories.leave_out({"modules": {"top": {"cells": {"m": memory(words=16)}}}})


def test_black_boxes_have_the_times_that_are_said_in_liberty():
    box = memories.Memory(64, 4, (("CLK", 1), ("READ_ADDRESS", 3), ("READ_DATA", 4)))
    text = memories.liberty({box}, 250.0, 50.0, 0.5)
    assert text.count("{") == text.count("}")
    assert re.findall(r"type \((\w+)\)", text) == ["bits_3", "bits_4"]
    assert f"cell ({box.name})" in text and "bit_from : 2;" in text
    clock, address, data = re.split(r"^    (?:pin|bus) \(", text, flags=re.MULTILINE)[1:]
    assert clock.startswith("CLK)") and "clock : true" in clock and "timing ()" not in clock
    assert "bus_type : bits_3" in address and 'rise_constraint (scalar) { values ("50")' in address
    assert "setup_rising" in address and "capacitance : 0.5" in address
    assert "direction : output" in data and 'cell_fall (scalar) { values ("250")' in data
    assert "rising_edge" in data and 'rise_transition (scalar) { values ("25")' in data
