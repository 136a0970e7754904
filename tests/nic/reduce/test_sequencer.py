"""Tests of the sequencer: sums in canonical order whatever order messages come in."""

from collections import defaultdict
from itertools import chain

import pytest

from multitree.nic.driver.config import Config
from multitree.nic.reduce.sequencer import ReductionSequencer
from multitree.nic.signatures import Verdict
from tests.hw.streams import go, put, run, seeded

CONFIG = Config(num_ports=3, num_classes=1, num_flows=5, max_children=6, memory_queue_flits=4)
REDUCE, GATHER = 0, 1


class Bench:
    """Messages at every port: each claims its place, goes to memory, and is in."""

    def __init__(self, seed, stall="never", empty=(0, 0)):
        self.rng = seeded(seed)
        self.empty = empty
        self.block = ReductionSequencer(CONFIG)
        self.num_children = [self.rng.randrange(CONFIG.max_children + 1) for _ in range(5)]
        self.added = defaultdict(list)
        self.results, self.refused, self.counted = [], [], []
        self.num_staged, self.num_reported_to_wait = 0, 0
        self.locked, self.waiting = defaultdict(set), {}
        self.arriving = [[] for _ in range(CONFIG.num_ports)]
        self.stall, self.seed, self.idle_cycles, self.over = stall, seed, 0, False

    def messages(self):
        """Every message of one collective, in random order on random ports."""
        every = [(REDUCE, f, k) for f, count in enumerate(self.num_children) for k in range(count)]
        every += [(GATHER, f, 0) for f in range(CONFIG.num_flows)]
        self.rng.shuffle(every)
        ports = [[] for _ in range(CONFIG.num_ports)]
        for message in every:
            self.rng.choice(ports).append(message)
        return ports

    def begin(self, flow, order):
        """A contribution begins to be added: all before it are, and none is being."""
        assert all(ended for _, ended in self.added[flow])
        self.added[flow].append([order, False])

    def come_in(self, port, op, flow, order, staged):
        """It will be in memory after a while."""
        final = order == self.num_children[flow] - 1
        fields = {"op": op, "flow": flow, "order": order, "staged": staged, "final": final}
        self.arriving[port].append((self.rng.randrange(1, 30), fields))

    async def reservation(self, ctx, port, messages):
        """Claim place after place, at most as many at once as a port may hold."""
        reservation = self.block.reservations[port]
        for op, flow, order in messages:
            while len(self.arriving[port]) >= CONFIG.memory_queue_flits:
                await ctx.tick()
            empty, last = self.empty[op], self.num_children[flow] - 1
            put(ctx, reservation, valid=1, op=op, flow=flow, order=order, empty=empty, last=last)
            answered = False
            while not answered:
                _, _, answered, verdict = await ctx.tick().sample(
                    reservation.answered, reservation.verdict
                )
            ctx.set(reservation.valid, 0)
            if verdict == Verdict.TWICE:
                self.refused.append((op, flow, order))
            if empty or verdict == Verdict.TWICE:
                continue
            self.num_reported_to_wait += verdict == Verdict.STAGED
            before = self.locked[op, flow].copy()
            self.locked[op, flow].add(order)
            if verdict == Verdict.WAITS:
                assert before >= {*range(order)}
                self.waiting[flow, order] = port
                continue
            if op == REDUCE:
                assert (verdict == Verdict.STAGED) == (not before >= {*range(order)})
            if op == REDUCE and verdict == Verdict.DIRECT:
                self.begin(flow, order)
            self.come_in(port, op, flow, order, verdict == Verdict.STAGED)
            for _ in range(self.rng.choice([0, 0, 3, 20])):
                await ctx.tick()

    async def arrive(self, ctx):
        """One message per port and cycle is in, each after its time."""
        while not self.over:
            for port, arrival in enumerate(self.block.arrivals):
                self.arriving[port] = [(left - 1, what) for left, what in self.arriving[port]]
                due = [k for k, (left, _) in enumerate(self.arriving[port]) if left <= 0]
                ctx.set(arrival.valid, bool(due))
                if due:
                    _, fields = self.arriving[port].pop(due[0])
                    put(ctx, arrival, last=1, **fields)
                    if fields["op"] == REDUCE and not fields["staged"]:
                        assert self.added[fields["flow"]][-1] == [fields["order"], False]
                        self.added[fields["flow"]][-1][1] = True
            await ctx.tick()

    async def drain(self, ctx):
        """Staged contributions are added, one after the other as they are handed out."""
        drains, moves = self.block.drains, go(self.stall, self.seed)
        while not self.over:
            ready = next(moves)
            ctx.set(drains.ready, ready)
            _, _, valid, job = await ctx.tick().sample(drains.valid, drains.payload)
            if valid and ready:
                self.begin(job.flow, job.order)
                self.come_in(0, REDUCE, job.flow, job.order, 0)

    def take_turn(self, valid, flow, order):
        """One that waited for its turn may go."""
        if valid and (flow, order) in self.waiting:
            self.begin(flow, order)
            self.come_in(self.waiting.pop((flow, order)), REDUCE, flow, order, False)

    async def watch(self, ctx):
        """What is reported about complete flows; over when nothing moved for long."""
        block, arrival = self.block, self.block.arrival
        while not self.over:
            _, _, counted, staged, valid, op, flow, order, *turn = await ctx.tick().sample(
                *(block.counted, block.staged, arrival.valid),
                *(arrival.op, arrival.flow, arrival.order),
                *(block.turn.valid, block.turn.flow, block.turn.order),
            )
            self.take_turn(*turn)
            self.counted += [(op, flow, order)] * counted
            self.num_staged += staged
            self.idle_cycles = 0 if counted or any(self.arriving) else self.idle_cycles + 1
            self.over = self.idle_cycles > 200
            if valid:
                self.results.append((op, flow))

    def run(self, ports, *settings):
        """Let all of it happen."""
        clients = [
            lambda ctx, port=port, messages=messages: self.reservation(ctx, port, messages)
            for port, messages in enumerate(ports)
        ]
        run(self.block, *settings, *clients, self.arrive, self.drain, self.watch)


@pytest.mark.slow
@pytest.mark.parametrize("stall", ["never", "often", "bursts"])
@pytest.mark.parametrize("seed", range(4))
def test_contributions_are_added_one_by_one_in_their_order_whatever_order_they_come_in(seed, stall):
    bench = Bench(seed, stall)
    ports = bench.messages()
    bench.run(ports)
    sums = {flow: [order for order, _ in added] for flow, added in bench.added.items()}
    assert sums == {f: [*range(count)] for f, count in enumerate(bench.num_children) if count}
    whole = [(REDUCE, f) for f, count in enumerate(bench.num_children) if count]
    assert sorted(bench.results) == whole + [(GATHER, f) for f in range(CONFIG.num_flows)]
    assert sorted(bench.counted) == sorted(chain.from_iterable(ports))
    assert not bench.refused
    assert bench.num_staged == bench.num_reported_to_wait


@pytest.mark.parametrize("empty", [(1, 0), (0, 1), (1, 1)])
def test_contributions_without_payload_are_counted_and_never_added(empty):
    bench = Bench(5, empty=empty)
    bench.run(bench.messages())
    assert not bench.added or not empty[REDUCE]
    whole = [(REDUCE, f) for f, count in enumerate(bench.num_children) if count]
    assert sorted(bench.results) == whole + [(GATHER, f) for f in range(CONFIG.num_flows)]
    assert len(bench.counted) == sum(bench.num_children) + CONFIG.num_flows


def test_a_message_that_came_before_in_this_collective_is_refused():
    bench = Bench(7)
    bench.num_children = [3] * CONFIG.num_flows
    ports = [
        [(GATHER, 1, 0), (REDUCE, 2, 1), (GATHER, 1, 0), (REDUCE, 2, 1), (REDUCE, 2, 0)],
        [],
        [],
    ]
    bench.run(ports)
    assert bench.refused == [(GATHER, 1, 0), (REDUCE, 2, 1)]
    assert [order for order, _ in bench.added[2]] == [0, 1]


@pytest.mark.parametrize("empty", [(0, 0), (1, 1)])
@pytest.mark.parametrize("op", [REDUCE, GATHER])
@pytest.mark.parametrize("ports", [(0, 0), (0, 2)])
def test_a_message_twice_with_payload_or_without_is_refused_once_and_counted_once(ports, op, empty):
    bench = Bench(7, empty=empty)
    bench.num_children = [2] * CONFIG.num_flows
    streams = [[] for _ in range(CONFIG.num_ports)]
    for port in ports:
        streams[port].append((op, 3, 0))
    bench.run(streams)
    assert bench.refused == [(op, 3, 0)] and bench.counted == [(op, 3, 0)]
    assert bench.results == ([] if op == REDUCE else [(GATHER, 3)])


@pytest.mark.parametrize("another_table", [False, True])
@pytest.mark.parametrize("flow", range(CONFIG.num_flows))
def test_the_next_collective_knows_nothing_of_the_one_before(flow, another_table):
    bench = Bench(8)
    block = bench.block
    ports = [[(GATHER, flow, 0), (REDUCE, flow, 0), (REDUCE, flow, 2)], [], []]
    bench.num_children = [3] * CONFIG.num_flows

    async def next_one(ctx):
        await bench.reservation(ctx, 0, ports[0])
        await ctx.tick().repeat(60)
        if another_table:
            # Two collectives of another table later the phase is the same again.
            for bank in (1, 0):
                ctx.set(block.clear, 1)
                await ctx.tick()
                ctx.set(block.clear, 0)
                await ctx.tick().until(~block.clearing)
                ctx.set(block.bank, bank)
        else:
            ctx.set(block.phase, 1)
        bench.added.clear()
        bench.locked.clear()
        await bench.reservation(ctx, 0, [(GATHER, flow, 0), (REDUCE, flow, 1), (REDUCE, flow, 0)])

    run(block, next_one, bench.arrive, bench.drain, bench.watch)
    assert not bench.refused
    assert [order for order, _ in bench.added[flow]] == [0, 1]
