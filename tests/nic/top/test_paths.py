"""Tests that interfaces meet only across registers."""

import pytest

from multitree.hw.arbiter import RoundRobin
from multitree.hw.stream import Fifo, Register
from multitree.nic.driver.config import Config
from multitree.nic.interface import Interface
from tests.nic.top.netlist import combinational_paths

SMALL = Config(
    num_ports=1,
    flit_bytes=8,
    table_depth=4,
    num_flows=2,
    buffer_flits=4,
    submessage_flits=2,
    memory_queue_flits=4,
    address_width=6,
)


@pytest.mark.slow
def test_no_output_of_the_interface_follows_an_input_within_a_cycle():
    assert combinational_paths(Interface(SMALL)) == set()


def test_a_path_would_be_found():
    grants = {(output, "requests") for output in ("granted", "grant", "valid")}
    assert combinational_paths(RoundRobin(count=3)) == grants
    assert combinational_paths(Register(shape=4)) == set()
    assert combinational_paths(Fifo(shape=4, depth=4)) == set()
