"""Bits that flip in any one queue of a block are the block's `state_error`."""

from dataclasses import replace

import pytest
from amaranth import Signal

from multitree.hw.link.port import LinkPort
from multitree.hw.link.receiver import LinkReceiver
from multitree.nic.control.tracker import DependencyTracker
from multitree.nic.driver.faults import FaultCode
from multitree.nic.interface import Interface
from multitree.nic.receive.receiver import ForwardingReceiver, Receiver
from multitree.nic.receive.shared_lane import SharedLane
from multitree.nic.receive.shared_receiver import SharedHeaderCheck, SharedReceiver
from multitree.nic.reduce.reducer import Acknowledger, Reducer
from multitree.nic.reduce.reorder_buffer import ReorderBuffer
from multitree.nic.reduce.sequencer import ReductionSequencer
from multitree.nic.send.pipelined_fetcher import PipelinedFetcher
from multitree.nic.send.sender import ForwardingSender, Sender
from tests.hw.streams import run, simulation_of
from tests.nic.blocks import SMALL, each_is_reported
from tests.nic.top.pair import Host

FORWARDS = replace(SMALL, forward_flits=32)
SHARED = replace(SMALL, flit_bytes=16, num_classes=1)
LINK = {"num_vcs": 4, "flit_bytes": 16, "depth": 8, "submessage_flits": 4}
BLOCKS = {
    LinkPort: LINK,
    LinkReceiver: LINK,
    Receiver: {"config": SMALL},
    SharedHeaderCheck: {"config": SHARED, "unwritten_width": 8},
    SharedLane: {"config": SHARED, "unwritten_width": 8},
    SharedReceiver: {"config": SHARED},
    Acknowledger: {"config": SMALL},
    Reducer: {"config": SMALL},
    ReorderBuffer: {"config": SHARED},
    ReductionSequencer: {"config": SHARED},
    Sender: {"config": SMALL},
    ForwardingReceiver: {"config": FORWARDS},
    ForwardingSender: {"config": FORWARDS},
    PipelinedFetcher: {"config": FORWARDS},
}


@pytest.mark.dear
@pytest.mark.parametrize("kind", BLOCKS)
@simulation_of(lambda kind: kind(**BLOCKS[kind]))
async def test_each_queue_alone_raises_the_state_error_of_its_block(ctx, block, flips):
    await each_is_reported(ctx, block, flips)


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize(
    ("kind", "config", "bit", "at_port"),
    [
        (DependencyTracker, SMALL, 1, 1),
        (DependencyTracker, SHARED, 0, None),
        (PipelinedFetcher, FORWARDS, 1, 1),
    ],
)
def test_a_flipped_count_or_job_is_the_fault_of_its_port_or_on_shared_links_of_none(
    kind, config, bit, at_port, monkeypatch
):
    flip, elaborate = Signal(), kind.elaborate

    def with_wire(self, platform):
        m = elaborate(self, platform)
        with m.If(flip):
            m.d.comb += self.state_error.eq(1 << bit)
        return m

    monkeypatch.setattr(kind, "elaborate", with_wire)
    block = Interface(config)

    async def drive(ctx):
        host = Host(ctx, block)
        await host.wait(5)
        assert await host.read("FAULT") == 0
        ctx.set(flip, 1)
        await host.wait(1)
        ctx.set(flip, 0)
        fault = await host.fault()
        assert (fault.code, fault.at_port) == (FaultCode.STATE_PARITY, at_port)

    run(block, drive)
