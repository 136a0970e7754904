"""Tests of the checks that pass nothing illegal: rows, flows, settings, heads."""

from dataclasses import replace
from functools import cache

import pytest

from multitree.nic.control.checker import FlowCheck, RowCheck, SettingsCheck, SharedFlowCheck
from multitree.nic.driver.config import LANE_TYPES
from multitree.nic.driver.faults import FaultCode
from multitree.nic.driver.formats import NO_PORT
from multitree.nic.layouts import SHARED_FLOW
from multitree.nic.receive.duplicate_filter import Expectation
from tests.hw.streams import put, seeded, simulation_of
from tests.nic.blocks import SMALL, entry, evaluate, row
from tests.nic.receive.shared_receivers import flow_entry

SHARED = replace(SMALL, flit_bytes=16, num_classes=2, max_children=3)
PORTS, WINDOW = SMALL.num_ports, 100
LEGAL_ROW = {"flow": 3, "port": PORTS - 1, "op": 1, "step": 7}
LEGAL_FLOW = {"base": 60, "size": 40, "children": [2, 0], "parent": 1}


def codes(check, inputs):
    """The fault of each of some inputs."""
    return evaluate(check, inputs, check.code)


def row_codes(rows, previous_step=7, num_flows=4, config=SMALL):
    given = {"previous_step": previous_step, "num_flows": num_flows}
    return codes(RowCheck(config), [given | {"row": row(**fields)} for fields in rows])


def entries(flows):
    return [{"entry": entry(**fields), "window_flits": WINDOW} for fields in flows]


def flow_codes(flows, config=SMALL):
    return codes(FlowCheck(config), entries(flows))


def test_a_legal_row_passes():
    rows = [LEGAL_ROW, LEGAL_ROW | {"op": 0, "port": 0, "flow": 0}, LEGAL_ROW | {"step": 0xFFFF}]
    # A NOP needs neither port nor flow.
    rows.append({"op": 2, "step": 7, "port": NO_PORT, "flow": 0xFFFF})
    assert row_codes(rows) == [0] * len(rows)


def test_each_illegal_field_of_a_row_alone_is_caught():
    illegal = [{"op": 3}, {"port": PORTS}, {"port": NO_PORT}, {"flow": 4}, {"flow": 0x8003}]
    illegal += [{"step": 6}, *({"reserved": 1 << bit} for bit in range(10))]
    illegal += [{"op": 2, "step": 6}, {"op": 2, "reserved": 1}]
    early = [{"stage": 1}, {"stage": 1 << 15}, {"op": 2, "stage": 1}]
    found = row_codes([LEGAL_ROW | wrong for wrong in (*illegal, *early)])
    assert found == [FaultCode.ROW_ILLEGAL] * len(illegal) + [FaultCode.ITERATIONS] * len(early)


@pytest.mark.parametrize("width", [1, 7, 16])
def test_a_row_may_have_every_stage_that_has_a_number_where_tables_are_repeated(width):
    config = replace(SMALL, wave_width=width)
    for stage in (1, (1 << width) - 1):
        fields = LEGAL_ROW | {"stage": stage}
        right, wrong = row_codes([fields, fields | {"op": 3}], config=config)
        assert (right, bool(wrong)) == (0, True)
    more = [LEGAL_ROW | {"stage": 1 << bit} for bit in range(width, 16)]
    assert row_codes(more, config=config) == [FaultCode.ITERATIONS] * len(more)


def test_the_first_row_may_have_step_0_and_a_table_65536_flows():
    assert row_codes([{"op": 0, "flow": 0xFFFF}], previous_step=0, num_flows=1 << 16) == [0]
    assert row_codes([{"op": 0}], previous_step=0, num_flows=0) == [FaultCode.ROW_ILLEGAL]


def test_a_legal_flow_passes():
    changes = [{}, {"base": 100, "size": 0}, {"children": [1, 2, 0], "parent": 2}]
    assert flow_codes([*(LEGAL_FLOW | change for change in changes), {}]) == [0] * 4


TOO_LONG = [{"base": 61}, {"size": 41}, {"base": 1 << 31, "size": 1 << 31}]


def test_each_illegal_field_of_a_flow_alone_is_caught():
    illegal = [*TOO_LONG, {"base": 2**32 - 40}]
    illegal += [{"children": [PORTS]}, {"children": [0, 8]}, {"parent": PORTS}, {"parent": 14}]
    illegal += [{"stride": 1}, {"stride": 1 << 31}, {"reserved": 1}, {"reserved": 1 << 27}]
    # A child waits for the one before it, which must exist and be another.
    children = [NO_PORT, 0], [0, NO_PORT, 2], [1, 1], [1, 2, 1], [NO_PORT] * 7 + [0]
    illegal += [{"children": ports} for ports in children]
    found = flow_codes([LEGAL_FLOW | wrong for wrong in illegal])
    assert found == [FaultCode.FLOW_ILLEGAL] * len(illegal)


LEGAL_SHARED = {"base": 60, "size": 40, "num_children": 3, "parent": 1, "staging": 100}


def shared_flow_codes(changes):
    flows = [flow_entry(**LEGAL_SHARED | change) for change in changes]
    inputs = [{"entry": flow, "window_flits": WINDOW} for flow in flows]
    return codes(SharedFlowCheck(SHARED), inputs)


def test_a_legal_flow_of_shared_links_passes():
    legal = [{}, {"staging": 0}, {"staging": 99}, {"base": 100, "size": 0}]
    assert shared_flow_codes([*legal, {"num_children": 0, "parent": 0}]) == [0] * 5


def test_each_illegal_field_of_a_flow_of_shared_links_alone_is_caught():
    illegal = [{"staging": 101}, {"staging": 1 << 31}, *TOO_LONG]
    illegal += [{"num_children": 4}, {"num_children": 255}, {"stride": 1}, {"stride": 1 << 31}]
    assert shared_flow_codes(illegal) == [FaultCode.FLOW_ILLEGAL] * len(illegal)


def test_every_reserved_bit_of_a_flow_of_shared_links_must_be_0():
    width = SHARED_FLOW["reserved"].width
    found = shared_flow_codes([{"reserved": 1 << bit} for bit in range(width)])
    assert found == [FaultCode.FLOW_ILLEGAL] * width


def test_messages_that_come_in_on_shared_links_are_of_children_and_parent():
    check = SharedFlowCheck(SHARED)
    inputs = [
        {"entry": flow_entry(num_children=count, parent=parent)}
        for count in (0, 1, 3)
        for parent in (0, 1)
    ]
    assert evaluate(check, inputs, check.num_arrivals) == [0, 1, 1, 2, 3, 4]


@pytest.mark.slow
def test_a_flow_may_have_every_stride_that_an_address_holds_where_tables_are_repeated():
    config = replace(SMALL, wave_width=1)
    for stride in (0, 1, (1 << SMALL.address_width) - 1):
        fields = LEGAL_FLOW | {"stride": stride}
        right, wrong = flow_codes([fields, fields | {"base": 61}], config=config)
        assert (right, bool(wrong)) == (0, True)
    more = [LEGAL_FLOW | {"stride": 1 << bit} for bit in range(SMALL.address_width, 32)]
    assert flow_codes(more, config=config) == [FaultCode.FLOW_ILLEGAL] * len(more)


def test_a_flows_arrivals_are_its_children_and_its_parent():
    flows = [{}, {"parent": 0}, {"children": [0]}, LEGAL_FLOW, {"children": [2, 1, 0], "parent": 0}]
    check = FlowCheck(SMALL)
    assert evaluate(check, entries(flows), check.num_arrivals) == [0, 1, 1, 3, 4]
    # A link is a child's or the parent's: no more than there can be ports.
    check = FlowCheck(replace(SMALL, num_ports=8))
    flows = [{"children": list(range(8))}, {"children": list(range(7)), "parent": 7}]
    assert evaluate(check, entries(flows), check.num_arrivals) == [8, 8]


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


@simulation_of(cache(lambda config=SMALL: SettingsCheck(config)))
async def legalities(ctx, check, settings):
    """Whether settings, one after the other, are legal in the cycle behind them."""
    found = []
    for values in settings:
        put(ctx, check, **values)
        await ctx.tick()
        found.append(ctx.get(check.legal))
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
    assert legalities([LEGAL_SETTINGS | change]) == [legal]


def test_a_length_that_the_table_takes_over_with_a_swap_is_the_one_that_was_checked():
    other = LEGAL_SETTINGS | {"committed_flits": 0}
    assert legalities([other, other | {"swap": 1}, other | {"swap": 0}]) == [0, 1, 0]


@pytest.mark.parametrize("wave_width", [0, 3])
@pytest.mark.parametrize("iterations", [1, 2, 1 << 31])
def test_several_waves_in_lockstep_are_illegal_where_tables_are_repeated(iterations, wave_width):
    """Where they are not, the control says that there are too many."""
    inputs = [LEGAL_SETTINGS | {"iterations": iterations, "mode": mode} for mode in (0b101, 0b001)]
    assert legalities(inputs, config=replace(SMALL, wave_width=wave_width)) == [
        int(not wave_width),
        1,
    ]


@pytest.mark.parametrize("dtypes", [("int32",), ("float32",), ("bfloat16", "int32")], ids=str)
def test_a_type_of_lanes_that_is_not_built_is_illegal(dtypes):
    inputs = [LEGAL_SETTINGS | {"mode": code} for code in LANE_TYPES.values()]
    found = legalities(inputs, config=replace(SMALL, dtypes=dtypes))
    assert found == [int(name in dtypes) for name in LANE_TYPES]


@pytest.mark.parametrize("modes", [(), ("lockstep",), ("packets",), ("lockstep", "packets")])
@pytest.mark.parametrize("num_classes", [0, 1])
def test_a_mode_is_legal_exactly_where_it_is_built(modes, num_classes):
    config = replace(SMALL, flit_bytes=16, num_classes=num_classes, modes=modes)
    bits = {"lockstep": 1 << 2, "packets": 1 << 4, "maximum": 1 << 5}
    found = legalities([LEGAL_SETTINGS | {"mode": 1 | bit} for bit in bits.values()], config=config)
    # On shared links every message is whole.
    assert found == ["lockstep" in modes, "packets" in modes and not num_classes, True]
