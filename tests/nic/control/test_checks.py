"""Tests of the checks that pass nothing illegal: rows, flows, settings, heads."""

from dataclasses import replace

import pytest
from amaranth.lib import data

from multitree.nic.control.checker import FlowCheck, RowCheck, SettingsCheck, SharedFlowCheck
from multitree.nic.driver.config import LANE_TYPES
from multitree.nic.driver.faults import FaultCode
from multitree.nic.driver.formats import NO_PORT
from multitree.nic.layouts import FLOW_ENTRY, SHARED_FLOW
from multitree.nic.receive.duplicate_filter import Expectation
from tests.hw.streams import run
from tests.nic.blocks import SMALL, entry, evaluate, put, row, seeded

SHARED = replace(SMALL, flit_bytes=16, num_classes=2, max_children=3)
PORTS, WINDOW = SMALL.num_ports, 100
LEGAL_ROW = {"flow": 3, "port": PORTS - 1, "op": 1, "step": 7}
LEGAL_FLOW = {"base": 60, "size": 40, "children": [2, 0], "parent": 1}


def row_code(fields, previous_step=7, num_flows=4, config=SMALL):
    inputs = {"row": row(**fields), "previous_step": previous_step, "num_flows": num_flows}
    return evaluate(check := RowCheck(config), [inputs], check.code)[0]


def flow_code(fields, window_flits=WINDOW, config=SMALL):
    inputs = {"entry": entry(**fields), "window_flits": window_flits}
    return evaluate(check := FlowCheck(config), [inputs], check.code)[0]


@pytest.mark.parametrize(
    "fields",
    [
        LEGAL_ROW,
        LEGAL_ROW | {"op": 0, "port": 0, "flow": 0},
        LEGAL_ROW | {"step": 0xFFFF},
        # A NOP needs neither port nor flow.
        {"op": 2, "step": 7, "port": NO_PORT, "flow": 0xFFFF},
    ],
    ids=str,
)
def test_a_legal_row_passes(fields):
    assert row_code(fields) == 0


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"op": 3}, FaultCode.ROW_ILLEGAL),
        ({"port": PORTS}, FaultCode.ROW_ILLEGAL),
        ({"port": NO_PORT}, FaultCode.ROW_ILLEGAL),
        ({"flow": 4}, FaultCode.ROW_ILLEGAL),
        ({"flow": 0x8003}, FaultCode.ROW_ILLEGAL),
        ({"step": 6}, FaultCode.ROW_ILLEGAL),
        *(({"reserved": 1 << bit}, FaultCode.ROW_ILLEGAL) for bit in range(10)),
        *(({"stage": 1 << bit}, FaultCode.ITERATIONS) for bit in (0, 15)),
        ({"op": 2, "step": 6}, FaultCode.ROW_ILLEGAL),
        ({"op": 2, "reserved": 1}, FaultCode.ROW_ILLEGAL),
        ({"op": 2, "stage": 1}, FaultCode.ITERATIONS),
    ],
    ids=str,
)
def test_each_illegal_field_of_a_row_alone_is_caught(wrong, code):
    assert row_code(LEGAL_ROW | wrong) == code


@pytest.mark.parametrize("width", [1, 7, 16])
def test_a_row_may_have_every_stage_that_has_a_number_where_tables_are_repeated(width):
    config = replace(SMALL, wave_width=width)
    for stage in (1, (1 << width) - 1):
        assert row_code(LEGAL_ROW | {"stage": stage}, config=config) == 0
        assert row_code(LEGAL_ROW | {"stage": stage, "op": 3}, config=config) != 0
    for bit in range(width, 16):
        assert row_code(LEGAL_ROW | {"stage": 1 << bit}, config=config) == FaultCode.ITERATIONS


def test_the_first_row_may_have_step_0_and_a_table_65536_flows():
    assert row_code({"op": 0, "flow": 0xFFFF}, previous_step=0, num_flows=1 << 16) == 0
    assert row_code({"op": 0}, previous_step=0, num_flows=0) == FaultCode.ROW_ILLEGAL


@pytest.mark.parametrize(
    "fields",
    [
        LEGAL_FLOW,
        LEGAL_FLOW | {"base": 100, "size": 0},
        LEGAL_FLOW | {"children": [1, 2, 0], "parent": 2},
        {},
    ],
    ids=str,
)
def test_a_legal_flow_passes(fields):
    assert flow_code(fields) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"base": 61},
        {"size": 41},
        {"base": 1 << 31, "size": 1 << 31},
        {"base": 2**32 - 40},
        {"children": [PORTS]},
        {"children": [0, 8]},
        {"parent": PORTS},
        {"parent": 14},
        {"stride": 1},
        {"stride": 1 << 31},
        {"reserved": 1},
        {"reserved": 1 << 27},
        # A child waits for the one before it, which must exist and be another.
        {"children": [NO_PORT, 0]},
        {"children": [0, NO_PORT, 2]},
        {"children": [1, 1]},
        {"children": [1, 2, 1]},
        {"children": [NO_PORT] * 7 + [0]},
    ],
    ids=str,
)
def test_each_illegal_field_of_a_flow_alone_is_caught(wrong):
    assert flow_code(LEGAL_FLOW | wrong) == FaultCode.FLOW_ILLEGAL


LEGAL_SHARED = {"base": 60, "size": 40, "num_children": 3, "parent": 1, "staging": 100}


def shared_flow_code(fields):
    entry = data.Const(FLOW_ENTRY, SHARED_FLOW.const(LEGAL_SHARED | fields).as_value().value)
    inputs = {"entry": entry, "window_flits": WINDOW}
    return evaluate(check := SharedFlowCheck(SHARED), [inputs], check.code)[0]


@pytest.mark.parametrize(
    "legal",
    [
        {},
        {"staging": 0},
        {"staging": 99},
        {"base": 100, "size": 0},
        {"num_children": 0, "parent": 0},
    ],
    ids=str,
)
def test_a_legal_flow_of_shared_links_passes(legal):
    assert shared_flow_code(legal) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"staging": 101},
        {"staging": 1 << 31},
        {"base": 61},
        {"size": 41},
        {"base": 1 << 31, "size": 1 << 31},
        {"num_children": 4},
        {"num_children": 255},
        {"stride": 1},
        {"stride": 1 << 31},
    ],
    ids=str,
)
def test_each_illegal_field_of_a_flow_of_shared_links_alone_is_caught(wrong):
    assert shared_flow_code(wrong) == FaultCode.FLOW_ILLEGAL


def test_every_reserved_bit_of_a_flow_of_shared_links_must_be_0():
    for bit in range(SHARED_FLOW["reserved"].width):
        assert shared_flow_code({"reserved": 1 << bit}) == FaultCode.FLOW_ILLEGAL


def test_messages_that_come_in_on_shared_links_are_of_children_and_parent():
    flows = [{"num_children": count, "parent": parent} for count in (0, 1, 3) for parent in (0, 1)]
    check = SharedFlowCheck(SHARED)
    inputs = [
        {"entry": data.Const(FLOW_ENTRY, SHARED_FLOW.const(fields).as_value().value)}
        for fields in flows
    ]
    assert evaluate(check, inputs, check.num_arrivals) == [0, 1, 1, 2, 3, 4]


@pytest.mark.slow
def test_a_flow_may_have_every_stride_that_an_address_holds_where_tables_are_repeated():
    config = replace(SMALL, wave_width=1)
    for stride in (0, 1, (1 << SMALL.address_width) - 1):
        assert flow_code(LEGAL_FLOW | {"stride": stride}, config=config) == 0
        assert flow_code(LEGAL_FLOW | {"stride": stride, "base": 61}, config=config) != 0
    for bit in range(SMALL.address_width, 32):
        code = flow_code(LEGAL_FLOW | {"stride": 1 << bit}, config=config)
        assert code == FaultCode.FLOW_ILLEGAL


def test_a_flows_arrivals_are_its_children_and_its_parent():
    flows = [{}, {"parent": 0}, {"children": [0]}, LEGAL_FLOW, {"children": [2, 1, 0], "parent": 0}]
    check = FlowCheck(SMALL)
    inputs = [{"entry": entry(**fields), "window_flits": WINDOW} for fields in flows]
    assert evaluate(check, inputs, check.num_arrivals) == [0, 1, 1, 3, 4]
    # A link is a child's or the parent's: no more than there can be ports.
    check = FlowCheck(replace(SMALL, num_ports=8))
    flows = [{"children": list(range(8))}, {"children": list(range(7)), "parent": 7}]
    inputs = [{"entry": entry(**fields), "window_flits": WINDOW} for fields in flows]
    assert evaluate(check, inputs, check.num_arrivals) == [8, 8]


@pytest.mark.parametrize("port", range(8))
def test_a_message_is_expected_from_the_parent_or_from_a_child_after_the_child_before(port):
    rng = seeded(port)
    block = Expectation()
    inputs, expected, after, sibling = [], [], [], []
    for _ in range(60):
        children = rng.sample(range(8), rng.randrange(9))
        parent, size = rng.choice([*range(8), NO_PORT]), rng.choice([0, 1, 2**31])
        op, single = rng.randrange(2), rng.randrange(2)
        flow = entry(children=children, parent=parent, size=size)
        inputs.append({"port": port, "entry": flow, "op": op, "single": single})
        place = children.index(port) if port in children and op == 0 else None
        comes = parent == port if op else place is not None
        expected.append(int(comes and single == (size == 0)))
        after.append(int(place is not None and place > 0))
        sibling.append(children[place - 1] if after[-1] else None)
    assert evaluate(block, inputs, block.expected) == expected
    assert evaluate(block, inputs, block.after) == after
    found = evaluate(block, inputs, block.sibling)
    assert [s if waits else None for s, waits in zip(found, after, strict=True)] == sibling


END = 1 << SMALL.address_width
LEGAL_SETTINGS = {"mode": 0b101, "window_base": 24}
LEGAL_SETTINGS |= {"window_flits": END - 24, "committed_flits": END - 24}


def legalities(config, settings):
    """Whether settings, one after the other, are legal in the cycle behind them."""
    check, found = SettingsCheck(config), []

    async def drive(ctx):
        for values in settings:
            put(ctx, check, **values)
            await ctx.tick()
            found.append(ctx.get(check.legal))

    run(check, drive)
    return found


@pytest.mark.parametrize(
    ("change", "legal"),
    [
        ({}, 1),
        ({"mode": 0}, 1),
        ({"mode": 0b111110}, 1),
        ({"mode": 3}, 0),
        ({"mode": 1 << 6}, 0),
        ({"mode": 1 << 31}, 0),
        ({"committed_flits": END - 23}, 0),
        ({"window_flits": END - 25}, 0),
        ({"committed_flits": END - 24 + (1 << 31)}, 0),
        ({"window_base": 25}, 0),
        ({"window_base": END + 24, "window_flits": 1, "committed_flits": 1}, 0),
        ({"window_base": 0, "window_flits": END, "committed_flits": END}, 0),
        ({"window_base": 2**32 - 24}, 0),
        ({"window_flits": END + 1, "committed_flits": END + 1}, 0),
        ({"window_base": END, "window_flits": 0, "committed_flits": 0}, 1),
    ],
    ids=str,
)
def test_settings_that_the_interface_would_cut_short_or_did_not_check_are_illegal(change, legal):
    assert legalities(SMALL, [LEGAL_SETTINGS | change]) == [legal]


def test_a_length_that_the_table_takes_over_with_a_swap_is_the_one_that_was_checked():
    other = LEGAL_SETTINGS | {"committed_flits": 0}
    assert legalities(SMALL, [other, other | {"swap": 1}, other | {"swap": 0}]) == [0, 1, 0]


@pytest.mark.parametrize("wave_width", [0, 3])
@pytest.mark.parametrize("iterations", [1, 2, 1 << 31])
def test_several_waves_in_lockstep_are_illegal_where_tables_are_repeated(iterations, wave_width):
    """Where they are not, the control says that there are too many."""
    inputs = [LEGAL_SETTINGS | {"iterations": iterations, "mode": mode} for mode in (0b101, 0b001)]
    assert legalities(replace(SMALL, wave_width=wave_width), inputs) == [int(not wave_width), 1]


@pytest.mark.parametrize("dtypes", [("int32",), ("float32",), ("bfloat16", "int32")], ids=str)
def test_a_type_of_lanes_that_is_not_built_is_illegal(dtypes):
    inputs = [LEGAL_SETTINGS | {"mode": code} for code in LANE_TYPES.values()]
    found = legalities(replace(SMALL, dtypes=dtypes), inputs)
    assert found == [int(name in dtypes) for name in LANE_TYPES]


@pytest.mark.parametrize("modes", [(), ("lockstep",), ("packets",), ("lockstep", "packets")])
@pytest.mark.parametrize("num_classes", [0, 1])
def test_a_mode_is_legal_exactly_where_it_is_built(modes, num_classes):
    config = replace(SMALL, flit_bytes=16, num_classes=num_classes, modes=modes)
    bits = {"lockstep": 1 << 2, "packets": 1 << 4, "maximum": 1 << 5}
    found = legalities(config, [LEGAL_SETTINGS | {"mode": 1 | bit} for bit in bits.values()])
    # On shared links every message is whole.
    assert found == ["lockstep" in modes, "packets" in modes and not num_classes, True]
