"""Tests of the fair choice among requests."""

import random

import pytest

from multitree.hw.arbiter import RoundRobin
from tests.hw.streams import assert_refused, put, simulation, simulation_of

COUNTS = (1, 2, 3, 5, 8)


def reference(count, stimulus):
    """Grants of a round robin for (requests, advance) pairs; None where there is no request."""
    last, grants = count - 1, []
    for requests, advance in stimulus:
        order = [(last + 1 + k) % count for k in range(count)]
        grant = next((k for k in order if requests >> k & 1), None)
        if advance and grant is not None:
            last = grant
        grants.append(grant)
    return grants


@simulation
async def simulate(ctx, arbiter, stimulus):
    """The same of the block, in the cycle of the requests."""
    grants = []
    for requests, advance in stimulus:
        put(ctx, arbiter, requests=requests, advance=advance)
        outputs = arbiter.grant, arbiter.granted, arbiter.valid
        _, _, grant, granted, valid = await ctx.tick().sample(*outputs)
        assert granted == valid << grant and (valid or grant == 0)
        grants.append(grant if valid else None)
    return grants


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("density", [0.2, 0.5, 0.9])
def test_grants_equal_the_reference(count, density):
    rng = random.Random(count)
    stimulus = [
        (sum((rng.random() < density) << k for k in range(count)), rng.random() < 0.7)
        for _ in range(500)
    ]
    assert simulate(RoundRobin(count=count), stimulus) == reference(count, stimulus)


@pytest.mark.parametrize("count", COUNTS)
def test_all_that_ask_take_turns(count):
    stimulus = [((1 << count) - 1, 1)] * (3 * count)
    assert simulate(RoundRobin(count=count), stimulus) == [*range(count)] * 3


@pytest.mark.parametrize("count", COUNTS)
@simulation_of(lambda count: RoundRobin(count=count))
async def test_nobody_is_granted_twice_while_another_waits(ctx, arbiter, count):
    """Requesters ask until they are granted."""
    rng, seen, waiting = random.Random(count), [], 0
    ctx.set(arbiter.advance, 1)
    for _ in range(400):
        waiting |= rng.getrandbits(count)
        ctx.set(arbiter.requests, waiting)
        _, _, grant, valid = await ctx.tick().sample(arbiter.grant, arbiter.valid)
        if valid:
            seen.append((grant, waiting))
            waiting &= ~(1 << grant)
    for number in range(count):
        others = []
        for grant, waits in seen:
            if grant == number or not waits >> number & 1:
                others = []
            else:
                assert grant not in others
                others.append(grant)


@pytest.mark.parametrize(("count", "error"), [(0, ValueError), (2.0, TypeError), (True, TypeError)])
def test_a_wrong_count_is_named(count, error):
    assert_refused(RoundRobin, error, rf"Count must be .*, not {count!r}", count=count)
