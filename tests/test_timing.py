"""The timing diagrams are those of today, and what is said of them holds."""

import pytest

from tests.emulation import needs_rtl
from tests.programs import load_script
from tests.repository import ROOT

DOCS = ROOT / "docs"
CHANNELS = ("send", "fetch", "write")

pytestmark = [pytest.mark.slow, needs_rtl]


@pytest.fixture(scope="module")
def timing():
    return load_script(DOCS / "timing.py")


@pytest.fixture(scope="module")
def values(timing, tmp_path_factory):
    return timing.simulate(tmp_path_factory.mktemp("timing"))


@pytest.fixture(scope="module")
def drawn(timing):
    return timing.drawn()


@pytest.mark.long
def test_the_pictures_are_those_that_the_hardware_draws_today(drawn):
    kept = {path.stem: path.read_text() for path in (DOCS / "timing").iterdir()}
    assert drawn.keys() == kept.keys()
    stale = [name for name in drawn if drawn[name] != kept[name]]
    assert not stale, "the hardware has changed: run python docs/timing.py and look at the pictures"


def test_every_picture_is_shown_once(drawn):
    text = (DOCS / "timing.md").read_text()
    for name in drawn:
        assert text.count(f"](timing/{name}.svg)") == 1
    assert text.count(".svg)") == len(drawn)


def test_a_line_samples_what_an_edge_sees(tmp_path):
    waves = load_script(DOCS / "waves.py")
    (tmp_path / "a.vcd").write_text(
        "$scope module top $end\n$var wire 1 ! clk $end\n$var wire 4 # out [3:0] $end\n"
        "$scope module inner $end\n$var wire 4 % out [3:0] $end\n$upscope $end\n$upscope $end\n"
        "$scope module other $end\n$var wire 1 & clk $end\n$upscope $end\n$enddefinitions $end\n"
        # Set before an edge, set by an edge, and a cycle in which nothing changes.
        "#0\n0!\nb101 #\nb1 %\n0&\n#500\n1!\nb110 #\n#1000\n0!\n"
        "#1500\n1!\n#2000\nb111 #\n#3500\n1!\n"
    )
    cycles = waves.read_cycles(tmp_path / "a.vcd", "top")
    assert cycles == {"clk": [0, 0, 1, 1], "out": [5, 6, 7, 7]}


def taken(values, channel):
    """Cycles in which a request of a memory channel is taken."""
    valid, ready = (values[f"memory_0_{channel}_{name}"] for name in ("valid", "ready"))
    return [k for k, both in enumerate(zip(valid, ready, strict=True)) if all(both)]


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_request_stays_as_it_is_until_it_is_taken(values, channel):
    names = ["valid", "address"] + (["data"] if channel == "write" else [])
    shown = [values[f"memory_0_{channel}_{name}"] for name in names]
    valid, ready = shown[0], values[f"memory_0_{channel}_ready"]
    waits = [k for k in range(len(valid)) if valid[k] and not ready[k]]
    assert waits
    for k in waits:
        assert [line[k] for line in shown] == [line[k + 1] for line in shown]


@pytest.mark.parametrize("channel", CHANNELS)
def test_every_request_is_answered_once_in_order_and_later(values, channel):
    answer = "ack" if channel == "write" else "data_valid"
    answers = [k for k, high in enumerate(values[f"memory_0_{channel}_{answer}"]) if high]
    asked = taken(values, channel)
    assert len(answers) == len(asked) > 0
    assert all(late > early for early, late in zip(asked, answers, strict=True))


def test_there_is_a_credit_for_every_flit_of_a_message(timing, values):
    sent = zip(values["link_0_tx_valid"], values["link_0_tx_kind"], strict=True)
    flits = [timing.kind(kind) for valid, kind in sent if valid]
    message = [name for name in flits if name in ("HEAD", "BODY", "TAIL", "SINGLE")]
    assert message == ["HEAD", "BODY", "BODY", "BODY", "TAIL"] * 2
    assert sum(values["link_0_tx_credit"]) == len(message)


def test_the_interrupt_stays_until_it_is_acknowledged(timing, values):
    (up,) = timing.rises(values, "irq")
    down = values["irq"].index(0, up)
    writes = timing.rises(values, "s_axil_awvalid")
    (between,) = [k for k in writes if up <= k < down]
    address, data = values["s_axil_awaddr"][between], values["s_axil_wdata"][between]
    assert (address, data) == timing.ACKNOWLEDGE
