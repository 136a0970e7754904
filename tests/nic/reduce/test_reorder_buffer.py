"""The reorder buffer: which flits are read back, and where they are added."""

import pytest

from multitree.nic.layouts import FLOW_ENTRY
from multitree.nic.reduce.reorder_buffer import ReorderBuffer
from tests.hw.streams import go, put, receive, run, seeded
from tests.nic.memory import latencies, reader
from tests.nic.receive.shared_receivers import BASE, CONFIG, flow_entry

SIZE, STAGING, CHUNK, CHILDREN = 4, 60, 30, 3


@pytest.mark.parametrize("stall", ["never", "often"])
def test_a_contribution_comes_from_its_slot_and_goes_to_its_chunk(stall):
    """Both are within the window: an offset that is left out, or taken away, is seen."""
    block, rng, reads = ReorderBuffer(CONFIG), seeded(stall), []
    memory = [rng.getrandbits(8 * CONFIG.flit_bytes) for _ in range(1 << CONFIG.address_width)]
    entry = flow_entry(base=CHUNK, size=SIZE, staging=STAGING, num_children=CHILDREN)
    got = []

    async def drive(ctx):
        put(ctx, block.run, running=1, window_base=BASE)
        put(ctx, block.lookup, granted=1, intact=1, entry=FLOW_ENTRY.const(entry))
        for order in (2, 1):
            put(ctx, block.jobs, payload={"flow": 1, "order": order}, valid=1)
            await ctx.tick().until(block.jobs.ready)
            ctx.set(block.jobs.valid, 0)
            got.extend(await receive(ctx, block.items, SIZE, go(stall, order)))

    memory_reads = reader(block.read, memory, latency=latencies(rng, 9), taken=reads)
    run(block, drive, background=[memory_reads])
    places = [(order, place) for order in (2, 1) for place in range(SIZE)]
    slots = [BASE + STAGING + order * SIZE + place for order, place in places]
    assert [address for _, address in reads] == slots
    assert [item.payload for item in got] == [memory[slot] for slot in slots]
    assert [item.address for item in got] == [BASE + CHUNK + place for _, place in places]
    assert [(item.mark.order, item.end) for item in got] == [
        (order, place == SIZE - 1) for order, place in places
    ]
    assert [item.mark.final for item in got] == [order == CHILDREN - 1 for order, _ in places]
