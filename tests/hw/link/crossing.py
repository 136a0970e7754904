"""A crossing under two clocks, with a driver and a monitor in each direction."""

from dataclasses import dataclass

from amaranth.hdl import ClockDomain, Module, Shape, Value
from amaranth.sim import Simulator

from multitree.hw.link.crossing import LEAST_CROSSING_DEPTH, LINK_DOMAIN, LinkCrossing
from multitree.hw.link.link import LinkSignature
from tests.hw.streams import process

__all__ = ["DOMAINS", "FAR", "FLIT_BYTES", "NEAR", "Bench", "Clock", "random_words"]

FLIT_BYTES = 2
NEAR, FAR = DOMAINS = ("sync", LINK_DOMAIN)


@dataclass(frozen=True)
class Clock:
    """A clock whose edge number k is at `phase + k * period`, in picoseconds."""

    period: int
    phase: int

    def time(self, edge):
        """Picoseconds of an edge."""
        return self.phase + edge * self.period


def flit_widths(num_vcs=1):
    """Bits of everything that travels with a flit, by name."""
    link = LinkSignature(flit_bytes=FLIT_BYTES, num_vcs=num_vcs)
    members = {name: Shape.cast(member.shape).width for name, member in link.members.items()}
    return {name: width for name, width in members.items() if name not in ("valid", "credit")}


def random_words(rng, count, chance=0.5, num_vcs=1):
    """Cycles of a direction, each with a flit, credits of some channels, both or nothing in it."""
    words, widths = [], flit_widths(num_vcs)
    for _ in range(count):
        flit = {name: rng.getrandbits(width) for name, width in widths.items()}
        word = flit if rng.random() < chance else {}
        credit = {"credit": rng.randrange(1, 1 << num_vcs)}
        words.append(word | (credit if rng.random() < chance else {}))
    return words


class Bench:
    """What is put on a crossing, and what comes out of it, in both directions at once.

    Directions are named by the domain that sends. After a run `got` has the words that came out,
    each with the number of the edge, of the reading clock, that saw it, and `lost` counts words.
    """

    def __init__(self, clocks, *, depth=LEAST_CROSSING_DEPTH, num_vcs=1):
        crossing = LinkCrossing(flit_bytes=FLIT_BYTES, depth=depth, num_vcs=num_vcs)
        self._widths = flit_widths(num_vcs)
        top = Module()
        self.domains = {domain: ClockDomain(domain) for domain in DOMAINS}
        top.domains += self.domains.values()
        top.submodules.crossing = crossing
        self._simulator = Simulator(top)
        for domain, clock in clocks.items():
            times = {"period": clock.period * 1e-12, "phase": clock.phase * 1e-12}
            self._simulator.add_clock(**times, domain=domain)
        # The ends of a direction's flits and credits where they are sent, and where they come out.
        near, far = (crossing.tx, crossing.rx), (crossing.link_tx, crossing.link_rx)
        self._ends = {NEAR: (near, far), FAR: (far[::-1], near[::-1])}
        self._lost = {NEAR: crossing.tx_lost, FAR: crossing.link_rx_lost}
        self.got = {NEAR: [], FAR: []}
        self.lost = {NEAR: 0, FAR: 0}

    def run(self, words, *, settle_cycles=50):
        """Put words on both directions, one per cycle, and let all of them come out.

        A word is a flit's fields, or "credit", a bit per virtual channel, or both, or nothing.
        """

        @process
        async def send(ctx, domain):
            await self.put(ctx, domain, words.get(domain, []))
            await ctx.tick(other(domain)).repeat(settle_cycles)

        self.run_testbenches(*map(send, DOMAINS))

    def run_testbenches(self, *testbenches):
        """Run until all testbenches are done, and watch meanwhile."""
        for testbench in testbenches:
            self._simulator.add_testbench(testbench)
        for domain in DOMAINS:
            for watch in (self._watch, self._count_lost):
                self._simulator.add_testbench(process(watch)(domain), background=True)
        self._simulator.run()

    async def put(self, ctx, domain, words):
        """Put a word, or none where it is empty, on one direction in every cycle."""
        flits, credits = self._ends[domain][0]
        for word in [*words, {}]:
            ctx.set(flits.valid, "payload" in word)
            ctx.set(credits.credit, word.get("credit", 0))
            for name in self._widths:
                ctx.set(Value.cast(getattr(flits, name)), word.get(name, 0))
            await ctx.tick(domain)

    async def _watch(self, ctx, domain):
        flits, credits = self._ends[domain][1]
        fields = [Value.cast(getattr(flits, name)) for name in self._widths]
        ticks, edge = ctx.tick(other(domain)).sample(flits.valid, credits.credit, *fields), 0
        async for _, _, valid, credit, *values in ticks:
            word = dict(zip(self._widths, values, strict=True)) if valid else {}
            word |= {"credit": credit} if credit else {}
            if word:
                self.got[domain].append((edge, word))
            edge += 1

    async def _count_lost(self, ctx, domain):
        async for _, _, lost in ctx.tick(domain).sample(self._lost[domain]):
            self.lost[domain] += lost


def other(domain):
    """The domain that reads what this one sends."""
    return FAR if domain == NEAR else NEAR
