"""Two ends with virtual channels, on two clocks, with a crossing in between."""

import pytest
from amaranth import DomainRenamer, Module
from amaranth.lib import wiring

from multitree.hw.codes import PERIOD_CYCLES
from multitree.hw.link.crossing import LinkCrossing, crossing_depth
from multitree.hw.link.port import LinkPort
from tests.hw.link.crossing import DOMAINS, FAR, FLIT_BYTES, NEAR
from tests.hw.link.wires import FAULTS, message, offer, plain, take
from tests.hw.streams import process, run, seeded

DEPTH = 6
RATIOS = [(1000, 1000), (1000, 1003), (1000, 290), (310, 1000), (1000, 9700), (9700, 1000)]
"""Periods of both clocks, in nanoseconds."""


class CrossedLink(wiring.Component):
    """An end in each domain."""

    def __init__(self, num_vcs):
        sizes = {"num_vcs": num_vcs, "flit_bytes": FLIT_BYTES}
        ends = {"depth": DEPTH, "submessage_flits": 4}
        self.ends = {domain: LinkPort(**sizes, **ends) for domain in DOMAINS}
        depth = crossing_depth(buffer_flits=DEPTH, num_vcs=num_vcs)
        self.crossing = LinkCrossing(**sizes, depth=depth)
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        near, far = (self.ends[domain] for domain in DOMAINS)
        m.submodules.crossing = crossing = self.crossing
        m.submodules.near = near
        m.submodules.far = DomainRenamer(FAR)(far)
        wiring.connect(m, near.tx, crossing.tx)
        wiring.connect(m, crossing.rx, near.rx)
        wiring.connect(m, far.tx, crossing.link_rx)
        wiring.connect(m, crossing.link_tx, far.rx)
        return m


def sender(end, domain, flits, rng):
    """Send each channel's flits, in the cycles that are drawn."""
    chance, seed = rng.choice([0.5, 1]), rng.random()
    moves = iter(lambda: rng.random() < chance, None)
    return lambda ctx: offer(ctx, end, flits, moves, seed, domain=domain)


@process
async def listener(ctx, end, domain, got, wanted, rng, shut):
    """Take flits of each channel now and then, of those in `shut` only when the others are done."""
    vcs = range(len(end.o))
    while got != wanted:
        others = all(got[vc] == wanted[vc] for vc in vcs if vc not in shut)
        goes = [rng.random() < 0.8 and (vc not in shut or others) for vc in vcs]
        flits, _ = await take(ctx, end.o, goes, domain=domain)
        for vc, taken in enumerate(flits):
            got[vc] += plain(taken)
            assert got[vc] == wanted[vc][: len(got[vc])], f"{domain} channel {vc}"
    await take(ctx, end.o, [False for _ in vcs], domain=domain)


@process
async def watcher(ctx, link, domain, wrong):
    """Add what is lost or wrong to a list."""
    lost = link.crossing.tx_lost if domain == NEAR else link.crossing.link_rx_lost
    strobes = {name: getattr(link.ends[domain], name) for name in FAULTS} | {"lost": lost}
    async for _, _, *now in ctx.tick(domain).sample(*strobes.values()):
        wrong.extend((domain, name) for name, seen in zip(strobes, now, strict=True) if seen)


def exchange(rng, num_vcs, periods, shut=()):
    """Carry messages both ways on all channels; checks order, credits at rest, and no fault."""
    link, wrong = CrossedLink(num_vcs), []
    got = {domain: [[] for _ in range(num_vcs)] for domain in DOMAINS}

    def messages():
        return [flit for _ in range(9) for flit in message(rng, rng.choice([0, 1, 5]))]

    flits = {domain: [messages() for _ in range(num_vcs)] for domain in DOMAINS}
    ends = [sender(end, domain, flits[domain], rng) for domain, end in link.ends.items()]
    for near, far in ((NEAR, FAR), (FAR, NEAR)):
        ends.append(listener(link.ends[far], far, got[near], flits[near], rng, shut))

    async def drive(ctx):
        while got != flits:
            await ctx.tick(FAR)
        for domain in DOMAINS:
            await ctx.tick(domain).repeat(3 * PERIOD_CYCLES)
        for domain, end in link.ends.items():
            credits = [ctx.get(available) for available in end.available]
            assert credits == [DEPTH] * num_vcs, f"{domain} has credits {credits}"

    background = [watcher(link, domain, wrong) for domain in DOMAINS]
    clocks = dict(zip(DOMAINS, (1e-9 * period for period in periods), strict=True))
    run(link, drive, *ends, background=background, clocks=clocks, deadline_cycles=8_000)
    assert not wrong


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("periods", RATIOS)
@pytest.mark.parametrize("num_vcs", [2, 4])
def test_each_channel_keeps_its_order_its_flits_and_its_credits_whatever_the_clocks(
    periods, num_vcs
):
    exchange(seeded(f"{periods} {num_vcs}"), num_vcs, periods)


@pytest.mark.slow
@pytest.mark.parametrize("periods", [RATIOS[1], RATIOS[4], RATIOS[5]])
def test_a_channel_that_nobody_takes_blocks_no_other_through_a_crossing(periods):
    exchange(seeded(f"shut {periods}"), 4, periods, shut=(1, 2))
