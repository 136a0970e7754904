"""One interface between Python neighbours: random tables, data, modes and stalls."""

import cocotb
import numpy as np

from multitree.nic.driver.commands import (
    COMMIT,
    DEPENDENCIES,
    FLOW_CONTROLS,
    REDUCTIONS,
    START,
    RunSettings,
    run_writes,
)
from multitree.nic.driver.config import LANE_TYPES
from multitree.nic.driver.table import table_writes
from multitree.sim.cocotb.case import STALLS
from tests.cocotb.bins import bins, collective_bins
from tests.cocotb.models.driving import cleared
from tests.cocotb.models.environment import CONFIG, NUM_FLITS, NUMBERS, Environment
from tests.cocotb.models.random_table import Round, draw_plan

COVERAGE_FILE = "coverage_random.json"
"""Where it runs."""
COVERAGE = bins()
NUM_GROUPS, MOST_GROUPS = 40, 120
CLOSED_HERE = ("op x type x siblings", "boundary x op x stall", "mode x op", "waves x op")
"""Groups of bins that are drawn for until none is missing."""
NUM_CANDIDATES = 8
LEAST_CYCLES = 1 << 15
"""Of a watchdog that is not to bite."""
MOST_STEPS = 100
"""Of a table in lockstep."""


def draw_settings(env, plan):
    """How to run a plan: any type, mode and place."""
    draw = env.rng.choice
    # A step of the table that is left out takes its time, too.
    in_time = plan.num_waves == 1 and plan.table.step.max(initial=0) <= MOST_STEPS
    lockstep = in_time and env.rng.random() < 0.6
    return RunSettings(
        dtype=draw(tuple(LANE_TYPES)),
        window_base=env.rng.randrange(NUM_FLITS - plan.window_flits + 1),
        window_flits=plan.window_flits,
        watchdog_cycles=LEAST_CYCLES | env.rng.getrandbits(32),
        first_arrival_cycles=LEAST_CYCLES | env.rng.getrandbits(32),
        lockstep=lockstep,
        step_cycles=env.rng.randrange(40) if lockstep else env.rng.getrandbits(32),
        dependency=draw(DEPENDENCIES),
        flow_control=draw(FLOW_CONTROLS),
        reduction=draw(REDUCTIONS),
        num_waves=plan.num_waves,
    )


def draw_collective(env, plan):
    """A table, if there is none, and settings: of some that are drawn those that cover most."""
    drawn = []
    for _ in range(NUM_CANDIDATES):
        candidate = plan or draw_plan(CONFIG, env.data_rng)
        settings = draw_settings(env, candidate)
        new = [COVERAGE.misses(g, **v) for g, v in collective_bins(candidate, settings)]
        drawn.append((sum(new), candidate, settings))
    return max(drawn, key=lambda entry: entry[0])[1:]


def draw_collectives(env, count):
    """Some collectives, one after the other: new tables now and then, new settings always."""
    plan = env.rounds[-1].plan if env.rounds else None
    for _ in range(count):
        plan, settings = draw_collective(env, plan if env.rng.random() < 0.6 else None)
        yield plan, settings


def same_collective(env, count):
    """A small collective again and again."""
    plan = draw_plan(CONFIG, env.data_rng, num_flows=2, window_flits=4)
    return [(plan, draw_settings(env, plan))] * count


async def load_and_start(env, now, before):
    """Write what differs from what is there, then start; also while something runs."""
    host = env.host
    new = before is None or now.plan is not before.plan
    writes = table_writes(now.plan.table) if new else []
    if before is None or now.settings is not before.settings:
        writes += run_writes(now.settings)
    if new:
        writes.append(COMMIT)
        env.num_commits += 1
        if env.num_started > env.num_done:
            env.coverage.hit("meeting", meeting="a table was loaded while one ran")
    await host.write_all([*writes, START])
    env.num_started += 1
    if env.num_started - env.num_done > 1 and await host.status("locked"):
        env.coverage.hit("meeting", meeting="a start waited for the collective before")


async def play(env, collectives):
    """Run some (plan, settings), each loaded after the one before is done, or while it runs."""
    host, irq, rounds = env.host, env.dut.irq, []
    for number, (plan, settings) in enumerate(collectives, len(env.rounds)):
        rounds.append(Round(number, settings, plan=plan))
        rounds[-1].play(env.model, env.data_rng)
    before = env.rounds[-1] if env.rounds else None
    env.rounds.extend(rounds)
    for now in rounds:
        await load_and_start(env, now, before)
        before = now
        await cleared(host, "locked")
        ahead = env.num_started - env.num_done < 2 and env.rng.random() < 0.5
        while env.num_done < env.num_started and not (ahead and now is not rounds[-1]):
            await env.until(lambda: irq.value == 1)
            assert await host.status("done"), (await host.fault()).error(0)
            await host.acknowledge()
            env.num_done += 1
    number = (env.first_sequence + env.num_started) % NUMBERS
    assert await host.read("SEQUENCE") == number
    await env.until(lambda: env.network.idle)
    assert np.array_equal(env.memory.flits, env.model), "memory is not as defined"
    for now in rounds:
        env.note_round(now)


@cocotb.test()
async def every_collective_gives_what_is_defined_whatever_stalls(dut):
    env = await Environment.started(dut, COVERAGE)
    for number in range(MOST_GROUPS):
        if number >= NUM_GROUPS and not COVERAGE.missing(CLOSED_HERE):
            break
        env.choose_stalls()
        await play(env, draw_collectives(env, env.rng.randrange(1, 4)))
        if env.rng.random() < 0.1:
            await env.reset(env.rng.getrandbits(32))
    COVERAGE.save(COVERAGE_FILE)


@cocotb.test()
async def the_number_of_a_collective_goes_round(dut):
    env = await Environment.started(dut, COVERAGE)
    env.choose_stalls(STALLS[:1])
    await env.reset(NUMBERS - 3)
    await play(env, same_collective(env, 5))
    for number in range(MOST_GROUPS):
        if number >= 7 and not COVERAGE.missing(("wrap x op",)):
            break
        await play(env, draw_collectives(env, 2))
    COVERAGE.save(COVERAGE_FILE)
