"""Tables that go into memory without the bus: an equal run, but earlier."""

import numpy as np
import pytest

from multitree import LinkModel, build, parse_topology
from multitree.sim.emulator.members import members_header
from multitree.sim.rtl.loads import Upcoming
from multitree.sim.rtl.session import RtlSession
from multitree.sim.timing.sizing import least_sizes
from tests.sim.emulated import SWITCHED, SWITCHED_SIZES, needs_rtl

FORWARDING = LinkModel(forward_flits=64, dependency="submessage")
HEADER = """
        CData/*0:0*/ top__DOT__locked__0247;
        CData/*0:0*/ top__DOT__core__DOT__run___05Fbank;
        VlUnpacked<VlWide<7>/*194:0*/, 128> top__DOT__core__DOT__tables__DOT__copy__DOT__content__DOT__bank_0;
        VlUnpacked<VlWide<7>/*194:0*/, 128> top__DOT__core__DOT__tables__DOT__flows__DOT__content__DOT__bank_0;
        VlUnpacked<VlWide<7>/*194:0*/, 128> top__DOT__core__DOT__tables__DOT__flows__DOT__content__DOT__bank_1;
        VlUnpacked<VlWide<3>/*77:0*/, 256> top__DOT__core__DOT__tables__DOT__table__DOT__content__DOT__bank_0;
        VlUnpacked<IData/*28:0*/, 512> top__DOT__core__DOT__tracker__DOT__counts_0;
"""  # noqa: E501


def test_banks_of_table_and_flows_are_named_and_what_says_which_can_be_written():
    model = {"Vnic__Syms": "", "Vnic___024root": HEADER}
    lines = dict(line.split(" ", 2)[1:] for line in members_header(model, "top").splitlines()[1:])
    start, end = "top__DOT__core__DOT__tables__DOT__", "__DOT__content__DOT__bank_"
    assert lines["MT_TABLE_BANKS(X)"] == f"X({start}table{end})"
    assert lines["MT_FLOW_BANKS(X)"] == f"X({start}copy{end}) X({start}flows{end})"
    assert lines["MT_BANK"] == "top__DOT__core__DOT__run___05Fbank"
    assert lines["MT_LOCKED"] == "top__DOT__locked__0247"


def test_a_model_without_tables_has_no_backdoor():
    model = {"Vnic__Syms": "", "Vnic___024root": "IData/*31:0*/ counter;"}
    assert "MT_BANK" not in members_header(model, "top")


def outcome(spec, algorithm, backdoor, model):
    """Traces, memories and counters of two collectives with different tables, and loading."""
    topology = parse_topology(spec)
    first, second = build(topology, algorithm), build(topology, "ring")
    rng = np.random.default_rng(1)
    buffers = rng.integers(-9, 9, (topology.num_ranks, 512)).astype(np.float32)
    sizes = [least_sizes(each, model.num_flits(512, 4)) for each in (first, second)]
    sizes += [SWITCHED_SIZES] * (model is SWITCHED)
    sizes = {key: max(size.get(key, 0) for size in sizes) for key in sizes[0]}
    found, loading_cycles = [], 0
    with RtlSession(topology, link_model=model, backdoor=backdoor, **sizes) as session:
        for schedule, following in ((first, second), (second, None)):
            then = Upcoming(following, 512, "float32") if following else None
            memory, trace = session.run(schedule, [buffers], then=then)[0]
            found.append([memory.tobytes(), trace.sent.tobytes(), trace.arrived.tobytes()])
            # The second table is loaded while the first one runs.
            loading_cycles = max(loading_cycles, session.loading_cycles)
        return found, session.counts(), loading_cycles


@needs_rtl
@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "algorithm", "model"),
    [
        ("torus:2x3", "multitree", LinkModel()),
        pytest.param("mesh:2x2", "multitree", FORWARDING, marks=pytest.mark.long),
        ("fat_tree:2x2", "multitree", SWITCHED),
    ],
)
def test_a_run_is_the_same_with_tables_through_the_backdoor(spec, algorithm, model):
    by_bus = outcome(spec, algorithm, False, model)
    directly = outcome(spec, algorithm, True, model)
    assert directly[:2] == by_bus[:2]
    # These tables are at least a third of what is written.
    assert 3 * directly[2] < 2 * by_bus[2]
