"""Tests of the guard between a port and memory."""

import itertools

import pytest

from multitree.nic.driver.faults import Awaited, FaultCode
from multitree.nic.top.port import MemoryGuard, Port
from tests.hw.streams import put, seeded, simulation_of
from tests.nic.blocks import SMALL, start

READ, WRITE = Awaited.MEMORY_READ, Awaited.MEMORY_WRITE
AWAITED = {"send": READ, "fetch": READ, "write": WRITE}
CHANNELS = tuple(AWAITED)
END = 1 << SMALL.address_width


def faults(ctx, guard):
    """Fault and what is at fault."""
    return ctx.get(guard.fault), ctx.get(guard.awaited)


on_a_guard = simulation_of(lambda: MemoryGuard(SMALL))


async def settle(ctx, guard, base, flits):
    """Let a guard know its window."""
    put(ctx, guard.run, window_base=base, window_flits=flits)
    await ctx.tick()


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize(("base", "flits"), [(0, 0), (0, END - 1), (5, 20), (1000, 24), (1, 1)])
@on_a_guard
async def test_an_access_passes_if_and_only_if_it_is_in_the_window(ctx, guard, name, base, flits):
    await settle(ctx, guard, base, flits)
    inner, outer = getattr(guard.inner, name), getattr(guard.outer, name)
    kind = AWAITED[name]
    for address, ready in itertools.product(range(END), (0, 1)):
        inside = base <= address < base + flits
        put(ctx, inner, valid=1, address=address)
        put(ctx, outer, ready=ready)
        assert ctx.get(outer.valid) == inside
        assert ctx.get(inner.ready) == (inside and ready)
        if inside:
            assert ctx.get(outer.address) == address
        await ctx.tick()
        assert faults(ctx, guard) == ((0, 0) if inside else (FaultCode.OUT_OF_WINDOW, kind))
        put(ctx, inner, valid=0)
        assert ctx.get(outer.valid) == 0
        await ctx.tick()
        assert ctx.get(guard.fault) == 0


@on_a_guard
async def test_data_and_answers_pass_as_they_are(ctx, guard):
    rng = seeded(3)
    await settle(ctx, guard, 0, 10)
    for name in CHANNELS:
        inner, outer = getattr(guard.inner, name), getattr(guard.outer, name)
        forth, back = {"data": rng.getrandbits(64)}, {"ack": 1}
        if name != "write":
            forth, back = {}, {"data_valid": 1, "data": rng.getrandbits(64)}
        put(ctx, inner, **forth)
        put(ctx, outer, **back)
        assert {label: ctx.get(getattr(outer, label)) for label in forth} == forth
        assert {label: ctx.get(getattr(inner, label)) for label in back} == back
    assert ctx.get(guard.fault) == 0


@pytest.mark.parametrize("name", CHANNELS)
@on_a_guard
async def test_an_error_of_memory_is_a_fault_whatever_else_is_one(ctx, guard, name):
    await settle(ctx, guard, 0, 10)
    put(ctx, getattr(guard.outer, name), error=1)
    assert faults(ctx, guard) == (FaultCode.MEMORY_ERROR, AWAITED[name])
    for other in CHANNELS:
        put(ctx, getattr(guard.inner, other), valid=1, address=10)
        await ctx.tick()
        assert faults(ctx, guard) == (FaultCode.MEMORY_ERROR, AWAITED[name])


@pytest.mark.parametrize(("base", "size"), [(12, 1), (10, 3)])
@simulation_of(lambda: Port(SMALL))
async def test_a_port_sends_nothing_of_a_chunk_that_its_window_does_not_hold(ctx, port, base, size):
    """The window is flits 8 to 19, the base relative to it: what lies inside is read."""
    read, found = [], set()
    start(ctx, port, window_base=8, window_flits=12)
    put(ctx, port.memory.send, ready=1)
    put(ctx, port.jobs, valid=1, payload={"base": base, "size": size, "need_port": 15})
    channel = port.memory.send
    for _ in range(30):
        _, _, valid, address, *fault = await ctx.tick().sample(
            channel.valid, channel.address, port.fault, port.fault_awaited
        )
        ctx.set(port.jobs.valid, 0)
        read.extend([address] * valid)
        found.add(tuple(fault))
    assert read == list(range(8 + base, 20))
    assert found == {(0, 0), (FaultCode.OUT_OF_WINDOW, READ)}
