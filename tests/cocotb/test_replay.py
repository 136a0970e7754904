"""What a campaign draws runs under cocotb, too."""

import numpy as np
import pytest

from multitree.sim.cocotb.simulators import missing
from tests.benches import bench_module


@pytest.fixture(scope="module")
def bench():
    return bench_module("cocotb_replay")


@pytest.mark.parametrize("campaign", ["skew", "switched"])
def test_a_seed_draws_the_same_run_each_time_and_another_one_another(bench, campaign):
    first, again, other = (bench.CAMPAIGNS[campaign](seed) for seed in (3, 3, 4))
    assert first.skews == again.skews != other.skews
    assert all(map(np.array_equal, first.buffers, again.buffers))
    assert first.queue[0].schedule.hash == again.queue[0].schedule.hash
    assert first.config.shared is (campaign == "switched")


@pytest.mark.long
@pytest.mark.parametrize(("campaign", "seed"), [("skew", 2), ("switched", 36)])
def test_a_run_of_a_campaign_is_exact_under_cocotb(bench, campaign, seed, tmp_path):
    if lack := missing("verilator"):
        pytest.skip(lack)
    drawn = bench.CAMPAIGNS[campaign](seed)
    result = bench.replay(campaign, drawn, "verilator", tmp_path)
    assert result.passed, result.message
