"""Units: bytes to flits, nanoseconds to cycles, bandwidths to cycles per flit."""

from dataclasses import fields

import numpy as np
import pytest

from multitree.sim.link_model import LinkModel
from multitree.topology.families import torus
from multitree.topology.topology import Topology


def two_ranks(bandwidth, latency):
    return Topology("pair", 2, 0, [[0, 1], [1, 0]], bandwidth, latency)


def test_the_defaults_are_one_flit_per_cycle_and_150_cycles():
    model = LinkModel()
    assert (model.cycles_per_flit(torus(4, 4)) == 1.0).all()
    assert (model.latency_cycles(torus(4, 4)) == 150).all()
    assert model.link_gbytes_per_s == 16.0


def test_latency_cycles_are_rounded_up_and_at_least_one():
    topology = two_ranks([16.0, 16.0], [0.01, 100.5])
    assert LinkModel().latency_cycles(topology).tolist() == [1, 101]
    assert LinkModel(clock_ghz=0.5).latency_cycles(two_ranks([8.0] * 2, [3.0, 4.0])).tolist() == [
        2,
        2,
    ]
    # 50 * 1.1 is a little more than 55 in binary, but 55 cycles all the same.
    assert LinkModel(clock_ghz=1.1).latency_cycles(two_ranks([1.6] * 2, [50.0] * 2))[0] == 55


def test_a_slow_link_takes_a_flit_every_few_cycles():
    topology = two_ranks([16.0, 5.0], [1.0, 1.0])
    assert LinkModel().cycles_per_flit(topology).tolist() == [1.0, 3.2]


def test_a_link_faster_than_a_port_is_an_error_with_the_limit():
    with pytest.raises(ValueError, match=r"at most 16 GB/s \(16-byte flits at 1 GHz\), not 25"):
        LinkModel().cycles_per_flit(two_ranks([25.0, 16.0], [1.0, 1.0]))
    assert LinkModel(clock_ghz=2.0).cycles_per_flit(two_ranks([25.0, 32.0], [1, 1]))[1] == 1.0


@pytest.mark.parametrize(
    ("elements", "itemsize", "flits"), [(0, 4, 0), (1, 4, 1), (4, 4, 1), (5, 4, 2), (9, 2, 2)]
)
def test_buffers_are_padded_to_whole_flits(elements, itemsize, flits):
    assert LinkModel().num_flits(elements, itemsize) == flits


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="Number of elements must be at least 0, not -1"):
        LinkModel().num_flits(-1, 4)
    with pytest.raises(ValueError, match="Item size must divide 16 bytes, not 3"):
        LinkModel().num_flits(1, 3)
    with pytest.raises(TypeError, match="LinkModel clock_ghz must be a number, not '1'"):
        LinkModel(clock_ghz="1")
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="LinkModel clock_ghz must be positive and finite"):
            LinkModel(clock_ghz=wrong)


FIGURES = [field.name for field in fields(LinkModel) if field.type is int]


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_a_number_of_at_least_zero(name):
    with pytest.raises(ValueError, match=f"LinkModel {name} must be at least [01], not -1"):
        LinkModel(**{name: -1})
    for wrong in (1.5, True, "4"):
        with pytest.raises(TypeError, match=f"LinkModel {name} must be an int, not {wrong!r}"):
            LinkModel(**{name: wrong})


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


def test_memory_that_leaves_no_cycle_for_a_read_is_refused():
    with pytest.raises(ValueError, match="Memory cycles must be at least 6, not 5"):
        LinkModel().with_memory(5)


@pytest.mark.parametrize(
    ("name", "known"),
    [("dependency", "chunk or submessage"), ("flow_control", "message or packet")],
)
def test_a_mode_that_does_not_exist_is_refused(name, known):
    said = name.replace("_", " ").capitalize()
    with pytest.raises(ValueError, match=f"{said} must be {known}, not 'both'"):
        LinkModel(**{name: "both"})
