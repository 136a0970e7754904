"""Four interfaces on a 2x2 torus all-reduce random data, loaded over AXI4-Lite."""

import random
from dataclasses import replace

import cocotb
import numpy as np

from multitree.cocotb import NetworkBench, Upcoming, draw_buffers
from multitree.nic.driver.faults import Awaited, DeviceError, FaultCode
from multitree.topology.schedules.execute import execute
from tests.cocotb.models.driving import at_once
from tests.cocotb.models.network import CONFIG, SCHEDULE

NUM_ELEMENTS = 203
SHAPE = SCHEDULE.topology.num_ranks, NUM_ELEMENTS


async def started(dut):
    """The network after its reset, when no control is unknown."""
    bench = NetworkBench(dut, SCHEDULE, CONFIG, seed=random.getrandbits(32))
    await bench.start()
    endings = ("valid", "ready", "credit", "irq")
    ports = [handle for handle in dut if handle._name.startswith("rank_")]
    controls = [handle for handle in ports if handle._name.endswith(endings)]
    unknown = [h._name for h in controls if not h.value.is_resolvable]
    assert controls and not unknown, f"unknown after reset: {unknown}"
    return bench


@cocotb.test()
@cocotb.parametrize((("dtype", "skew_cycles"), [("float32", 10), ("int32", 1500)]))
async def all_reduces_without_a_barrier_give_the_bits_of_execute(dut, dtype, skew_cycles):
    """Two of them, every rank starting when it likes."""
    bench = await started(dut)
    buffers = [draw_buffers(SHAPE, dtype, bench.data_rng) for _ in range(2)]
    starts = [random.randrange(1, skew_cycles + 1) for _ in bench.ranks]
    await bench.run_each([Upcoming(SCHEDULE, NUM_ELEMENTS, dtype)] * 2, buffers, starts)
    numbers = [await rank.host.read("SEQUENCE") for rank in bench.ranks]
    assert numbers == [2] * len(bench.ranks)


def load_of(bench, dtype="float32", **limits):
    """What all ranks load, with other time limits."""
    load = bench.load_of(Upcoming(SCHEDULE, NUM_ELEMENTS, dtype))
    return replace(load, settings=replace(load.settings, **limits))


@cocotb.test()
async def the_data_show_the_order_of_additions(dut):
    buffers = draw_buffers(SHAPE, "float32", np.random.default_rng(0))
    by_rank = np.add.accumulate(buffers)[-1]
    assert (by_rank != execute(SCHEDULE, buffers)[0]).any()


@cocotb.test()
async def a_rank_that_never_starts_ends_in_a_named_fault_of_all_others(dut):
    bench = await started(dut)
    load = load_of(bench, watchdog_cycles=400, first_arrival_cycles=600)
    row = np.zeros(NUM_ELEMENTS, np.float32)

    async def run(rank):
        await rank.load(load, row)
        if rank is bench.ranks[0]:
            return None
        assert not await rank.host.run(5000)
        return await rank.host.fault()

    faults = await at_once(map(run, bench.ranks))
    limits_reached = (FaultCode.WATCHDOG, FaultCode.FIRST_ARRIVAL)
    assert all(f.code in (*limits_reached, FaultCode.PEER_FAULT) for f in faults[1:])
    faults = [fault for fault in faults if fault and fault.code in limits_reached]
    assert faults and all(fault.awaited != Awaited.NOTHING for fault in faults)


@cocotb.test()
async def an_illegal_row_is_named_and_nothing_is_sent(dut):
    bench = await started(dut)
    load, host, bad = load_of(bench), bench.ranks[1].host, 2
    table = load.tables[1]
    port = table.port.copy()
    port[bad] = CONFIG.num_ports
    refused = ""
    try:
        await host.load(replace(table, port=port), load.settings)
    except DeviceError as error:
        refused = str(error)
    assert "ROW_ILLEGAL" in refused and f"row {bad}" in refused, refused
    fault = await host.fault()
    assert (fault.code, fault.row) == (FaultCode.ROW_ILLEGAL, bad)
    assert not await host.run(100) and not await host.status("committed")
    assert bench.ranks[1].memory.accesses == 0
