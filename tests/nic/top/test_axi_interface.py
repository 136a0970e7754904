"""Tests of two whole interfaces with their memories behind AXI4."""

from dataclasses import replace
from functools import cache

import pytest
from amaranth import Elaboratable, Module
from amaranth.lib import wiring

from multitree.nic.driver.commands import COMMIT, RESET, START
from multitree.nic.driver.faults import FaultCode
from multitree.nic.interface import AxiInterface
from multitree.topology.schedules.execute import execute
from tests.hw.axi.axi import DECERR, SLVERR, read_slave, write_slave
from tests.hw.streams import assert_refused, run
from tests.nic.top.netlist import combinational_paths
from tests.nic.top.pair import (
    BASE,
    CONFIG,
    LANES,
    SCHEDULE,
    Host,
    integers,
    prepare,
    settings,
    tables,
    words,
)

FLIT = {"flit_bytes": CONFIG.flit_bytes}
SHARED = replace(CONFIG, flit_bytes=16, num_classes=2, dtypes=("int32",))


class AxiPair(Elaboratable):
    """Two interfaces of one port each, joined without delay."""

    def __init__(self):
        self.ranks = [AxiInterface(CONFIG), AxiInterface(CONFIG)]

    def elaborate(self, platform):
        """Cross the links."""
        m = Module()
        m.submodules.rank_0, m.submodules.rank_1 = self.ranks
        for here, there in (self.ranks, self.ranks[::-1]):
            wiring.connect(m, here.link[0].tx, there.link[0].rx)
        return m


the_pair = cache(AxiPair)
"""One for all runs: elaborating it takes longer than a collective."""


def simulate(scripts, memories, *, stall="never", latency=4, wrong_reads=(), wrong_writes=()):
    """Run a host's script per rank; `wrong_*` are lists of rank 0 that may change as it runs."""
    pair, background = the_pair(), []
    for rank, interface in enumerate(pair.ranks):
        buses, how = interface.m_axi[0], {**FLIT, "stall": stall, "latency": latency}
        reads, writes = ((), ()) if rank else (wrong_reads, wrong_writes)
        for name in ("send", "receive"):
            bus = getattr(buses, name)
            slave = read_slave(bus, memories[rank], seed=f"{name} {rank}", wrong=reads, **how)
            background.append(slave)
        slave = write_slave(
            buses.receive, memories[rank], seed=f"write {rank}", wrong=writes, **how
        )
        background.append(slave)

    def host(script, interface):
        async def process(ctx):
            await script(Host(ctx, interface))

        return process

    hosts = [host(*pairing) for pairing in zip(scripts, pair.ranks, strict=True)]
    run(pair, *hosts, background=background, deadline_cycles=6000, keep=True)


def image(rows, num_flits):
    """Memory by flit: something before the buffer, the buffer, nothing behind."""
    flits = [7] * BASE + words(rows, num_flits)
    return dict(enumerate(flits + [0] * ((1 << CONFIG.address_width) - len(flits))))


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize(
    ("count", "stall", "latency"), [(23, "seldom", 4), (40, "never", 30), (24, "bursts", 2)]
)
def test_both_ranks_end_with_the_sum_in_memory_and_nothing_else_changed(count, stall, latency):
    num_flits = -(-count // LANES)
    buffers = integers(count, count)
    memories = [image(row, num_flits) for row in buffers]

    def script(rank):
        async def host_of(host):
            await prepare(host, tables(num_flits)[rank], settings(num_flits))
            await host.write(START)
            await host.interrupt()
            status = await host.status()
            assert (status["done"], status["busy"], status["fault"]) == (1, 0, 0)

        return host_of

    simulate([script(0), script(1)], memories, stall=stall, latency=latency)
    rows = execute(SCHEDULE, buffers, flit_bytes=CONFIG.flit_bytes)
    assert memories == [image(row, num_flits) for row in rows]


class Meeting:
    """Where both hosts wait for each other."""

    def __init__(self):
        self._arrived = [0, 0]

    async def meet(self, host, rank):
        """Go on when the other one is here as well."""
        self._arrived[rank] += 1
        while min(self._arrived) < self._arrived[rank]:
            await host.wait(1)


async def reset(host):
    """Reset, and wait until the interface says that it is over."""
    await host.write(RESET)
    while (await host.status())["busy"]:
        pass


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "place", "response"),
    [("reads", 0, SLVERR), ("reads", 11, DECERR), ("writes", 1, DECERR), ("writes", 9, SLVERR)],
)
def test_an_error_of_memory_ends_in_its_fault_and_after_a_reset_the_same_table_runs(
    end, place, response
):
    """The reset comes at once, while later accesses, which fail as well, are in flight."""
    buffers = integers(place, 12 * LANES)
    memories = [image(row, 12) for row in buffers]
    first = [dict(memory) for memory in memories]
    wrong = [(flit, response) for flit in range(BASE + place, BASE + 12)]
    meeting = Meeting()

    def script(rank):
        async def host_of(host):
            await prepare(host, tables(12)[rank], settings(12))
            await host.write(START)
            if rank == 0:
                await host.interrupt()
                fault = await host.fault()
                assert (fault.code, fault.at_port) == (FaultCode.MEMORY_ERROR, 0)
                assert fault.awaited.name == {"reads": "MEMORY_READ", "writes": "MEMORY_WRITE"}[end]
            await meeting.meet(host, rank)
            await reset(host)
            wrong.clear()
            memories[rank].update(first[rank])
            await meeting.meet(host, rank)
            await host.write(COMMIT, START)
            await host.interrupt()
            status = await host.status()
            assert (status["done"], status["fault"]) == (1, 0)

        return host_of

    simulate([script(0), script(1)], memories, latency=25, **{f"wrong_{end}": wrong})
    rows = execute(SCHEDULE, buffers, flit_bytes=CONFIG.flit_bytes)
    assert memories == [image(row, 12) for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("after", range(20, 60, 10))
def test_when_a_reset_is_over_no_access_of_before_is_left_to_be_answered(after):
    buffers = integers(after, 12 * LANES)
    memories = [image(row, 12) for row in buffers]
    first = [dict(memory) for memory in memories]
    meeting = Meeting()

    def script(rank):
        async def host_of(host):
            await prepare(host, tables(12)[rank], settings(12))
            await host.committed()
            await meeting.meet(host, rank)
            await host.write(START)
            await host.wait(after)
            await meeting.meet(host, rank)
            await reset(host)
            # What was taken before the reset would still change memory.
            memories[rank].update(first[rank])
            await meeting.meet(host, rank)
            await host.write(COMMIT, START)
            await host.interrupt()
            status = await host.status()
            assert (status["done"], status["fault"]) == (1, 0)

        return host_of

    simulate([script(0), script(1)], memories, latency=25)
    rows = execute(SCHEDULE, buffers, flit_bytes=CONFIG.flit_bytes)
    assert memories == [image(row, 12) for row in rows]


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("config", [CONFIG, SHARED])
def test_no_output_follows_an_input_within_a_cycle(config):
    assert combinational_paths(AxiInterface(config)) == set()


@pytest.mark.slow
def test_a_wrong_time_to_gather_is_named():
    message = "Gather cycles must be from 0 to 15, not 16"
    assert_refused(lambda: AxiInterface(CONFIG, gather_cycles=16), ValueError, message)
