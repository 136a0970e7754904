"""Two interfaces, and a link on a clock of its own between two crossings."""

import random

import pytest
from amaranth import Elaboratable, Module
from amaranth.lib import wiring

from multitree.hw.crossing import LINK_DOMAIN, LinkCrossing, crossing_depth
from multitree.nic.interface import Interface
from multitree.nic.program import ACKNOWLEDGE, START
from multitree.topology.execute import execute
from tests.nic.pair import (
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


@pytest.mark.parametrize("seed", range(3))
def test_an_all_reduce_over_a_link_of_any_clock_is_right(seed):
    print("seed", seed)
    period = 1e-9 * random.Random(seed).randrange(300, 3000)
    print("period of the link's clock", period)
    buffers = integers(seed, NUM_ELEMENTS)
    memories = [[7] * BASE + words(row, NUM_FLITS) for row in buffers]
    pair, lost = CrossedPair(), []

    def script(rank):
        async def host_of(host):
            await prepare(host, tables(NUM_FLITS)[rank], settings(NUM_FLITS))
            await host.committed()
            for _ in range(2):
                await host.write(START)
                await host.interrupt()
                status = await host.status()
                assert (status["done"], status["fault"]) == (1, 0)
                await host.write(ACKNOWLEDGE)

        return host_of

    def losses(domain):
        async def watch(ctx):
            strobes = [getattr(crossing, LOST[domain]) for crossing in pair.crossings]
            async for _, _, *now in ctx.tick(domain).sample(*strobes):
                lost.extend(now)

        return watch

    clocks = {LINK_DOMAIN: period}
    watched = {
        "background": [lambda _, domain=domain: losses(domain) for domain in LOST],
        "pair": pair,
        "clocks": clocks,
    }
    simulate([script(0), script(1)], memories, stall="seldom", seed=seed, **watched)
    result = execute(SCHEDULE, execute(SCHEDULE, buffers))
    for memory, row in zip(memories, result, strict=True):
        assert memory[BASE : BASE + NUM_FLITS] == words(row, NUM_FLITS)
    assert lost and not any(lost)
