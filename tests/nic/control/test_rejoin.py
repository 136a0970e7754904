"""Tests of two interfaces of which one is reset between collectives."""

import pytest

from multitree.nic.driver.commands import ACKNOWLEDGE, START, reset_writes
from multitree.nic.driver.faults import FaultCode
from multitree.nic.driver.formats import sequence_width
from multitree.topology.collectives import Op
from tests.nic.top.pair import (
    BASE,
    CONFIG,
    LANES,
    by_hand,
    idle,
    images,
    integers,
    simulate,
    summed,
    words,
)

NUMBERS = 1 << sequence_width(CONFIG)
COUNT = 11
NUM_FLITS = -(-COUNT // LANES)
BROADCAST = by_hand([(0, Op.GATHER, 0, 0, 1)], collective="broadcast", root=0)


async def reset(host, sequence):
    """Reset an interface, and see that it goes on with a number."""
    await host.reset(*reset_writes(sequence))
    assert await host.read("SEQUENCE") == sequence % NUMBERS


async def run_once(host):
    """Run the committed table, and give the done back."""
    await host.run()
    await host.write(ACKNOWLEDGE)


async def committed(host, **given):
    """Load a table, and wait until it is checked."""
    await host.prepare(NUM_FLITS, **given)
    await host.committed()


async def delivered(host):
    """Wait until all that was sent is taken at the other end."""
    while not (await host.status())["delivered"]:
        pass


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize(("first", "before"), [(0, 1), (0, 2), (NUMBERS - 2, 1), (NUMBERS - 2, 2)])
@pytest.mark.parametrize("stall", ["never", "often"])
def test_a_card_that_is_reset_between_collectives_rejoins_and_all_results_are_exact(
    first, before, stall
):
    """After an even and an odd number of collectives, also where the number goes round."""
    buffers = integers(7, COUNT)
    memories = images(buffers, NUM_FLITS)

    async def script(host):
        await reset(host, first)
        await host.meet()
        for part in range(2):
            if host.rank == 1 or part == 0:
                await committed(host)
            for _ in range(before):
                await run_once(host)
            await delivered(host)
            await host.meet()
            number = (first + before * (part + 1)) % NUMBERS
            assert await host.read("SEQUENCE") == number
            if host.rank == 1:
                await reset(host, number)
            await host.meet()

    simulate(script, memories, stall=stall)
    result = images(summed(buffers, 2 * before), NUM_FLITS)
    assert [memory[: BASE + NUM_FLITS] for memory in memories] == result


@pytest.mark.slow
def test_a_card_that_is_reset_alone_and_does_not_rejoin_is_a_named_fault():
    found = []

    async def script(host):
        for part in range(2):
            if host.rank == 1 or part == 0:
                await committed(host)
            if part == 0:
                await run_once(host)
            await delivered(host)
            await host.meet()
            if host.rank == 1 and part == 0:
                await reset(host, 0)
            await host.meet()
        await host.write(START)
        await host.interrupt()
        found.append((await host.fault()).code)

    simulate(script, [[], []])
    assert FaultCode.STALE_SEQUENCE in found


@pytest.mark.slow
def test_done_is_not_delivered_before_the_leaf_of_a_broadcast_has_taken_all():
    """What waits in the leaf's link buffer would be lost with a reset of the root or the leaf."""
    seen, buffers = [], integers(3, COUNT)
    memories = images(buffers, NUM_FLITS)

    async def script(host):
        await committed(host, schedule=BROADCAST)
        assert (await host.status())["delivered"] == 1
        if host.rank == 0:
            await host.write(START)
            await host.interrupt()
            await host.wait(300)
            seen.append(await host.status())
        await host.meet()
        if host.rank == 1:
            await run_once(host)
        await host.meet()
        await host.wait(20)
        seen.append(await host.status())

    simulate(script, memories)
    assert (seen[0]["done"], seen[0]["busy"], seen[0]["delivered"]) == (1, 0, 0)
    assert [status["delivered"] for status in seen[1:]] == [1, 1]
    assert memories[1][BASE : BASE + NUM_FLITS] == words(buffers[0], NUM_FLITS)


@pytest.mark.slow
def test_nothing_is_delivered_while_a_collective_runs_or_after_a_fault():
    seen = []

    async def alone(host):
        await committed(host, first_arrival_cycles=400)
        await host.write(START)
        await host.wait(100)
        seen.append(await host.status())
        await host.interrupt()
        seen.append(await host.status())
        await reset(host, 5)
        seen.append(await host.status())

    simulate([alone, idle], [[], []])
    reported = [(status["busy"], status["fault"], status["delivered"]) for status in seen]
    assert reported == [(1, 0, 0), (0, 1, 0), (0, 0, 1)]
