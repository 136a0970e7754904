"""Tests of faults that travel: who tells whom, what, and how often."""

import pytest

from multitree.nic.control.monitor import FaultRelay
from multitree.nic.driver.faults import FaultCode
from tests.hw.streams import put, simulation_of
from tests.nic.blocks import SMALL

PORTS = SMALL.num_ports
RANK = 0x1234
TOLD = 77


@simulation_of(lambda: FaultRelay(SMALL))
async def reported_by(ctx, block, script):
    """What a relay tells, as (cycle, port, notice), and the last origin; `script` has inputs."""
    said = []
    put(ctx, block, rank=RANK, up=(1 << PORTS) - 1)
    for cycle in range(40):
        inputs = dict(script.get(cycle, {}))
        for port, word in inputs.pop("received_fault", {}).items():
            ctx.set(block.received_fault[port], word)
        put(ctx, block, **inputs)
        tell = ctx.get(block.send_fault)
        ctx.set(block.fault_sent, tell)
        said += [(cycle, p, ctx.get(block.fault_record)) for p in range(PORTS) if tell >> p & 1]
        await ctx.tick()
    return said, ctx.get(block.origin)


OWN = {"faulted": 1, "fault": {"code": FaultCode.FRAMING, "row": 3, "flow": 9, "at_port": 1}}
NOTICE = RANK | FaultCode.FRAMING << 16 | (3 | 9 << 16) << 32


def test_a_fault_of_its_own_is_reported_once_on_every_port_with_rank_code_and_place():
    said, origin = reported_by({5: OWN})
    assert said == [(6, port, NOTICE) for port in range(PORTS)]
    assert origin == RANK | FaultCode.FRAMING << 16 | 1 << 24


def test_a_link_that_comes_up_later_is_reported_then():
    script = {5: OWN | {"up": 0b101}, 20: {"up": 0b111}, 25: {"up": 0b110}, 30: {"up": 0b111}}
    said, _ = reported_by(script)
    assert [(cycle, port) for cycle, port, _ in said] == [(6, 0), (6, 2), (20, 1), (30, 0)]


@pytest.mark.parametrize("port", range(PORTS))
def test_what_a_neighbour_reported_is_passed_on_as_it_came_on_all_other_ports_and_never_again(port):
    peer = {"faulted": 1, "fault": {"code": FaultCode.PEER_FAULT, "at_port": port}}
    script = {
        4: {"fault_received": 1 << port, "received_fault": {port: TOLD | 6 << 16}},
        5: {"fault_received": 0} | peer,
        8: {"fault_received": 7, "received_fault": dict.fromkeys(range(PORTS), 1)},
        20: {"up": 0},
        25: {"up": 7},
    }
    said, origin = reported_by(script)
    assert said == [(6, p, TOLD | 6 << 16) for p in range(PORTS) if p != port]
    assert origin == TOLD | 6 << 16 | 1 << 24


def test_of_two_that_tell_at_once_the_lower_port_is_passed_on():
    records = {0: 1, 1: TOLD, 2: 2}
    peer = {"faulted": 1, "fault": {"code": FaultCode.PEER_FAULT, "at_port": 1}}
    said, _ = reported_by(
        {4: {"fault_received": 0b110, "received_fault": records}, 5: {"fault_received": 0} | peer}
    )
    assert [(port, fault_record) for _, port, fault_record in said] == [(0, TOLD), (2, TOLD)]


def test_without_a_fault_nothing_is_reported():
    assert reported_by({4: {"fault_received": 7}, 6: {"up": 0}, 9: {"up": 7}}) == ([], 0)
