"""The harness against a probe that notes cycles: all latencies are exact."""

from dataclasses import replace

import numpy as np
import pytest

from multitree import DeviceError, TopologyError, fully_connected, ring
from multitree.nic.driver.commands import HostOp
from multitree.sim.timing.link_model import LinkModel, MemoryTiming
from tests.refusals import refuses
from tests.sim.emulator import probe
from tests.sim.emulator.probe import do, note, probe_network, write
from tests.topology.graphs import one_way_ring, pair, star

MODEL = LinkModel(flit_bytes=8, buffer_flits=16)


def pair_of_probes(bandwidth=8.0, latency=7.0, *, memory_timing=None, **settings):
    """A network of two probes, one link each way."""
    model, topology = replace(MODEL, **settings), pair(bandwidth, latency)
    return probe_network(topology, link_model=model, memory_timing=memory_timing)


@pytest.fixture
def network():
    with pair_of_probes() as opened:
        yield opened


def memory_of(network, num_flits=64):
    memory = np.zeros((network.topology.num_ranks, num_flits, 8), dtype=np.uint8)
    memory.view(np.uint64)[:, :, 0] = np.arange(num_flits) + 1000
    network.set_memory(memory)
    return memory.view(np.uint64)[:, :, 0]


@pytest.mark.slow
@pytest.mark.parametrize("latency", [1, 2, 150, 1000])
def test_a_flit_and_a_credit_take_exactly_the_latency_of_the_link(latency):
    with pair_of_probes(latency=latency) as network:
        write(network, 0, probe.SEND, 0xABCD1234)
        do(network, 1, HostOp.wait(latency))
        assert note(network, 1, probe.CAME) - note(network, 0, probe.SENT) == latency
        assert note(network, 1, probe.PAYLOAD) == 0xABCD1234
        assert note(network, 1, probe.SIDEBAND) == 0xABCD1234 & 0xFF
        assert note(network, 1, probe.CHECK) == ~0xABCD1234 & 0xFFFFFFFF
        write(network, 1, probe.CREDIT)
        do(network, 0, HostOp.wait(latency))
        credited = note(network, 1, probe.CREDITED)
        assert note(network, 0, probe.CREDIT_CAME) - credited == latency
        assert note(network, 1, probe.NUM_CAME) == 1 and note(network, 0, probe.NUM_CAME) == 0


@pytest.mark.parametrize(("bandwidth", "cycles"), [(8.0, 1.0), (4.0, 2.0), (3.2, 2.5), (1.0, 8.0)])
def test_a_slow_link_takes_one_flit_per_interval(bandwidth, cycles):
    with pair_of_probes(bandwidth) as network:
        write(network, 0, probe.BURST, 10 << 8)
        do(network, 1, HostOp.wait(100))
        assert note(network, 1, probe.NUM_CAME) == 10
        last = note(network, 0, probe.SENT) + int(np.ceil(9 * cycles)) + 7
        assert note(network, 1, probe.CAME) == last


@pytest.mark.parametrize(("read", "acknowledge"), [(1, 1), (4, 9), (100, 40)])
def test_reads_and_writes_take_exactly_their_latency(read, acknowledge):
    cycles = {"memory_read_cycles": read, "memory_write_cycles": acknowledge}
    with pair_of_probes(**cycles) as network:
        memory = memory_of(network)
        write(network, 0, probe.READ, 17)
        do(network, 0, HostOp.wait(read))
        assert note(network, 0, probe.READ_CAME) - note(network, 0, probe.READ_TAKEN) == read
        assert note(network, 0, probe.READ_DATA) == 1017
        write(network, 0, probe.WRITE, 0xBEEF0011)
        do(network, 0, HostOp.wait(acknowledge))
        taken, acked = (note(network, 0, n) for n in (probe.WRITE_TAKEN, probe.WRITE_ACKED))
        assert acked - taken == acknowledge
        assert memory[0, 0x11] == 0xBEEF0011 and memory[1, 0x11] == 1017


def test_a_write_is_not_in_memory_before_it_is_acknowledged():
    with pair_of_probes(memory_write_cycles=100) as network:
        memory = memory_of(network)
        write(network, 0, probe.WRITE, 0xBEEF0011)
        do(network, 0, HostOp.wait(50))
        assert memory[0, 0x11] == 1017
        do(network, 0, HostOp.wait(100))
        assert memory[0, 0x11] == 0xBEEF0011


def test_a_read_is_of_what_memory_held_when_it_was_taken():
    with pair_of_probes(memory_read_cycles=100) as network:
        memory = memory_of(network)
        write(network, 0, probe.READ, 17)
        do(network, 0, HostOp.wait(50))
        memory[0, 17] = 5
        do(network, 0, HostOp.wait(100))
        assert note(network, 0, probe.READ_DATA) == 1017


def test_answers_come_in_the_order_of_requests_however_long_each_takes():
    timing = MemoryTiming(extra_cycles=500)
    with pair_of_probes(memory_timing=timing) as network:
        memory_of(network)
        for _ in range(20):
            ops = [HostOp.write(probe.READ, place) for place in (5, 6, 7)]
            do(network, 0, *ops, HostOp.wait(600))
            assert note(network, 0, probe.READ_DATA) == 1007


def test_a_channel_takes_no_request_while_it_stalls():
    def wait_cycles(percent):
        timing = MemoryTiming(stall_percent=percent)
        with pair_of_probes(memory_timing=timing) as network:
            memory_of(network)
            waited = 0
            for _ in range(20):
                asked = int(write(network, 0, probe.READ, 5)["end"][0])
                do(network, 0, HostOp.wait(200))
                waited += note(network, 0, probe.READ_TAKEN) - asked
        return waited

    free = wait_cycles(0)
    assert 10 < wait_cycles(50) - free < 60  # about one cycle each
    assert 80 < wait_cycles(90) - free < 400  # about nine


def test_random_latencies_differ_within_their_range_and_repeat_with_the_seed():
    def latencies(seed):
        timing = MemoryTiming(extra_cycles=20, stall_percent=50, seed=seed)
        with pair_of_probes(memory_timing=timing) as network:
            memory_of(network)
            found = []
            for _ in range(20):
                write(network, 0, probe.READ, 5)
                do(network, 0, HostOp.wait(100))
                taken, came = (note(network, 0, n) for n in (probe.READ_TAKEN, probe.READ_CAME))
                found.append(came - taken)
            return found

    first = latencies(7)
    assert len(set(first)) > 3 and min(first) >= 4 and max(first) <= 24
    assert latencies(7) == first != latencies(8)


def test_every_rank_does_its_own_script_at_the_same_time():
    with probe_network(ring(4), link_model=LinkModel(flit_bytes=8, clock_ghz=2.0)) as network:
        for rank in range(4):
            network.set_script(
                rank, [HostOp.wait(100 * rank), HostOp.write(probe.IRQ, 1), HostOp.wait_irq()]
            )
        first = network.cycle
        assert network.run(1000)
        begins = [int(network.results(rank)["begin"][1]) - first for rank in range(4)]
        assert begins == [0, 100, 200, 300]
        rose = network.irq_cycles() - first
        assert (np.diff(rose) == 100).all()
        ends = [int(network.results(rank)["end"][2]) - first for rank in range(4)]
        assert ends == [cycle + 1 for cycle in rose]  # the write is over a cycle after its effect


def test_a_run_stops_at_its_limit_and_goes_on_later(network):
    network.set_script(0, [HostOp.wait_irq()])
    first = network.cycle
    assert not network.run(1234) and network.cycle == first + 1234
    network.set_script(1, [])
    network.set_script(0, [HostOp.write(probe.IRQ, 1), HostOp.wait_irq()])
    assert network.run(100)


def test_a_new_script_lets_a_transfer_in_flight_end_first(network):
    for offset in range(8):
        network.set_script(0, [HostOp.wait(offset), HostOp.write(probe.SEND, offset)])
        network.run(offset + 2)
        results = do(network, 0, HostOp.read(probe.NOW))
        assert results["end"][0] > results["begin"][0] and results["response"][0] == 0
        do(network, 1, HostOp.wait(100))
        assert note(network, 1, probe.PAYLOAD) == offset


def test_a_script_with_nothing_to_wait_for_takes_no_time_but_its_transfers(network):
    results = do(network, 0, HostOp.wait(0), HostOp.read(probe.NOW), HostOp.read(probe.NOW))
    assert results["begin"][0] == results["end"][0] == results["begin"][1]
    assert results["begin"][2] == results["end"][1] + 1


def test_an_address_beyond_memory_is_an_error_that_names_the_rank(network):
    memory_of(network, num_flits=16)
    with pytest.raises(DeviceError, match=r"^Rank 1: memory has no address 0x10, in cycle \d+"):
        write(network, 1, probe.READ, 16)
        do(network, 1, HostOp.wait(10))


def test_a_flit_where_there_is_no_link_is_an_error_that_names_the_port(network):
    ops = HostOp.write(probe.SEND_ON_PORT_1, 0), HostOp.wait(10)
    refuses(DeviceError, "^Rank 0: port 1 sent, and has no link", do, network, 0, *ops)


def test_what_cannot_be_wired_is_refused():
    with pytest.raises(TopologyError, match="a rank has 3 links, the interface 2 ports"):
        probe_network(fully_connected(4), link_model=MODEL)
    with pytest.raises(TopologyError, match="link 0 has no reverse link"):
        probe_network(one_way_ring(3), link_model=MODEL)
    with pytest.raises(TopologyError, match="must be built for shared links"):
        probe_network(star(2, 8.0, 1.0), link_model=MODEL)


def test_memory_must_have_the_shape_of_the_network(network):
    with pytest.raises(ValueError, match=r"contiguous uint8 array of shape \(2, 8, 8\)"):
        network.set_memory(np.zeros((2, 8, 4), dtype=np.uint8))
