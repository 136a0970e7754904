"""Between two unrelated clocks no flit or credit is lost, doubled or overtaken."""

import random
import re

import pytest

from multitree.hw.export.verilog import generate
from multitree.hw.link.crossing import (
    LEAST_CROSSING_DEPTH,
    LINK_DOMAIN,
    LinkCrossing,
    crossing_depth,
)
from tests.hw.link.crossing import DOMAINS, FAR, NEAR, Bench, Clock, random_words
from tests.hw.streams import assert_refused, seeded

SEEDS = range(5)


def random_clocks(rng):
    """Two clocks of any ratio from 1:5 to 5:1 and any phase."""
    periods = [2 * rng.randrange(500, 2500) for _ in DOMAINS]
    clocks = {d: Clock(p, rng.randrange(1, p)) for d, p in zip(DOMAINS, periods, strict=True)}
    print(clocks)
    return clocks


def words_of(got):
    return [word for _, word in got]


def present(words):
    return [word for word in words if word]


@pytest.mark.slow
@pytest.mark.parametrize("num_vcs", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("seed", SEEDS)
def test_flits_and_credits_arrive_once_and_in_the_order_sent_whatever_the_clocks(seed, num_vcs):
    rng = seeded(seed)
    bench = Bench(random_clocks(rng), depth=256, num_vcs=num_vcs)
    words = {
        domain: random_words(rng, 250, chance=rng.random(), num_vcs=num_vcs) for domain in DOMAINS
    }
    bench.run(words, settle_cycles=300)
    for domain in DOMAINS:
        assert words_of(bench.got[domain]) == present(words[domain])
    assert bench.lost == {NEAR: 0, FAR: 0}


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("slower_percent", [0, 1, 37, 250])
def test_a_flit_per_cycle_goes_to_a_clock_that_is_not_slower_through_the_least_depth(
    seed, slower_percent
):
    rng = seeded(f"{seed} {slower_percent}")
    reading = 2 * rng.randrange(500, 1500)
    writing = reading + reading * slower_percent // 100
    clocks = {NEAR: Clock(writing, rng.randrange(1, writing))}
    clocks[FAR] = Clock(reading, rng.randrange(1, reading))
    bench = Bench(clocks)
    words = random_words(rng, 200, chance=1)
    bench.run({NEAR: words})
    assert words_of(bench.got[NEAR]) == words and bench.lost[NEAR] == 0
    edges = [edge for edge, _ in bench.got[NEAR]]
    assert (edges[-1] - edges[0]) * reading <= (len(words) - 1) * writing + reading


def test_a_slower_clock_reads_a_word_in_every_cycle():
    bench = Bench({NEAR: Clock(1000, 300), FAR: Clock(2300, 900)}, depth=256)
    words = random_words(random.Random(0), 200, chance=1)
    bench.run({NEAR: words}, settle_cycles=200)
    edges = [edge for edge, _ in bench.got[NEAR]]
    assert edges == [*range(edges[0], edges[0] + 200)]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("domain", DOMAINS)
def test_latency_is_three_cycles_of_the_reading_clock_less_the_phase(seed, domain):
    rng = seeded(seed)
    clocks = random_clocks(rng)
    bench = Bench(clocks)
    bench.run({domain: [{}] * 5 + [{"credit": 1}]})
    ((edge, word),) = bench.got[domain]
    (reading,) = [clock for name, clock in clocks.items() if name != domain]
    taken = clocks[domain].time(5)
    # The edge at which the output changes is the one before the edge that sees it.
    assert 2 * reading.period < reading.time(edge - 1) - taken <= 3 * reading.period
    assert word == {"credit": 1}


@pytest.mark.parametrize("domain", DOMAINS)
def test_words_that_find_no_place_are_lost_whole_and_each_is_reported(domain):
    periods = {domain: 1000, FAR if domain == NEAR else NEAR: 7300}
    clocks = {name: Clock(period, 400) for name, period in periods.items()}
    bench = Bench(clocks)
    words = random_words(random.Random(1), 100, chance=1)
    bench.run({domain: words})
    got = words_of(bench.got[domain])
    assert bench.lost[domain] == len(words) - len(got) > 0
    rest = iter(words)
    assert all(word in rest for word in got)


@pytest.mark.parametrize(("buffer_flits", "num_vcs"), [(40, 1), (40, 2), (16, 4), (11, 8)])
def test_the_depth_for_all_ratios_holds_all_that_credits_let_go(buffer_flits, num_vcs):
    # The worst that can come: every flit, then every credit alone, while the far clock hardly
    # moves; half the depth does not do.
    credits = buffer_flits * num_vcs
    depth = crossing_depth(buffer_flits=buffer_flits, num_vcs=num_vcs)
    flits = [
        {k: v for k, v in w.items() if k != "credit"}
        for w in random_words(random.Random(2), credits, chance=1, num_vcs=num_vcs)
    ]
    control = [flits[0], *[{}] * 15] * 2
    back = [{"credit": 1 << vc} for vc in range(num_vcs) for _ in range(buffer_flits)]
    for places in (depth, depth // 2):
        clocks = {NEAR: Clock(1000, 300), FAR: Clock(9900, 5000)}
        bench = Bench(clocks, depth=places, num_vcs=num_vcs)
        bench.run({NEAR: [*flits, *back, *control]}, settle_cycles=2 * credits + 40)
        assert (bench.lost[NEAR] == 0) == (places == depth)
        assert len(bench.got[NEAR]) + bench.lost[NEAR] == 2 * credits + 2


@pytest.mark.parametrize("seed", SEEDS)
def test_after_a_reset_of_both_sides_only_new_words_come_out(seed):
    rng = seeded(seed)
    bench = Bench(random_clocks(rng), depth=64)
    old, new = random_words(rng, 40), present(random_words(rng, 40))
    marks = []

    async def set_resets(ctx, value):
        for domain in DOMAINS:
            ctx.set(bench.domains[domain].rst, value)
        for domain in DOMAINS:
            for _ in range(4):
                await ctx.tick(domain)

    async def reset(ctx):
        await bench.put(ctx, NEAR, old)
        await set_resets(ctx, 1)
        marks.append(len(bench.got[NEAR]))
        await set_resets(ctx, 0)
        await bench.put(ctx, NEAR, new)
        await ctx.tick(FAR).repeat(100)

    bench.run_testbenches(reset)
    assert words_of(bench.got[NEAR])[marks[0] :] == new
    assert words_of(bench.got[NEAR])[: marks[0]] == present(old)[: marks[0]]


@pytest.mark.parametrize(
    ("buffer_flits", "depth"), [(1, 16), (8, 16), (9, 32), (400, 1024), (512, 1024), (513, 2048)]
)
def test_the_depth_is_the_power_of_two_that_holds_both_directions_credits(buffer_flits, depth):
    assert crossing_depth(buffer_flits=buffer_flits) == depth
    for num_vcs in (2, 4):
        as_many = buffer_flits * num_vcs
        fits = crossing_depth(buffer_flits=buffer_flits, num_vcs=num_vcs)
        assert fits == crossing_depth(buffer_flits=as_many)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinkCrossing(flit_bytes=0, depth=16), "Flit bytes must be at least 1, not 0"),
        (lambda: LinkCrossing(flit_bytes=4, depth=8), "Depth must be at least 16, not 8"),
        (lambda: LinkCrossing(flit_bytes=4, depth=24), "Depth must be a power of two, not 24"),
        (lambda: LinkCrossing(flit_bytes=4, depth=16, num_vcs=9), "VCs must be from 1 to 8, not 9"),
        (lambda: crossing_depth(buffer_flits=0), "Buffer flits must be at least 1, not 0"),
        (lambda: crossing_depth(buffer_flits=1, num_vcs=0), "VCs must be at least 1, not 0"),
    ],
)
def test_a_wrong_size_is_named(make, message):
    assert_refused(make, ValueError, message)


def test_headers_name_their_ports_in_order_however_the_clocks_come():
    crossing = LinkCrossing(flit_bytes=16, depth=LEAST_CROSSING_DEPTH)
    text = generate(crossing, name="crossing", domains=(LINK_DOMAIN,))
    inner = [header.split(", ") for header in re.findall(r"^module \\\S+ \((.*)\);$", text, re.M)]
    assert inner
    assert all(ports == sorted(ports) for ports in inner)
