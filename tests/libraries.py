"""A small Liberty library for tests, and cells that are not to be used."""

from tests.benches import bench_module

__all__ = ["BUFFERS", "FLIP_FLOP", "GATES", "HEAD", "LIBRARY", "UNWANTED", "gate", "read_library"]


def gate(name, area, function="(!(A B))", extra="", inputs="AB"):
    """A cell with some inputs and the output Y."""
    pins = "".join(
        f"    pin({pin}) {{ direction : input; capacitance : 0.0125; }}\n" for pin in inputs
    )
    return (
        f'  cell ("{name}") {{\n    area : {area};\n{extra}{pins}'
        f'    pin (Y) {{\n      direction : output;\n      function : "{function}";\n    }}\n  }}\n'
    )


FLIP_FLOP = gate("DFF1", 96, "IQ", '    ff (IQ, IQN) { next_state : "D"; clocked_on : "CLK"; }\n')
UNWANTED = {
    "LATCH": "    latch (IQ, IQN) { enable : G; }\n",
    "GATE": '    clock_gating_integrated_cell : "latch_posedge";\n',
    "STATES": '    statetable ("A B", "IQ") { table : "H L : - : H"; }\n',
    "TEST": "    test_cell () { }\n",
    "SCAN": "    pin (SE) { direction : input; }\n",
    "SIGNAL": "    nextstate_type : data;\n    signal_type : test_scan_in;\n",
    "LETS_GO": '    three_state : "EN";\n',
    "NOT_USED": "    dont_use : true;\n",
    "NOT_TOUCHED": '    dont_touch : "true";\n',
}
HEAD = "library (one) {\n  capacitive_load_unit (1,pf);\n"
GATES = gate("NAND2X1", 24) + gate("NAND2X2", 32) + gate("NAND3X1", 20, inputs="ABC")
BUFFERS = "".join(gate(f"BUF{size}", 8 * size, "(A)", inputs="A") for size in (4, 2, 1, 8, 6))
LIBRARY = HEAD + GATES + FLIP_FLOP + BUFFERS + gate("INV", 5, "(!A)", inputs="A") + "}\n"


def read_library(folder):
    """The library, read from a file in a folder."""
    (folder / "one.lib").write_text(LIBRARY)
    (folder / "kept").mkdir()
    return bench_module("_liberty").read_libraries([folder / "one.lib"], folder / "kept")
