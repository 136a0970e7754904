"""The example card: complete, accepted by simulators, and free of warnings."""

import re
import shutil
from pathlib import Path

import pytest
import yaml

from multitree.sim.cocotb.simulators import missing
from tests.programs import python, start, verilator_variables
from tests.repository import ROOT

# The fixture generates a card of four ports.
pytestmark = pytest.mark.slow

CARD = ROOT / "examples" / "card" / "card.py"


@pytest.fixture(scope="module", params=["sram", pytest.param("axi", marks=pytest.mark.long)])
def folder(request, tmp_path_factory):
    out = tmp_path_factory.mktemp("card") / "out"
    done = python(CARD, "--out", out, "--memory", request.param)
    assert done.stderr == ""
    assert {Path(line) for line in done.stdout.splitlines()} == set(out.iterdir())
    return out


@pytest.fixture(scope="module")
def text(folder):
    return (folder / "card.v").read_text()


def core(folder, name):
    return yaml.safe_load((folder / name).read_text().partition("\n")[2])


def sources(folder):
    """Verilog files of the card's core and of the core it depends on, in no order."""
    (fileset,) = [s for s in core(folder, "card.core")["filesets"].values() if "depend" in s]
    (needed,) = folder.glob("multitree_*.core")
    inner = core(folder, needed.name)
    assert inner["name"].rpartition(":")[0] == fileset["depend"][0]
    return [*fileset["files"], *inner["filesets"]["rtl"]["files"]]


def lint(folder, text=None):
    """What Verilator says of a card, with another text if one is given."""
    if text is not None:
        (folder / "card.v").write_text(text)
    command = ["verilator", "--lint-only", "-Wall", "--top-module", "card", "card.vlt"]
    return start(*command, *sources(folder), folder=folder, status=None, **verilator_variables())


def test_verilator_has_nothing_to_say_about_the_card_with_all_its_warnings(folder):
    target = core(folder, "card.core")["targets"]["lint"]
    options = target["flow_options"]["verilator_options"]
    assert (target["toplevel"], options) == ("card", ["-Wall"])
    done = lint(folder)
    assert done.returncode == 0, done.stderr
    assert "%Warning" not in done.stderr


def test_its_lint_is_not_deaf(folder, tmp_path):
    broken = shutil.copytree(folder, tmp_path / "broken")
    wire = r"^    wire \[\d+:0\] core_link_0_tx_payload;$"
    narrow = "    wire [7:0] core_link_0_tx_payload;"
    text, count = re.subn(wire, narrow, (folder / "card.v").read_text(), flags=re.M)
    assert count == 1 and "%Warning-WIDTH" in lint(broken, text).stderr


def test_icarus_accepts_the_card(folder):
    if not shutil.which("iverilog"):
        pytest.skip("Icarus Verilog is not installed")
    command = ["iverilog", "-g2005", "-Wall", "-s", "card", "-o", "card.vvp", *sources(folder)]
    lines = start(*command, folder=folder).stderr.splitlines()
    assert [line for line in lines if "timescale" not in line] == []


def test_every_link_has_its_own_clock_reset_and_crossing(text):
    for link in range(4):
        instance = re.search(rf"_link_crossing link_{link}_crossing \((.*?)\);", text, re.S)
        pins = dict(re.findall(r"\.(\w+)\((\w+)\)", instance[1]))
        for pin in ("clk", "rst"):
            assert (pins[pin], pins[f"link_{pin}"]) == (f"core_{pin}", f"link_{link}_{pin}")
        for pin, net in pins.items():
            if pin.startswith(("tx_", "rx_")) and pin != "tx_lost":
                assert net == f"core_link_{link}_{pin}"
                assert pins[f"link_{pin}"] == f"link_{link}_{pin}"
        assert re.search(rf"card_reset link_{link}_reset \(\s*\.clk\(link_{link}_clk\)", text)
    assert "link_4" not in text


def test_everything_else_of_the_interface_is_a_port_of_the_card(folder, text):
    (template,) = [path.read_text() for path in folder.glob("*_template.vh")]
    header = re.search(r"^module card \((.*?)\);", text, re.M | re.S)[1]
    for name in re.findall(r"^wire (?:\[\d+:0\] )?(\w+);", template, re.M):
        if not name.startswith("monitor_"):
            assert re.search(rf" {name},?$", header, re.M), name


def test_the_constraints_name_registers_and_clocks_that_are_there(folder, text):
    constraints = (folder / "card.xdc").read_text()
    for clock in re.findall(r"get_ports (\w+_clk)", constraints):
        assert re.search(rf"^    input wire {clock},?$", text, re.M)
    named = re.findall(r"get_ports (\w+_clk)", constraints)
    assert {*named} == {*re.findall(r"wire (\w+_clk),?$", text, re.M)}
    crossing = (folder / "multitree_link_crossing.v").read_text()
    assert "_cdc/stage[01]_reg" in constraints
    for way in ("inward", "outward"):
        for name in ("produce_cdc", "consume_cdc", "rst_cdc"):
            module = rf"^module \\multitree_link_crossing.{way}.{name} .*?^endmodule"
            text = re.search(module, crossing, re.M | re.S)[0]
            assert re.findall(r"^  reg .*(stage[01]) =", text, re.M) == ["stage0", "stage1"]


def test_a_folder_that_cannot_be_made_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "file").touch()
    says = python(CARD, "--out", tmp_path / "file" / "out", status=2).stderr
    assert "Traceback" not in says and "out" in says


@pytest.mark.long
def test_two_cards_joined_by_their_link_pass_their_bench(tmp_path):
    if missing("verilator"):
        pytest.skip(missing("verilator"))
    done = python(CARD.with_name("pair.py"), "--out", tmp_path / "pair")
    assert [line.split()[-1] for line in done.stdout.splitlines()] == ["passed"] * 4
