"""Tests of the fetcher: rows become jobs at their ports, or a fault with an index."""

from dataclasses import replace
from functools import cache
from itertools import product
from types import SimpleNamespace

import pytest
from amaranth import Elaboratable, Module
from amaranth.lib import wiring

from multitree.nic.control.memories import FlowMemory, TableMemory
from multitree.nic.driver.faults import FaultCode
from multitree.nic.layouts import FLOW_ENTRY, ROW
from multitree.nic.send.fetcher import Fetcher
from multitree.nic.send.pipelined_fetcher import PipelinedFetcher
from tests.hw.streams import PATTERNS, go, put, run, seeded
from tests.nic.blocks import SMALL, entry, load, plain, row, start

PORTS, DEPTH = SMALL.num_ports, SMALL.table_depth
FORWARDS = replace(SMALL, forward_flits=32)
BOTH = pytest.mark.parametrize("config", [SMALL, FORWARDS], ids=["plain", "forwards"])
NOP = 2
LEAF, INNER, ROOT, ALONE = {"parent": 1}, {"children": [2, 0], "parent": 1}, {"children": [0]}, {}


class Bench(Elaboratable):
    """A fetcher with its memories; another client of the flow memory may hold it up.

    One that hands out a row per cycle has a flow memory of its own.
    """

    def __init__(self, config):
        forwards = config.forward_flits > 0
        self.fetcher = (PipelinedFetcher if forwards else Fetcher)(config)
        self.table = TableMemory(config)
        self.flows = FlowMemory(config, num_clients=2 - forwards)

    def elaborate(self, platform):
        m = Module()
        fetcher, table, flows = self.fetcher, self.table, self.flows
        m.submodules += [fetcher, table, flows]
        m.d.comb += [table.address.eq(fetcher.address), fetcher.row.eq(table.row)]
        m.d.comb += fetcher.row_intact.eq(table.intact)
        wiring.connect(m, fetcher.lookup, flows.lookups[0])
        return m


the_bench = cache(Bench)
"""One for all runs, of which most take less time than elaborating it."""


def simulate(
    rows,
    flows,
    *,
    pattern="never",
    blocked=(),
    fault_cycle=None,
    flip=None,
    config=SMALL,
    starts=1,
    **settings,
):
    """What a fetcher makes of a table: jobs per port, the fault if any, the steps it was in.

    A `flip` is a cycle, a memory by name, an entry, a bit of it, and whether it stays flipped.
    """
    bench = the_bench(config)
    fetcher = bench.fetcher
    seen = SimpleNamespace(jobs=[[] for _ in range(PORTS)], faults=[], cycles=0, steps=[])
    others = bench.flows.lookups[1:]
    sizes = {"num_rows": len(rows), "num_flows": len(flows)}

    async def drive(ctx):
        await load(ctx, bench.table, ROW, [row(**fields) for fields in rows[:DEPTH]])
        await load(ctx, bench.flows, FLOW_ENTRY, [entry(**f) for f in flows[: SMALL.num_flows]])
        start(ctx, fetcher, **sizes | settings)
        put(ctx, fetcher, start=1)
        moves = [go(pattern, number) for number in range(PORTS + 1)]
        jobs = fetcher.jobs
        outputs = [v for j in jobs for v in (j.valid & j.ready, j.payload)]
        faulted, quiet, cycle, left = 0, 0, -1, starts
        while quiet < 3:
            if flip is not None and cycle - flip[0] in ((0,) if flip[4] else (0, 1)):
                content = getattr(bench, flip[1]).content.banks[0][flip[2]]
                ctx.set(content, ctx.get(content) ^ 1 << flip[3])
            if cycle == fault_cycle:
                faulted = 1
                put(ctx, fetcher.run, faulted=1, running=0)
            for number, port in enumerate(jobs):
                open_now = number not in blocked or cycle == fault_cycle
                ctx.set(port.ready, next(moves[number]) and open_now)
            for lookup in others:
                ctx.set(lookup.valid, not next(moves[PORTS]))
            _, _, busy, fault, index, of_flow, step, *taken = await ctx.tick().sample(
                *(fetcher.busy, fetcher.fault, fetcher.fault_index, fetcher.fault_of_flow),
                *(fetcher.step, *outputs),
            )
            put(ctx, fetcher, start=0)
            cycle += 1
            for number in range(PORTS):
                if taken[2 * number]:
                    assert not faulted, "a job after the fault"
                    seen.jobs[number].append(plain(taken[2 * number + 1]))
                    seen.steps.append(step)
            if fault:
                seen.faults.append((fault, "flow" if of_flow else "row", index))
                faulted = 1
            put(ctx, fetcher.run, faulted=faulted, running=1 - faulted)
            seen.cycles += busy
            quiet = 0 if busy and seen.cycles < 6000 else quiet + 1
            if quiet == 2 and left > 1:
                left, quiet = left - 1, 0
                put(ctx, fetcher, start=1)

    run(bench, drive, keep=True)
    return seen


def expected_jobs(rows, flows, num_waves=1):
    """The jobs that rows and the flows' entries imply, per port."""
    jobs = [[] for _ in range(PORTS)]
    num_runs = num_waves + max((fields.get("stage", 0) for fields in rows), default=0)
    for number, (index, fields) in product(range(num_runs), enumerate(rows)):
        op, wave = fields.get("op", 0), number - fields.get("stage", 0)
        if op == NOP or not 0 <= wave < num_waves:
            continue
        flow = flows[fields.get("flow", 0)]
        parent, children = flow.get("parent"), flow.get("children", [])
        job = {"row": index, "flow": fields.get("flow", 0), "op": op}
        base = flow.get("base", 0) + wave * flow.get("stride", 0)
        job |= {"base": base, "size": flow.get("size", 0), "wave": wave}
        if op == 1 and parent is not None:
            job |= {"needs": 1, "need_port": parent, "need_op": 1}
        elif children:
            job |= {"needs": 1, "need_port": children[-1], "need_op": 0}
        else:
            job |= {"needs": 0}
        jobs[fields.get("port", 0)].append(job)
    return jobs


def without_need(jobs):
    """Jobs without the fields that mean nothing where there is no dependency."""
    unused = {"need_port", "need_op"}
    return [
        [{k: v for k, v in job.items() if job["needs"] or k not in unused} for job in port]
        for port in jobs
    ]


def random_table(rng, *, nops=False):
    flows = []
    for _ in range(SMALL.num_flows):
        ports = rng.sample(range(PORTS), PORTS)
        flow = {"children": ports[: rng.randrange(PORTS + 1)], "base": rng.randrange(500)}
        flow |= {"size": rng.choice([0, 1, 500])}
        if rng.random() < 0.5:
            flow["parent"] = rng.randrange(PORTS)
        flows.append(flow)
    steps = sorted(rng.randrange(8) for _ in range(DEPTH))
    rows = [
        {"step": step, "op": rng.randrange(2 + nops), "port": rng.randrange(PORTS)}
        | {"flow": rng.randrange(len(flows))}
        for step in steps
    ]
    return rows, flows


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("seed", range(3))
@BOTH
def test_every_port_gets_its_rows_in_order_as_jobs(pattern, seed, config):
    rows, flows = random_table(seeded(seed), nops=seed == 2)
    seen = simulate(rows, flows, pattern=pattern, config=config)
    assert without_need(seen.jobs) == expected_jobs(rows, flows)
    assert not seen.faults


@pytest.mark.parametrize(
    ("flow", "op", "need"),
    [
        (LEAF, 0, None),
        (LEAF, 1, (1, 1)),
        (INNER, 0, (0, 0)),
        (INNER, 1, (1, 1)),
        (ROOT, 0, (0, 0)),
        (ROOT, 1, (0, 0)),
        (ALONE, 0, None),
        (ALONE, 1, None),
        ({"children": [2, 1, 0], "parent": 0}, 0, (0, 0)),
    ],
)
@BOTH
def test_a_dependency_is_the_last_child_or_for_a_gather_the_parent(flow, op, need, config):
    ((job,), *_) = simulate([{"op": op}], [flow], config=config).jobs
    assert ((job["needs"] and (job["need_port"], job["need_op"])) or None) == need


@pytest.mark.parametrize("position", range(DEPTH))
@BOTH
def test_an_illegal_row_is_a_fault_with_its_index_and_nothing_of_it_or_behind_goes(
    position, config
):
    rng = seeded(position)
    rows, flows = random_table(rng)
    wrong = rng.choice([{"op": 3}, {"port": PORTS}, {"flow": len(flows)}, {"stage": 1}])
    code = FaultCode.ITERATIONS if "stage" in wrong else FaultCode.ROW_ILLEGAL
    broken = [*rows[:position], rows[position] | wrong, *rows[position + 1 :]]
    seen = simulate(broken, flows, pattern="seldom", config=config)
    assert seen.faults == [(code, "row", position)]
    assert without_need(seen.jobs) == expected_jobs(rows[:position], flows)


@BOTH
def test_a_row_of_an_earlier_step_than_the_one_before_it_is_a_fault(config):
    rows = [{"step": step} for step in (1, 3, 3, 2, 3)]
    seen = simulate(rows, [ALONE], config=config)
    assert seen.faults == [(FaultCode.ROW_ILLEGAL, "row", 3)]
    assert without_need(seen.jobs) == expected_jobs(rows[:3], [ALONE])


@pytest.mark.parametrize("position", range(SMALL.num_flows))
@BOTH
def test_the_row_that_uses_an_illegal_flow_does_not_go_and_the_flow_is_named(position, config):
    rows = [{"op": 1, "flow": flow} for flow in range(SMALL.num_flows)]
    flows = [{"base": flow, "size": 1} for flow in range(SMALL.num_flows)]
    broken = [flow | ({"stride": 1} if k == position else {}) for k, flow in enumerate(flows)]
    seen = simulate(rows[::-1], broken, config=config)
    assert seen.faults == [(FaultCode.FLOW_ILLEGAL, "flow", position)]
    after = rows[::-1][: len(rows) - 1 - position]
    assert without_need(seen.jobs) == expected_jobs(after, flows)


@pytest.mark.slow
@pytest.mark.dear
@BOTH
@pytest.mark.parametrize("lasting", [True, False])
@pytest.mark.parametrize("memory", ["table", "flows"])
def test_a_bit_that_flips_in_any_cycle_changes_no_job(memory, lasting, config):
    """Whatever goes is what was written, and what cannot go is named."""
    rng = seeded(f"{memory} {lasting}")
    rows, flows = random_table(rng)
    # What passes by soon must meet the row in the very cycle: more rows, more chances.
    rows = rows[: DEPTH if memory == "table" and not lasting else DEPTH // 2]
    bits, entries = (66, DEPTH) if memory == "table" else (165, SMALL.num_flows)
    right, named, rate = expected_jobs(rows, flows), 0, 1 if config.forward_flits else 6
    # A row is on its way to its entry when the next ones are read.
    behind = 2 if rate == 1 and memory == "flows" else 0
    for cycle in range(rate * len(rows) + 2 + behind):
        index = min(max(cycle - behind, 0) // rate, len(rows) - 1)
        place = index if memory == "table" else rows[index]["flow"]
        place = place if rng.random() < 0.8 else rng.randrange(entries)
        flip = (cycle, memory, place, rng.randrange(bits), lasting)
        seen = simulate(rows, flows, flip=flip, config=config)
        for port, jobs in enumerate(without_need(seen.jobs)):
            assert jobs == right[port][: len(jobs)]
        if seen.faults:
            kind = "row" if memory == "table" else "flow"
            assert seen.faults == [(FaultCode.TABLE_PARITY, kind, place)]
            named += 1
        else:
            assert without_need(seen.jobs) == right
    assert named >= len(rows) // 2


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("blocked", range(PORTS))
@BOTH
def test_a_blocked_port_holds_only_the_rows_behind_it(blocked, config):
    rows, flows = random_table(seeded(7))
    first = [fields["port"] for fields in rows].index(blocked)
    seen = simulate(rows, flows, blocked=[blocked], config=config)
    assert without_need(seen.jobs) == expected_jobs(rows[:first], flows)


@pytest.mark.parametrize("cycle", range(18))
def test_no_job_goes_from_the_cycle_of_a_fault_on_whatever_the_fetcher_is_doing(cycle):
    """Ports are not ready until then: the row in hand waits, and must not go any more."""
    rows, flows = random_table(seeded(cycle))
    for blocked in ((), range(PORTS)):
        seen = simulate(rows, flows, blocked=blocked, fault_cycle=cycle)
        gone = 0 if blocked else cycle // 6
        assert without_need(seen.jobs) == expected_jobs(rows[:gone], flows)
        assert seen.cycles < cycle + 8, "it stops within the row in hand"


@pytest.mark.parametrize("cycle", range(18))
def test_no_job_goes_from_the_cycle_of_a_fault_on_where_rows_follow_each_other(cycle):
    rows, flows = random_table(seeded(cycle))
    for blocked in ((), range(PORTS)):
        seen = simulate(rows, flows, blocked=blocked, fault_cycle=cycle, config=FORWARDS)
        gone = 0 if blocked else max(cycle - 6, 0)
        assert without_need(seen.jobs) == expected_jobs(rows[:gone], flows)
        assert seen.cycles < cycle + 3


@BOTH
def test_a_row_takes_six_cycles_or_where_flits_are_forwarded_one(config):
    rows, flows = random_table(seeded(1))
    few, all_rows = (simulate(rows[:count], flows, config=config).cycles for count in (4, DEPTH))
    assert all_rows - few == (1 if config.forward_flits else 6) * (DEPTH - 4)


@BOTH
def test_in_lockstep_rows_go_in_their_steps_and_nops_go_nowhere(config):
    rows = [{"step": 0}, {"step": 1, "op": NOP, "port": 15}, {"step": 2, "port": 1}, {"step": 4}]
    seen = simulate(rows, [ALONE], lockstep=1, step_cycles=20, config=config)
    assert without_need(seen.jobs) == expected_jobs(rows, [ALONE])
    assert seen.steps == [0, 2, 4]
    assert 80 < seen.cycles < 90
