"""An end of a link with virtual channels: up, down, resets, faults reported."""

import random

import pytest
from amaranth import Module, ResetInserter, Signal
from amaranth.lib import wiring

from multitree.hw.codes import PERIOD_CYCLES
from multitree.hw.link.link import Kind
from multitree.hw.link.port import LinkPort
from tests.hw.link.wires import join
from tests.hw.streams import run

NUM_VCS, DEPTH = 3, 5
FAULTS = ("sequence_error", "epoch_error", "check_error", "overflow", "fault_credit")


class Line(wiring.Component):
    """Two ends, wires of some cycles each way, and a reset for each end."""

    def __init__(self, latency_cycles):
        self.latency_cycles = latency_cycles
        sizes = {"num_vcs": NUM_VCS, "flit_bytes": 2, "depth": DEPTH, "submessage_flits": 4}
        self.ends = [LinkPort(**sizes), LinkPort(**sizes)]
        self.resets = [Signal(), Signal()]
        self.come_up_cycles = 6 * latency_cycles + 6 * PERIOD_CYCLES
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        for k, (end, reset) in enumerate(zip(self.ends, self.resets, strict=True)):
            m.submodules[f"end_{k}"] = ResetInserter(reset)(end)
        for near, far in (self.ends, self.ends[::-1]):
            join(m, near.tx, far.rx, self.latency_cycles)
        return m


def talker(line, k, rng, sent):
    """Sends numbered flits on all channels for ever; `sent` has one list per time it was up."""
    end = line.ends[k]

    async def process(ctx):
        numbers, was_up = [0] * NUM_VCS, 0
        while True:
            vc = rng.randrange(NUM_VCS)
            # As a flit is taken in the cycle in which the link fails, a session begins with `up`.
            if ctx.get(end.up) and not was_up:
                numbers = [0] * NUM_VCS
                sent[k].append([0] * NUM_VCS)
            was_up = ctx.get(end.up)
            goes = ctx.get(end.may_send) >> vc & 1 and rng.random() < 0.8
            flit = {"kind": Kind.HEAD, "vc": vc, "payload": len(sent[k]) << 10 | numbers[vc]}
            ctx.set(end.flit, flit)
            ctx.set(end.take, goes)
            numbers[vc] += goes
            if sent[k]:
                sent[k][-1][vc] += goes
            await ctx.tick()

    return process


def listener(line, k, rng, got):
    """Takes flits now and then; `got` has per channel one list per time the end was up."""
    end = line.ends[k]

    async def process(ctx):
        was_up, chance = 0, 0.7
        while True:
            for o in end.o:
                ctx.set(o.ready, rng.random() < chance)
            streams = [value for o in end.o for value in (o.valid, o.ready, o.payload.payload)]
            faults = [getattr(end, name) for name in FAULTS]
            _, _, up, *now = await ctx.tick().sample(end.up, *faults, *streams)
            assert not any(now[: len(FAULTS)]), "a fault on sound wires"
            if up and not was_up:
                chance = rng.choice([0.1, 0.7, 1.0])
            for vc in range(NUM_VCS):
                valid, ready, payload = now[len(FAULTS) + 3 * vc :][:3]
                if valid and ready:
                    got[k].append((vc, payload >> 10, payload & 0x3FF))
            was_up = up

    return process


@pytest.mark.slow
@pytest.mark.parametrize("latency_cycles", [0, 5])
@pytest.mark.parametrize("seed", range(2))
def test_after_resets_of_either_end_in_any_cycle_each_channel_begins_anew(latency_cycles, seed):
    """What is delivered is, per time that the sender was up, its first flits in order."""
    print(f"seed {seed}")
    rng = random.Random(f"{latency_cycles} {seed}")
    line, sent, got = Line(latency_cycles), [[], []], [[], []]

    async def drive(ctx):
        for _ in range(4):
            reset = line.resets[rng.randrange(2)]
            await ctx.tick().repeat(rng.choice([3, line.come_up_cycles]) + rng.randrange(60))
            ctx.set(reset, 1)
            await ctx.tick().repeat(rng.randrange(1, 4))
            ctx.set(reset, 0)
        await ctx.tick().repeat(line.come_up_cycles + 80)
        assert all(ctx.get(end.up) for end in line.ends)

    ends = [f(line, k, rng, s) for k in range(2) for f, s in ((talker, sent), (listener, got))]
    run(line, drive, background=ends)
    for k in range(2):
        came = {}
        for vc, session, number in got[1 - k]:
            came.setdefault((vc, session), []).append(number)
        assert {session for _, session in came} >= {len(sent[k])}
        for numbers in came.values():
            assert numbers == [*range(len(numbers))]
        # Nothing of the last session is missing but what still has a place or is on its way to it.
        for vc in range(NUM_VCS):
            assert sent[k][-1][vc] > 5
            assert len(came[vc, len(sent[k])]) >= sent[k][-1][vc] - DEPTH - 1


def test_a_fault_is_reported_beside_the_data_and_heard_once_with_its_news():
    line, heard = Line(2), []

    async def drive(ctx):
        await ctx.tick().repeat(line.come_up_cycles)
        near, far = line.ends
        ctx.set(near.fault_record, 0xABCD)
        ctx.set(near.send_fault, 1)
        await ctx.tick().until(near.fault_sent)
        ctx.set(near.send_fault, 0)
        await ctx.tick().repeat(20)
        assert heard == [0xABCD] and not ctx.get(far.fault_sent)

    async def monitor(ctx):
        far = line.ends[1]
        async for _, _, strobe, received_fault in ctx.tick().sample(
            far.fault_received, far.received_fault
        ):
            heard.extend([received_fault] if strobe else [])

    rng = random.Random(0)
    run(line, drive, background=[monitor, talker(line, 0, rng, [[], []])])


def test_lost_is_reported_once_by_the_end_that_was_not_reset():
    line, lost = Line(1), [0, 0]

    async def drive(ctx):
        await ctx.tick().repeat(line.come_up_cycles)
        ctx.set(line.resets[0], 1)
        await ctx.tick()
        ctx.set(line.resets[0], 0)
        await ctx.tick().repeat(line.come_up_cycles)
        assert lost == [0, 1] and all(ctx.get(end.up) for end in line.ends)

    async def monitor(ctx):
        async for _, _, *now in ctx.tick().sample(*(end.lost for end in line.ends)):
            lost[:] = [count + strobe for count, strobe in zip(lost, now, strict=True)]

    run(line, drive, background=[monitor])
