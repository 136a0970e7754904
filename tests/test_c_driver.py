"""The C driver does what the driver in Python does, and says the same of faults."""

import ctypes
import random
import re

import numpy as np
import pytest

from multitree import DeviceError, LinkModel, build, fully_connected, ring
from multitree.nic.driver.commands import (
    ACKNOWLEDGE,
    COMMIT,
    START,
    RunSettings,
    decode_fault,
    reset_writes,
    run_writes,
)
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import Awaited, FaultCode
from multitree.nic.driver.registers import ADDRESS, ID, VERSION
from multitree.nic.driver.table import compile_table, table_writes
from multitree.sim.emulator.accesses import EmulatedBus
from multitree.sim.emulator.library import network_library
from multitree.sim.emulator.network import Network
from multitree.sim.timing.sizing import config_for
from tests.buses import MASK, FakeBus
from tests.emulation import needs_rtl
from tests.programs import load_script, python
from tests.refusals import refuses
from tests.repository import ROOT

RUN = ROOT / "examples" / "c_driver" / "run.py"
SIZES = {"ID": ID, "VERSION": VERSION, "PARAMETERS": 4, "TABLE_DEPTH": 256, "FLOW_DEPTH": 128}


@pytest.fixture(scope="module")
def example():
    return load_script(RUN)


@pytest.fixture(scope="module")
def driver(example, tmp_path_factory):
    return example.compile_driver(tmp_path_factory.mktemp("driver"))


def opened(example, driver, bus, rank=0, max_polls=5):
    """One card behind a fake bus, and a function that calls the driver with it."""
    cards = example.Cards(driver, [example.bus_of(bus)])
    card = cards.structs[0]
    card.rank, card.max_polls = rank, max_polls

    def call(name, *arguments):
        function = getattr(driver, f"multitree_{name}")
        status = function(ctypes.byref(card), *map(ctypes.byref, arguments))
        if status:
            raise DeviceError(card.error.decode())

    call.cards = cards
    return call


@pytest.mark.slow
@pytest.mark.dear
@needs_rtl
@pytest.mark.parametrize(("spec", "size"), [("ring:4", "64KiB"), ("full:4", "100")])
def test_four_cards_driven_in_c_all_reduce_bit_for_bit(spec, size):
    done = python(RUN, "--spec", spec, "--size", size)
    assert "4 cards" in done.stdout and "equal to execute: yes" in done.stdout


@pytest.mark.slow
@needs_rtl
def test_a_neighbour_that_never_starts_is_a_fault_in_words(example, driver):
    topology = ring(4)
    config = config_for(topology, LinkModel())
    table = compile_table(build(topology, "multitree"), 0, 100, config)
    with Network(topology, config, network_library(config)) as network:
        network.set_memory(np.zeros((4, 100, config.flit_bytes), dtype=np.uint8))
        call = opened(example, driver, EmulatedBus(network, 0), max_polls=1000)
        call("reset")
        call("load", example.c_table(table))
        call("commit", example.CSettings(1, 0, 100, 700, 700))
        driver.multitree_start(ctypes.byref(call.cards.structs[0]))
        refuses(DeviceError, r"^Rank 0.*FIRST_ARRIVAL\); awaited", call, "wait")


def test_it_writes_what_the_driver_in_python_writes_and_commits_last(example, driver):
    table = compile_table(build(fully_connected(4), "multitree"), 2, 1000, Config())
    settings = RunSettings("float32", 64, 1000, 5000, 70000)
    wanted = dict([*table_writes(table), *run_writes(settings)])
    bus = FakeBus(**SIZES, STATUS=[MASK["busy"], MASK["committed"]], LINKS=[0, 0b111])
    call = opened(example, driver, bus, rank=2)
    call("load", example.c_table(table))
    call("commit", example.CSettings(wanted[ADDRESS["MODE"]], 64, 1000, 5000, 70000))
    *before, last = bus.written
    assert last == COMMIT
    assert len(before) == len(wanted) and dict(before) == wanted


def test_a_link_of_the_table_that_does_not_come_up_is_named(example, driver):
    table = compile_table(build(ring(4), "multitree"), 1, 1000, Config())
    bus = FakeBus(**SIZES, STATUS=MASK["committed"], LINKS=0b1101)
    call = opened(example, driver, bus)
    call("load", example.c_table(table))
    with pytest.raises(DeviceError, match=r"^Rank 0: link of port 1 is not up after 5 reads of"):
        call("commit", example.CSettings())
    bus.words[ADDRESS["LINKS"]] = [0b0011]
    call("commit", example.CSettings())


def test_reset_start_and_wait_write_their_bit_of_control_and_sleep_between_looks(example, driver):
    busy = MASK["busy"] | MASK["fault"]
    bus = FakeBus(**SIZES, STATUS=[busy, busy, 0])
    opened(example, driver, bus)("reset")
    assert (bus.written, bus.pauses) == (reset_writes(0), 2)
    bus = FakeBus(**SIZES, STATUS=[MASK["busy"], MASK["done"]])
    call = opened(example, driver, bus)
    driver.multitree_start(ctypes.byref(call.cards.structs[0]))
    call("wait")
    assert (bus.written, bus.pauses) == ([START, ACKNOWLEDGE], 1)


def test_a_card_rejoins_with_the_number_of_the_others_when_all_is_delivered(example, driver):
    delivered = MASK["delivered"]
    bus = FakeBus(**SIZES, STATUS=[0, delivered, delivered | MASK["busy"], delivered])
    call = opened(example, driver, bus)
    card = ctypes.byref(call.cards.structs[0])
    assert driver.multitree_rejoin(card, ctypes.c_uint32(2**32 - 1)) == 0
    assert (bus.written, bus.pauses) == (reset_writes(2**32 - 1), 2)
    bus = FakeBus(**SIZES, STATUS=MASK["done"])
    call = opened(example, driver, bus)
    assert driver.multitree_rejoin(ctypes.byref(call.cards.structs[0]), ctypes.c_uint32(3))
    message = call.cards.structs[0].error.decode()
    assert message.startswith("Rank 0: not delivered after 5 reads of STATUS")
    assert not bus.written


@pytest.mark.parametrize("code", [code for code in FaultCode if code])
def test_a_fault_is_said_as_the_driver_in_python_says_it(example, driver, code):
    print("seed", int(code))
    rng = random.Random(int(code))
    for awaited in Awaited:
        word = code | awaited << 8 | rng.getrandbits(1) << 11 | rng.randrange(8) << 12
        word |= rng.choice([rng.randrange(8), 15]) << 16
        row = rng.choice([rng.randrange(300), 0xFFFF])
        where = row | rng.randrange(100) << 16
        bus = FakeBus(**SIZES, STATUS=MASK["fault"], FAULT=word, FAULT_ROW=where)
        rank = rng.randrange(1000)
        wanted = re.escape(str(decode_fault(word, where).error(rank)))
        for name in ("wait", "commit"):
            call = opened(example, driver, bus, rank=rank)
            with pytest.raises(DeviceError, match=f"^{wanted}$"):
                call(name, *([example.CSettings()] if name == "commit" else []))


UNKNOWN_FLOW = FaultCode.NOT_COMMITTED | 0xF << 16


@pytest.mark.parametrize(
    ("words", "message"),
    [
        # A flow that is not known, and a card that is gone.
        (
            {"STATUS": MASK["fault"], "FAULT": UNKNOWN_FLOW, "FAULT_ROW": 0xFFFFFFFF},
            r"start was written .* \(NOT_COMMITTED\)",
        ),
        ({"STATUS": 0xFFFFFFF8, "FAULT": 0xFFFFFFFF}, "unknown fault 0xffffffff"),
    ],
)
def test_what_is_not_known_of_a_fault_is_left_out(example, driver, words, message):
    with pytest.raises(DeviceError, match=f"^Rank 0: {message}$"):
        opened(example, driver, FakeBus(**SIZES, **words))("wait")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"ID": 0xFFFFFFFF}, "Rank 0: ID must be 0x4d544e49, not 0xffffffff"),
        ({"ID": ID, "VERSION": 99}, f"Rank 0: register map must be version {VERSION}, not 99"),
    ],
)
def test_something_else_behind_the_bus_is_not_taken_for_a_card(example, driver, words, message):
    refuses(DeviceError, f"^{message}$", opened, example, driver, FakeBus(**words))


@pytest.mark.parametrize(("rows", "flows"), [(257, 1), (1, 129)])
def test_a_table_that_is_too_large_is_not_written(example, driver, rows, flows):
    bus = FakeBus(**SIZES)
    message = f"^Rank 0: rows and flows must be at most 256 and 128, not {rows} and {flows}$"
    with pytest.raises(DeviceError, match=message):
        opened(example, driver, bus)("load", example.CTable(rows, flows, None, None))
    assert not bus.written


@pytest.mark.parametrize(
    ("name", "what"),
    [("reset", "reset is not over"), ("commit", "table is not accepted"), ("wait", "not done")],
)
def test_what_does_not_end_is_given_up_after_as_many_looks_as_allowed(example, driver, name, what):
    bus = FakeBus(**SIZES, STATUS=MASK["busy"], ARRIVALS_MISSING=3)
    message = f"^Rank 0: {what} after 5 reads of STATUS, 3 messages still to come in$"
    with pytest.raises(DeviceError, match=message):
        opened(example, driver, bus)(name, *([example.CSettings()] if name == "commit" else []))
    assert bus.pauses == 5
