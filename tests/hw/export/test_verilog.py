"""Tests of the generated Verilog: names, same bytes, and what simulators say."""

import gc
import re
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest
from amaranth import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from multitree.hw.arbiter import RoundRobin
from multitree.hw.axi.lite import AxiLiteSubordinate
from multitree.hw.export.verilog import generate, instantiation_template, port_names
from multitree.hw.lanes import LaneUnit
from multitree.hw.link.crossing import LINK_DOMAIN, LinkCrossing
from multitree.hw.link.link import LinkSignature
from multitree.hw.link.port import LinkPort
from multitree.hw.link.receiver import LinkReceiver
from multitree.hw.link.transmitter import LinkTransmitter
from multitree.hw.stream import Fifo, Register
from tests.hw.streams import assert_refused
from tests.hw.switch.test_switch_fabric import a_fabric
from tests.programs import packaged, python, start, verilator_variables

HW = Path(__file__).parents[3] / "hw"
BLOCKS = {
    "register": lambda: Register(shape=8),
    "fifo": lambda: Fifo(shape=8, depth=5),
    "round_robin": lambda: RoundRobin(count=5),
    "round_robin_of_one": lambda: RoundRobin(count=1),
    "lane_unit": lambda: LaneUnit(flit_bytes=8),
    "link_transmitter": lambda: LinkTransmitter(flit_bytes=4, credits=8, submessage_flits=4),
    "link_receiver": lambda: LinkReceiver(flit_bytes=4, depth=8, submessage_flits=4),
    "vc_port": lambda: LinkPort(num_vcs=3, flit_bytes=4, depth=8, submessage_flits=4),
    "switch_fabric": lambda: a_fabric(2, 2),
    "axi_lite": lambda: AxiLiteSubordinate(address_width=12),
    "link_crossing": lambda: LinkCrossing(flit_bytes=4, depth=16),
    "vc_link_crossing": lambda: LinkCrossing(flit_bytes=4, depth=16, num_vcs=3),
}


@pytest.fixture(params=BLOCKS)
def block(request):
    return BLOCKS[request.param]()


def domains_of(block):
    """Clock domains of a block other than `sync`."""
    return [LINK_DOMAIN] if isinstance(block, LinkCrossing) else []


def text_of(block):
    return generate(block, name="block", domains=domains_of(block))


def template_of(block, text):
    return instantiation_template(text, name="block", domains=domains_of(block))


class Ends(wiring.Component):
    """Arrays of bundles at the top, and bits that nobody drives."""

    def __init__(self):
        link = LinkSignature(flit_bytes=1)
        ends = wiring.Signature({"tx": Out(link), "rx": In(link)})
        pair = data.StructLayout({"low": 4, "high": 4})
        super().__init__({"link": Out(ends).array(2), "pair": Out(pair), "low": In(4)})

    def elaborate(self, platform):
        m = Module()
        both = Signal(8)
        m.d.comb += self.pair.eq(both)
        with m.If(self.low != 0):
            m.d.comb += both[:4].eq(self.low)
        for end in self.link:
            m.d.sync += end.tx.valid.eq(end.rx.valid)
        return m


def icarus(folder, *arguments):
    """What Icarus says of files that it compiles."""
    if not shutil.which("iverilog"):
        pytest.skip("Icarus Verilog is not installed")
    command = ["iverilog", "-g2005", "-Wall", "-o", "out.vvp", *arguments]
    return start(*command, folder=folder).stderr


def header_of(text, name):
    """Ports in the header of a module."""
    header = re.search(rf"^module {name}\((.*?)\);$", text, re.M | re.S)
    return re.split(r"\s*,\s*", header[1].strip())


def test_ports_are_called_after_the_members_paths():
    ends = Ends()
    names = port_names(ends)
    assert names[:2] == ["clk", "rst"]
    link = ("valid", "kind", "vc", "sequence", "epoch", "check", "payload", "credit")
    wanted = [f"link_{p}_{end}_{name}" for p in (0, 1) for end in ("tx", "rx") for name in link]
    assert names[2:] == [*wanted, "pair", "low"]
    assert header_of(generate(ends, name="ends"), "ends") == names


def test_another_clock_domain_has_a_clock_and_a_reset_called_after_it():
    block = LinkCrossing(flit_bytes=4, depth=16)
    names = port_names(block, domains=[LINK_DOMAIN])
    assert names[:5] == ["clk", "rst", "link_clk", "link_rst", "tx_valid"]
    assert header_of(text_of(block), "block") == names


def test_directions_and_widths_are_those_of_the_members():
    text = generate(Ends(), name="ends")
    for line in (
        "output link_0_tx_valid;",
        "input [7:0] link_1_rx_payload;",
        "output link_1_rx_credit;",
        "output [7:0] pair;",
        "input [3:0] low;",
        "input clk;",
        "input rst;",
    ):
        assert f"  {line}\n" in text


def test_a_memory_starts_with_zeros_in_every_word():
    class Remembers(wiring.Component):
        o: Out(8)

        def elaborate(self, platform):
            m = Module()
            m.submodules.words = words = Memory(shape=8, depth=20, init=[])
            write, read = words.write_port(), words.read_port()
            m.d.comb += [write.en.eq(1), read.addr.eq(write.addr + 1), self.o.eq(read.data)]
            m.d.sync += write.addr.eq(write.addr + 1)
            return m

    text = generate(Remembers(), name="remembers")
    loop = "for (word = 0; word < 20; word = word + 1) words [word] = 8'h00;"
    assert text.count("initial begin") == text.count(loop) == 1


@pytest.mark.slow
@pytest.mark.dear
def test_the_text_carries_its_license_and_no_trace_of_a_machine(block):
    text = text_of(block)
    assert text.startswith("// SPDX-License-Identifier: Apache-2.0\n")
    assert template_of(block, text).startswith("// SPDX-License-Identifier:")
    for trace in ("src =", ".py", "Yosys", "verilog_backend", str(Path.cwd())):
        assert trace not in text


@pytest.mark.slow
def test_copies_in_different_folders_generate_the_same_bytes(tmp_path):
    script = (
        "import multitree.hw as hw, sys\n"
        "assert hw.__file__.startswith(sys.argv[1]), hw.__file__\n"
        "from multitree.hw.axi.lite import AxiLiteSubordinate\n"
        "from multitree.hw.lanes import LaneUnit\n"
        "from multitree.hw.link.receiver import LinkReceiver\n"
        "from multitree.hw.export.verilog import generate\n"
        "blocks = AxiLiteSubordinate(address_width=12), LaneUnit(flit_bytes=8)\n"
        "for block in (*blocks, LinkReceiver(flit_bytes=4, depth=8, submessage_flits=4)):\n"
        "    sys.stdout.write(generate(block, name='block'))\n"
    )
    texts = []
    for number, folder in enumerate(("a", "another/deeper")):
        root = tmp_path / folder
        shutil.copytree(HW, root / "multitree" / "hw", ignore=shutil.ignore_patterns("__pycache__"))
        (root / "multitree" / "__init__.py").touch()
        variables = {"PYTHONPATH": str(root), "PYTHONHASHSEED": str(number)}
        texts.append(python("-c", script, root, folder=root, **variables).stdout)
    assert texts[0] == texts[1]
    assert texts[0].count("module block(") == 3


@pytest.mark.slow
def test_icarus_accepts_the_text_without_a_warning(block, tmp_path):
    (tmp_path / "block.v").write_text(text_of(block))
    warnings = icarus(tmp_path, "-s", "block", "block.v").splitlines()
    # Delays are nobody's business here, and Icarus says so of every file.
    assert [line for line in warnings if "timescale" not in line] == []


@pytest.mark.slow
def test_verilator_accepts_the_text(block, tmp_path):
    (tmp_path / "block.v").write_text(text_of(block))
    options = ["--lint-only", "--top-module", "block", "block.v"]
    newest = start("verilator", *options, folder=tmp_path, **verilator_variables())
    oldest = start(packaged("verilator"), *options, folder=tmp_path)
    assert "%Warning" not in newest.stderr + oldest.stderr


@pytest.mark.slow
def test_the_system_s_yosys_reads_the_text(block, tmp_path):
    (tmp_path / "block.v").write_text(text_of(block))
    script = "read_verilog block.v; hierarchy -check -top block; proc; check -assert"
    assert "Warning" not in start(packaged("yosys"), "-p", script, folder=tmp_path).stdout


def test_bits_that_nobody_drives_are_zero_and_not_unknown(tmp_path):
    (tmp_path / "ends.v").write_text(generate(Ends(), name="ends"))
    (tmp_path / "bench.v").write_text(
        "module bench;\n"
        "reg [3:0] low = 5; wire [7:0] pair;\n"
        "ends ends(.low(low), .pair(pair));\n"
        'initial #1 $display("%b", pair);\n'
        "endmodule\n"
    )
    icarus(tmp_path, "-s", "bench", "bench.v", "ends.v")
    assert start("vvp", "out.vvp", folder=tmp_path).stdout.split() == ["00000101"]


@pytest.mark.slow
def test_the_template_instantiates_the_module(block, tmp_path):
    verilog = text_of(block)
    text = template_of(block, verilog)
    clocks = "input clk, input rst, input link_clk, input link_rst"
    # Every wire is declared, of its width.
    top = f"`default_nettype none\nmodule top({clocks});\n{text}\nendmodule\n"
    (tmp_path / "top.v").write_text(top)
    assert re.findall(r"\.(\w+)\(\1\)", text) == port_names(block, domains=domains_of(block))
    (tmp_path / "block.v").write_text(verilog)
    icarus(tmp_path, "-s", "top", "top.v", "block.v")


@pytest.mark.parametrize("collects", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_the_garbage_collector_is_afterwards_as_it_was(fails, collects):
    class Constant(wiring.Component):
        o: Out(4)

        def elaborate(self, platform):
            if fails:
                raise ValueError("Constant must be known")
            return Module()

    gc.enable() if collects else gc.disable()
    try:
        with pytest.raises(ValueError) if fails else nullcontext():
            generate(Constant(), name="constant")
        assert gc.isenabled() == collects
    finally:
        gc.enable()


def test_two_members_with_one_name_are_refused():
    class Twice(wiring.Component):
        a: Out(wiring.Signature({"b": Out(1)}))
        a_b: Out(1)

        def elaborate(self, platform):
            return Module()

    message = "Port names must be unique, not 'a_b' twice"
    assert_refused(lambda: generate(Twice(), name="twice"), ValueError, message)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", "4x4", "two words", "a-b"])
def test_a_name_that_is_none_is_refused(name):
    message = f"Module name must be .*, not {name!r}"
    assert_refused(lambda: generate(Register(shape=1), name=name), ValueError, message)
