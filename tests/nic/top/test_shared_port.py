"""Tests of a port on a shared link: its progress, and what it waits for."""

import pytest

from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import Awaited
from multitree.nic.top.port import Port
from tests.hw.streams import put, run
from tests.nic.blocks import start
from tests.nic.memory import latencies, reader, writer

CONFIG = Config(
    num_ports=1, buffer_flits=16, submessage_flits=4, memory_queue_flits=8, num_classes=1
)
NUM_FLITS = 40


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("awaited", [Awaited.DEPENDENCY, Awaited.CREDIT, Awaited.NOTHING])
def test_what_a_row_waits_for_is_said_of_its_message_on_this_port_and_counted(awaited):
    """A dependency that does not come in, or a link that has no credit since it is not up."""
    port, seen = Port(CONFIG), []
    needs = {"needs": 1, "need_port": 0, "need_op": 1} if awaited == Awaited.DEPENDENCY else {}
    job = {"row": 5, "flow": 3, "op": 1, "size": 0, "order": 0, "vc_class": 0} | needs

    async def drive(ctx):
        start(ctx, port)
        put(ctx, port.jobs, payload=job, valid=awaited != Awaited.NOTHING)
        await ctx.tick()
        ctx.set(port.jobs.valid, 0)
        wait, activity = port.sender_wait, port.activity
        reported = (wait.awaited, wait.row, wait.flow, wait.port, wait.op)
        counted = (activity.dependency, activity.memory, activity.credit, port.idle)
        await ctx.tick().repeat(20)
        seen.append([ctx.get(value) for value in (*reported, *counted)])

    run(port, drive)
    ((found, row, flow, at, op, *counted),) = seen
    waits = awaited != Awaited.NOTHING
    assert found == awaited and at == 0
    assert not waits or (row, flow, op) == (5, 3, 1)
    kinds = (Awaited.DEPENDENCY, Awaited.MEMORY_READ, Awaited.CREDIT)
    assert counted == [*(awaited == kind for kind in kinds), not waits]


@pytest.mark.slow
def test_every_flit_of_a_staged_contribution_is_progress_and_waiting_for_memory_is_none():
    """A long one may be the only thing that moves, for longer than the watchdog waits."""
    port = Port(CONFIG)
    memory, moved = [0] * 256, []

    async def drive(ctx):
        start(ctx, port)
        for place in range(NUM_FLITS):
            last = place == NUM_FLITS - 1
            put(ctx, port.staged, payload={"address": place, "end": last}, valid=1)
            taken = 0
            while not taken:
                _, _, taken, progress = await ctx.tick().sample(port.staged.ready, port.progress)
                moved.append((taken, progress))
        ctx.set(port.staged.valid, 0)

    late = {"latency": latencies(None, 30)}
    run(
        port,
        drive,
        background=[
            reader(port.memory.fetch, memory, **late),
            writer(port.memory.write, memory, **late),
        ],
    )
    assert all(taken == progress for taken, progress in moved)
    assert sum(taken for taken, _ in moved) == NUM_FLITS < len(moved)
