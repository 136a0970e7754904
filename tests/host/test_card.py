"""The driver runs real tables on emulated interfaces, and names what goes wrong."""

import dataclasses

import numpy as np
import pytest

from multitree import DeviceError, build, execute, ring
from multitree.host.card import Card
from multitree.nic.driver.commands import PortCounts, RunSettings, reset_writes
from multitree.nic.driver.config import Config
from multitree.nic.driver.registers import VERSION
from multitree.nic.driver.table import compile_table
from multitree.sim.emulator.accesses import EmulatedBus
from multitree.sim.emulator.library import network_library
from multitree.sim.emulator.network import Network
from tests.buses import MASK, FakeBus
from tests.emulation import needs_rtl
from tests.host.values import bits, make_buffers
from tests.refusals import refuses

NUM_ELEMENTS = 100
NUM_FLITS = 25
# As torus:4x4 is emulated with, so that it is compiled once.
CONFIG = Config(dtypes=("int32", "float32"))
LIMIT_CYCLES = 5000


@pytest.fixture(scope="module")
def library():
    return network_library(CONFIG)


@pytest.fixture
def network(library):
    with Network(ring(2), CONFIG, library) as opened:
        yield opened


@pytest.fixture
def schedule():
    return build(ring(2), "multitree")


@pytest.fixture
def memory(network):
    content = np.zeros((2, NUM_FLITS, 16), np.uint8)
    network.set_memory(content)
    return content


def driver_of(network, rank):
    return Card(EmulatedBus(network, rank), rank)


def loaded(driver, schedule, rank, **changes):
    """The driver, with a table that is committed."""
    driver.load_table(compile_table(schedule, rank, NUM_FLITS, CONFIG))
    driver.commit(settings(**changes))
    return driver


def run_all(drivers):
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.wait(LIMIT_CYCLES)


def settings(**changes):
    base = RunSettings("float32", 0, NUM_FLITS, LIMIT_CYCLES, LIMIT_CYCLES)
    return dataclasses.replace(base, **changes)


@needs_rtl
def test_two_driven_interfaces_all_reduce_again_and_again(network, schedule, memory):
    drivers = [loaded(driver_of(network, rank), schedule, rank) for rank in range(2)]
    for seed in range(3):
        buffers = make_buffers(seed, 2, NUM_ELEMENTS)
        memory[...] = buffers.view(np.uint8).reshape(memory.shape)
        run_all(drivers)
        assert not any(EmulatedBus(network, rank).wait_interrupt(50) for rank in range(2))
        result = memory.reshape(2, -1).view(np.float32)
        assert (bits(result) == bits(execute(schedule, buffers))).all()
    counters = drivers[1].counters()
    assert 300 < counters.cycles < LIMIT_CYCLES
    (used, *unused) = counters.ports
    assert used.flits_sent == used.flits_received == NUM_FLITS
    assert used.stall_dependency_cycles > 0
    assert set(unused) == {PortCounts(*[0] * 6, credits_low=CONFIG.buffer_flits, flits_forwarded=0)}
    assert len(counters.ports) == CONFIG.num_ports


@needs_rtl
def test_a_driven_interface_that_is_reset_alone_rejoins(network, schedule, memory):
    """After an odd number of collectives; the other one keeps its table and its number."""
    drivers, buffers = [driver_of(network, rank) for rank in range(2)], make_buffers(4, 2, 100)
    memory[...] = buffers.view(np.uint8).reshape(memory.shape)
    for again in range(3):
        for rank, driver in enumerate(drivers):
            if rank or not again:
                loaded(driver, schedule, rank)
        run_all(drivers)
        drivers[0].await_delivery()
        drivers[1].rejoin(drivers[0].sequence() if again else None)
        assert drivers[1].sequence() == again + 1
        buffers = execute(schedule, buffers)
    assert (bits(memory.reshape(2, -1).view(np.float32)) == bits(buffers)).all()


@needs_rtl
def test_the_next_collective_is_loaded_and_started_while_one_runs(network, schedule):
    """Rank 1 keeps rank 0 waiting until that has loaded and started two collectives."""
    other = build(ring(2), "ring")
    drivers = [driver_of(network, rank) for rank in range(2)]
    buffers = [make_buffers(seed, 2, NUM_ELEMENTS) for seed in range(2)]
    memory = np.concatenate(buffers, axis=1).view(np.uint8).reshape(2, 2 * NUM_FLITS, 16).copy()
    network.set_memory(memory)
    limits = {"watchdog_cycles": 0, "first_arrival_cycles": 0}
    for rank, driver in enumerate(drivers):
        loaded(driver, schedule, rank, **limits).start()
        following = settings(window_base=NUM_FLITS, **limits)
        driver.preload(compile_table(other, rank, NUM_FLITS, CONFIG), following)
        driver.start()
        if rank == 0:
            with pytest.raises(DeviceError, match="Rank 0: nothing may wait to be committed"):
                driver.preload(compile_table(other, rank, NUM_FLITS, CONFIG), following)
    for driver in drivers * 2:
        driver.wait(LIMIT_CYCLES)
    found = memory.reshape(2, 2, -1).view(np.float32)
    for k, made in enumerate((schedule, other)):
        assert (bits(found[:, k]) == bits(execute(made, buffers[k]))).all()
    assert not any(EmulatedBus(network, rank).wait_interrupt(50) for rank in range(2))


@needs_rtl
def test_probe_reads_the_sizes_it_was_built_with(network):
    sizes = driver_of(network, 1).probe()
    for name, value in dataclasses.asdict(sizes).items():
        assert value == getattr(CONFIG, name), name


@needs_rtl
def test_a_neighbour_that_never_starts_ends_in_a_fault_that_names_flow_and_port(
    network, schedule, memory
):
    limits = {"first_arrival_cycles": 700, "watchdog_cycles": 700}
    driver = loaded(driver_of(network, 0), schedule, 0, **limits)
    driver.start()
    refuses(DeviceError, r"^Rank 0.*FIRST_ARRIVAL.*awaited", driver.wait, LIMIT_CYCLES)
    for rank in range(2):
        driver_of(network, rank).reset()
    loaded(driver, schedule, 0).start()
    refuses(DeviceError, r"Rank 0: not done after 200 cycles, in step .* messag", driver.wait, 200)


@needs_rtl
def test_an_illegal_row_is_refused_at_commit_and_named(network, schedule, memory):
    table = compile_table(schedule, 0, NUM_FLITS, CONFIG)
    wrong = dataclasses.replace(table, port=np.full_like(table.port, 7))
    driver = driver_of(network, 0)
    driver.load_table(wrong)
    refuses(DeviceError, r"^Rank 0.*row 0.*ROW_ILLEGAL", driver.commit, settings())


@needs_rtl
def test_a_start_without_a_commit_is_a_fault(network, memory):
    driver = driver_of(network, 1)
    driver.start()
    refuses(DeviceError, r"^Rank 1.*NOT_COMMITTED", driver.wait, 100)


@needs_rtl
def test_an_address_without_a_register_is_refused(network):
    with pytest.raises(DeviceError, match="Rank 0: refused access to register 0xffc"):
        EmulatedBus(network, 0).read(0xFFC)


SIZES = {"ID": 0x4D544E49, "VERSION": VERSION, "TABLE_DEPTH": 1, "FLOW_DEPTH": 1}
SIZES["PARAMETERS"] = 0b0111_0100


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"ID": 0xFFFFFFFF}, "ID must be 0x4d544e49, not 0xffffffff"),
        (SIZES | {"VERSION": 9}, f"register map must be version {VERSION}, not 9"),
    ],
)
def test_something_else_behind_the_bus_is_not_taken_for_an_interface(words, message):
    refuses(DeviceError, f"Rank 4: {message}", Card(FakeBus(**words), 4).probe)


def test_a_table_of_another_rank_or_too_large_is_not_written(schedule):
    bus = FakeBus(**SIZES)
    table = compile_table(schedule, 0, NUM_FLITS, CONFIG)
    with pytest.raises(DeviceError, match="Rank 1: table must be this rank's, not rank 0's"):
        Card(bus, 1).load_table(table)
    with pytest.raises(DeviceError, match="Rank 0: rows of the table must be at most 1, not 2"):
        Card(bus, 0).load_table(table)
    assert not bus.written


def test_a_check_that_never_ends_is_an_error():
    with pytest.raises(DeviceError, match="Rank 2: table is not accepted after 10 reads"):
        Card(FakeBus(**SIZES), 2, max_polls=10).commit(settings())


def test_elements_that_the_interface_cannot_reduce_are_refused_before_anything_is_written():
    bus = FakeBus(**SIZES | {"PARAMETERS": 0b0101_0100})
    assert Card(bus, 2).probe().dtypes == ("int32", "bfloat16")
    with pytest.raises(DeviceError, match=r"Rank 2: type of the elements must be .*, not float32"):
        Card(bus, 2).commit(settings())
    assert not bus.written


@pytest.mark.parametrize("wave_width", [0, 11])
def test_a_fault_names_its_wave_where_the_interface_repeats_tables(wave_width):
    """Elsewhere there is no such register."""
    words = SIZES | {"PARAMETERS": SIZES["PARAMETERS"] | wave_width << 27, "STATUS": MASK["fault"]}
    bus = FakeBus(**words, FAULT=4 | 0xFF << 12, FAULT_ROW=5 << 16 | 7, FAULT_WAVE=3 | 1 << 16)
    where = "Rank 2, row 7, flow 5, wave 3: no" if wave_width else "Rank 2, row 7, flow 5: no"
    refuses(DeviceError, where, Card(bus, 2).wait, 1)


def test_a_reset_lasts_until_the_interface_is_no_longer_busy():
    with pytest.raises(DeviceError, match="Rank 2: reset is not over after 10 reads"):
        Card(FakeBus(STATUS=MASK["busy"]), 2, max_polls=10).reset()
    quiet = FakeBus(STATUS=0)
    Card(quiet, 2).reset()
    Card(quiet, 2).reset(2**32 - 1)
    assert quiet.written == [*reset_writes(0), *reset_writes(2**32 - 1)]
    refuses(ValueError, "Sequence must fit 32 bits, not 4294967296", Card(quiet, 2).reset, 2**32)


def test_a_card_rejoins_only_when_all_is_delivered_and_only_with_the_number_it_was_given():
    waits = FakeBus(STATUS=MASK["done"])
    with pytest.raises(DeviceError, match="Rank 2: not delivered after 10 reads of STATUS"):
        Card(waits, 2, max_polls=10).rejoin(7)
    faulted = FakeBus(**SIZES, STATUS=MASK["fault"] | MASK["delivered"], FAULT=4)
    refuses(DeviceError, r"Rank 2.*\(WATCHDOG\)", Card(faulted, 2).rejoin, 7)
    assert not waits.written and not faulted.written
    short = FakeBus(STATUS=MASK["delivered"], SEQUENCE=300 % 256)
    with pytest.raises(DeviceError, match="Rank 2: next collective must be number 300, not 44"):
        Card(short, 2).rejoin(300)
    Card(short, 2).rejoin(44)
    assert short.written == [*reset_writes(300), *reset_writes(44)]
