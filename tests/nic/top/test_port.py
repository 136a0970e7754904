"""Tests of a port: its queue, credits, progress and the faults of its link."""

import zlib

import pytest

from multitree.hw.codes import PERIOD_CYCLES
from multitree.hw.link.link import Kind
from multitree.nic.driver.config import JOB_QUEUE_DEPTH
from multitree.nic.driver.faults import Awaited, FaultCode
from multitree.nic.top.port import Port
from tests.hw.streams import run, simulation_of
from tests.nic.blocks import SMALL, entry, head, start
from tests.nic.memory import latencies, reader

CREDITS = SMALL.buffer_flits
KNOWN = 2
"""What a control flit returns to an end in epoch 0: this epoch, and that it is known."""
MEMORY = [3 * k for k in range(1 << SMALL.address_width)]


def simulate(step, *, cycles=80, jobs=(), **settings):
    """Run a port; `step(cycle, port, set)` drives it. Returns outputs by name, one per cycle.

    Its link is up when the cycles begin.
    """
    port, seen, taken = Port(SMALL), [], []
    outputs = {
        "sent": port.tx.valid,
        "kind": port.tx.kind,
        "fault": port.fault,
        "idle": port.idle,
        "delivered": port.delivered,
        "up": port.up,
        "heard": port.fault_received,
        "received_fault": port.received_fault,
        "progress": port.progress,
        "awaited": port.sender_wait.awaited,
        "at": port.sender_wait.port,
        "row": port.sender_wait.row,
        "credit": port.activity.credit,
        "dependency": port.activity.dependency,
        "memory": port.activity.memory,
        "payload sent": port.activity.sent,
        "payload received": port.activity.received,
        "credits": port.activity.credits,
    }

    async def drive(ctx):
        ctx.set(port.port, 1)
        flit(port, ctx.set, kind=Kind.INIT, payload=KNOWN)
        await ctx.tick()
        ctx.set(port.rx.valid, 0)
        await ctx.tick().repeat(PERIOD_CYCLES + 5)
        assert ctx.get(port.up)
        start(ctx, port, **settings)
        waiting = list(jobs)
        for cycle in range(cycles):
            ctx.set(port.jobs.valid, bool(waiting))
            if waiting:
                ctx.set(port.jobs.payload, waiting[0])
            step(cycle, port, ctx.set)
            _, _, ready, *values = await ctx.tick().sample(port.jobs.ready, *outputs.values())
            if waiting and ready:
                taken.append(waiting.pop(0))
            seen.append(dict(zip(outputs, values, strict=True)))

    run(port, drive, background=[reader(port.memory.send, MEMORY, latency=latencies(None, 4))])
    return seen, taken


def flit(port, put_value, *, kind=Kind.HEAD, wrong=0, **fields):
    """Put a flit on the incoming link, with the CRC of a first one."""
    usual = {"valid": 1, "sequence": 0, "vc": 0, "epoch": 0, "payload": 0, "kind": kind}
    values = usual | fields
    check = zlib.crc32(values["payload"].to_bytes(SMALL.flit_bytes, "little") + bytes([kind.value]))
    for name, value in ({"check": check ^ wrong} | values).items():
        put_value(getattr(port.rx, name), value)


def nothing(cycle, port, put_value):
    """Leave the port alone."""


def one_flit(**fields):
    """Put a flit on the incoming link in cycle 5."""
    return lambda cycle, port, put_value: flit(port, put_value, valid=cycle == 5, **fields)


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"sequence": 1}, FaultCode.LINK_SEQUENCE),
        ({"sequence": 7}, FaultCode.LINK_SEQUENCE),
        ({"vc": 1}, FaultCode.LINK_SEQUENCE),
        ({"kind": Kind.BODY}, FaultCode.FRAMING),
        ({"epoch": 1}, FaultCode.LINK_EPOCH),
        ({"epoch": 1, "sequence": 1}, FaultCode.LINK_EPOCH),
        ({"kind": Kind.SINGLE, "wrong": 1}, FaultCode.LINK_CHECK),
        ({"kind": Kind.UP, "wrong": 1}, FaultCode.LINK_CHECK),
        ({"kind": Kind.DOWN}, FaultCode.PEER_RESET),
    ],
)
def test_a_wrong_flit_is_a_named_fault(fields, code):
    seen, _ = simulate(one_flit(**fields))
    assert {now["fault"] for now in seen} == {0, code}


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_fault_that_another_end_tells_is_heard_if_reported_in_its_present_epoch(epoch):
    seen, _ = simulate(one_flit(kind=Kind.FAULT, epoch=epoch, payload=77))
    assert {now["fault"] for now in seen} == ({0} if epoch else {0, FaultCode.PEER_FAULT})
    assert [now["received_fault"] for now in seen if now["heard"]] == ([] if epoch else [77])


def test_an_other_end_that_goes_down_is_no_fault_while_nothing_runs_and_nothing_is_sent_then():
    seen, _ = simulate(one_flit(kind=Kind.DOWN), running=0)
    assert {now["fault"] for now in seen} == {0}
    assert [now["up"] for now in seen] == [1] * 9 + [0] * 71
    said = [now["kind"] for now in seen if now["sent"]]
    assert said == [Kind.DOWN] * len(said) and len(said) == 5
    seen, _ = simulate(one_flit(kind=Kind.DOWN), jobs=[{"size": 40}])
    before = [now["kind"] for now in seen[:11] if now["sent"]]
    after = [now["kind"] for now in seen[11:] if now["sent"]]
    assert before and set(before) <= {Kind.HEAD, Kind.BODY} and set(after) == {Kind.DOWN}


@pytest.mark.slow
@pytest.mark.parametrize("running", [0, 1])
def test_a_flit_without_a_credit_and_a_credit_without_a_flit_are_faults(running):
    def flood(cycle, port, put_value):
        flit(port, put_value, valid=cycle <= CREDITS, sequence=cycle % 8)

    seen, _ = simulate(flood, running=0)
    assert {now["fault"] for now in seen} == {0, FaultCode.BUFFER_OVERFLOW}

    def credit(cycle, port, put_value):
        put_value(port.tx.credit, cycle == 9)

    seen, _ = simulate(credit, running=running)
    assert {now["fault"] for now in seen} == {0, FaultCode.CREDIT_OVERFLOW}


@pytest.mark.slow
def test_a_port_queues_rows_while_the_one_before_waits():
    """Four wait in the queue, one in the sender."""
    stuck = [{"row": k, "needs": 1, "size": 4} for k in range(9)]
    seen, taken = simulate(nothing, jobs=stuck)
    assert len(taken) == JOB_QUEUE_DEPTH + 1
    assert not any(now["sent"] for now in seen)
    assert all(now["dependency"] for now in seen[10:])
    assert (seen[-1]["awaited"], seen[-1]["row"]) == (Awaited.DEPENDENCY, 0)
    _, taken = simulate(nothing, jobs=stuck, running=0)
    assert len(taken) == JOB_QUEUE_DEPTH


def test_it_is_idle_exactly_when_nothing_is_left_to_send():
    jobs = [{"size": 6}, {"flow": 1, "size": 0}, {"flow": 2, "size": 3}]
    seen, _ = simulate(nothing, jobs=jobs)
    busy = [cycle for cycle, now in enumerate(seen) if not now["idle"]]
    sent = [cycle for cycle, now in enumerate(seen) if now["sent"]]
    assert len(sent) == 6 + 3 + len(jobs)
    assert busy == list(range(1, sent[-1])), "until the last flit is in the link's register"
    kinds = [seen[cycle]["kind"] for cycle in sent]
    body = [Kind.BODY] * 5
    assert kinds == [Kind.HEAD, *body, Kind.TAIL, Kind.SINGLE, Kind.HEAD, *body[:2], Kind.TAIL]


def test_what_it_sent_is_delivered_when_it_is_idle_and_all_credits_are_back():
    def step(cycle, port, put_value):
        put_value(port.tx.credit, 40 <= cycle < 47)

    seen, _ = simulate(step, jobs=[{"size": 6}])
    delivered = [now["idle"] and now["credits"] == CREDITS for now in seen]
    assert [now["delivered"] for now in seen] == delivered
    assert delivered[0] and not any(delivered[1:40]) and delivered[-1]


def test_it_sends_no_more_flits_than_the_buffer_has_places():
    freed = 50

    def step(cycle, port, put_value):
        put_value(port.tx.credit, cycle >= freed and cycle < freed + 3)

    seen, _ = simulate(step, jobs=[{"row": 7, "size": 40}])
    sent = [cycle for cycle, now in enumerate(seen) if now["sent"]]
    assert sum(cycle < freed for cycle in sent) == CREDITS
    assert len(sent) == CREDITS + 3
    stuck = seen[freed - 1]
    named = [stuck[name] for name in ("awaited", "at", "row", "credit")]
    assert named == [Awaited.CREDIT, 1, 7, 1]
    assert not stuck["progress"]


def test_payload_flits_alone_are_counted_and_every_flit_takes_a_credit():
    jobs = [{"size": 6}, {"flow": 1, "size": 0}, {"flow": 2, "size": 3}]
    seen, _ = simulate(nothing, jobs=jobs)
    # A flit is on the link in the cycle after it was counted.
    counted = [now["payload sent"] for now in seen[:-1]]
    assert counted == [now["sent"] and now["kind"] in (Kind.BODY, Kind.TAIL) for now in seen[1:]]
    assert sum(counted) == 6 + 3
    sent = 0
    for now in seen:
        sent += now["sent"]
        assert now["credits"] == CREDITS - sent

    def step(cycle, port, put_value):
        kinds = [Kind.HEAD, *[Kind.BODY] * 3, Kind.TAIL]
        payloads = [head(size=4), 0, 0, 0, 0]
        words = [p.to_bytes(8, "little") for p in payloads]
        content = b"".join(w + bytes([k.value]) for w, k in zip(words, kinds, strict=True))
        if cycle < len(kinds):
            fields = {"payload": payloads[cycle], "check": zlib.crc32(content)}
            flit(port, put_value, sequence=cycle, kind=kinds[cycle], **fields)
        else:
            flit(port, put_value, valid=0)
        # The entry that is looked up expects a chunk of four flits from this port's child.
        put_value(port.lookup.granted, cycle == 12)
        put_value(port.lookup.entry, entry(children=[1], size=4))
        put_value(port.lookup.intact, 1)
        put_value(port.memory.fetch.ready, 1)

    seen, _ = simulate(step)
    assert sum(now["payload received"] for now in seen) == 4


@pytest.mark.slow
def test_every_flit_sent_or_taken_is_progress_and_waiting_is_none():
    seen, _ = simulate(nothing, jobs=[{"size": 6}])
    sent = [cycle for cycle, now in enumerate(seen) if now["sent"]]
    assert [cycle for cycle, now in enumerate(seen) if now["progress"]] == [c - 1 for c in sent]
    # The head goes ahead of the first data by the memory's latency.
    stalled = [cycle for cycle, now in enumerate(seen) if now["memory"]]
    assert stalled == list(range(sent[0], sent[1] - 1))

    def step(cycle, port, put_value):
        flit(port, put_value, valid=cycle == 5)
        put_value(port.lookup.granted, cycle == 20)

    seen, _ = simulate(step)
    # A head is taken before it is looked up, behind the three registers of the link's end.
    assert [cycle for cycle, now in enumerate(seen) if now["progress"]] == [5 + 3]


@simulation_of(lambda: Port(SMALL))
async def test_bits_that_flip_in_any_queue_of_a_port_are_its_fault(ctx, port, flips):
    found = []
    assert len(flips) > 3
    for flip in flips:
        codes = set()
        for cycle in range(5):
            ctx.set(flip, cycle == 0)
            _, _, code = await ctx.tick().sample(port.fault)
            codes.add(code)
        found.append(codes)
    assert found == [{FaultCode.NONE, FaultCode.STATE_PARITY}] * len(flips)
