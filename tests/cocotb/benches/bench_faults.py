"""Everything that can go wrong around an interface ends in the fault of its name."""

from dataclasses import replace

import cocotb
from cocotb.triggers import ClockCycles

from multitree.nic.driver.commands import COMMIT, START, RunSettings, run_writes
from multitree.nic.driver.faults import FaultCode
from multitree.nic.driver.registers import ADDRESS
from multitree.nic.driver.table import table_writes
from multitree.sim.cocotb.case import STALLS
from multitree.topology.collectives import OPS
from tests.cocotb.bins import bins
from tests.cocotb.fault_cases import cases
from tests.cocotb.models.driving import cleared
from tests.cocotb.models.environment import Environment
from tests.cocotb.models.random_table import Round

COVERAGE_FILE = "coverage_faults.json"
"""Where it runs."""
COVERAGE = bins()


async def play(env, case):
    """Run a collective in which one thing is wrong; returns the fault."""
    await env.reset()
    for end in env.ends:
        end.received_fault.clear()
    env.choose_stalls(STALLS[:2])
    plan = case.plan(env.data_rng)
    plan = replace(plan, table=replace(plan.table, rank=env.rng.getrandbits(16)))
    settings = RunSettings(
        dtype=env.rng.choice(("int32", "float32", "bfloat16")),
        window_base=0,
        window_flits=plan.window_flits,
        watchdog_cycles=300,
        first_arrival_cycles=600,
        dependency="chunk",
        flow_control="packet" if case.packets else "message",
        reduction=env.rng.choice(OPS),
    )
    now = Round(0, settings, plan=plan)
    now.play(env.model.copy(), env.data_rng)
    # A neighbour may send, and what it sends be a fault, before the table is loaded.
    await env.host.write(ADDRESS["RANK"], plan.table.rank)
    case.act(env)
    env.rounds.append(now)
    writes = [*table_writes(plan.table), *run_writes(settings), COMMIT]
    await env.host.write_all(case.change(writes))
    await cleared(env.host, "locked")
    case.poke(env.dut)
    await env.host.write_all((*case.then, START))
    await ClockCycles(env.dut.clk, env.rng.randrange(20, 30))
    case.later(env)
    await env.until(lambda: env.dut.irq.value == 1)
    assert await env.host.status("fault") and not await env.host.status("done")
    fault = await env.host.fault()
    await check_fault_record(env, case, plan.table.rank, fault)
    return fault


async def check_fault_record(env, case, rank, fault):
    """Every neighbour learns where the fault began, but the one that reported it."""
    came = fault.code == FaultCode.PEER_FAULT
    reported = [env.ends[port] for port in env.ports if not came or port != case.reporter]
    await env.until(lambda: all(end.received_fault for end in reported))
    origin = case.record & 0xFFFFFF if came else fault.code << 16 | rank
    told = {end.received_fault[-1] for end in reported}
    told = {word if came else word & 0xFFFFFF for word in told}
    assert told == {case.record if came else origin}, f"{told}, not {origin:#x}"
    assert await env.host.read("FAULT_ORIGIN") == origin | 1 << 24


@cocotb.test()
async def what_goes_wrong_ends_in_the_fault_of_its_name(dut):
    env = await Environment.started(dut, COVERAGE)
    failed = []
    for number, case in enumerate(cases()):
        fault = await play(env, case)
        reported = (fault.code, fault.awaited if case.awaited else None)
        if reported != (case.code, case.awaited):
            failed.append(f"case {number}: {reported} for {case.code.name}, {case.awaited}")
            continue
        COVERAGE.hit("fault", code=fault.code.name)
        if case.op:
            COVERAGE.hit("fault of a message x op", code=fault.code.name, op=case.op)
        if case.awaited:
            COVERAGE.hit("what a stopped collective waited for", awaited=fault.awaited.name)
    COVERAGE.save(COVERAGE_FILE)
    assert not failed, "\n".join(failed)
