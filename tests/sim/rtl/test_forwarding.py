"""Interfaces that forward in RTL: sums are exact on any memory and links."""

from dataclasses import replace

import numpy as np
import pytest

from multitree import DeviceError, ScheduleError, build, fat_tree, mesh, torus, verify
from multitree.sim.faults.injection import FailedMemory, MemoryChannel, StuckMemory
from multitree.sim.timing.link_model import LinkModel, MemoryTiming
from multitree.sim.timing.sizing import config_for
from tests.sim.emulated import sums

# Interfaces as those of kinds of tests/sim/exact/test_engine.py: they share a library.
MODEL = LinkModel(dependency="submessage", forward_flits=32, buffer_flits=512)
SMALL = replace(MODEL, buffer_flits=40, submessage_flits=8, forward_flits=64, add_cycles=6)
NETWORK = mesh(2, 3)
JITTER = MemoryTiming(extra_cycles=80, stall_percent=30, seed=3)
each_timing = pytest.mark.parametrize("timing", [None, JITTER], ids=["steady", "jitter"])


def run(schedule, num_elements, *, timing=None, **options):
    options = {"model": MODEL, "made": {"memory_timing": timing}} | options
    return sums(schedule, num_elements, seed=num_elements, **options)


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("num_elements", [1, 5, 70, 1300, 18_001])
@each_timing
@pytest.mark.parametrize("dependency", ["submessage", "chunk"])
def test_sums_are_exact_with_tiny_and_empty_chunks_and_any_memory(num_elements, timing, dependency):
    model = replace(MODEL, dependency=dependency)
    run(build(NETWORK, "multitree"), num_elements, model=model, timing=timing)


@pytest.mark.slow
@each_timing
def test_the_second_collective_takes_nothing_of_the_first_one(timing):
    run(build(NETWORK, "multitree"), 3000, num_collectives=3, timing=timing)


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize(
    ("model", "num_elements", "flow_control"),
    [
        (MODEL, 15_000, "message"),
        pytest.param(SMALL, 3000, "message", marks=pytest.mark.long),
        pytest.param(SMALL, 3000, "packet", marks=pytest.mark.long),
    ],
)
def test_buffers_smaller_than_a_message_and_late_starts_are_no_matter(
    model, num_elements, flow_control
):
    schedule, model = build(NETWORK, "multitree"), replace(model, flow_control=flow_control)
    assert max(np.diff(schedule.chunks(num_elements // 4))) > model.buffer_flits
    skews = [0, 900, 5, 2000, 77, 300]
    run(schedule, num_elements, model=model, timing=JITTER, start_skew_cycles=skews)


@pytest.mark.slow
def test_unequal_links_are_no_matter():
    links = np.arange(NETWORK.num_links)
    speed = NETWORK.bandwidth_gbytes_per_s * np.where(links % 3 == 0, 0.4, 1.0)
    unequal = replace(NETWORK, bandwidth_gbytes_per_s=speed, latency_ns=10.0 + 40 * (links % 5))
    run(build(unequal, "multitree"), 3000, timing=JITTER)


@pytest.mark.long
@pytest.mark.every_set
@pytest.mark.parametrize(
    ("network", "model", "period"),
    [
        # Interfaces of two ports take half the time to compile; those of tests of sleep are these.
        (mesh(2, 2), replace(MODEL, forward_flits=64), 8),
        (NETWORK, replace(MODEL, buffer_flits=64), 2),
        (NETWORK, replace(MODEL, buffer_flits=64), 8),
    ],
)
def test_waves_forward_their_own_flits(network, model, period):
    schedule = replace(build(network, "multitree"), num_waves=9, period=period)
    verify(schedule)
    run(schedule, 9 * 700, model=model, timing=JITTER)


@pytest.mark.slow
@pytest.mark.parametrize("collective", ["broadcast", "reduce", "reduce_scatter", "all_gather"])
def test_other_collectives_are_exact(collective):
    root = 2 if collective in ("broadcast", "reduce") else None
    run(build(NETWORK, "multitree", collective, root), 2000, timing=JITTER)


@pytest.mark.long
def test_a_hop_takes_as_long_with_slow_memory_as_with_fast_one():
    chain, cycles = build(mesh(6), "multitree", "broadcast", 0), []
    for memory_cycles in (12, 300):
        model = replace(MODEL, forward_flits=64).with_memory(memory_cycles)
        cycles.append(run(chain, 4000, model=model)[0].cycles)
    # The source reads its chunk, and the last rank awaits its acknowledgement: no hop does.
    assert cycles[1] - cycles[0] <= (300 - 12) + 4


@pytest.mark.slow
@pytest.mark.parametrize("fault", [FailedMemory, StuckMemory], ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("channel", list(MemoryChannel), ids=lambda channel: channel.name)
def test_a_rank_whose_memory_fails_is_named_though_its_flits_went_on(fault, channel):
    schedule = build(NETWORK, "multitree")
    (trace,) = run(schedule, 3000)
    # Senders read their own chunks only, early; all that comes in is forwarded.
    cycle = 1 if channel == MemoryChannel.SEND else int(np.median(trace.sent))
    named = r"Rank 1, .*MEMORY_ERROR" if fault is FailedMemory else r"\(WATCHDOG\)"
    with pytest.raises(DeviceError, match=named) as caught:
        run(schedule, 3000, faults=[fault(1, cycle, 0, channel)])
    print(caught.value)


def test_shared_links_do_not_forward():
    with pytest.raises(ScheduleError, match=r"fat_tree.*forward_flits must be 0.*not 32"):
        config_for(fat_tree(2, 2), MODEL)


def test_the_link_model_sizes_what_ports_keep():
    assert config_for(torus(4, 4), MODEL).forward_flits == 32
    assert config_for(torus(4, 4), LinkModel()).forward_flits == 0
    with pytest.raises(ValueError, match=r"forward_flits must be within 0..4096, not -1"):
        replace(MODEL, forward_flits=-1)
    with pytest.raises(ValueError, match="a power of two from 32 on, not 48"):
        replace(MODEL, forward_flits=48)
