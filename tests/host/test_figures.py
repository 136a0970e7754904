"""Figures follow from cycles, size and the bound of the topology."""

import dataclasses

import numpy as np
import pytest

from multitree import LinkModel, Topology, build, torus
from multitree.host.report import bound_of, report_on
from multitree.nic.driver.commands import PortCounts
from multitree.topology.lowering import lowered


def report(schedule, cycles, model=None):
    return report_on(
        schedule,
        engine="rtl",
        size_bytes=1 << 20,
        link_model=model or LinkModel(),
        cycles=cycles,
        link_utilization=None if cycles is None else 0.5,
        exact=True,
        wall_seconds=2.0,
        cpu_seconds=1.0,
    )


def test_the_bound_is_what_the_links_must_carry():
    assert bound_of(torus(4, 4), 1 << 20, LinkModel()) == 2 * 15 * 65536 / 64


def test_the_bound_of_a_tiny_buffer_is_the_way():
    assert bound_of(torus(4, 4), 4, LinkModel()) == 4 * 150
    assert bound_of(torus(4, 4), 4, LinkModel(clock_ghz=2.0)) == 4 * 300


def test_slower_links_have_a_larger_bound():
    fast = torus(4, 4)
    slow = Topology("slow", 16, 0, fast.links, np.full(64, 4.0), fast.latency_ns)
    assert bound_of(slow, 1 << 20, LinkModel()) == 4 * bound_of(fast, 1 << 20, LinkModel())
    faster = Topology("faster", 16, 0, fast.links, np.full(64, 32.0), fast.latency_ns)
    assert bound_of(faster, 1 << 20, LinkModel()) == bound_of(fast, 1 << 20, LinkModel()) / 2


def test_figures_of_a_run():
    found = report(build(torus(4, 4), "multitree"), 61440, LinkModel(clock_ghz=2.0))
    assert found.time_us == 30.72
    assert found.bandwidth_gbytes_per_s == pytest.approx(1048576 / 30720)
    assert found.bound_cycles == 2 * 30720
    assert found.ratio_to_bound == found.cycles / found.bound_cycles
    text = str(found)
    assert "61440 cycles = 30.72 us, 34.13 GB/s" in text
    assert "links used 50 %" in text
    assert "yes, bit for bit" in text
    assert "2.000 s on this machine (1.000 CPU s)" in text


def test_the_effective_bandwidth_pays_for_all_wire_bits_of_a_flit():
    """Kind 3, channel 1, number 3, epoch 1 and CRC 32 besides the payload."""
    for flit_bytes in (16, 64):
        model = LinkModel(flit_bytes=flit_bytes)
        found = report(build(torus(4, 4), "multitree"), 61440, model)
        assert found.wire_bits_per_flit == 8 * flit_bytes + 3 + 1 + 3 + 1 + 32
        share = found.effective_bandwidth_gbytes_per_s / found.bandwidth_gbytes_per_s
        assert share == pytest.approx(8 * flit_bytes / found.wire_bits_per_flit)
    assert f"of all {found.wire_bits_per_flit} wire bits of a flit" in str(found)
    # Through switches, attached ones too, a channel takes as many bits as there are channels.
    shared = report(build(torus(4, 4), "halving_doubling"), 61440)
    classes = int(lowered(build(torus(4, 4), "halving_doubling")).route_classes.max()) + 1
    assert shared.wire_bits_per_flit == 128 + 39 + (2 * classes - 1).bit_length()


def test_the_totals_of_a_report_are_sums_and_the_least_credits():
    found = report(build(torus(4, 4), "multitree"), 61440)
    assert found.ports is found.totals is None
    assert "port-cycles" not in str(found)
    ports = (PortCounts(1, 2, 3, 4, 5, 6, 70, 8), PortCounts(10, 20, 30, 40, 50, 60, 7, 80))
    found = dataclasses.replace(found, ports=(ports, (), ports[:1]))
    assert found.totals == PortCounts(12, 24, 36, 48, 60, 72, 7, 96)
    text = "port-cycles waited: dependency 36, credit 48, memory 60, sibling 72"
    assert f"{text}; least credits left 7" in str(found)


def test_only_an_all_reduce_has_a_bound():
    found = report(build(torus(4, 4), "multitree", "broadcast", root=0), 61440)
    assert found.bound_cycles is found.ratio_to_bound is None
    assert "no bound is known" in str(found)


def test_without_cycles_all_that_follows_from_them_is_unknown():
    found = report(build(torus(4, 4), "multitree"), None)
    assert found.time_us is found.bandwidth_gbytes_per_s is found.bound_cycles is None
    assert found.wire_bits_per_flit is found.effective_bandwidth_gbytes_per_s is None
