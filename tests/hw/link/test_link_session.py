"""The handshake of a link: after any reset both ends begin anew, and together."""

import random

import pytest
from amaranth import Module, ResetInserter, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.codes import PERIOD_CYCLES
from multitree.hw.link.link import Kind, LinkSignature, unit_layout
from multitree.hw.link.port import LinkSession
from tests.hw.link.one_channel import StreamReceiver, StreamTransmitter
from tests.hw.link.wires import join
from tests.hw.streams import run

FLIT_BYTES, CREDITS, SUBMESSAGE = 2, 6, 4


class End(wiring.Component):
    """One end of a link, as a port has it."""

    def __init__(self):
        link = LinkSignature(flit_bytes=FLIT_BYTES)
        flits = stream.Signature(unit_layout(flit_bytes=FLIT_BYTES))
        super().__init__(
            {
                "i": In(flits),
                "o": Out(flits),
                "tx": Out(link),
                "rx": In(link),
                "up": Out(1),
                "open": Out(1),
                "lost": Out(1),
                "epoch": Out(1),
                "faults": Out(5),
            }
        )

    def elaborate(self, platform):
        m = Module()
        sizes = {"flit_bytes": FLIT_BYTES, "submessage_flits": SUBMESSAGE}
        m.submodules.session = session = LinkSession(flit_bytes=FLIT_BYTES)
        m.submodules.transmitter = transmitter = StreamTransmitter(credits=CREDITS, **sizes)
        m.submodules.receiver = receiver = StreamReceiver(depth=CREDITS, **sizes)
        wiring.connect(m, wiring.flipped(self.i), transmitter.i)
        wiring.connect(m, receiver.o, wiring.flipped(self.o))
        wiring.connect(m, transmitter.link, wiring.flipped(self.tx))
        wiring.connect(m, wiring.flipped(self.rx), receiver.link)
        wiring.connect(m, receiver.control, session.received)
        wiring.connect(m, session.send, transmitter.control)
        m.d.comb += [
            transmitter.open.eq(session.open),
            receiver.up.eq(session.up),
            receiver.epoch.eq(session.peer_epoch),
            self.up.eq(session.up),
            self.open.eq(session.open),
            self.lost.eq(session.lost),
            self.epoch.eq(session.send.epoch),
            self.faults[0].eq(transmitter.fault_credit),
            self.faults[1].eq(receiver.sequence_error),
            self.faults[2].eq(receiver.epoch_error),
            self.faults[3].eq(receiver.check_error),
            self.faults[4].eq(receiver.overflow),
        ]
        return m


class Line(wiring.Component):
    """Two ends, wires of some cycles each way, and a reset for each end."""

    def __init__(self, *latencies):
        self.latencies = latencies
        self.ends = [End(), End()]
        self.resets = [Signal(), Signal()]
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        for k, (end, reset) in enumerate(zip(self.ends, self.resets, strict=True)):
            m.submodules[f"end_{k}"] = ResetInserter(reset)(end)
        for k in range(2):
            near, far = self.ends[k].tx, self.ends[1 - k].rx
            join(m, near, far, self.latencies[k], back_cycles=min(self.latencies))
        return m


def talker(line, k, rng, sent):
    """Sends numbered flits for ever: the session's number and the flit's in it."""
    end = line.ends[k]

    async def process(ctx):
        session, number = 0, 0
        while True:
            if not ctx.get(end.open) and number:
                session, number = session + 1, 0
            flit = session << 8 | number & 0xFF
            ctx.set(end.i.payload, {"kind": Kind.BODY, "payload": flit})
            ctx.set(end.i.valid, rng.random() < 0.7)
            _, _, valid, ready = await ctx.tick().sample(end.i.valid, end.i.ready)
            if valid and ready:
                sent[k].append(flit)
                number += 1

    return process


def listener(line, k, rng, got):
    """Takes flits now and then; `got` has one list per time the end was up."""
    end = line.ends[k]

    async def process(ctx):
        was_up, chance = 0, 0.7
        while True:
            ctx.set(end.o.ready, rng.random() < chance)
            watched = end.up, end.o.valid, end.o.ready, end.o.payload.payload, end.faults
            _, _, up, valid, ready, payload, faults = await ctx.tick().sample(*watched)
            assert not faults, f"fault {faults:05b} on sound wires"
            if up and not was_up:
                got[k].append([])
                chance = rng.choice([0.1, 0.7, 1.0])
            if valid and ready:
                got[k][-1].append(payload)
            was_up = up

    return process


def cycles_to_come_up(line):
    return 3 * sum(line.latencies) + 6 * PERIOD_CYCLES


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("latencies", [(0, 0), (3, 3), (40, 40), (30, 4), (4, 30)])
@pytest.mark.parametrize("seed", range(2))
def test_after_resets_of_either_end_in_any_cycle_both_come_up_with_all_credits(latencies, seed):
    """Also resets during the handshake itself; what is delivered is of one session, from 0 on."""
    print(f"seed {seed}")
    rng = random.Random(f"{latencies} {seed}")
    line = Line(*latencies)
    sent, got = [[], []], [[], []]

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
            await ctx.tick().repeat(cycles_to_come_up(line))
            assert ctx.get(line.ends[0].open) and ctx.get(line.ends[1].open), f"round {round_}"
            before = [len(got[k][-1]) for k in range(2)]
            await ctx.tick().repeat(10 * (CREDITS + sum(latencies)) + 100)
            after = [len(got[k][-1]) for k in range(2)]
            # More than there are credits: those that were lost with the resets are back.
            assert all(late > early for late, early in zip(after, before, strict=True))

    processes = [
        make(line, k, rng, x) for k in range(2) for make, x in ((talker, sent), (listener, got))
    ]
    run(line, drive, background=processes)
    for k in range(2):
        for flits in got[k]:
            assert [flit & 0xFF for flit in flits] == [n & 0xFF for n in range(len(flits))]
            assert len({flit >> 8 for flit in flits}) <= 1
            assert set(flits) <= set(sent[1 - k])


@pytest.mark.slow
@pytest.mark.parametrize("credits_lost", range(0, CREDITS + 1, 2))
def test_all_credits_are_back_after_a_reset_whatever_was_in_flight(credits_lost):
    """Flits are left in the buffer and on the wires; then either end is reset."""
    for who in (0, 1):
        line, sent = Line(7, 7), []

        async def drive(ctx, line=line, sent=sent, who=who):
            end = line.ends[0]

            async def offer(count, cycles):
                taken = 0
                for _ in range(cycles):
                    ctx.set(end.i.valid, taken < count)
                    ctx.set(end.i.payload, {"kind": Kind.BODY, "payload": taken})
                    _, _, valid, ready = await ctx.tick().sample(end.i.valid, end.i.ready)
                    taken += valid and ready
                ctx.set(end.i.valid, 0)
                return taken

            await ctx.tick().repeat(cycles_to_come_up(line))
            await offer(credits_lost, CREDITS)
            ctx.set(line.resets[who], 1)
            await ctx.tick().repeat(2)
            ctx.set(line.resets[who], 0)
            await ctx.tick().repeat(2 * cycles_to_come_up(line))
            sent.append(await offer(100, 100))

        run(line, drive)
        assert sent == [CREDITS]


def reported(echo):
    """What a control flit says of the other end's epoch, which may not be known."""
    return 0 if echo is None else echo | 2


def heard(*events, cycles=60):
    """A session that hears control flits, (cycle, kind, epoch, echo): what it says and is."""
    session, said, states = LinkSession(flit_bytes=8), [], []
    echoes = {reported(echo): echo for echo in (None, 0, 1)}

    async def drive(ctx):
        for cycle in range(cycles):
            now = [event for event in events if event[0] == cycle]
            ctx.set(session.received.valid, bool(now))
            for _, kind, epoch, echo in now:
                ctx.set(session.received.kind, kind)
                ctx.set(session.received.epoch, epoch)
                ctx.set(session.received.payload, reported(echo))
            send = session.send
            values = (send.valid, send.kind, send.epoch, send.payload)
            _, _, valid, *word, payload, up, opened, lost = await ctx.tick().sample(
                *values, session.up, session.open, session.lost
            )
            if valid:
                said.append((cycle, *word, echoes[payload]))
            states.append((up, opened, lost))

    run(session, drive)
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
    events = [
        (5, Kind.INIT, 1, 0),
        (20, Kind.INIT, 1, 0),
        (21, Kind.INIT, 1, 0),
        (30, Kind.UP, 1, 0),
    ]
    said, states = heard(*events)
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


def test_each_end_that_was_up_comes_up_with_another_epoch_and_a_reset_while_down_changes_none():
    line, epochs = Line(2, 2), []

    async def drive(ctx):
        for waits in ((cycles_to_come_up(line),), (6, 1, 1), (1,)):
            for wait in waits:
                ctx.set(line.resets[0], 1)
                await ctx.tick().repeat(4)
                ctx.set(line.resets[0], 0)
                await ctx.tick().repeat(wait)
            await ctx.tick().repeat(cycles_to_come_up(line))
            assert ctx.get(line.ends[0].open) and ctx.get(line.ends[1].open)
            epochs.append(tuple(ctx.get(end.epoch) for end in line.ends))

    run(line, drive)
    assert epochs == [(0, 0), (1, 1), (0, 0)]
