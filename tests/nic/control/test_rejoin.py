"""Tests of two interfaces of which one is reset between collectives."""

import pytest

from multitree.nic.driver.commands import ACKNOWLEDGE, START, reset_writes
from multitree.nic.driver.faults import FaultCode
from multitree.nic.driver.formats import sequence_width
from multitree.topology.collectives import Op
from multitree.topology.families.direct import ring
from multitree.topology.schedules.execute import execute
from multitree.topology.schedules.schedule import Schedule
from tests.nic.top.pair import (
    BASE,
    CONFIG,
    LANES,
    SCHEDULE,
    integers,
    prepare,
    settings,
    simulate,
    tables,
    words,
)

NUMBERS = 1 << sequence_width(CONFIG)
COUNT = 11
NUM_FLITS = -(-COUNT // LANES)
BROADCAST = Schedule.from_rows(
    ring(2),
    algorithm="by hand",
    collective="broadcast",
    root=0,
    flow_offsets=[0, 1],
    rows=[(0, Op.GATHER, 0, 0, 1)],
)


async def reset(host, sequence):
    """Reset an interface, and see that it goes on with a number."""
    await host.write(*reset_writes(sequence))
    while (await host.status())["busy"]:
        pass
    assert await host.read("SEQUENCE") == sequence % NUMBERS


async def run_once(host):
    """Run the committed table, and give the done back."""
    await host.write(START)
    await host.interrupt()
    status = await host.status()
    assert (status["done"], status["fault"]) == (1, 0)
    await host.write(ACKNOWLEDGE)


async def delivered(host):
    """Wait until all that was sent is taken at the other end."""
    while not (await host.status())["delivered"]:
        pass


class Meeting:
    """Lets the scripts of two hosts wait for each other."""

    def __init__(self):
        self._came = [0, 0]

    async def all(self, host, rank):
        """Wait until both have come here as often."""
        self._came[rank] += 1
        while self._came[1 - rank] < self._came[rank]:
            await host.wait(1)


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize(("first", "before"), [(0, 1), (0, 2), (NUMBERS - 2, 1), (NUMBERS - 2, 2)])
@pytest.mark.parametrize("stall", ["never", "often"])
def test_a_card_that_is_reset_between_collectives_rejoins_and_all_results_are_exact(
    first, before, stall
):
    """After an even and an odd number of collectives, also where the number goes round."""
    meeting, buffers = Meeting(), integers(7, COUNT)
    memories = [[7] * BASE + words(row, NUM_FLITS) for row in buffers]

    def script(rank):
        async def host_of(host):
            await reset(host, first)
            await meeting.all(host, rank)
            for part in range(2):
                if rank == 1 or part == 0:
                    await prepare(host, tables(NUM_FLITS)[rank], settings(NUM_FLITS))
                    await host.committed()
                for _ in range(before):
                    await run_once(host)
                await delivered(host)
                await meeting.all(host, rank)
                number = (first + before * (part + 1)) % NUMBERS
                assert await host.read("SEQUENCE") == number
                if rank == 1:
                    await reset(host, number)
                await meeting.all(host, rank)

        return host_of

    simulate([script(0), script(1)], memories, stall=stall)
    for _ in range(2 * before):
        buffers = execute(SCHEDULE, buffers, flit_bytes=8)
    for row, memory in zip(buffers, memories, strict=True):
        assert memory[: BASE + NUM_FLITS] == [7] * BASE + words(row, NUM_FLITS)


@pytest.mark.slow
def test_a_card_that_is_reset_alone_and_does_not_rejoin_is_a_named_fault():
    meeting, found = Meeting(), []

    def script(rank):
        async def host_of(host):
            for part in range(2):
                if rank == 1 or part == 0:
                    await prepare(host, tables(NUM_FLITS)[rank], settings(NUM_FLITS))
                    await host.committed()
                if part == 0:
                    await run_once(host)
                await delivered(host)
                await meeting.all(host, rank)
                if rank == 1 and part == 0:
                    await reset(host, 0)
                await meeting.all(host, rank)
            await host.write(START)
            await host.interrupt()
            found.append((await host.fault()).code)

        return host_of

    simulate([script(0), script(1)], [[], []])
    assert FaultCode.STALE_SEQUENCE in found


@pytest.mark.slow
def test_done_is_not_delivered_before_the_leaf_of_a_broadcast_has_taken_all():
    """What waits in the leaf's link buffer would be lost with a reset of the root or the leaf."""
    seen, started, buffers = [], Meeting(), integers(3, COUNT)
    memories = [[7] * BASE + words(row, NUM_FLITS) for row in buffers]

    def script(rank):
        async def host_of(host):
            await prepare(host, tables(NUM_FLITS, BROADCAST)[rank], settings(NUM_FLITS))
            await host.committed()
            assert (await host.status())["delivered"] == 1
            if rank == 0:
                await host.write(START)
                await host.interrupt()
                await host.wait(300)
                seen.append(await host.status())
            await started.all(host, rank)
            if rank == 1:
                await run_once(host)
            await started.all(host, rank)
            await host.wait(20)
            seen.append(await host.status())

        return host_of

    simulate([script(0), script(1)], memories)
    assert (seen[0]["done"], seen[0]["busy"], seen[0]["delivered"]) == (1, 0, 0)
    assert [status["delivered"] for status in seen[1:]] == [1, 1]
    assert memories[1][BASE : BASE + NUM_FLITS] == words(buffers[0], NUM_FLITS)


@pytest.mark.slow
def test_nothing_is_delivered_while_a_collective_runs_or_after_a_fault():
    seen = []

    async def alone(host):
        limits = {"first_arrival_cycles": 400}
        await prepare(host, tables(NUM_FLITS)[0], settings(NUM_FLITS, **limits))
        await host.committed()
        await host.write(START)
        await host.wait(100)
        seen.append(await host.status())
        await host.interrupt()
        seen.append(await host.status())
        await reset(host, 5)
        seen.append(await host.status())

    async def idle(host):
        await host.wait(1)

    simulate([alone, idle], [[], []])
    reported = [(status["busy"], status["fault"], status["delivered"]) for status in seen]
    assert reported == [(1, 0, 0), (0, 1, 0), (0, 0, 1)]
