"""Tests of table and flow memory: words written, entries read in turn."""

import pytest

from multitree.nic.control.memories import BankedMemory, FlowMemory, TableMemory
from multitree.nic.layouts import FLOW_ENTRY, ROW
from tests.hw.streams import put, run, seeded, simulation_of
from tests.nic.blocks import SMALL, plain

CLIENTS = 4


async def write(ctx, memory, layout, values, bank=0):
    """Write entries of a bank word by word, in any order; that bank is then the active one."""
    ctx.set(memory.bank, 1 - bank)
    for index, value in values:
        bits = layout.const(value).as_value().value
        for word in range(layout.size // 32):
            put(ctx, memory, write=1, index=index, word=word, data=bits >> 32 * word & 0xFFFFFFFF)
            await ctx.tick()
    # What is on the bus without a write strobe changes nothing.
    put(ctx, memory, write=0, data=0xFFFFFFFF)
    await ctx.tick()
    ctx.set(memory.bank, bank)


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


@simulation_of(lambda: TableMemory(SMALL))
async def test_a_row_comes_two_cycles_after_its_address(ctx, memory):
    rng = seeded(1)
    rows = [random_row(rng) for _ in range(SMALL.table_depth)]
    places = list(enumerate(rows))
    rng.shuffle(places)
    await write(ctx, memory, ROW, places)
    order = [rng.randrange(len(rows)) for _ in range(50)]
    await ctx.tick()
    for before, index in zip([0, 0, *order], order, strict=False):
        ctx.set(memory.address, index)
        found = plain(ctx.get(memory.row))
        assert found == rows[before]
        await ctx.tick()


@pytest.mark.parametrize("chance", [0.1, 0.5, 1.0])
def test_every_client_gets_its_own_entry_two_cycles_after_its_turn(chance):
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
                await ctx.tick()
                assert plain(ctx.get(lookup.entry)) == entries[flow]

        return ask

    async def load(ctx):
        places = list(enumerate(entries))
        rng.shuffle(places)
        await write(ctx, memory, FLOW_ENTRY, places)

    run(memory, load, *map(client, memory.lookups))
    assert max(waits) < CLIENTS


@simulation_of(lambda: FlowMemory(SMALL, num_clients=1))
async def test_a_write_changes_one_word_only(ctx, memory):
    before = FLOW_ENTRY.const({}).as_value().value
    expected = before
    for word in (3, 0, 4, 2, 1):
        put(ctx, memory, bank=1, write=1, index=2, word=word, data=0xA0 + word)
        await ctx.tick()
        put(ctx, memory, bank=0, write=0)
        expected |= 0xA0 + word << 32 * word
        put(ctx, memory.lookups[0], valid=1, flow=2)
        await ctx.tick().repeat(2)
        assert ctx.get(memory.lookups[0].entry).as_value().value == expected


@pytest.mark.parametrize("bank", [0, 1])
def test_writes_go_to_the_shadow_bank_and_disturb_no_read_of_the_active_one(bank):
    rng = seeded(bank)
    first = [[rng.getrandbits(32) for _ in range(3)] for _ in range(8)]
    second = [[rng.getrandbits(32) for _ in range(3)] for _ in range(8)]
    memory = BankedMemory(depth=8, num_words=3)

    def whole(words):
        return sum(word << 32 * k for k, word in enumerate(words))

    async def fill(ctx, entries):
        for index, words in enumerate(entries):
            for word, data in enumerate(words):
                put(ctx, memory, write=1, index=index, word=word, data=data)
                yield index, word
        ctx.set(memory.write, 0)

    async def drive(ctx):
        ctx.set(memory.bank, 1 - bank)
        async for _ in fill(ctx, first):
            await ctx.tick()
        ctx.set(memory.bank, bank)
        async for index, word in fill(ctx, second):
            # The entry that is written, and one that is not.
            for address in (index, rng.randrange(8)):
                put(ctx, memory, address=address, shadow_address=index)
                await ctx.tick().repeat(2)
                assert ctx.get(memory.entry) == whole(first[address])
            words = [w if k <= word else 0 for k, w in enumerate(second[index])]
            assert ctx.get(memory.shadow_entry) == whole(words)
            assert (ctx.get(memory.intact), ctx.get(memory.shadow_intact)) == (1, 1)
        ctx.set(memory.bank, 1 - bank)
        for address in range(8):
            put(ctx, memory, address=address, shadow_address=address)
            await ctx.tick().repeat(2)
            assert ctx.get(memory.entry) == whole(second[address])
            assert ctx.get(memory.shadow_entry) == whole(first[address])

    run(memory, drive)


@simulation_of(lambda: BankedMemory(depth=3, num_words=2))
async def test_up_to_three_bits_that_flip_in_a_word_of_either_bank_show_in_every_read_of_its_entry(
    ctx, memory
):
    rng = seeded(2)
    for bank in range(2):
        entries = [rng.getrandbits(64) for _ in range(3)]
        for index, entry in enumerate(entries):
            for word in range(2):
                data = entry >> 32 * word & 0xFFFFFFFF
                put(ctx, memory, bank=bank, write=1, index=index, word=word, data=data)
                await ctx.tick()
        put(ctx, memory, bank=1 - bank, write=0)
        some = [rng.sample(range(39), 2 + number % 2) for number in range(60)]
        words = [[bit] for bit in range(39)] + some
        for number, bits in enumerate(words):
            flips = sum(1 << bit for bit in bits) << 39 * (number % 2)
            content = memory.banks[1 - bank][1]
            ctx.set(content, ctx.get(content) ^ flips)
            for address in range(3):
                put(ctx, memory, address=address, shadow_address=address)
                for now, output in ((1 - bank, memory.intact), (bank, memory.shadow_intact)):
                    ctx.set(memory.bank, now)
                    await ctx.tick().repeat(2)
                    assert ctx.get(output) == (address != 1)
            ctx.set(content, ctx.get(content) ^ flips)


async def assert_reported(ctx, outputs, banks, place, bit):
    """A bit that flips in an entry of a bank shows in that bank's output."""
    for bank, output in zip(banks, outputs, strict=True):
        await ctx.tick().repeat(2)
        assert ctx.get(output) == 1
        ctx.set(bank[place], 1 << bit)
        await ctx.tick().repeat(2)
        assert ctx.get(output) == 0


def test_rows_and_entries_come_with_what_their_check_bits_say():
    memory, flows = TableMemory(SMALL), FlowMemory(SMALL, num_clients=2)

    async def table(ctx):
        put(ctx, memory, address=4, shadow_address=4)
        outputs = memory.intact, memory.shadow_intact
        await assert_reported(ctx, outputs, memory.content.banks, 4, 40)

    async def entries(ctx):
        put(ctx, flows, shadow_address=3)
        put(ctx, flows.lookups[1], valid=1, flow=3)
        outputs = flows.lookups[1].intact, flows.shadow_intact
        await assert_reported(ctx, outputs, flows.content.banks, 3, 160)

    run(memory, table)
    run(flows, entries)
