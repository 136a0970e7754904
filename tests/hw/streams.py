"""Simulations of blocks; drivers and monitors of streams with seeded stalls."""

import functools
import gc
import inspect
import random
import warnings

import pytest
from amaranth.hdl import UnusedElaboratable
from amaranth.sim import Simulator

PATTERNS = ("never", "often", "seldom", "bursts")
"""Ways to stall: not at all, three cycles of four, one of eight, or for many cycles at a time."""


def seeded(seed):
    """A random generator whose seed is seen when the test fails."""
    print(f"seed {seed}")
    return random.Random(f"{seed}")


def go(pattern, seed):
    """Endless booleans, one per cycle: may the end of a stream move in it?"""
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


def put(ctx, interface, /, **values):
    """Drive members of an interface by name."""
    for name, value in values.items():
        ctx.set(getattr(interface, name), value)


async def hand_over(ctx, port, moves, channel="", **values):
    """Offer members of an interface, from a cycle of `moves` until they are taken; how many cycles.

    `channel` is what the names of the handshake begin with.
    """
    clock, taken = Clock(ctx), False
    while not next(moves):
        await clock.tick()
    put(ctx, port, **values, **{f"{channel}valid": 1})
    while not taken:
        (taken,) = await clock.tick(getattr(port, f"{channel}ready"))
    put(ctx, port, **{f"{channel}valid": 0})
    return clock.cycle


async def send(ctx, port, payloads, moves, times=None):
    """Offer payloads in the cycles of `moves`, in order; an offer stays until it is taken.

    `times` gets the cycle in which each was taken.
    """
    cycles = 0
    for payload in payloads:
        cycles += await hand_over(ctx, port, moves, payload=payload)
        if times is not None:
            times.append(cycles - 1)


async def accepted(ctx, port, cycles, member="payload"):
    """Of cycles that each offer their number, which take it."""
    taken = []
    for number in range(cycles):
        put(ctx, port, **{"valid": 1, member: number})
        _, _, ready = await ctx.tick().sample(port.ready)
        taken.append(ready)
    return taken


def process(body):
    """A function of all parameters but the first, ctx, that returns a testbench."""

    @functools.wraps(body)
    def of(*args, **kwargs):
        async def testbench(ctx):
            await body(ctx, *args, **kwargs)

        return testbench

    return of


async def pulse(ctx, strobe, cycles=1):
    """Hold a signal high for some cycles."""
    ctx.set(strobe, 1)
    await ctx.tick().repeat(cycles)
    ctx.set(strobe, 0)


async def receive(ctx, port, count, moves, times=None, into=None):
    """Take `count` payloads, ready in the cycles of `moves`; what is offered must stay till then.

    `times` gets the cycle in which each was taken, `into` each as it comes.
    """
    clock, got, offered = Clock(ctx), [] if into is None else into, None
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
    """Simulate a block until all testbenches are done; fails if they are not by the deadline.

    The period of `sync` is a microsecond, `clocks` has those of other domains in seconds. With
    `keep` this very block may be run again, from its reset: elaboration takes longer than some
    hundred cycles.
    """
    done = []

    @process
    async def finished(ctx, testbench):
        await testbench(ctx)
        done.append(testbench)

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

    @process
    async def play(ctx, number):
        await playing[number](ctx)

    for number in range(len(playing)):
        simulator.add_testbench(play(number), background=number >= num_critical)
    return simulator


def run_without_clock(block, testbench):
    """Simulate a block that has no clock until the testbench is done."""
    simulator = Simulator(block)
    simulator.add_testbench(testbench)
    simulator.run()


def simulation(testbench):
    """A function of a block that plays a testbench (ctx, block, ...) and returns what it does."""

    @functools.wraps(testbench)
    def play(block, *args, **kwargs):
        results = []

        async def drive(ctx):
            results.append(await testbench(ctx, block, *args, **kwargs))

        run(block, drive)
        return results[0]

    return play


def simulation_of(make, driver=None):
    """A function or test that plays a testbench (ctx, block, ...) and returns what it does.

    The block is what `make` makes of the parameters it names: once, if there are none or if it
    is cached. With a driver, a function of ctx and block, the testbench has that instead of both.
    """
    of_make = inspect.signature(make).parameters
    make = make if of_make else functools.cache(make)

    def decorate(testbench):
        own = list(inspect.signature(testbench).parameters.values())[1 if driver else 2 :]
        dropped = [name for name in of_make if name not in {p.name for p in own}]
        others = [of_make[name].replace(kind=inspect.Parameter.KEYWORD_ONLY) for name in dropped]
        signature = inspect.Signature(sorted([*own, *others], key=lambda p: p.kind))

        @functools.wraps(testbench)
        def play(*args, **kwargs):
            given, results = signature.bind(*args, **kwargs), []
            given.apply_defaults()
            block = make(**{name: given.arguments[name] for name in of_make})
            for name in dropped:
                del given.arguments[name]

            async def drive(ctx):
                first = [driver(ctx, block)] if driver else [ctx, block]
                results.append(await testbench(*first, *given.args, **given.kwargs))

            run(block, drive, keep=hasattr(make, "cache_info"))
            return results[0]

        play.__signature__ = signature
        return play

    return decorate


def transport(block, payloads, *, stall_i="never", stall_o="never", seed=0):
    """What a block with one stream `i` and one stream `o` makes of payloads, one for one."""
    got, payloads = [], list(payloads)

    async def producer(ctx):
        await send(ctx, block.i, payloads, go(stall_i, f"{seed} i"))

    async def consumer(ctx):
        got.extend(await receive(ctx, block.o, len(payloads), go(stall_o, f"{seed} o")))

    run(block, producer, consumer)
    return got


@simulation
async def assert_no_path(ctx, block, inputs, outputs, *, held=(), cycles=200, seed=0):
    """Assert that no output depends combinationally on an input, in states met at random.

    What is `held` stays 1.
    """
    rng = random.Random(seed)
    for value in held:
        ctx.set(value, 1)
    for _ in range(cycles):
        before = None
        for _ in range(4):
            for value in inputs:
                ctx.set(value, rng.getrandbits(len(value)))
            now = [ctx.get(value) for value in outputs]
            assert before in (None, now), "an output follows an input within a cycle"
            before = now
        await ctx.tick()


def assert_refused(make, error, message, /, *given, **named):
    """Assert that a constructor raises an error with a message that matches."""
    with warnings.catch_warnings():
        # Nobody is meant to use what could not be made.
        warnings.simplefilter("ignore", UnusedElaboratable)
        with pytest.raises(error, match=message):
            make(*given, **named)
        gc.collect(1)
