"""Links that are not used at their speed are named, with the speed they reach."""

from dataclasses import replace

import numpy as np
import pytest

from multitree import Communicator, LinkModel, Topology, build, estimate, torus
from multitree.host.runner import Runner
from multitree.sim.analytic.engine import analytic
from multitree.sim.choice import Chooser
from multitree.sim.timing.sizing import config_for, link_limits
from tests.emulation import needs_rtl
from tests.topology.graphs import pair, with_links

NUM_FLITS = 200_000


def cycles_of_a_message(topology, model):
    return analytic(build(topology, "multitree", "broadcast", 0), NUM_FLITS, model).cycles


@pytest.mark.parametrize("latency_ns", [10.0, 253.0, 254.0, 300.0, 2000.0, 20_000.0])
@pytest.mark.parametrize("bandwidth", [4.0, 12.0, 16.0])
def test_buffers_limit_no_link_unless_they_are_reported_to(bandwidth, latency_ns):
    topology = pair(bandwidth, latency_ns)
    assert link_limits(topology, LinkModel()) == ()
    largest = LinkModel(buffer_flits=65_536)
    assert cycles_of_a_message(topology, LinkModel()) == cycles_of_a_message(topology, largest)
    sent = NUM_FLITS * 16 / bandwidth + latency_ns
    assert cycles_of_a_message(topology, LinkModel()) == pytest.approx(sent, rel=2e-3)


@pytest.mark.parametrize("latency_ns", [254.0, 600.0, 2000.0])
@pytest.mark.parametrize("clock_ghz", [1.0, 2.0])
def test_a_link_that_a_buffer_limits_reaches_what_is_said(clock_ghz, latency_ns):
    topology = pair(16.0 * clock_ghz, latency_ns)
    model = LinkModel(buffer_flits=512, clock_ghz=clock_ghz)
    (limit,) = link_limits(topology, model)
    assert (limit.by, limit.link, limit.src, limit.dst, limit.num_links) == ("buffer", 0, 0, 1, 2)
    time_ns = 1000 * model.microseconds(cycles_of_a_message(topology, model))
    assert NUM_FLITS * 16 / time_ns == pytest.approx(limit.reached_gbytes_per_s, rel=0.02)
    assert limit.reached_gbytes_per_s < limit.bandwidth_gbytes_per_s
    enough = replace(model, buffer_flits=limit.needed_flits)
    assert link_limits(topology, enough) == ()
    (still,) = link_limits(topology, replace(model, buffer_flits=limit.needed_flits - 1))
    assert still.by == "buffer"


def test_links_of_each_speed_and_latency_are_reported_once():
    links = torus(2, 2).links
    latency = np.array([150.0, 900.0, 150.0, 900.0, 400.0, 150.0, 900.0, 150.0])
    limits = link_limits(Topology("mixed", 4, 0, links, 16.0, latency), LinkModel(buffer_flits=512))
    assert [(limit.link, limit.num_links, limit.latency_ns) for limit in limits] == [
        (1, 3, 900.0),
        (4, 1, 400.0),
    ]
    assert "and 2 more like it: 4.536 of 16 GB/s" in str(limits[0])
    assert str(limits[1]).startswith("link 4 (2 -> 0): 10.16 of 16 GB/s is the most")


def test_a_link_faster_than_ports_is_timed_as_they_feed_it_and_named():
    fast, fed = (with_links(torus(4, 4), bandwidth_gbytes_per_s=b) for b in (50.0, 16.0))
    with Runner.timed(fast, "analytic") as runner:
        report, _ = runner.simulate(build(fast, "multitree"), 1 << 20)
    with Runner.timed(fed, "analytic") as runner:
        assert runner.simulate(build(fed, "multitree"), 1 << 20)[0].cycles == report.cycles
    (limit,) = report.limits
    assert (limit.by, limit.num_links, limit.reached_gbytes_per_s) == ("interface", 64, 16.0)
    assert "limited: link 0 (0 -> 12) and 63 more like it: 16 of 50 GB/s" in str(report)


@pytest.mark.parametrize("changes", [{"flit_bytes": 64}, {"clock_ghz": 4.0}])
def test_wider_flits_or_a_faster_clock_feed_faster_links(changes):
    fast = with_links(torus(4, 4), bandwidth_gbytes_per_s=50.0)
    narrow = estimate(fast, 1 << 24)
    wide = estimate(fast, 1 << 24, link_model=LinkModel(**changes))
    assert wide.limits == ()
    assert narrow.time_us / wide.time_us == pytest.approx(50 / 16, rel=0.02)


@pytest.mark.slow
def test_long_links_do_not_change_what_is_the_fastest():
    """A buffer of 512 flits made trees look slower than what sends less on each link."""
    far = with_links(torus(4, 4), latency_ns=1000.0)
    by_default, roomy, short = (
        Chooser(far, LinkModel(buffer_flits=flits)).choose(65_536) for flits in (None, 8192, 512)
    )
    assert by_default.best.algorithm == roomy.best.algorithm
    assert by_default.best.cycles == roomy.best.cycles < short.best.cycles


def test_interfaces_and_switches_are_built_with_these_buffers():
    far = with_links(torus(4, 4), latency_ns=1000.0)
    assert config_for(far, LinkModel()).buffer_flits == 4096
    assert config_for(torus(4, 4), LinkModel()).buffer_flits == 512


@needs_rtl
@pytest.mark.long
def test_interfaces_keep_long_links_busy_and_short_buffers_do_not():
    # Their buffers have 1024 places, as those of tests/sim/rtl/test_rejoin.py.
    far = with_links(torus(2, 2), latency_ns=390.0)
    memory = np.ones((4, 1 << 15), np.int32)
    times = {}
    for buffer_flits in (None, 512):
        model = LinkModel(buffer_flits=buffer_flits)
        with Communicator(far, engine="rtl", link_model=model, check=True) as comm:
            report = (work := comm.all_reduce(memory)).report
            assert (work.wait() == 4).all() and report.exact
        timed = estimate(far, memory.nbytes // 4, link_model=model)
        assert report.cycles == pytest.approx(timed.cycles, rel=0.02)
        assert report.limits == timed.limits == link_limits(far, model)
        times[buffer_flits] = report.cycles
    assert times[512] > 1.3 * times[None]
