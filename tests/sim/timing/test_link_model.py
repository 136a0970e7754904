"""Units: bytes to flits, nanoseconds to cycles, bandwidths to cycles per flit."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest

from multitree import LinkModel, TopologyError, parse_topology, torus
from multitree.sim.timing.link_model import MOST_MEMORY_CYCLES
from tests.refusals import refuses
from tests.topology.graphs import pair


def test_the_defaults_are_one_flit_per_cycle_and_150_cycles():
    model = LinkModel()
    assert (model.cycles_per_flit(torus(4, 4)) == 1.0).all()
    assert (model.latency_cycles(torus(4, 4)) == 150).all()
    assert model.link_gbytes_per_s == 16.0


def test_latency_cycles_are_rounded_up_and_at_least_one():
    topology = pair(latency=[0.01, 100.5])
    assert LinkModel().latency_cycles(topology).tolist() == [1, 101]
    slow = LinkModel(clock_ghz=0.5).latency_cycles(pair(8.0, [3.0, 4.0]))
    assert slow.tolist() == [2, 2]
    # 50 * 1.1 is a little more than 55 in binary, but 55 cycles all the same.
    assert LinkModel(clock_ghz=1.1).latency_cycles(pair(1.6, 50.0))[0] == 55


def test_a_slow_link_takes_a_flit_every_few_cycles():
    topology = pair([16.0, 5.0])
    assert LinkModel().cycles_per_flit(topology).tolist() == [1.0, 3.2]


def test_a_link_faster_than_a_port_takes_what_the_port_sends():
    fast = pair([25.0, 64.0])
    assert LinkModel().cycles_per_flit(fast).tolist() == [1.0, 1.0]
    assert LinkModel(clock_ghz=2.0).cycles_per_flit(fast).tolist() == [1.28, 1.0]
    assert LinkModel(flit_bytes=64).cycles_per_flit(fast).tolist() == [2.56, 1.0]


FAMILIES = ("torus:8x8", "mesh:4x4", "ring:2", "hypercube:6", "full:100", "bigraph:4x8", "dgx2")


@pytest.mark.parametrize("spec", [*FAMILIES, "dgx_a100:4x2", "dragonfly:4x2x2", "kary_tree:4x3"])
def test_links_of_150_ns_keep_the_buffers_they_had(spec):
    topology = parse_topology(spec)
    assert LinkModel().buffer_flits_on(topology) == 512
    assert LinkModel(buffer_flits=40).buffer_flits_on(topology) == 40


@pytest.mark.parametrize("clock_ghz", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("bandwidth", [2.0, 16.0, 100.0])
@pytest.mark.parametrize("latency_ns", [1.0, 150.0, 400.0, 1000.0, 5000.0])
def test_buffers_cover_a_round_trip_a_sub_message_and_waiting_siblings(
    latency_ns, bandwidth, clock_ghz
):
    model = LinkModel(clock_ghz=clock_ghz)
    whole = torus(4, 4)
    speeds = np.full(whole.num_links, bandwidth)
    latencies = np.linspace(1.0, latency_ns, whole.num_links)
    topology = replace(whole, bandwidth_gbytes_per_s=speeds, latency_ns=latencies)
    fed = min(bandwidth / (16 * clock_ghz), 1.0)
    under_way = (2 * math.ceil(latency_ns * clock_ghz) + 6) * fed
    siblings = 3 * (4 + 1 + 4 + 4 + 3 + 2)
    found = model.buffer_flits_on(topology)
    least = under_way + 16 + siblings
    assert least <= found <= max(512, 2 * least) and found & (found - 1) == 0


def test_buffers_end_where_interfaces_do():
    assert LinkModel().buffer_flits_on(pair(latency=1e6)) == 65_536


@pytest.mark.parametrize(
    ("elements", "itemsize", "flits"), [(0, 4, 0), (1, 4, 1), (4, 4, 1), (5, 4, 2), (9, 2, 2)]
)
def test_buffers_are_padded_to_whole_flits(elements, itemsize, flits):
    assert LinkModel().num_flits(elements, itemsize) == flits


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="Number of elements must be at least 0, not -1"):
        LinkModel().num_flits(-1, 4)
    refuses(ValueError, "Item size must divide 16 bytes, not 3", LinkModel().num_flits, 1, 3)
    refuses(TypeError, "LinkModel clock_ghz must be a number, not '1'", LinkModel, clock_ghz="1")
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"LinkModel clock_ghz must be within 0.001..100, not"):
            LinkModel(clock_ghz=wrong)


FIGURES = [
    field.name for field in fields(LinkModel) if field.type is int or field.name == "buffer_flits"
]


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_a_number_of_at_least_zero(name):
    with pytest.raises(ValueError, match=rf"LinkModel {name} must be within \d\.\.\d+, not -1"):
        LinkModel(**{name: -1})
    for wrong in (1.5, True, "4"):
        with pytest.raises(TypeError, match=f"LinkModel {name} must be an int, not {wrong!r}"):
            LinkModel(**{name: wrong})


def test_an_adder_or_a_sub_message_that_no_interface_has_is_refused():
    for name, value, rule in (
        ("add_cycles", 3, "within 4..6"),
        ("add_cycles", 99, "within 4..6"),
        ("submessage_flits", 24, "a power of two"),
        ("buffer_flits", 1, "within 4..65536"),
        ("forward_flits", 33, "0 or a power of two from 32 on"),
        ("memory_read_cycles", 2**20 + 1, "within 1..1048576"),
    ):
        with pytest.raises(ValueError, match=f"LinkModel {name} must be {rule}, not {value}"):
            LinkModel(**{name: value})


def test_a_link_longer_than_cycles_are_counted_is_refused():
    far = pair(latency=[1.0, 2.0**41])
    assert LinkModel(clock_ghz=0.5).latency_cycles(far).tolist() == [1, 2**40]
    with pytest.raises(TopologyError, match="pair: latency must be at most 1099511627776 cycles"):
        LinkModel().latency_cycles(far)


def test_queues_cover_what_memory_takes():
    assert LinkModel().memory_queue_flits == 64
    assert LinkModel(memory_read_cycles=45).memory_queue_flits == 128
    assert LinkModel().with_memory(1008).memory_queue_flits == 1024
    assert LinkModel().with_memory(1009).memory_queue_flits == 2048


def test_time_follows_the_clock():
    assert LinkModel(clock_ghz=2.0).microseconds(5000) == 2.5
    assert np.isclose(LinkModel().microseconds(43_500), 43.5)


@pytest.mark.parametrize("memory_cycles", [6, 12, 41, 100])
def test_memory_cycles_are_a_read_the_addition_and_a_write(memory_cycles):
    model = LinkModel(dependency="submessage").with_memory(memory_cycles)
    both = (model.memory_read_cycles, model.memory_write_cycles)
    assert sum(both) + model.add_cycles == memory_cycles
    assert both[0] - both[1] in (0, 1)
    assert model.dependency == "submessage"


def test_memory_that_leaves_no_cycle_for_a_read_or_takes_too_many_is_refused():
    refuses(ValueError, "Memory cycles must be at least 6, not 5", LinkModel().with_memory, 5)
    most = MOST_MEMORY_CYCLES
    assert LinkModel().with_memory(most).memory_read_cycles > most // 3
    says = f"Memory cycles must be at most {most}, not {most + 1}"
    refuses(ValueError, says, LinkModel().with_memory, most + 1)


@pytest.mark.parametrize(
    ("name", "known"),
    [("dependency", "chunk or submessage"), ("flow_control", "message or packet")],
)
def test_a_mode_that_does_not_exist_is_refused(name, known):
    said = name.replace("_", " ").capitalize()
    refuses(ValueError, f"{said} must be {known}, not 'both'", LinkModel, **{name: "both"})
