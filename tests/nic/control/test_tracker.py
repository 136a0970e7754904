"""Tests of the dependency tracker against a dictionary of counts."""

import pytest

from multitree.nic.control.tracker import DependencyTracker
from tests.hw.streams import put, seeded, simulation_of
from tests.nic.blocks import SMALL

CLIENTS = 5
PLACES = [
    (port, op, flow)
    for port in range(SMALL.num_ports)
    for op in range(2)
    for flow in range(SMALL.num_flows)
]
HOT = PLACES[::3]
"""Few enough places that they are asked for soon after they were reported, on all ports."""
MOST = (1 << SMALL.count_width) - 1


on_a_tracker = simulation_of(lambda: DependencyTracker(SMALL, num_clients=CLIENTS))


class Model:
    """Counts by place, each with the phase it was made in."""

    def __init__(self):
        self.counts = {}

    def report(self, place, count, phase):
        self.counts[place] = (count, phase)

    def count(self, place, phase):
        count, made_in = self.counts.get(place, (0, phase))
        return count if made_in == phase else 0


async def report(ctx, tracker, arrivals):
    """Drive the reports of one cycle: counts by place, at most one per port."""
    for port, arrival in enumerate(tracker.arrivals):
        here = [(place, count) for place, count in arrivals.items() if place[0] == port]
        assert len(here) <= 1
        for (_, op, flow), count in here:
            put(ctx, arrival, op=op, flow=flow, count=count)
        ctx.set(arrival.valid, len(here))


async def ask(ctx, query, place, cycles=CLIENTS + 2):
    """The last answer to a question within some cycles, and the cycle of the first one."""
    port, op, flow = place
    put(ctx, query, valid=1, port=port, op=op, flow=flow)
    found, first = None, None
    for cycle in range(cycles):
        _, _, answered, count = await ctx.tick().sample(query.answered, query.count)
        if answered and cycle:
            first = cycle if first is None else first
            found = count
    ctx.set(query.valid, 0)
    await ctx.tick()
    return found, first


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@on_a_tracker
async def test_every_answer_is_the_count_of_the_cycle_before(ctx, tracker, seed):
    rng = seeded(seed)
    model = Model()
    answers = 0
    questions, stood = [None] * CLIENTS, [None] * CLIENTS
    before = dict.fromkeys(PLACES, 0)
    for _ in range(1200):
        arrivals = {}
        for port in range(SMALL.num_ports):
            if rng.random() < 0.3:
                place = rng.choice(HOT)
                arrivals[port, *place[1:]] = rng.randrange(1, MOST + 1)
        await report(ctx, tracker, arrivals)
        for client, query in enumerate(tracker.queries):
            if questions[client] is None and rng.random() < 0.3:
                questions[client] = rng.choice(HOT)
                port, op, flow = questions[client]
                put(ctx, query, valid=1, port=port, op=op, flow=flow)
            elif rng.random() < 0.2:
                questions[client] = None
                ctx.set(query.valid, 0)
        outputs = [v for q in tracker.queries for v in (q.answered, q.count)]
        _, _, *values = await ctx.tick().sample(*outputs)
        for client, place in enumerate(stood):
            if place is not None and values[2 * client]:
                assert values[2 * client + 1] == before[place]
                answers += 1
        stood = list(questions)
        for place, count in arrivals.items():
            model.report(place, count, 0)
        before = {place: model.count(place, 0) for place in PLACES}
    assert answers > 300


def others_ask(ctx, tracker):
    """All clients but the first ask for something all the time."""
    for query in tracker.queries[1:]:
        put(ctx, query, valid=1, port=1)


@on_a_tracker
async def test_a_report_is_seen_in_the_next_cycle_while_everybody_asks(ctx, tracker):
    place, times = (2, 1, 5), []
    others_ask(ctx, tracker)
    query = tracker.queries[0]
    for count in range(1, 20):
        put(ctx, query, valid=1, port=place[0], op=place[1], flow=place[2])
        await ctx.tick().repeat(1 + count % 7)
        await report(ctx, tracker, {place: count})
        waited, seen = 0, None
        while seen != count:
            _, _, answered, value = await ctx.tick().sample(query.answered, query.count)
            await report(ctx, tracker, {})
            seen = value if answered else seen
            waited += 1
        times.append(waited - 1)
        ctx.set(query.valid, 0)
        await ctx.tick()
    assert set(times) == {1}


@on_a_tracker
async def test_a_report_answers_only_who_asks_for_its_very_place(ctx, tracker):
    asked, query = (2, 1, 5), tracker.queries[0]
    for place in ((2, 1, 4), (2, 0, 5), (1, 1, 5), asked):
        put(ctx, query, valid=1, port=asked[0], op=asked[1], flow=asked[2])
        await report(ctx, tracker, {place: 3})
        _, _, *_ = await ctx.tick().sample(query.answered)
        await report(ctx, tracker, {})
        _, _, answered = await ctx.tick().sample(query.answered)
        assert answered == (place == asked), place
        ctx.set(query.valid, 0)
        await ctx.tick().repeat(3)


@on_a_tracker
async def test_an_old_report_is_read_in_turn_while_everybody_asks(ctx, tracker):
    place, times = (2, 1, 5), []
    others_ask(ctx, tracker)
    await report(ctx, tracker, {place: 3})
    await ctx.tick()
    await report(ctx, tracker, {})
    for pause in range(20):
        await ctx.tick().repeat(1 + pause % 7)
        found, first = await ask(ctx, tracker.queries[0], place)
        assert found == 3
        times.append(first)
    assert max(times) <= CLIENTS + 1
    assert len(set(times)) > 1


@pytest.mark.parametrize("phase", [0, 1])
@on_a_tracker
async def test_a_new_collective_reads_as_zero_until_it_reports_itself(ctx, tracker, phase):
    ctx.set(tracker.phase, phase)
    for place in PLACES:
        await report(ctx, tracker, {place: 7})
        await ctx.tick()
    await report(ctx, tracker, {})
    found = [(await ask(ctx, tracker.queries[3], place))[0] for place in PLACES]
    assert found == [7] * len(PLACES)
    ctx.set(tracker.phase, 1 - phase)
    await report(ctx, tracker, {PLACES[4]: 2})
    await ctx.tick()
    await report(ctx, tracker, {})
    expected = [2 if place == PLACES[4] else 0 for place in PLACES]
    assert [(await ask(ctx, tracker.queries[0], place))[0] for place in PLACES] == expected


@pytest.mark.slow
@pytest.mark.parametrize("bank", [0, 1])
@on_a_tracker
async def test_a_clear_leaves_zeros_in_the_other_bank_and_this_one_as_it_is(ctx, tracker, bank):
    rng = seeded(bank)
    for phase in range(2):
        ctx.set(tracker.phase, phase)
        for used in range(2):
            ctx.set(tracker.bank, used)
            for place in PLACES:
                await report(ctx, tracker, {place: MOST - used})
                await ctx.tick()
            await report(ctx, tracker, {})
        put(ctx, tracker, clear=1, bank=bank)
        await ctx.tick()
        ctx.set(tracker.clear, 0)
        cycles, arrivals, counts = 0, 0, dict.fromkeys(PLACES, MOST - bank)
        while ctx.get(tracker.clearing):
            # What comes in meanwhile counts, and only holds the clearing up.
            place, comes = rng.choice(PLACES), rng.random() < 0.4
            await report(ctx, tracker, {place: 5} if comes else {})
            counts |= {place: 5} if comes else {}
            await ctx.tick()
            cycles += 1
            arrivals += comes
        await report(ctx, tracker, {})
        assert arrivals and cycles == 2 * SMALL.num_flows + arrivals
        for place in PLACES:
            assert (await ask(ctx, tracker.queries[1], place))[0] == counts[place]
        ctx.set(tracker.bank, 1 - bank)
        for read_phase in range(2):
            ctx.set(tracker.phase, read_phase)
            for place in PLACES:
                assert (await ask(ctx, tracker.queries[1], place))[0] == 0


@on_a_tracker
async def test_ports_that_report_in_the_same_cycle_are_all_counted(ctx, tracker):
    places = [(port, port % 2, 3) for port in range(SMALL.num_ports)]
    await report(ctx, tracker, {place: 10 + place[0] for place in places})
    await ctx.tick()
    await report(ctx, tracker, {})
    for place in places:
        found, first = await ask(ctx, tracker.queries[2], place)
        assert found == 10 + place[0]
        assert first == 2, "alone, a client is answered two cycles after its question"
