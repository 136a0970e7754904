"""Verilog that is generated once."""

import pytest

from multitree.hw.export import verilog
from multitree.hw.export.verilog import generate
from multitree.hw.lanes import LaneUnit
from multitree.hw.link.crossing import LINK_DOMAIN, LinkCrossing
from multitree.sim.emulator import library as module
from multitree.sim.emulator.library import cached_verilog, expose, poke_macro

SIZES = {"flit_bytes": 8, "num_vcs": 1, "depth": 16}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MULTITREE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def generated(monkeypatch):
    """Names of what was generated, in order."""
    names = []

    def counted(component, *, name, **options):
        names.append(name)
        return generate(component, name=name, **options)

    monkeypatch.setattr(verilog, "generate", counted)
    return names


def test_it_is_the_text_that_the_component_generates(generated):
    wanted = generate(LinkCrossing(**SIZES), name="crossing", domains=[LINK_DOMAIN])
    for _ in range(2):
        found = cached_verilog(LinkCrossing, **SIZES, name="crossing", domains=[LINK_DOMAIN])
        assert found == wanted
    assert generated == ["crossing"]


def test_another_size_name_or_purpose_is_another_text(generated):
    texts = [
        cached_verilog(LaneUnit, flit_bytes=8, name="lanes"),
        cached_verilog(LaneUnit, flit_bytes=16, name="lanes"),
        cached_verilog(LaneUnit, flit_bytes=8, name="other"),
        cached_verilog(LaneUnit, flit_bytes=8, name="lanes", emulated=True),
    ]
    assert len(generated) == 4
    assert len(set(texts[:3])) == 3


@pytest.mark.parametrize("room", ["hw", "nic"])
def test_a_changed_module_of_the_hardware_generates_anew(room, generated, tmp_path, monkeypatch):
    (tmp_path / "changed.py").write_text("# changed")
    found = module._modules

    def changed(asked):
        return [*found(asked), *([tmp_path / "changed.py"] if asked == room else [])]

    cached_verilog(LaneUnit, flit_bytes=8, name="lanes")
    monkeypatch.setattr(module, "_modules", changed)
    cached_verilog(LaneUnit, flit_bytes=8, name="lanes")
    assert generated == ["lanes"] * 2
    assert "nic/top/core.py" in {"/".join(path.parts[-3:]) for path in found("nic")}


def test_the_yosys_taken_by_default_is_no_other_one_afterwards(generated, monkeypatch):
    monkeypatch.delenv("AMARANTH_USE_YOSYS", raising=False)
    for _ in range(2):
        cached_verilog(LaneUnit, flit_bytes=8, name="lanes")
    assert generated == ["lanes"]


def test_another_yosys_generates_anew(generated, monkeypatch):
    monkeypatch.delenv("AMARANTH_USE_YOSYS", raising=False)
    monkeypatch.setattr(verilog, "generate", lambda *_, name, **__: generated.append(name) or "")
    cached_verilog(LaneUnit, flit_bytes=8, name="lanes")
    monkeypatch.setenv("AMARANTH_USE_YOSYS", "system")
    cached_verilog(LaneUnit, flit_bytes=8, name="lanes")
    assert generated == ["lanes"] * 2


def test_every_register_and_memory_is_state_whatever_its_name_and_no_wire_is():
    text = r"""module top(
  clk
);
  reg \$wake ;
  reg [3:0] \$1 ;
  reg [3:0] \$signal  = 4'h0;
  reg \fault$78 = 1'h0;
  reg [7:0] _0_;
  reg [7:0] storage [6:0];
  always @*
    \$1 = \$signal  + 1;
  always @(posedge clk)
    \$signal  <= \$1 ;
  always @(posedge clk) begin
    if (clk)
      storage[\$1 ] <= _0_;
    _0_ <= storage[\$1 ];
    \fault$78  <= clk <= 1;
  end
  \top.part  \part$2  (
    .clk(clk)
  );
endmodule
module \top.part (clk);
  reg valid = 1'h0;
  always @(posedge clk)
    valid <= clk;
endmodule"""
    exposed, states = expose(text)
    found = [("storage", 8, 7), ("$signal", 4, 0), ("_0_", 8, 0), ("fault$78", 1, 0)]
    assert [(s.name, s.width, s.depth) for s in states] == [*found, ("part$2.valid", 1, 0)]
    assert exposed.count("public_flat_rw") == 5
    assert "top__DOT__part__0242__DOT__valid)" in poke_macro("M", "top", states)
