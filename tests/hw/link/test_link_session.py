"""The handshake of a link: after any reset both ends begin anew, and together."""

import itertools

import pytest

from multitree.hw.codes import PERIOD_CYCLES
from multitree.hw.link.link import Kind
from multitree.hw.link.port import LinkSession
from tests.hw.link.wires import Line, listener, talker
from tests.hw.streams import pulse, put, run, seeded, simulation_of

CREDITS = 6


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize(
    ("num_vcs", "latencies"),
    [(1, latencies) for latencies in ((0, 0), (3, 3), (40, 40), (30, 4), (4, 30))]
    + [(3, (0, 0)), (3, (5, 5))],
)
@pytest.mark.parametrize("seed", range(2))
def test_after_resets_of_either_end_in_any_cycle_both_come_up_with_all_credits(
    num_vcs, latencies, seed
):
    """Also resets during the handshake itself.

    What is delivered between two falls is of one session, each channel's flits from 0 on.
    """
    rng = seeded(f"{latencies} {seed}")
    line, sent, got = Line(*latencies, num_vcs=num_vcs, depth=CREDITS), [[], []], [[], []]

    async def drive(ctx):
        for round_ in range(5):
            for _ in range(rng.choice([1, 2, 3, 8])):
                who = rng.randrange(3)
                for k in range(2):
                    ctx.set(line.resets[k], who in (k, 2))
                await ctx.tick().repeat(rng.randrange(2, 6))
                for k in range(2):
                    ctx.set(line.resets[k], 0)
                await ctx.tick().repeat(rng.randrange(1, 40 + 2 * max(latencies)))
            await ctx.tick().repeat(line.come_up_cycles)
            assert ctx.get(line.ends[0].up) and ctx.get(line.ends[1].up), f"round {round_}"
            before = [len(got[k][-1]) for k in range(2)]
            await ctx.tick().repeat(10 * (CREDITS + sum(latencies)) + 100)
            after = [len(got[k][-1]) for k in range(2)]
            # More than there are credits: those that were lost with the resets are back.
            assert all(late > early for late, early in zip(after, before, strict=True))

    ends = [f(line, k, rng, s) for k in range(2) for f, s in ((talker, sent), (listener, got))]
    run(line, drive, background=ends)
    for k, vc in itertools.product(range(2), range(num_vcs)):
        for flits in got[k]:
            numbers = [number for channel, _, number in flits if channel == vc]
            assert numbers == [*range(len(numbers))]
            assert len({session for _, session, _ in flits}) <= 1
            went = [sent[1 - k][session - 1][vc] for channel, session, _ in flits if channel == vc]
            assert all(number < count for number, count in zip(numbers, went, strict=True))
        # Of the last session nothing is missing but what has a place or is on its way to it.
        last = sent[1 - k][-1][vc]
        assert last > 5 and len(numbers) >= last - CREDITS - 1
        assert {session for _, session, _ in flits} == {len(sent[1 - k])}


@pytest.mark.slow
@pytest.mark.parametrize("credits_lost", range(0, CREDITS + 1, 2))
@pytest.mark.parametrize("who", [0, 1])
@simulation_of(lambda: Line(7, 7, depth=CREDITS))
async def test_all_credits_are_back_after_a_reset_whatever_was_in_flight(
    ctx, line, credits_lost, who
):
    """Flits are left in the buffer and on the wires; then either end is reset."""
    end = line.ends[0]

    async def offer(count, cycles):
        taken = 0
        for _ in range(cycles):
            goes = taken < count and ctx.get(end.may_send)
            put(ctx, end, take=goes, flit={"kind": Kind.BODY, "payload": taken})
            await ctx.tick()
            taken += goes
        ctx.set(end.take, 0)
        return taken

    await ctx.tick().repeat(line.come_up_cycles)
    assert await offer(credits_lost, CREDITS + 1) == credits_lost
    await pulse(ctx, line.resets[who], 2)
    await ctx.tick().repeat(2 * line.come_up_cycles)
    assert await offer(100, 100) == CREDITS


def reported(echo):
    """What a control flit says of the other end's epoch, which may not be known."""
    return 0 if echo is None else echo | 2


@simulation_of(lambda: LinkSession(flit_bytes=8))
async def heard(ctx, session, *events, cycles=60):
    """A session that hears control flits, (cycle, kind, epoch, echo): what it says and is."""
    said, states, send = [], [], session.send
    echoes = {reported(echo): echo for echo in (None, 0, 1)}
    values = [send.valid, send.kind, send.epoch, send.payload]
    values += [session.up, session.open, session.lost]
    for cycle in range(cycles):
        now = [event for event in events if event[0] == cycle]
        ctx.set(session.received.valid, bool(now))
        for _, kind, epoch, echo in now:
            put(ctx, session.received, kind=kind, epoch=epoch, payload=reported(echo))
        _, _, valid, *word, payload, up, opened, lost = await ctx.tick().sample(*values)
        if valid:
            said.append((cycle, *word, echoes[payload]))
        states.append((up, opened, lost))
    return said, states


def test_an_end_that_hears_nothing_says_down_once_per_period_from_the_first_cycle_on():
    said, states = heard()
    assert said == [(cycle, Kind.DOWN, 0, None) for cycle in range(0, 60, PERIOD_CYCLES)]
    assert not any(map(any, states))


def test_down_is_answered_with_init_and_init_or_up_brings_the_link_up():
    for kind in (Kind.INIT, Kind.UP):
        said, states = heard((5, Kind.DOWN, 1, None), (30, kind, 1, 0))
        wanted = [(0, Kind.DOWN, None), (6, Kind.INIT, 1), (22, Kind.INIT, 1), (31, Kind.UP, 1)]
        assert said == [(cycle, what, 0, echo) for cycle, what, echo in wanted]
        assert [up for up, _, _ in states] == [0] * 31 + [1] * 29
        opened = 31 + PERIOD_CYCLES - 1
        assert [open_ for _, open_, _ in states] == [0] * opened + [1] * (60 - opened)


def test_init_brings_an_end_that_is_down_up_and_up_does_not():
    said, _ = heard((5, Kind.INIT, 1, 0))
    assert said == [(0, Kind.DOWN, 0, None), (6, Kind.UP, 0, 1)]
    said, states = heard((5, Kind.UP, 1, 0), cycles=20)
    assert said[-1][1] == Kind.DOWN and not any(map(any, states))


@pytest.mark.parametrize("echo", [1, None])
@pytest.mark.parametrize("kinds", [[Kind.INIT], [Kind.DOWN, Kind.INIT], [Kind.DOWN, Kind.UP]])
def test_what_was_said_before_the_other_end_knew_of_the_last_reset_brings_nothing_up(kinds, echo):
    events = [(5 + k, kind, 1, 0 if kind == Kind.DOWN else echo) for k, kind in enumerate(kinds)]
    said, states = heard(*events)
    assert not any(map(any, states)) and said[-1][1] != Kind.UP


def test_an_end_that_answers_returns_the_epoch_it_heard_last():
    said, _ = heard((5, Kind.DOWN, 1, None), (10, Kind.DOWN, 0, None), cycles=30)
    assert [(kind, echo) for _, kind, _, echo in said[1:]] == [(Kind.INIT, 1), (Kind.INIT, 0)]


def test_an_end_that_is_up_says_nothing_but_answers_each_init():
    said, states = heard(*((cycle, Kind.INIT, 1, 0) for cycle in (5, 20, 21)), (30, Kind.UP, 1, 0))
    assert [cycle for cycle, *_ in said] == [0, 6, 21, 22]
    assert {kind for _, kind, *_ in said[1:]} == {Kind.UP}
    assert all(up for up, _, _ in states[6:])


@pytest.mark.parametrize("kind", [Kind.DOWN, Kind.INIT, Kind.UP])
def test_an_end_that_falls_says_down_in_its_old_epoch_until_that_comes_back(kind):
    said, states = heard(
        (5, Kind.INIT, 1, 0),
        (30, Kind.DOWN, 0, None),
        (35, Kind.DOWN, 1, None),
        (36, Kind.INIT, 1, 1),
        (37, Kind.FAULT, 1, 0),
        (50, kind, 1, 0),
        (55, Kind.INIT, 1, 0),
        (60, Kind.DOWN, 1, 1),
        cycles=70,
    )
    assert said[2:] == [
        (31, Kind.DOWN, 0, 0),
        (47, Kind.DOWN, 0, 1),
        (51, Kind.DOWN, 1, 1),
        (61, Kind.INIT, 1, 1),
    ]
    assert [cycle for cycle, (_, _, lost) in enumerate(states) if lost] == [30]
    assert not any(up for up, _, _ in states[31:])


@simulation_of(lambda: Line(2, 2, depth=CREDITS))
async def test_each_end_that_was_up_comes_up_with_another_epoch_and_a_reset_while_down_changes_none(
    ctx, line
):
    epochs = []
    for waits in ((line.come_up_cycles,), (6, 1, 1), (1,)):
        for wait in waits:
            await pulse(ctx, line.resets[0], 4)
            await ctx.tick().repeat(wait)
        await ctx.tick().repeat(line.come_up_cycles)
        assert ctx.get(line.ends[0].up) and ctx.get(line.ends[1].up)
        epochs.append(tuple(ctx.get(end.tx.epoch) for end in line.ends))
    assert epochs == [(0, 0), (1, 1), (0, 0)]
