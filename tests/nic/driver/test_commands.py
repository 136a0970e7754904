"""Tests of what a driver writes and reads: tables, settings and faults."""

import zlib

import numpy as np
import pytest

from multitree.nic.control.monitor import FAULT
from multitree.nic.driver.commands import (
    ACKNOWLEDGE,
    COMMIT,
    RESET,
    START,
    RunSettings,
    decode_fault,
    origin_of,
    run_writes,
)
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import Awaited, DeviceError, FaultCode
from multitree.nic.driver.formats import NO_PORT
from multitree.nic.driver.registers import ADDRESS, FLOW_WINDOW, REGISTERS, TABLE_WINDOW
from multitree.nic.driver.table import Table, compile_table, table_writes
from multitree.nic.layouts import FLOW_ENTRY, ROW, SHARED_FLOW, SHARED_ROW
from multitree.topology.algorithms.build import build
from multitree.topology.collectives import Op
from multitree.topology.families.direct import hypercube, mesh, torus
from tests.hw.streams import seeded

CODES = [code for code in FaultCode if code != FaultCode.NONE]


def decoded(latched, *wave):
    """A fault that an interface latched, read back."""
    word = FAULT.const(latched).as_value().value
    return decode_fault(word & 0xFFFFFFFF, word >> 32, *wave)


def bits(word, lsb, width):
    return word >> lsb & (1 << width) - 1


def unload(writes):
    """The table that register writes describe, read back by the words of the register map."""
    words = dict(writes)
    num_rows, num_flows = words[ADDRESS["NUM_ROWS"]], words[ADDRESS["NUM_FLOWS"]]
    rows = [[words[TABLE_WINDOW.address(r, w)] for w in range(2)] for r in range(num_rows)]
    flows = [[words[FLOW_WINDOW.address(f, w)] for w in range(5)] for f in range(num_flows)]
    assert len(writes) == len(words) == 2 * num_rows + 5 * num_flows + 4
    content = [word for row in rows for word in row] + [word for flow in flows for word in flow]
    crc = zlib.crc32(np.array(content, "<u4").tobytes())
    assert words[ADDRESS["TABLE_CRC"]] == crc
    return {
        "flow": [bits(what, 0, 16) for what, _ in rows],
        "port": [bits(what, 16, 4) for what, _ in rows],
        "op": [bits(what, 20, 12) for what, _ in rows],
        "step": [bits(when, 0, 16) for _, when in rows],
        "stage": [bits(when, 16, 16) for _, when in rows],
        "base": [entry[0] for entry in flows],
        "size": [entry[1] for entry in flows],
        "stride": [entry[2] for entry in flows],
        "children": [[bits(entry[3], 4 * k, 4) for k in range(8)] for entry in flows],
        "parent": [entry[4] for entry in flows],
    }


@pytest.mark.parametrize("topology", [torus(4, 4), mesh(3, 2), hypercube(4)], ids=lambda t: t.name)
@pytest.mark.parametrize("lockstep", [False, True])
def test_a_table_written_and_read_back_is_the_table(topology, lockstep):
    schedule = build(topology, "multitree")
    for rank in range(topology.num_ranks):
        table = compile_table(schedule, rank, 1000, Config(), lockstep=lockstep)
        for name, values in unload(table_writes(table)).items():
            assert values == getattr(table, name).tolist(), name


def test_every_field_of_a_table_is_written_over_its_whole_range():
    rng = np.random.default_rng(5)

    def draw(width, *shape):
        return rng.integers(0, 1 << width, shape)

    rows = {"flow": draw(16, 50), "port": draw(4, 50), "op": draw(2, 50)}
    rows |= {"step": draw(16, 50), "stage": draw(16, 50)}
    flows = {name: draw(32, 30) for name in ("base", "size", "stride")}
    flows |= {"parent": draw(4, 30), "children": draw(4, 30, 8)}
    table = Table(rank=0, schedule_hash="", **rows, **flows)
    for name, values in unload(table_writes(table)).items():
        assert values == getattr(table, name).tolist(), name


def test_settings_are_written_to_the_registers_of_their_names():
    settings = RunSettings("float32", 7, 2**32 - 1, 9, 10, lockstep=True, step_cycles=11)
    assert dict(run_writes(settings)) == {
        ADDRESS[name]: value
        for name, value in {
            "MODE": 0b101,
            "WINDOW_BASE": 7,
            "WINDOW_FLITS": 2**32 - 1,
            "WATCHDOG_CYCLES": 9,
            "FIRST_ARRIVAL_CYCLES": 10,
            "STEP_CYCLES": 11,
            "ITERATIONS": 0,
        }.items()
    }
    usual = dict(run_writes(RunSettings("int32", 0, 1, 0, 0)))
    assert usual[ADDRESS["MODE"]] == usual[ADDRESS["STEP_CYCLES"]] == 0
    for number in (1, 5, 2**16):
        waves = dict(run_writes(RunSettings("int32", 0, 1, 0, 0, num_waves=number)))
        assert waves[ADDRESS["ITERATIONS"]] == number - 1
    largest = RunSettings("bfloat16", 0, 1, 0, 0, reduction="max")
    assert dict(run_writes(largest))[ADDRESS["MODE"]] == 0b100010


@pytest.mark.parametrize("layout", [ROW, FLOW_ENTRY, SHARED_ROW, SHARED_FLOW])
def test_entries_of_the_tables_fill_their_words(layout):
    assert layout.size % 32 == 0


def test_each_command_is_the_bit_of_its_field():
    (control,) = (r for r in REGISTERS.registers if r.name == "CONTROL")
    masks = {field.name: field.mask for field in control.fields}
    commands = {"commit": COMMIT, "start": START, "acknowledge": ACKNOWLEDGE, "reset": RESET}
    assert commands == {name: (control.address, mask) for name, mask in masks.items()}


@pytest.mark.parametrize(
    "wrong",
    [
        {"dtype": "int64"},
        {"reduction": "min"},
        *(
            {name: value}
            for name in ("window_base", "window_flits", "watchdog_cycles", "first_arrival_cycles")
            for value in (-1, 2**32)
        ),
        {"step_cycles": 2**32},
        *({"num_waves": number} for number in (-1, 0, 2**16 + 1)),
    ],
    ids=str,
)
def test_a_setting_that_no_register_holds_is_an_error(wrong):
    right = {"dtype": "int32", "window_base": 0, "window_flits": 1}
    right |= {"watchdog_cycles": 0, "first_arrival_cycles": 0}
    with pytest.raises(ValueError, match=f"not {next(iter(wrong.values()))!r}"):
        RunSettings(**right | wrong)


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_a_fault_read_back_is_what_the_interface_latched(code):
    rng = seeded(int(code))
    for _ in range(20):
        awaited, op = rng.choice(list(Awaited)), Op(rng.randrange(2))
        port, at_port = rng.choice([*range(8), NO_PORT]), rng.choice([*range(8), NO_PORT])
        row, flow = rng.choice([0, 1, 300, 0xFFFE, 0xFFFF]), rng.choice([0, 9, 0xFFFF])
        latched = {"code": code, "awaited": awaited, "op": op, "port": port, "at_port": at_port}
        fault = decoded(latched | {"row": row, "flow": flow})
        assert (fault.code, fault.awaited, fault.op) == (code, awaited, op)
        assert fault.port == (None if port == NO_PORT else port)
        assert fault.at_port == (None if at_port == NO_PORT else at_port)
        assert fault.row == (None if row == 0xFFFF else row)
        assert fault.flow == (None if flow == 0xFFFF else flow)


def test_the_error_of_a_fault_names_rank_port_row_flow_and_what_was_awaited():
    latched = {"code": FaultCode.WATCHDOG, "awaited": Awaited.DEPENDENCY, "op": 1, "port": 2}
    error = decoded(latched | {"at_port": 3, "row": 17, "flow": 5}).error(12)
    assert isinstance(error, DeviceError)
    assert str(error) == (
        "Rank 12, port 3, row 17, flow 5: nothing progressed for the watchdog's time (WATCHDOG); "
        "awaited dependency: GATHER of flow 5 on port 2"
    )
    unknown = {"code": FaultCode.NOT_COMMITTED, "port": NO_PORT, "at_port": NO_PORT}
    error = decoded(unknown | {"row": 0xFFFF, "flow": 0xFFFF}).error(0)
    assert str(error) == f"Rank 0: {FaultCode.NOT_COMMITTED.sentence} (NOT_COMMITTED)"


def test_the_error_of_a_fault_names_the_wave_if_there_is_one():
    latched = {"code": FaultCode.WATCHDOG, "awaited": Awaited.SIBLING, "port": 2, "at_port": 3}
    latched |= {"row": 0xFFFF, "flow": 5}
    for wave in (0, 3, 0xFFFF):
        fault = decoded(latched, 1 << 16 | wave)
        assert fault.wave == wave
        assert str(fault.error(1)).startswith(f"Rank 1, port 3, flow 5, wave {wave}: nothing")
        assert decoded(latched, wave).wave is None


def test_every_code_and_everything_awaited_has_a_sentence_of_its_own():
    assert len({code.sentence for code in FaultCode}) == len(FaultCode)
    assert len({awaited.sentence for awaited in Awaited}) == len(Awaited)


@pytest.mark.parametrize("fault", [0xFFFFFFFF, 0x000000FE])
def test_a_fault_register_that_holds_no_known_code_is_a_device_error(fault):
    """A card that fell off its bus reads as ones."""
    with pytest.raises(DeviceError, match=f"{fault:#010x}"):
        decode_fault(fault, 0xFFFFFFFF)


@pytest.mark.parametrize(
    ("word", "num_ranks", "text"),
    [
        (1 << 24 | FaultCode.WATCHDOG << 16 | 3, 4, "origin rank 3 (WATCHDOG)"),
        (1 << 24 | FaultCode.ROUTE << 16 | 4, 4, "origin switch 4 (ROUTE)"),
        (1 << 24 | FaultCode.LINK_CHECK << 16 | 7, None, "origin node 7 (LINK_CHECK)"),
        (1 << 24 | 99 << 16 | 65535, 4, "origin switch 65535 (code 99)"),
    ],
)
def test_the_origin_of_a_fault_is_a_rank_or_a_switch_with_its_cause(word, num_ranks, text):
    assert origin_of(word, num_ranks) == text
