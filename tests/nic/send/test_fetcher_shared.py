"""The fetcher on shared links: jobs have routes and wait for the one count."""

from dataclasses import replace
from itertools import product

import pytest

from multitree.nic.layouts import FLOW_ENTRY, SHARED_ROW
from tests.hw.streams import put, seeded, simulation_of
from tests.nic.blocks import SMALL, load, plain, start
from tests.nic.receive.shared_receivers import flow_entry
from tests.nic.send.test_fetcher import the_bench

SHARED = replace(SMALL, flit_bytes=16, num_classes=2)
ROUTED = ("order", "vc_class", "step", "route")


@simulation_of(lambda: the_bench(SHARED))
async def fetched(ctx, bench, rows, flows, header_only):
    """Jobs of each port in the order in which they are taken."""
    fetcher, jobs = bench.fetcher, [[] for _ in range(SHARED.num_ports)]
    entries = [flow_entry(**f) for f in flows]
    await load(ctx, bench.table, SHARED_ROW, [SHARED_ROW.const(fields) for fields in rows])
    await load(ctx, bench.flows, FLOW_ENTRY, entries)
    start(ctx, fetcher, num_rows=len(rows), num_flows=len(flows), header_only=header_only)
    put(ctx, fetcher, start=1)
    for port in fetcher.jobs:
        ctx.set(port.ready, 1)
    outputs = [v for port in fetcher.jobs for v in (port.valid, port.payload)]
    for _ in range(20 * (len(rows) + 1)):
        _, _, fault, *taken = await ctx.tick().sample(fetcher.fault, *outputs)
        assert not fault
        put(ctx, fetcher, start=0)
        for number, (valid, job) in enumerate(zip(taken[::2], taken[1::2], strict=True)):
            if valid:
                jobs[number].append(plain(job))
    assert not ctx.get(fetcher.busy)
    return jobs


def expected(rows, flows, header_only):
    """The jobs that rows and flows imply."""
    jobs = [[] for _ in range(SHARED.num_ports)]
    for index, row in enumerate(rows):
        flow, op = flows[row["flow"]], row["op"]
        from_parent = op == 1 and flow["parent"]
        job = {name: row[name] for name in ("flow", "op", *ROUTED)}
        job |= {"row": index, "base": flow["base"], "wave": 0, "need_port": 0}
        job |= {"size": 0 if header_only >> op & 1 else flow["size"]}
        job |= {"needs": int(bool(from_parent or flow["num_children"]))}
        jobs[row["port"]].append(job | {"need_op": int(from_parent)})
    return jobs


@pytest.mark.parametrize("header_only", [0, 1, 2])
def test_every_port_gets_its_rows_with_their_routes(header_only):
    rng = seeded(header_only)
    cases = list(product([0, 1, 3], [0, 1]))
    flows = [
        {"base": rng.randrange(500), "size": rng.randrange(400)}
        | {"num_children": num_children, "parent": parent}
        for num_children, parent in cases
    ]
    rows = [
        {"flow": flow, "op": op, "port": rng.randrange(3), "order": rng.randrange(64)}
        | {"vc_class": rng.randrange(2), "step": place, "route": rng.getrandbits(54)}
        for place, (flow, op) in enumerate(product(range(len(flows)), [0, 1]))
    ]
    found = fetched(rows, flows, header_only)
    assert found == expected(rows, flows, header_only)
