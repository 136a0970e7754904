"""Tests of a port on a shared link: what counts as progress."""

from multitree.nic.config import Config
from multitree.nic.shared_port import SharedPort
from tests.hw.streams import run
from tests.nic.blocks import start
from tests.nic.memory import latencies, reader, writer

CONFIG = Config(
    num_ports=1, buffer_flits=16, submessage_flits=4, memory_queue_flits=8, num_classes=1
)
NUM_FLITS = 40


def test_every_flit_of_a_staged_contribution_is_progress_and_waiting_for_memory_is_none():
    """A long one may be the only thing that moves, for longer than the watchdog waits."""
    port = SharedPort(CONFIG, port=0)
    memory, moved = [0] * 256, []

    async def drive(ctx):
        start(ctx, port)
        for place in range(NUM_FLITS):
            last = place == NUM_FLITS - 1
            ctx.set(port.staged.payload, {"address": place, "end": last})
            ctx.set(port.staged.valid, 1)
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
