"""Tests of two whole interfaces with their memories behind AXI4."""

from dataclasses import replace

import pytest

from multitree.nic.driver.commands import COMMIT, START
from multitree.nic.driver.faults import FaultCode
from multitree.nic.interface import AxiInterface
from tests.hw.axi.axi import DECERR, SLVERR, read_slave, write_slave
from tests.hw.streams import assert_refused
from tests.nic.top.netlist import combinational_paths
from tests.nic.top.pair import BASE, CONFIG, LANES, images, integers, play, summed, the_pair

SHARED = replace(CONFIG, flit_bytes=16, num_classes=2, dtypes=("int32",))


def simulate(script, memories, *, stall="never", latency=4, wrong_reads=(), wrong_writes=()):
    """Run both hosts' script; `wrong_*` are lists of rank 0 that may change as it runs."""
    pair, background = the_pair(kind=AxiInterface), []
    how = {"flit_bytes": CONFIG.flit_bytes, "stall": stall, "latency": latency}
    for rank, (interface, memory) in enumerate(zip(pair.ranks, memories, strict=True)):
        buses = interface.m_axi[0]
        reads, writes = ((), ()) if rank else (wrong_reads, wrong_writes)
        background += [
            read_slave(buses.send, memory, seed=f"send {rank}", wrong=reads, **how),
            read_slave(buses.receive, memory, seed=f"receive {rank}", wrong=reads, **how),
            write_slave(buses.receive, memory, seed=f"write {rank}", wrong=writes, **how),
        ]
    play(pair, script, background)


def flits(buffers, num_flits):
    """Memory of each rank by flit: something before the buffer, the buffer, nothing behind."""
    whole = 1 << CONFIG.address_width
    return [
        dict(enumerate(image + [0] * (whole - len(image)))) for image in images(buffers, num_flits)
    ]


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize(
    ("count", "stall", "latency"), [(23, "seldom", 4), (40, "never", 30), (24, "bursts", 2)]
)
def test_both_ranks_end_with_the_sum_in_memory_and_nothing_else_changed(count, stall, latency):
    num_flits, buffers = -(-count // LANES), integers(count, count)
    memories = flits(buffers, num_flits)

    async def script(host):
        await host.prepare(num_flits)
        await host.run()
        assert not (await host.status())["busy"]

    simulate(script, memories, stall=stall, latency=latency)
    assert memories == flits(summed(buffers), num_flits)


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
    memories, first = flits(buffers, 12), flits(buffers, 12)
    wrong = [(flit, response) for flit in range(BASE + place, BASE + 12)]

    async def script(host):
        await host.prepare(12)
        await host.write(START)
        if host.rank == 0:
            await host.interrupt()
            fault = await host.fault()
            assert (fault.code, fault.at_port) == (FaultCode.MEMORY_ERROR, 0)
            assert fault.awaited.name == {"reads": "MEMORY_READ", "writes": "MEMORY_WRITE"}[end]
        await host.meet()
        await host.reset()
        wrong.clear()
        memories[host.rank].update(first[host.rank])
        await host.meet()
        await host.run(COMMIT)

    simulate(script, memories, latency=25, **{f"wrong_{end}": wrong})
    assert memories == flits(summed(buffers), 12)


@pytest.mark.slow
@pytest.mark.parametrize("after", range(20, 60, 10))
def test_when_a_reset_is_over_no_access_of_before_is_left_to_be_answered(after):
    buffers = integers(after, 12 * LANES)
    memories, first = flits(buffers, 12), flits(buffers, 12)

    async def script(host):
        await host.prepare(12)
        await host.committed()
        await host.meet()
        await host.write(START)
        await host.wait(after)
        await host.meet()
        await host.reset()
        # What was taken before the reset would still change memory.
        memories[host.rank].update(first[host.rank])
        await host.meet()
        await host.run(COMMIT)

    simulate(script, memories, latency=25)
    assert memories == flits(summed(buffers), 12)


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("config", [CONFIG, SHARED])
def test_no_output_follows_an_input_within_a_cycle(config):
    assert combinational_paths(AxiInterface(config)) == set()


@pytest.mark.slow
def test_a_wrong_time_to_gather_is_named():
    message = "Gather cycles must be from 0 to 15, not 16"
    assert_refused(lambda: AxiInterface(CONFIG, gather_cycles=16), ValueError, message)
