"""Tests of the fetcher where tables are repeated: each row for its wave."""

from dataclasses import replace

import pytest

from multitree.nic.driver.faults import FaultCode
from tests.hw.streams import PATTERNS, seeded
from tests.nic.blocks import SMALL
from tests.nic.send.test_fetcher import DEPTH, expected_jobs, random_table, simulate, without_need

REPEATS = replace(SMALL, wave_width=4)
FORWARDS = replace(REPEATS, forward_flits=32)
BOTH = pytest.mark.parametrize("config", [REPEATS, FORWARDS], ids=["plain", "forwards"])


@pytest.mark.dear
@BOTH
@pytest.mark.slow
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("num_waves", [1, 2, 5, 16])
def test_a_periodic_table_is_run_once_per_wave_and_stage_each_row_for_its_wave(
    num_waves, pattern, config
):
    rng = seeded(num_waves)
    rows, flows = random_table(rng)
    for flow in flows:
        flow |= {"base": rng.randrange(30), "size": rng.choice([0, 1, 9]), "stride": 40}
    for fields in rows:
        fields["stage"] = rng.choice([0, 1, 2, 9])
    last_run = num_waves - 1 + max(fields["stage"] for fields in rows)
    waves = {"last_wave": num_waves - 1, "last_run": last_run, "config": config}
    seen = simulate(rows, flows, pattern=pattern, **waves)
    assert without_need(seen.jobs) == expected_jobs(rows, flows, num_waves)
    assert not seen.faults


@BOTH
def test_an_illegal_row_is_a_fault_though_it_has_no_wave_yet(config):
    rows = [{"step": 1, "stage": stage} for stage in range(3)]
    broken = [*rows, {"step": 1, "stage": 16}]
    seen = simulate(broken, [{}], last_wave=4, last_run=20, config=config)
    assert seen.faults == [(FaultCode.ITERATIONS, "row", 3)]
    assert without_need(seen.jobs) == expected_jobs(rows[:1], [{}])


@BOTH
@pytest.mark.parametrize("op", [0, 1])
@pytest.mark.parametrize("base", [0, 30])
def test_a_row_whose_wave_begins_beyond_all_addresses_does_not_go_and_its_flow_is_named(
    base, op, config
):
    """It would wrap around into the first wave's chunk."""
    flows = [{}, {"base": base, "size": 8, "stride": 1024 // 4 - (base > 0)}]
    seen = simulate([{"op": op, "flow": 1}], flows, last_wave=6, last_run=6, config=config)
    assert seen.faults == [(FaultCode.OUT_OF_WINDOW, "flow", 1)]
    fits = (1023 - base) // flows[1]["stride"] + 1
    assert without_need(seen.jobs) == expected_jobs([{"op": op, "flow": 1}], flows, fits)


@BOTH
def test_a_stride_that_flips_is_named_as_such_though_it_leads_beyond_all_addresses(config):
    flow = {"base": 200, "size": 9, "stride": 400}
    flip = (3 if config.forward_flits else 8, "flows", 0, 2 * 39 + 9, True)
    seen = simulate([{}], [flow], flip=flip, last_wave=1, last_run=1, config=config)
    assert seen.faults == [(FaultCode.TABLE_PARITY, "flow", 0)]
    assert without_need(seen.jobs) == expected_jobs([{}], [flow])


@BOTH
def test_each_start_begins_with_the_first_run(config):
    rows, flows = [{"stage": 1}, {"step": 1}], [{"size": 1, "stride": 2}]
    seen = simulate(rows, flows, starts=3, last_wave=2, last_run=3, config=config)
    assert without_need(seen.jobs) == [3 * jobs for jobs in expected_jobs(rows, flows, 3)]


def test_a_row_takes_seven_cycles_and_one_without_a_wave_four():
    rows, flows = random_table(seeded(1))
    once, twice = (
        simulate(rows, flows, last_wave=runs - 1, last_run=runs - 1, config=REPEATS).cycles
        for runs in (1, 2)
    )
    assert twice - once == 7 * DEPTH + 1
    later = [fields | {"stage": 15} for fields in rows]
    idle, idler = (simulate(later, flows, last_run=run, config=REPEATS).cycles for run in (2, 3))
    assert idler - idle == 4 * DEPTH + 1


def test_where_flits_are_forwarded_a_row_takes_one_cycle_with_a_wave_or_without():
    rows, flows = random_table(seeded(1))
    waves = [
        simulate(rows, flows, last_wave=wave, last_run=run, config=FORWARDS).cycles
        for wave, run in ((0, 0), (1, 1), (0, 1))
    ]
    assert waves[1] - waves[0] == waves[2] - waves[0] == DEPTH
