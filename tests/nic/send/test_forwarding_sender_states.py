"""Tests of a sender that forwards: idle, stopped, waiting, and bits that flip."""

import pytest

from multitree.hw.link.link import Kind
from multitree.nic.driver.faults import Awaited
from multitree.nic.forward.positions import kept_width
from multitree.nic.send.sender import ForwardingSender
from tests.hw.streams import go, put, run, seeded, send, simulation_of
from tests.nic.blocks import plain, start
from tests.nic.forward.flips import flipping, recorded
from tests.nic.forward.messages import Messages, scripted
from tests.nic.forward.ports import FORWARDING
from tests.nic.memory import latencies, reader, tracker
from tests.nic.send.forwarding_senders import DEPTH, LATENCY, RING, WAVES, add, bound, drawn
from tests.nic.send.test_sender import BASE


def around(block, messages, at, *, memory=None, latency=3, taken=None, flip=None, **known):
    """All around a sender: ports as a script has them, memory, and what trackers know."""
    memory = [0] * DEPTH if memory is None else memory
    return [
        scripted(block.forward, messages.models, memory, at, flip=flip),
        reader(block.memory, memory, latency=latencies(None, latency), taken=taken),
        tracker(block.beginning, known.get("begins", messages.begins)),
        tracker(block.query, known.get("counts", lambda *_: 0)),
    ]


def test_it_is_idle_only_before_and_after_its_messages_and_a_next_collective_is_as_clean():
    block, messages = ForwardingSender(FORWARDING), Messages()
    (job,) = bound(seeded(0), messages, [9])
    idle, tails, got = [], [], []
    places = {0: (0, 0), 20: (0, 0), 30: (9, 0), 60: (9, 9), 80: (0, 0), 120: (9, 0)}
    begun = {(20, 70), (110, 150)}

    def at(cycle, port):
        return places[max(c for c in places if c <= cycle)] if port == 1 else (0, 0)

    def begins(cycle, *asked):
        return messages.begins(cycle, *asked) * any(a <= cycle < b for a, b in begun)

    async def drive(ctx):
        ctx.set(block.flits.ready, 1)
        for cycle in range(160):
            running = not 75 <= cycle < 100
            start(ctx, block, window_base=BASE, cut_through=1, running=running)
            # A job that comes before its collective runs is taken once, and then.
            put(ctx, block.jobs, valid=cycle == 5 or 90 <= cycle <= 100, payload=job)
            flits = block.flits
            _, _, now, sent, flit = await ctx.tick().sample(block.idle, flits.valid, flits.payload)
            idle.append(now)
            got.extend([plain(flit)["payload"]] * sent)
            tails.extend([cycle] * (sent and flit.kind == Kind.TAIL))

    run(block, drive, background=around(block, messages, at, begins=begins))
    assert len(tails) == 2 and tails[0] >= 30 + LATENCY + 8 and tails[1] >= 120 + LATENCY + 8
    busy = {*range(5, tails[0] + 1), *range(90, tails[1] + 1)}
    assert idle == [int(cycle not in busy) for cycle in range(160)]
    assert got[1:10] == got[11:] == messages.models[1].flits


@pytest.mark.parametrize("ready", range(10))
@simulation_of(lambda: ForwardingSender(FORWARDING))
async def test_it_is_not_idle_between_messages_without_payload(ctx, block, ready):
    jobs, idle, sent = [{"row": 1}, {"row": 2}], [], []
    start(ctx, block)
    for cycle in range(30):
        ctx.set(block.flits.ready, cycle >= ready)
        put(ctx, block.jobs, valid=cycle < 2, payload=jobs[min(cycle, 1)])
        flits = block.flits
        _, _, now, *moves = await ctx.tick().sample(block.idle, flits.valid, flits.ready)
        idle.append(now)
        sent.extend([cycle] * all(moves))
    assert len(sent) == 2
    assert idle == [int(cycle > sent[-1]) for cycle in range(30)]


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("stop", range(3, 60, 4))
def test_it_stops_at_once_when_no_collective_runs_any_more(stop):
    # Flits are read of both: what the first one waits for was written long ago.
    block, messages, sent, reads = ForwardingSender(FORWARDING), Messages(), [], []
    jobs = bound(seeded(0), messages, [60])
    jobs.append({"row": 2, "flow": 3, "base": 300, "size": 30})

    async def drive(ctx):
        ctx.set(block.flits.ready, 1)
        for cycle in range(100):
            running = cycle < stop
            start(ctx, block, cut_through=1, running=running, faulted=not running)
            put(ctx, block.jobs, valid=cycle < 2, payload=jobs[min(cycle, 1)])
            _, _, valid = await ctx.tick().sample(block.flits.valid)
            sent.append(valid)

    def at(cycle, port):
        return (60, 60) if port == 1 else (0, 0)

    run(block, drive, background=around(block, messages, at, taken=reads))
    assert not any(sent[stop:]) and (any(sent) or stop < 8)
    # At most the three reads that were on their way to memory: one of this chunk, two behind it.
    assert sum(cycle >= stop for cycle, _ in reads) <= 3
    assert stop < 10 or sum(cycle < stop for cycle, _ in reads) > 2


@pytest.fixture
def memories(monkeypatch):
    """The memories of all queues that are made, whose content a test may change."""
    return recorded(monkeypatch)


def errors_with(memories, number=None, *, flip=None):
    """State errors of a sender that works while bits flip in one of its memories.

    With `flip` this bit of what ports keep is another one.
    """
    rng, messages, errors, flipped = seeded(flip), Messages(), [], []
    block, jobs = ForwardingSender(FORWARDING), drawn(rng, messages, 20, (1, 9, 40), (0, 1, 1, 1))

    async def drive(ctx):
        moves = go("bursts", 3)
        start(ctx, block, window_base=BASE, cut_through=1)
        for _ in range(900):
            ctx.set(block.flits.ready, next(moves))
            _, _, error = await ctx.tick().sample(block.state_error)
            errors.append(error)
            if error:
                break

    async def give(ctx):
        await send(ctx, block.jobs, jobs, go("never", 0))

    def at(cycle, port):
        # Jobs queue up, and then much is written at once: what comes first is kept no more.
        written = min(9 * max(cycle - 60, 0), len(messages.models[port].flits))
        return written, min(4 * max(cycle - 60, 0), written)

    memory = [rng.getrandbits(64) for _ in range(DEPTH)]
    given = {"memory": memory, "latency": 9, "flip": flip, "counts": messages.counts}
    background = [*around(block, messages, at, **given), give]
    if number is not None:
        background.append(lambda ctx: flipping(memories[number], flipped)(ctx))
    run(block, drive, background=background)
    assert flipped or number is None, "nothing went through this memory"
    return sum(errors)


NUM_QUEUES = 9


@pytest.mark.parametrize("number", range(NUM_QUEUES))
def test_a_bit_that_flips_in_a_queue_is_a_state_error(number, memories):
    assert errors_with(memories, number) > 0
    assert len(memories) == NUM_QUEUES


@pytest.mark.slow
@pytest.mark.parametrize("bit", [0, 40, 63, 64, kept_width(FORWARDING) - 1])
def test_a_bit_that_flips_in_what_a_port_keeps_is_a_state_error(bit, memories):
    assert errors_with(memories, flip=bit) > 0


def test_no_bit_flips_and_there_is_no_state_error(memories):
    assert errors_with(memories) == 0


FREE = {"row": 6, "flow": 3, "op": 1, "base": 200, "size": 4}
BOUND = {"row": 7, "flow": 4, "op": 0, "base": 300, "size": 4}
BOUND |= {"needs": 1, "need_port": 2, "need_op": 1}


def waits(jobs, *, ready=1, begun=0, written=0, acknowledged=0, latency=10_000, config=FORWARDING):
    """What a sender says it waits for, in the end."""
    block, found = ForwardingSender(config), {}
    messages = Messages(config)
    for job in jobs:
        if job.get("needs"):
            add(seeded(0), messages, job)

    async def drive(ctx):
        start(ctx, block, cut_through=1, last_wave=7)
        ctx.set(block.flits.ready, ready)
        await send(ctx, block.jobs, jobs, go("never", 0))
        await ctx.tick().repeat(60)
        for name in block.wait.signature.members:
            found[name] = ctx.get(getattr(block.wait, name))

    def at(cycle, port):
        return (written, acknowledged) if port == 2 else (0, 0)

    def begins(*asked):
        return messages.begins(*asked) * begun

    run(block, drive, background=around(block, messages, at, latency=latency, begins=begins))
    return found


@pytest.mark.slow
def test_it_names_the_message_that_waits_and_what_for():
    late = {"awaited": Awaited.DEPENDENCY, "row": 7, "flow": 4, "port": 2, "op": 1}
    assert waits([])["awaited"] == Awaited.NOTHING
    assert waits([BOUND]) == late
    # Its head has left, and 2 of its flits.
    for written in (0, 2):
        assert waits([BOUND], begun=1, written=written) == late
    done = waits([BOUND], begun=1, written=4)
    assert done["awaited"] == Awaited.NOTHING
    for begun in (0, 1):
        assert waits([FREE, BOUND], begun=begun, latency=3) == late
    assert waits([BOUND, FREE], latency=3) == late


@pytest.mark.parametrize("behind", [BOUND, BOUND | {"needs": 0}])
def test_the_message_that_is_being_sent_is_named_before_the_next_one(behind):
    for stuck in ({"ready": 0, "latency": 3}, {"ready": 1}):
        found = waits([FREE, behind], **stuck)
        code = Awaited.CREDIT if not stuck["ready"] else Awaited.MEMORY_READ
        assert (found["awaited"], found["row"], found["flow"], found["op"]) == (code, 6, 3, 1)


def test_a_flit_that_memory_does_not_return_is_named_as_such_although_its_message_was_written():
    long = BOUND | {"size": 2 * RING}
    found = waits([long], begun=1, written=2 * RING, acknowledged=2 * RING)
    assert (found["awaited"], found["row"]) == (Awaited.MEMORY_READ, 7)


def test_the_wave_that_waits_is_named():
    jobs = [FREE | {"wave": 3}, BOUND | {"wave": 5}]
    given = {"config": WAVES, "begun": 0}
    assert waits(jobs, latency=3, **given)["wave"] == 5
    assert waits(jobs, ready=0, **given)["wave"] == waits(jobs, **given)["wave"] == 3
    assert waits([BOUND | {"wave": 5}], config=WAVES, begun=1, written=2)["wave"] == 5


def test_memory_that_stands_still_is_named_although_the_next_message_has_begun():
    found = waits([FREE, BOUND], begun=1)
    assert (found["awaited"], found["row"]) == (Awaited.MEMORY_READ, 6)
