"""Tests of ages, and of the choice of the oldest in turns among equals."""

import pytest

from multitree.hw.arbiter import Ages, OldestFirst
from tests.hw.streams import (
    assert_refused,
    put,
    run_without_clock,
    seeded,
    simulation,
    simulation_of,
)
from tests.hw.test_arbiter import reference as turns


def is_older(a, b):
    """Of (sequence, step), counted within the nearer half of 256."""
    distance = (a[0] - b[0] + 128) % 256 - 128
    return distance < 0 or (distance == 0 and a[1] < b[1])


@pytest.mark.parametrize("count", [1, 2, 5])
def test_older_is_the_lower_sequence_in_the_nearer_half_and_then_the_lower_step(count):
    rng, block = seeded(count), Ages(count=count)

    async def drive(ctx):
        for _ in range(60):
            base = rng.randrange(256)
            ages = [((base + rng.randrange(-2, 3)) % 256, rng.randrange(3)) for _ in range(count)]
            for place, (sequence, step) in enumerate(ages):
                ctx.set(block.ages[place], {"sequence": sequence, "step": step * 0x4001})
            for place, age in enumerate(ages):
                wanted = sum(is_older(other, age) << k for k, other in enumerate(ages))
                assert ctx.get(block.older[place]) == wanted

    run_without_clock(block, drive)


def test_no_two_are_older_than_each_other_at_any_distance():
    block = Ages(count=2)

    async def drive(ctx):
        for sequence in range(256):
            ctx.set(block.ages[0], {"sequence": sequence, "step": 1})
            ctx.set(block.ages[1], {"sequence": 7, "step": 1})
            older = ctx.get(block.older[0]), ctx.get(block.older[1])
            later = 0 < (sequence - 7) % 256 < 128
            assert older == ((0, 0) if sequence == 7 else (2, 0) if later else (0, 1))

    run_without_clock(block, drive)


@simulation
async def simulate(ctx, block, stimulus):
    """Grants of the block for (requests, ages, advance); None where there is no request."""
    grants = []
    for requests, ages, advance in stimulus:
        put(ctx, block, requests=requests, advance=advance)
        for place, age in enumerate(ages):
            older = sum((other < age) << k for k, other in enumerate(ages))
            ctx.set(block.older[place], older)
        _, _, grant, valid = await ctx.tick().sample(block.grant, block.valid)
        grants.append(grant if valid else None)
    return grants


def reference(count, stimulus):
    """A round robin among those requests to which none is older."""
    masked = []
    for requests, ages, advance in stimulus:
        asking = [age for k, age in enumerate(ages) if requests >> k & 1]
        least = min(asking, default=0)
        oldest = sum((age == least) << k for k, age in enumerate(ages))
        masked.append((requests & oldest, advance))
    return turns(count, masked)


@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_grants_equal_the_reference(count):
    rng = seeded(count)
    stimulus = [
        (rng.getrandbits(count), [rng.randrange(3) for _ in range(count)], rng.random() < 0.7)
        for _ in range(200)
    ]
    assert simulate(OldestFirst(count=count), stimulus) == reference(count, stimulus)


@simulation_of(lambda: OldestFirst(count=3))
async def test_somebody_is_granted_where_each_has_an_older_one(ctx, block):
    grants = []
    put(ctx, block, requests=7, advance=1)
    for place in range(3):
        ctx.set(block.older[place], 1 << (place + 1) % 3)
    for _ in range(6):
        _, _, grant, valid = await ctx.tick().sample(block.grant, block.valid)
        assert valid
        grants.append(grant)
    assert grants == [0, 1, 2] * 2


@pytest.mark.slow
@pytest.mark.parametrize("block", [Ages, OldestFirst])
@pytest.mark.parametrize(("count", "error"), [(0, ValueError), (2.0, TypeError)])
def test_a_wrong_count_is_named(block, count, error):
    assert_refused(block, error, rf"Count must be .*, not {count!r}", count=count)
