"""Drivers and monitors of streams with seeded stalls, for the simulator."""

import gc
import random
import warnings

import pytest
from amaranth.hdl import UnusedElaboratable
from amaranth.sim import Simulator

PATTERNS = ("never", "often", "seldom", "bursts")
"""Ways to stall: not at all, three cycles of four, one of eight, or for many cycles at a time."""


def go(pattern, seed):
    """Endless booleans, one per cycle: may the end of a stream move in it?

    Parameters
    ----------
    pattern : str
        One of `PATTERNS`.
    seed : int
        The same pattern and seed give the same booleans.
    """
    rng = random.Random(f"{pattern} {seed}")
    while True:
        if pattern == "never":
            yield True
        elif pattern == "often":
            yield rng.random() < 0.25
        elif pattern == "seldom":
            yield rng.random() < 0.875
        else:
            moves, cycles = rng.random() < 0.5, rng.randrange(1, 40)
            yield from [moves] * cycles


async def send(ctx, port, payloads, moves, times=None):
    """Offer payloads in order; an offer stays until it is taken.

    Parameters
    ----------
    ctx : TestbenchContext
    port : stream interface
        The consumer's end: `valid` and `payload` are driven, `ready` is watched.
    payloads : iterable
        What to send.
    moves : iterator of bool
        From `go`: cycles in which a new payload may be offered.
    times : list, optional
        Gets the cycle in which each payload was taken.
    """
    clock = Clock(ctx)
    for payload in payloads:
        while not next(moves):
            await clock.tick()
        ctx.set(port.payload, payload)
        ctx.set(port.valid, 1)
        taken = False
        while not taken:
            (taken,) = await clock.tick(port.ready)
        if times is not None:
            times.append(clock.cycle - 1)
        ctx.set(port.valid, 0)


async def receive(ctx, port, count, moves, times=None):
    """Take `count` payloads; returns them.

    Between the cycles of `moves` it is not ready; what is offered must then stay as it is.

    Parameters
    ----------
    ctx : TestbenchContext
    port : stream interface
        The producer's end: `ready` is driven, `valid` and `payload` are watched.
    count : int
        Payloads to take.
    moves : iterator of bool
        From `go`: cycles in which it is ready.
    times : list, optional
        Gets the cycle in which each payload was taken.
    """
    clock, got, offered = Clock(ctx), [], None
    while len(got) < count:
        ready = next(moves)
        ctx.set(port.ready, ready)
        valid, payload = await clock.tick(port.valid, port.payload)
        if offered is not None:
            assert valid and payload == offered, "an offer changed before it was taken"
        offered = payload if valid and not ready else None
        if valid and ready:
            got.append(payload)
            if times is not None:
                times.append(clock.cycle - 1)
    ctx.set(port.ready, 0)
    return got


class Clock:
    """Counts the cycles of one testbench."""

    def __init__(self, ctx):
        self._ctx = ctx
        self.cycle = 0

    async def tick(self, *values):
        """Wait for the next clock edge; returns what the values were just before it."""
        _, _, *sampled = await self._ctx.tick().sample(*values)
        self.cycle += 1
        return sampled


def run(block, *testbenches, background=(), deadline_cycles=100_000, clocks=None, keep=False):
    """Simulate until all testbenches are done; fails if they are not by the deadline.

    Parameters
    ----------
    block : Elaboratable
        What to simulate, in the domain `sync`, whose period is a microsecond.
    testbenches : async functions of a context
        What has to come to its end.
    background : iterable of async functions of a context
        What runs in the background for ever.
    deadline_cycles : int
        Cycles after which the run is a failure.
    clocks : dict of str to float, optional
        Periods in seconds of other domains.
    keep : bool
        Whether this very block will be run again, from its reset: elaboration takes longer than
        some hundred cycles.
    """
    done = []

    def finished(testbench):
        async def process(ctx):
            await testbench(ctx)
            done.append(testbench)

        return process

    async def deadline(ctx):
        for _ in range(deadline_cycles):
            await ctx.tick()
            if len(done) == len(testbenches):
                return
        raise AssertionError(f"not done after {deadline_cycles} cycles")

    played = [*map(finished, testbenches), deadline, *background]
    clocks = {"sync": 1e-6} | (clocks or {})
    key = block, len(testbenches), len(played), *clocks.items()
    # A run that fails leaves a simulator in the middle of something: nobody gets that again.
    simulator, playing = _KEPT.pop(key, (None, []))
    playing[:] = played
    if simulator is None:
        simulator = _simulator(block, playing, len(testbenches) + 1, clocks)
    else:
        simulator.reset()
    simulator.run()
    if keep:
        _KEPT[key] = simulator, playing


_KEPT = {}


def _simulator(block, playing, num_critical, clocks):
    """A simulator that plays what a list holds when it starts, all but its first for ever."""
    simulator = Simulator(block)
    for domain, period in clocks.items():
        simulator.add_clock(period, domain=domain)

    def play(number):
        async def process(ctx):
            await playing[number](ctx)

        return process

    for number in range(len(playing)):
        simulator.add_testbench(play(number), background=number >= num_critical)
    return simulator


def transport(block, payloads, *, stall_i="never", stall_o="never", seed=0):
    """What a block with one stream `i` and one stream `o` makes of payloads, one for one."""
    got, payloads = [], list(payloads)

    async def producer(ctx):
        await send(ctx, block.i, payloads, go(stall_i, f"{seed} i"))

    async def consumer(ctx):
        got.extend(await receive(ctx, block.o, len(payloads), go(stall_o, f"{seed} o")))

    run(block, producer, consumer)
    return got


def assert_no_path(block, inputs, outputs, *, cycles=200, seed=0):
    """Assert that no output depends combinationally on an input, in states met at random."""
    rng = random.Random(seed)

    async def poke(ctx):
        for _ in range(cycles):
            before = None
            for _ in range(4):
                for value in inputs:
                    ctx.set(value, rng.getrandbits(len(value)))
                now = [ctx.get(value) for value in outputs]
                assert before in (None, now), "an output follows an input within a cycle"
                before = now
            await ctx.tick()

    run(block, poke)


def assert_refused(make, error, message):
    """Assert that a constructor raises an error with a message that matches."""
    with warnings.catch_warnings():
        # Nobody is meant to use what could not be made.
        warnings.simplefilter("ignore", UnusedElaboratable)
        with pytest.raises(error, match=message):
            make()
        gc.collect(1)
