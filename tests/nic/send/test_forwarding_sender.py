"""Tests of the sender that forwards: a flit leaves when it is written, not sooner."""

import pytest

from multitree.hw.link.link import Kind
from tests.hw.streams import PATTERNS, seeded
from tests.nic.forward.messages import Messages
from tests.nic.forward.ports import FORWARDING
from tests.nic.memory import latencies
from tests.nic.send.forwarding_senders import (
    LATENCY,
    RING,
    STALE,
    WAVES,
    S,
    add,
    bound,
    drawn,
    first,
    payload_times,
    places_of,
    simulate,
)
from tests.nic.send.test_sender import BASE


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("stall_flits", PATTERNS)
@pytest.mark.parametrize("writes", PATTERNS)
@pytest.mark.parametrize("packets", [0, 1])
def test_messages_are_the_jobs_bit_for_bit_and_no_flit_leaves_before_it_is_written(
    stall_flits, writes, packets
):
    seed = f"{stall_flits} {writes} {packets}"
    rng = seeded(seed)
    messages = Messages(lead=rng.randrange(4))
    jobs = drawn(rng, messages, 20)
    stalls = ("seldom", stall_flits, rng.choice(PATTERNS), rng.choice(PATTERNS))
    acks = rng.choice(PATTERNS)
    seen = simulate(
        jobs, messages, seed=seed, writes=writes, acks=acks, stalls=stalls, packets=packets
    )
    for time, place in zip(payload_times(seen), places_of(jobs, messages), strict=True):
        if place:
            port, position = place
            assert time >= first(seen, port, position + 1) + LATENCY


def test_a_head_leaves_2_cycles_after_its_message_began_and_each_flit_3_after_it_is_written():
    messages, begin, gap = Messages(lead=1), 20, 9
    jobs = bound(seeded(0), messages, [6])

    def at(cycle, port):
        """One flit in three cycles; each is acknowledged a cycle later."""
        written, acknowledged = ((cycle - late) // 3 + 1 for late in (begin + gap, begin + gap + 1))
        return (min(max(written, 0), 6), min(max(acknowledged, 0), 6)) if port == 1 else (0, 0)

    messages.since = begin
    seen = simulate(jobs, messages, at=at)
    assert seen.times[0] == begin + 2
    assert payload_times(seen) == [begin + gap + 3 * k + LATENCY for k in range(6)]
    assert seen.forwarded == 6


@pytest.mark.parametrize("latency", [1, 4, 20])
def test_a_flit_that_is_kept_no_more_comes_a_read_latency_and_3_cycles_after_it_is_in_memory(
    latency,
):
    messages, begin = Messages(), 40
    jobs = bound(seeded(0), messages, [RING + 8])

    def at(cycle, port):
        return (RING + 8, min(max(cycle - begin, 0) // 2, RING + 8)) if port == 1 else (0, 0)

    seen = simulate(jobs, messages, at=at, latency=latencies(None, latency))
    of_memory = RING + 8 - (RING - STALE)
    in_memory = [first(seen, 1, k + 1, acknowledged=1) for k in range(of_memory)]
    assert payload_times(seen)[:of_memory] == [time + latency + 3 for time in in_memory]
    assert [address for _, address in seen.reads] == [BASE + k for k in range(of_memory)]
    assert seen.forwarded == RING - STALE


@pytest.mark.parametrize("latency", [1, 4, 20])
def test_a_chunk_that_needs_nothing_comes_a_read_latency_and_3_cycles_after_its_job(latency):
    job = {"flow": 1, "base": 5, "size": 9}
    seen = simulate([job], Messages(), latency=latencies(None, latency))
    assert seen.times == [2, *range(latency + 3, latency + 3 + 9)]


SIZES = [40, 33, 20, 17, 24, 40]


def lost(times):
    """Cycles in which no flit left, between the first and the last one."""
    return times[-1] - times[0] - (len(times) - 1)


@pytest.mark.parametrize("source", ["memory", "behind the ring", "ring"])
def test_one_flit_per_cycle_and_hardly_a_cycle_lost_while_flits_are_there(source):
    rng, messages, most = seeded(source), Messages(), sum(SIZES)
    if source == "memory":
        jobs = [{"flow": k, "base": 41 * k, "size": size} for k, size in enumerate(SIZES)]
        seen = simulate(jobs, messages, latency=latencies(None, 5))
    else:
        jobs = bound(rng, messages, SIZES)
        # All was written long ago; or one flit per cycle, in time for the sender.
        delay = most + 40 if source == "ring" else 40

        def at(cycle, port):
            if port != 1:
                return 0, 0
            written = min(max(cycle - 15, 0), most) if source == "ring" else most
            return written, max(min(cycle - delay, most), 0)

        late = 0 if source == "ring" else 40 + most
        seen = simulate(jobs, messages, at=at, latency=latencies(None, 5), late=late)
        assert seen.forwarded == (most if source == "ring" else RING - STALE)
    # Queues take a cycle to go on when they begin to fill: not one per message.
    assert lost(seen.times[1:]) <= 2


def test_a_chunk_that_needs_nothing_is_read_ahead_while_earlier_jobs_wait():
    messages, begin = Messages(), 120
    jobs = bound(seeded(0), messages, [6])
    jobs += [{"row": 7, "flow": 4, "base": 300, "size": 9}, {"flow": 5, "base": 400, "size": 30}]

    def at(cycle, port):
        return (6, 0) if port == 1 and cycle >= begin else (0, 0)

    messages.since = begin
    seen = simulate(jobs, messages, at=at, latency=latencies(None, 20))
    room = FORWARDING.memory_queue_flits
    ahead = [address for cycle, address in seen.reads if cycle < begin]
    assert ahead == [BASE + a for a in [*range(300, 309), *range(400, 400 + room - 9)]]
    # The chunks follow at once: their flits are there.
    behind = seen.times[7:]
    assert behind[0] == seen.times[6] + 1 and lost(behind) <= 2
    assert seen.forwarded == 6


@pytest.mark.dear
@pytest.mark.parametrize("writes", PATTERNS)
@pytest.mark.parametrize("packets", [0, 1])
def test_without_cut_through_a_message_leaves_once_it_is_acknowledged_and_out_of_memory(
    writes, packets
):
    rng, messages = seeded(writes), Messages(lead=2)
    jobs = drawn(rng, messages, 14)
    stalls = ("seldom", "seldom", "seldom", "often")
    given = {"packets": packets, "cut_through": 0, "stalls": stalls}
    seen = simulate(jobs, messages, seed=writes, writes=writes, **given)
    assert not seen.forwarded
    heads = (Kind.HEAD.value, Kind.SINGLE.value)
    times = iter(zip(seen.times, seen.got, strict=True))
    for job in jobs:
        time = next(t for t, flit in times if flit["kind"] in heads and _begins(flit, job))
        if job["needs"]:
            names = job["need_port"], job["need_op"], job["flow"]
            ((_, position, size, _),) = messages.placed[names]
            end = position + size
            assert time >= first(seen, job["need_port"], end, acknowledged=1) + 2


def _begins(flit, job):
    """A head is the first one of a job's message."""
    return flit["payload"] & 0xFFFF == job["flow"] and not flit["payload"] >> 33 & 1


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("writes", PATTERNS)
@pytest.mark.parametrize("seed", range(2))
def test_waves_leave_bit_for_bit_whether_or_not_the_next_one_has_begun(writes, seed):
    rng, messages = seeded(f"{writes} {seed}"), Messages(WAVES, lead=1)
    sizes, left, jobs = [S + 1, 20, 1], [0, 0, 0], []
    while min(left) < 6:
        flow = rng.choice([k for k in range(3) if left[k] < 6])
        fields = {"need_port": flow % 2, "need_op": 0, "wave": left[flow], "base": 0}
        base = 300 * flow + 40 * left[flow]
        job = {"row": flow, "flow": flow, "op": 0, "size": sizes[flow], "needs": 1}
        jobs.append(job | fields | {"base": base})
        add(rng, messages, jobs[-1])
        left[flow] += 1
    stalls = ("never", rng.choice(PATTERNS), "seldom", "often")
    seen = simulate(jobs, messages, seed=seed, writes=writes, stalls=stalls)
    assert seen.reads and seen.forwarded


def test_a_wave_whose_next_one_has_begun_leaves_out_of_memory_once_it_is_whole():
    """Where it was written is known no more, although its flits are still kept."""
    messages, size, late, whole = Messages(WAVES), 7, 60, 100
    jobs = []
    for wave in range(3):
        jobs += bound(seeded(wave), messages, [size], wave=wave, base=50 * wave)

    def at(cycle, port):
        if port != 1:
            return 0, 0
        return min(cycle, 3 * size), size - 1 if cycle < whole else 2 * size + 1

    seen = simulate(jobs, messages, at=at, late=late)
    assert seen.times[0] > whole
    assert [address - BASE for _, address in seen.reads] == [*range(size), *range(50, 50 + size)]
    assert seen.forwarded == size


def test_what_is_kept_is_not_read_although_memory_has_it_and_is_known_to_before_it_began():
    messages = Messages(since=40)
    jobs = bound(seeded(0), messages, [9])
    seen = simulate(jobs, messages, at=lambda cycle, port: (9 * (port == 1),) * 2)
    assert seen.times[0] == 42 and seen.forwarded == 9
