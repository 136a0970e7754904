"""Tests of table and flow memory: words written, entries read in turn."""

import itertools

import pytest

from multitree.nic.layouts import FLOW_ENTRY, ROW
from multitree.nic.memories import FlowMemory, TableMemory
from tests.hw.streams import run
from tests.nic.blocks import SMALL, plain, put, seeded

CLIENTS = 4


async def write(ctx, memory, layout, values):
    """Write entries word by word, in any order, and leave one word alone at the end."""
    for index, value in values:
        bits = layout.const(value).as_value().value
        for word in range(layout.size // 32):
            put(ctx, memory, write=1, index=index, word=word, data=bits >> 32 * word & 0xFFFFFFFF)
            await ctx.tick()
    # What is on the bus without a write strobe changes nothing.
    put(ctx, memory, write=0, data=0xFFFFFFFF)
    await ctx.tick()


def random_row(rng):
    return {"flow": rng.getrandbits(16), "port": rng.getrandbits(4), "op": rng.getrandbits(2)} | {
        "reserved": rng.getrandbits(10),
        "step": rng.getrandbits(16),
        "stage": rng.getrandbits(16),
    }


def random_entry(rng):
    words = {name: rng.getrandbits(32) for name in ("base", "size", "stride")}
    children = [rng.getrandbits(4) for _ in range(8)]
    unused = rng.getrandbits(28)
    return words | {"children": children, "parent": rng.getrandbits(4), "reserved": unused}


def test_a_row_comes_in_the_cycle_after_its_address():
    rng = seeded(1)
    rows = [random_row(rng) for _ in range(SMALL.table_depth)]
    memory = TableMemory(SMALL)

    async def drive(ctx):
        places = list(enumerate(rows))
        rng.shuffle(places)
        await write(ctx, memory, ROW, places)
        order = [rng.randrange(len(rows)) for _ in range(50)]
        for before, index in itertools.pairwise([0, *order]):
            ctx.set(memory.address, index)
            found = plain(ctx.get(memory.row))
            assert found == rows[before]
            await ctx.tick()

    run(memory, drive)


@pytest.mark.parametrize("chance", [0.1, 0.5, 1.0])
def test_every_client_gets_its_own_entry_in_the_cycle_after_its_turn(chance):
    rng = seeded(chance)
    entries = [random_entry(rng) for _ in range(SMALL.num_flows)]
    memory = FlowMemory(SMALL, num_clients=CLIENTS)
    waits = []

    def client(lookup):
        async def ask(ctx):
            # By then everything is written.
            await ctx.tick().repeat(5 * SMALL.num_flows + 1)
            for _ in range(60):
                while rng.random() >= chance:
                    await ctx.tick()
                flow, granted, waited = rng.randrange(SMALL.num_flows), 0, -1
                put(ctx, lookup, valid=1, flow=flow)
                while not granted:
                    _, _, granted = await ctx.tick().sample(lookup.granted)
                    waited += 1
                ctx.set(lookup.valid, 0)
                waits.append(waited)
                assert plain(ctx.get(lookup.entry)) == entries[flow]

        return ask

    async def load(ctx):
        places = list(enumerate(entries))
        rng.shuffle(places)
        await write(ctx, memory, FLOW_ENTRY, places)

    run(memory, load, *map(client, memory.lookups))
    assert max(waits) < CLIENTS


def test_a_write_changes_one_word_only():
    before = FLOW_ENTRY.const({}).as_value().value
    memory = FlowMemory(SMALL, num_clients=1)

    async def drive(ctx):
        expected = before
        for word in (3, 0, 4, 2, 1):
            put(ctx, memory, write=1, index=2, word=word, data=0xA0 + word)
            await ctx.tick()
            ctx.set(memory.write, 0)
            expected |= 0xA0 + word << 32 * word
            put(ctx, memory.lookups[0], valid=1, flow=2)
            await ctx.tick()
            assert ctx.get(memory.lookups[0].entry).as_value().value == expected

    run(memory, drive)
