"""A few runs of the campaign with waves, and that it tells what is wrong."""

import pytest

from multitree.sim.timing.sizing import least_sizes
from tests.benches import bench_module
from tests.emulation import needs_rtl
from tests.sim.rtl.campaigns import reports_what_is_wrong_and_what_is_stuck

pytestmark = [pytest.mark.long, needs_rtl]


@pytest.fixture(scope="module")
def campaign():
    return bench_module("wave_campaign")


@pytest.fixture(scope="module")
def seeds(campaign):
    """Of one size of link buffers, so that one network is compiled."""
    drawn = ((seed, campaign.draw(seed)) for seed in range(1, 60))
    return [seed for seed, each in drawn if each.model.buffer_flits == 100][:3]


@pytest.fixture(scope="module")
def outcomes(campaign, seeds):
    print(f"seeds {seeds}")
    return [campaign.run_once(seed) for seed in seeds]


def test_every_kind_is_drawn_and_its_interfaces_hold_it(campaign):
    seen = set()
    for seed in range(1, 22):
        drawn = campaign.draw(seed)
        model = drawn.model
        for each in drawn.queue:
            schedule = each.schedule
            seen |= {drawn.spec, schedule.algorithm, each.dependency, model.flow_control}
            seen |= {schedule.num_waves > 1, schedule.period > schedule.num_steps}
            sizes = least_sizes(schedule, model.num_flits(each.num_elements, 4))
            config = campaign.config_of(model)
            assert sizes["num_rows"] <= config.table_depth
            assert sizes["num_flows"] <= config.num_flows
            assert sizes["num_waves"] <= 1 << config.wave_width
        assert any(each.schedule.num_waves > 1 for each in drawn.queue)
    wanted = {"packed", "multitree", "bidirectional_ring", "chunk", "submessage", "packet"}
    assert wanted | {"message", True, False} | set(campaign.NETWORKS) <= seen


def test_every_result_is_exact_with_interfaces_that_forward(campaign, seeds):
    outcomes = [campaign.run_once(seed, forward_flits=32) for seed in seeds]
    assert all(outcome.exact and not outcome.text for outcome in outcomes)


def test_every_result_is_exact_in_waves_and_without(campaign, outcomes):
    assert all(outcome.exact and not outcome.text for outcome in outcomes)
    assert all(outcome.waves > 1 for outcome in outcomes)
    rows = {row["network"]: row for row in campaign.CAMPAIGN.table_of(outcomes)}
    assert rows["all"]["exact"] == rows["all"]["runs"] == len(outcomes)
    assert rows["all"]["waves"] == sum(outcome.waves for outcome in outcomes)
    assert sum(row["exact"] for row in rows.values()) == 2 * len(outcomes)


def test_a_wrong_result_and_a_run_that_is_stuck_are_reported(
    campaign, monkeypatch, seeds, outcomes
):
    text = r"wrong results of collectives \[0, 1, 2, 3\]"
    reports_what_is_wrong_and_what_is_stuck(
        campaign, monkeypatch, seeds[0], text, outcomes[1], waves=0
    )
