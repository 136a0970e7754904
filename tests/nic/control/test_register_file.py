"""Tests of the register file: who may read and write what, and when."""

from types import SimpleNamespace

import pytest

from multitree.nic.control.register_file import RegisterFile, readable, writable
from multitree.nic.driver.registers import (
    ADDRESS,
    FLOW_WINDOW,
    PORT_WINDOW,
    REGISTERS,
    TABLE_WINDOW,
)
from tests.hw.streams import put, run, seeded, simulation_of

DEPTH, FLOWS, PORTS = 12, 6, 3
ACCESS = {register.name: register.access for register in REGISTERS.registers}
ANYTIME = ("COUNT_SELECT", "RESET_SEQUENCE")
COMMIT, START, ACKNOWLEDGE, RESET = 1, 2, 4, 8


class Bus:
    """Makes accesses one after the other and notes everything a write does."""

    def __init__(self, ctx, block):
        self.ctx, self.block = ctx, block
        for number in range(len(block.status)):
            ctx.set(block.status[number], 0xC0DE0000 + number)

    async def access(self, address, data=None):
        """One access; returns data, error and the strobes it caused as (name, values)."""
        ctx, block = self.ctx, self.block
        request, response = block.request, block.response
        put(ctx, request, valid=1, write=data is not None, address=address, data=data or 0)
        seen, cycles, done = SimpleNamespace(strobes=[], data=0, error=0), 0, 0
        while not done:
            _, _, done, seen.data, seen.error, *strobes = await ctx.tick().sample(
                response.done,
                response.data,
                response.error,
                *(block.command, block.changed, block.table_write, block.flow_write),
                *(block.index, block.word, block.data),
            )
            names = ("command", "changed", "table_write", "flow_write")
            place = tuple(strobes[4:])
            seen.strobes += [(n, v, place) for n, v in zip(names, strobes, strict=False) if v]
            cycles += 1
        assert cycles == 3, "an access takes three cycles"
        ctx.set(request.valid, 0)
        await ctx.tick()
        return seen

    async def read(self, name):
        return await self.access(ADDRESS[name])

    async def write(self, name, data):
        return await self.access(ADDRESS[name], data)

    def state(self, locked, start_waits):
        put(self.ctx, self.block, locked=locked, start_waits=start_waits)


SIZES = {"address_width": 20, "table_depth": DEPTH, "num_flows": FLOWS, "num_ports": PORTS}
scenario = simulation_of(lambda: RegisterFile(**SIZES), Bus)
"""A test that is an async function of a bus."""


@pytest.mark.parametrize(
    ("locked", "routes", "waves"), [(0, False, False), (1, False, True), (0, True, False)]
)
@simulation_of(lambda routes, waves: RegisterFile(**SIZES, routes=routes, waves=waves), Bus)
async def test_what_is_read_is_the_status_of_that_register_and_cannot_be_written(
    bus, locked, routes, waves
):
    bus.state(locked, locked)
    for number, name in enumerate(readable(shared=routes, waves=waves)):
        seen = await bus.read(name)
        assert (seen.data, seen.error) == (0xC0DE0000 + number, 0)
        refused = await bus.write(name, 5)
        assert refused.error and not refused.strobes
        assert (await bus.read(name)).data == 0xC0DE0000 + number


@scenario
async def test_what_is_written_stays_and_strobes_its_own_register_only(bus):
    rng = seeded(1)
    values = {name: rng.getrandbits(32) for name in writable()}
    for number, (name, value) in enumerate(values.items()):
        seen = await bus.write(name, value)
        assert not seen.error
        assert [(n, v) for n, v, _ in seen.strobes] == [("changed", 1 << number)]
    for number, (name, value) in enumerate(values.items()):
        seen = await bus.read(name)
        assert (seen.data, seen.error, seen.strobes) == (value, 0, [])
        assert bus.ctx.get(bus.block.config[number]) == value


@scenario
async def test_a_register_for_commands_only_is_refused_and_shows_nothing_when_read(bus):
    names = [name for name, access in ACCESS.items() if access == "wo"]
    assert names
    for name in names:
        await bus.write(name, ACKNOWLEDGE)
        seen = await bus.read(name)
        assert (seen.data, seen.error, seen.strobes) == (0, 1, [])


@pytest.mark.parametrize("start_waits", [0, 1])
@scenario
async def test_settings_written_while_a_commit_or_start_waits_are_refused_and_unchanged(
    bus, start_waits
):
    for name in writable():
        await bus.write(name, 3)
    bus.state(1, start_waits)
    for name in writable():
        seen = await bus.write(name, 7)
        free = name in ANYTIME
        assert (seen.error, bool(seen.strobes)) == (not free, free)
        assert (await bus.read(name)).data == (7 if free else 3)


@pytest.mark.parametrize(
    ("command", "locked", "start_waits", "refused"),
    [
        (COMMIT, 0, 0, False),
        (COMMIT, 1, 0, True),
        (COMMIT, 1, 1, True),
        (START, 0, 0, False),
        (START, 1, 0, False),
        (START, 1, 1, True),
        (ACKNOWLEDGE, 1, 1, False),
        (RESET, 1, 1, False),
        (COMMIT | START, 0, 0, False),
    ],
)
@scenario
async def test_a_command_is_given_once_or_refused(bus, command, locked, start_waits, refused):
    bus.state(locked, start_waits)
    seen = await bus.write("CONTROL", command)
    assert seen.error == refused
    given = [("command", command)] if not refused else []
    assert [(name, value) for name, value, _ in seen.strobes] == given
    assert (await bus.read("CONTROL")).error


@scenario
async def test_every_word_of_every_row_and_flow_is_written_where_it_belongs(bus):
    for window, count, name in (
        (TABLE_WINDOW, DEPTH, "table_write"),
        (FLOW_WINDOW, FLOWS, "flow_write"),
    ):
        for index in range(count):
            for word in range(window.words):
                data = index << 8 | word
                seen = await bus.access(window.address(index, word), data)
                assert not seen.error
                assert seen.strobes == [(name, 1, (index, word, data))]
                assert (await bus.access(window.address(index, word))).error, "write-only"


@pytest.mark.parametrize("locked", [0, 1])
def test_every_counter_of_every_port_is_read_where_it_belongs_and_cannot_be_written(locked):
    block = RegisterFile(**SIZES)

    async def counters(ctx):
        async for _ in ctx.changed(block.index, block.word):
            ctx.set(block.counter, 0xC0DE00 + (ctx.get(block.index) << 4) + ctx.get(block.word))

    async def drive(ctx):
        bus = Bus(ctx, block)
        bus.state(locked, locked)
        for port in range(PORTS):
            for word in range(PORT_WINDOW.words):
                place = PORT_WINDOW.address(port, word)
                seen = await bus.access(place)
                assert (seen.data, seen.error) == (0xC0DE00 + (port << 4) + word, 0)
                refused = await bus.access(place, 1)
                assert refused.error and not refused.strobes

    run(block, drive, background=[counters])


@scenario
async def test_tables_written_while_a_commit_or_start_waits_are_refused(bus):
    for start_waits in range(2):
        bus.state(1, start_waits)
        for window in (TABLE_WINDOW, FLOW_WINDOW):
            seen = await bus.access(window.address(1), 1)
            assert seen.error and not seen.strobes


@pytest.mark.parametrize(
    "address",
    [
        0x05C,
        ADDRESS["STAGED"],
        ADDRESS["FAULT_WAVE"],
        0x0FC,
        PORT_WINDOW.base - 4,
        PORT_WINDOW.base + 4 * PORT_WINDOW.words,
        PORT_WINDOW.base + 32,
        PORT_WINDOW.base + PORT_WINDOW.stride - 4,
        PORT_WINDOW.address(PORTS),
        PORT_WINDOW.address(PORT_WINDOW.count - 1, PORT_WINDOW.words - 1),
        PORT_WINDOW.end,
        0x3FFFC,
        FLOW_WINDOW.base + 20,
        FLOW_WINDOW.base + 28,
        FLOW_WINDOW.address(FLOWS),
        FLOW_WINDOW.address(FLOW_WINDOW.count - 1),
        FLOW_WINDOW.end,
        TABLE_WINDOW.base - 4,
        TABLE_WINDOW.address(DEPTH),
        TABLE_WINDOW.address(TABLE_WINDOW.count - 1, 1),
    ],
    ids=hex,
)
@scenario
async def test_what_does_not_exist_is_an_error_and_changes_nothing(bus, address):
    """A row or flow beyond the memory must not land on another one."""
    for data in (None, 0xFFFFFFFF):
        seen = await bus.access(address, data)
        assert seen.error and not seen.strobes
    for name in writable():
        assert (await bus.read(name)).data == 0


def test_the_map_says_of_every_register_who_may_do_what():
    assert set(ACCESS.values()) == {"ro", "rw", "wo"}
    assert [name for name, access in ACCESS.items() if access == "wo"] == ["CONTROL"]
    assert sorted([*readable(shared=True, waves=True), *writable(), "CONTROL"]) == sorted(ACCESS)
    assert len(writable()) <= 32, "one strobe each"
