"""Two interfaces, and a link on a clock of its own between two crossings."""

import random

import pytest
from amaranth import Elaboratable, Module
from amaranth.lib import wiring

from multitree.hw.link.crossing import LINK_DOMAIN, LinkCrossing, crossing_depth
from multitree.nic.driver.commands import ACKNOWLEDGE, RESET, START
from multitree.nic.driver.faults import FaultCode
from multitree.nic.interface import Interface
from multitree.topology.schedules.execute import execute
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

NUM_ELEMENTS = 46
NUM_FLITS = -(-NUM_ELEMENTS // LANES)

LOST = {"sync": "tx_lost", LINK_DOMAIN: "link_rx_lost"}
SEEDS = [0, pytest.param(1, marks=pytest.mark.long)]


class CrossedPair(Elaboratable):
    """Two interfaces on one clock, and between them a link on another."""

    def __init__(self):
        self.ranks = [Interface(CONFIG), Interface(CONFIG)]
        depth = crossing_depth(buffer_flits=CONFIG.buffer_flits)
        sizes = {"flit_bytes": CONFIG.flit_bytes, "depth": depth}
        self.crossings = [LinkCrossing(**sizes), LinkCrossing(**sizes)]

    def elaborate(self, platform):
        """Join each interface to its crossing, and the crossings to each other."""
        m = Module()
        m.submodules.rank_0, m.submodules.rank_1 = self.ranks
        m.submodules.crossing_0, m.submodules.crossing_1 = self.crossings
        for interface, crossing in zip(self.ranks, self.crossings, strict=True):
            wiring.connect(m, interface.link[0].tx, crossing.tx)
            wiring.connect(m, crossing.rx, interface.link[0].rx)
        for here, there in (self.crossings, self.crossings[::-1]):
            wiring.connect(m, here.link_tx, there.link_rx)
        return m


def watched(pair, lost, rng):
    """How `simulate` runs a pair with a link of a random clock, and notes every word lost."""

    def losses(domain):
        async def watch(ctx):
            strobes = [getattr(crossing, LOST[domain]) for crossing in pair.crossings]
            async for _, _, *now in ctx.tick(domain).sample(*strobes):
                lost.extend(now)

        return lambda _: watch

    period = 1e-9 * rng.randrange(300, 3000)
    print("period of the link's clock", period)
    background = [losses(domain) for domain in LOST]
    return {"pair": pair, "clocks": {LINK_DOMAIN: period}, "background": background}


async def run_once(host, rank):
    """Load, commit, wait for the link, and run the table."""
    await prepare(host, tables(NUM_FLITS)[rank], settings(NUM_FLITS))
    await host.committed()
    while not await host.read("LINKS"):
        pass
    await host.write(START)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_an_all_reduce_over_a_link_of_any_clock_is_right(seed):
    print("seed", seed)
    buffers, lost = integers(seed, NUM_ELEMENTS), []
    memories = [[7] * BASE + words(row, NUM_FLITS) for row in buffers]

    def script(rank):
        async def host_of(host):
            for _ in range(2):
                await run_once(host, rank)
                await host.interrupt()
                status = await host.status()
                assert (status["done"], status["fault"]) == (1, 0)
                await host.write(ACKNOWLEDGE)

        return host_of

    how = watched(CrossedPair(), lost, random.Random(seed))
    simulate([script(0), script(1)], memories, stall="seldom", seed=seed, **how)
    result = execute(SCHEDULE, execute(SCHEDULE, buffers))
    for memory, row in zip(memories, result, strict=True):
        assert memory[BASE : BASE + NUM_FLITS] == words(row, NUM_FLITS)
    assert lost and not any(lost)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_after_a_reset_in_flight_the_link_comes_up_again_and_the_next_run_is_right(seed):
    print("seed", seed)
    rng = random.Random(f"reset {seed}")
    buffers, lost, resets, idle = integers(seed, NUM_ELEMENTS), [], [], []
    memories = [[7] * BASE + words(row, NUM_FLITS) for row in buffers]
    in_flight_cycles = rng.randrange(5, 60)

    async def reset(host):
        await host.write(RESET)
        while (await host.status())["busy"]:
            pass
        resets.append(host)

    def script(rank):
        async def host_of(host):
            await run_once(host, rank)
            if rank == seed % 2:
                await host.wait(in_flight_cycles)
            else:
                await host.interrupt()
                assert (await host.fault()).code == FaultCode.PEER_RESET
            await reset(host)
            while len(resets) < 2:
                await host.wait(1)
            memories[rank][BASE : BASE + NUM_FLITS] = words(buffers[rank], NUM_FLITS)
            idle.append(rank)
            while len(idle) < 2:
                await host.wait(1)
            await run_once(host, rank)
            await host.interrupt()
            assert (await host.status())["done"]

        return host_of

    how = watched(CrossedPair(), lost, rng)
    simulate([script(0), script(1)], memories, seed=seed, **how)
    for memory, row in zip(memories, execute(SCHEDULE, buffers), strict=True):
        assert memory[BASE : BASE + NUM_FLITS] == words(row, NUM_FLITS)
    assert lost and not any(lost)
