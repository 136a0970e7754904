"""Two interfaces, and a link on a clock of its own between two crossings."""

import random

import pytest

from multitree.hw.link.crossing import LINK_DOMAIN
from multitree.nic.driver.commands import ACKNOWLEDGE, START
from multitree.nic.driver.faults import FaultCode
from tests.nic.top.pair import BASE, LANES, Pair, images, integers, simulate, summed

NUM_ELEMENTS = 46
NUM_FLITS = -(-NUM_ELEMENTS // LANES)

LOST = {"sync": "tx_lost", LINK_DOMAIN: "link_rx_lost"}
SEEDS = [0, pytest.param(1, marks=pytest.mark.long)]


def simulate_crossed(script, memories, rng, **given):
    """Run hosts over a link of a random clock; no word may be lost."""
    pair, lost = Pair(is_crossed=True), []

    def losses(domain):
        async def watch(ctx):
            strobes = [getattr(crossing, LOST[domain]) for crossing in pair.crossings]
            async for _, _, *now in ctx.tick(domain).sample(*strobes):
                lost.extend(now)

        return lambda _: watch

    period = 1e-9 * rng.randrange(300, 3000)
    print("period of the link's clock", period)
    given |= {"pair": pair, "keep": False, "clocks": {LINK_DOMAIN: period}}
    simulate(script, memories, background=[losses(domain) for domain in LOST], **given)
    assert lost and not any(lost)


async def begin(host):
    """Load, commit, wait for the link, and start the table."""
    await host.prepare(NUM_FLITS)
    await host.committed()
    while not await host.read("LINKS"):
        pass
    await host.write(START)


@pytest.mark.long
@pytest.mark.every_set
@pytest.mark.parametrize("seed", SEEDS)
def test_an_all_reduce_over_a_link_of_any_clock_is_right(seed):
    buffers = integers(seed, NUM_ELEMENTS)
    memories = images(buffers, NUM_FLITS)

    async def script(host):
        for _ in range(2):
            await begin(host)
            await host.ended()
            await host.write(ACKNOWLEDGE)

    simulate_crossed(script, memories, random.Random(seed), stall="seldom", seed=seed)
    assert [memory[: BASE + NUM_FLITS] for memory in memories] == images(
        summed(buffers, 2), NUM_FLITS
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_after_a_reset_in_flight_the_link_comes_up_again_and_the_next_run_is_right(seed):
    rng = random.Random(f"reset {seed}")
    buffers = integers(seed, NUM_ELEMENTS)
    memories, first = images(buffers, NUM_FLITS), images(buffers, NUM_FLITS)
    in_flight_cycles = rng.randrange(5, 60)

    async def script(host):
        await begin(host)
        if host.rank == seed % 2:
            await host.wait(in_flight_cycles)
        else:
            await host.interrupt()
            assert (await host.fault()).code == FaultCode.PEER_RESET
        await host.reset()
        await host.meet()
        memories[host.rank][: BASE + NUM_FLITS] = first[host.rank]
        await host.meet()
        await begin(host)
        await host.ended()

    simulate_crossed(script, memories, rng, seed=seed)
    assert [memory[: BASE + NUM_FLITS] for memory in memories] == images(summed(buffers), NUM_FLITS)
