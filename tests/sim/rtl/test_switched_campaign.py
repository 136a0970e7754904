"""A few runs of the campaign with switches, and that it tells what is wrong."""

from types import SimpleNamespace

import pytest

from multitree import DeviceError, build, parse_topology, verify
from multitree.sim.timing.sizing import least_sizes
from multitree.topology.lowering import as_sent
from tests.benches import bench_module
from tests.emulation import needs_rtl
from tests.sim.rtl.campaigns import reports_what_is_wrong_and_what_is_stuck

pytestmark = [pytest.mark.long, needs_rtl]

SEEDS = (3, 27)  # fat_tree:2x2, a star


@pytest.fixture(scope="module")
def campaign():
    return bench_module("switched_campaign")


@pytest.fixture(scope="module")
def outcomes(campaign):
    print(f"seeds {SEEDS}")
    return [campaign.run_once(seed) for seed in SEEDS]


def test_its_interfaces_hold_every_schedule_of_its_networks(campaign):
    for spec, algorithms in campaign.NETWORKS.items():
        for algorithm in algorithms:
            sizes = least_sizes(build(parse_topology(spec), algorithm), 1)
            assert all(sizes[name] <= most for name, most in campaign.SIZES.items()), spec


def test_every_result_is_exact_and_some_contributions_are_staged(campaign, outcomes):
    assert all(outcome.exact and not outcome.text for outcome in outcomes)
    assert sum(outcome.staged for outcome in outcomes) > 0
    assert all(outcome.staged < outcome.added for outcome in outcomes)
    rows = {row["network"]: row for row in campaign.CAMPAIGN.table_of(outcomes)}
    assert [rows[spec]["exact"] for spec in ("fat_tree:2x2", "kary_tree:4x1", "dgx2")] == [1, 1, 0]
    assert rows["all"]["runs"] == 2 and rows["dgx2"]["staging_share"] is None
    assert rows["all"]["staging_share"] * rows["all"]["contributions"] == pytest.approx(
        sum(outcome.staged for outcome in outcomes)
    )


def test_its_draws_cross_what_features_assume(campaign):
    """Of as many seeds as let each network come; what is drawn, `verify` accepts."""
    drawn = [campaign.draw(seed) for seed in range(len(campaign.DRAWN))]
    assert {each.spec for each in drawn} == set(campaign.NETWORKS)
    assert 10 < sum(campaign.is_unequal(each) for each in drawn) < 30
    assert sum(campaign.is_mixed(each) for each in drawn) > 20
    assert {each.model.buffer_flits for each in drawn} == {12, 16, 24, 32, 64}
    lengths = [upcoming.num_elements for each in drawn for upcoming in each.queue]
    assert 0 in lengths and sum(length <= 6 for length in lengths) > 20 and max(lengths) > 1000
    for each in drawn:
        for upcoming in each.queue:
            verify(as_sent(upcoming.schedule))


def test_a_rank_that_ends_before_another_begins_is_reported(campaign, monkeypatch, outcomes):
    run_each = campaign.RtlSession.run_each

    def early(*arguments, **options):
        results = run_each(*arguments, **options)
        memory, trace = results[1]
        results[1] = memory, SimpleNamespace(done=trace.done, start=trace.done + 1)
        return results

    monkeypatch.setattr(campaign.RtlSession, "run_each", early)
    reported = campaign.run_once(SEEDS[0])
    assert not reported.exact
    assert reported.text == "a rank ended collectives [1] that another had not begun"


def test_a_wrong_result_and_a_run_that_is_stuck_are_reported(campaign, monkeypatch, outcomes):
    text = r"wrong results of collectives \[0, 1.*"
    reports_what_is_wrong_and_what_is_stuck(
        campaign, monkeypatch, SEEDS[0], text, outcomes[1], added=0
    )


@pytest.mark.parametrize(
    ("value", "response", "error"),
    [(None, 0, "Rank 1: no answer from register 0x54"), (0, 2, "Rank 1: refused access")],
)
def test_a_count_of_what_was_staged_that_cannot_be_read_is_an_error(value, response, error):
    def session(value, response):
        network = SimpleNamespace(
            topology=parse_topology("fat_tree:2x2"),
            access=lambda rank, op, max_cycles: 7 if rank != 1 else value,
            results=lambda rank: {"response": [0 if rank != 1 else response]},
        )
        return SimpleNamespace(network=network)

    num_staged = bench_module("_runs").num_staged
    assert num_staged(session(5, 0)) == 3 * 7 + 5
    with pytest.raises(DeviceError, match=error):
        num_staged(session(value, response))
