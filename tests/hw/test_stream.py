"""Tests of the elastic elements of streams, and of a count of what is left."""

import contextlib
import itertools
import random

import pytest
from amaranth import Elaboratable, Module, Signal
from amaranth.lib import data

from multitree.hw.check_bits import Checked
from multitree.hw.stream import CutFifo, Fifo, QuickFifo, Register, counted_down
from tests.hw.streams import (
    PATTERNS,
    accepted,
    assert_no_path,
    assert_refused,
    go,
    process,
    put,
    receive,
    run,
    seeded,
    send,
    simulation,
    simulation_of,
    transport,
)

BLOCKS = {
    "register": (lambda: Register(shape=16), 1),
    **{f"fifo {d}": (lambda d=d: Fifo(shape=16, depth=d), 2) for d in (2, 3, 8)},
    **{f"quick fifo {d}": (lambda d=d: QuickFifo(shape=16, depth=d), 1) for d in (3, 8)},
    **{f"cut fifo {d}": (lambda d=d: CutFifo(shape=16, depth=d), 1) for d in (3, 8)},
    "checked register": (lambda: Checked(Register, shape=16), 1),
    "checked fifo 3": (lambda: Checked(Fifo, shape=16, depth=3), 2),
    "checked quick fifo 3": (lambda: Checked(QuickFifo, shape=16, depth=3), 1),
    "checked cut fifo 3": (lambda: Checked(CutFifo, shape=16, depth=3), 1),
}
"""A way to make each, and its latency in cycles."""
STALLS = list(itertools.product(PATTERNS, PATTERNS))


@pytest.fixture(params=BLOCKS)
def block(request):
    make, _ = BLOCKS[request.param]
    return make()


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize(("stall_i", "stall_o"), STALLS)
def test_what_comes_out_is_what_went_in(block, stall_i, stall_o):
    rng = random.Random(4)
    payloads = [rng.getrandbits(16) for _ in range(150)]
    assert transport(block, payloads, stall_i=stall_i, stall_o=stall_o) == payloads


def take_over(block, count):
    """Cycles in which `count` payloads are taken at the input and at the output, unstalled."""
    went, came = [], []

    async def producer(ctx):
        await send(ctx, block.i, range(count), go("never", 0), times=went)

    async def consumer(ctx):
        assert await receive(ctx, block.o, count, go("never", 0), times=came) == list(range(count))

    run(block, producer, consumer)
    return went, came


@pytest.mark.parametrize("name", BLOCKS)
def test_latency_and_throughput_are_as_documented(name):
    make, latency_cycles = BLOCKS[name]
    went, came = take_over(make(), 20)
    cycles_per_payload = 2 if name == "fifo 2" else 1
    assert went == [cycles_per_payload * k for k in range(20)]
    assert came == [cycle + latency_cycles for cycle in went]


def test_no_path_leads_through_a_block(block):
    outputs = [block.o.valid, block.o.payload, block.i.ready]
    assert_no_path(block, [block.i.valid, block.i.payload, block.o.ready], outputs)


@simulation
async def capacity(ctx, block):
    """Payloads that go in while none comes out."""
    return sum(await accepted(ctx, block.i, 40))


def test_a_register_holds_two_payloads_and_a_cut_fifo_two_more_than_its_depth():
    assert capacity(Register(shape=4)) == 2
    assert [capacity(CutFifo(shape=4, depth=depth)) for depth in (3, 8)] == [5, 10]


@pytest.mark.parametrize(("kind", "is_cut"), [(CutFifo, True), (QuickFifo, False)])
def test_only_in_a_cut_fifo_the_memory_does_not_wait_for_the_consumer(monkeypatch, kind, is_cut):
    inner = Fifo(shape=16, depth=4)
    monkeypatch.setattr("multitree.hw.stream.Fifo", lambda **sizes: inner)
    block = kind(shape=16, depth=4)
    with contextlib.nullcontext() if is_cut else pytest.raises(AssertionError):
        assert_no_path(block, [block.i.valid, block.i.payload, block.o.ready], [inner.o.ready])


@pytest.mark.parametrize(
    ("kind", "depth", "holds"),
    [(Fifo, depth, depth) for depth in (2, 3, 8)]
    + [(QuickFifo, depth, depth + 1) for depth in (3, 8)],
)
@simulation_of(lambda kind, depth: kind(shape=4, depth=depth))
async def test_a_fifo_holds_its_depth_and_tells_its_level(ctx, block, kind, depth, holds):
    assert capacity(kind(shape=4, depth=depth)) == holds
    held = []
    inside, rng = 0, random.Random(depth)
    for _ in range(200):
        ctx.set(block.i.valid, rng.random() < 0.5)
        ctx.set(block.o.ready, rng.random() < 0.5)
        values = block.i.valid, block.i.ready, block.o.valid, block.o.ready, block.level
        _, _, i_valid, i_ready, o_valid, o_ready, level = await ctx.tick().sample(*values)
        assert level == inside
        inside += i_valid * i_ready - o_valid * o_ready
        held.append(inside)
    assert set(held) == set(range(holds + 1))


@pytest.mark.parametrize("kind", [Register, Fifo, QuickFifo, CutFifo])
def test_payloads_may_be_structures(kind):
    layout = data.StructLayout({"low": 3, "high": 5})
    payloads = [{"low": n % 8, "high": n % 32} for n in range(20)]
    block = kind(shape=layout, **({} if kind is Register else {"depth": 4}))
    got = transport(block, payloads, stall_o="often")
    assert [{"low": g.low, "high": g.high} for g in got] == payloads


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "depth"),
    [(Fifo, 1), (Fifo, -1), (QuickFifo, 2), (CutFifo, 2)]
    + [(kind, "4") for kind in (Fifo, QuickFifo, CutFifo)],
)
def test_a_wrong_depth_is_named(kind, depth):
    error = TypeError if isinstance(depth, str) else ValueError
    assert_refused(kind, error, rf"Depth must be .*, not {depth!r}", shape=8, depth=depth)


def test_a_block_that_is_run_again_starts_from_its_reset_and_after_a_failure_too():
    fifo = Fifo(shape=16, depth=8)

    @process
    async def fill(ctx, wrong):
        assert ctx.get(fifo.o.valid) == 0 and ctx.get(fifo.level) == 0
        await send(ctx, fifo.i, range(5), go("never", 0))
        assert ctx.get(fifo.level) == 5 and not wrong

    run(fifo, fill(False), keep=True)
    with pytest.raises(AssertionError):
        run(fifo, fill(True), keep=True)
    for _ in range(2):
        run(fifo, fill(False), keep=True)


class Bench(Elaboratable):
    """A count with its inputs and outputs."""

    def __init__(self):
        self.load, self.step, self.amount = Signal(), Signal(), Signal(4)
        self.said = Signal(6)

    def elaborate(self, platform):
        m = Module()
        left, some, last = counted_down(m, load=self.load, amount=self.amount, step=self.step)
        m.d.comb += self.said.eq(left << 2 | some << 1 | last)
        return m


@pytest.mark.parametrize("seed", range(4))
@simulation_of(lambda: Bench())
async def test_it_counts_what_was_loaded_and_says_whether_some_or_one_is_left(ctx, bench, seed):
    rng, left = seeded(seed), 0
    for _ in range(400):
        assert ctx.get(bench.said) == left << 2 | (left > 0) << 1 | (left == 1)
        load, amount = rng.random() < 0.2, rng.randrange(16)
        step = left > 0 and rng.random() < 0.7
        put(ctx, bench, load=load, amount=amount, step=step)
        left = amount if load else left - step
        await ctx.tick()
