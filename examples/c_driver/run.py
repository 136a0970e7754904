"""Runs an all-reduce on emulated cards, every one of them driven in C.

The driver beside this file is compiled with the generated C header into a shared library, and
given functions that read and write the registers of interfaces in RTL. Every card's memory is then
compared, bit for bit, with the definition in NumPy:

    python examples/c_driver/run.py --spec ring:4 --size 64KiB
"""

import argparse
import ctypes
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from multitree import DeviceError, EngineError, build, execute, parse_topology, verify
from multitree.host.engines import needs_of
from multitree.host.sizes import parse_size
from multitree.hw.export.register_map import c_header
from multitree.nic.driver.config import LANE_TYPES
from multitree.nic.driver.registers import FLOW_WINDOW, REGISTERS, TABLE_WINDOW
from multitree.nic.driver.table import compile_table, table_writes
from multitree.sim.emulator.accesses import EmulatedBus
from multitree.sim.emulator.library import network_library
from multitree.sim.emulator.network import Network
from multitree.sim.timing.link_model import LinkModel
from multitree.sim.timing.sizing import config_for

HERE = Path(__file__).resolve().parent
FLAGS = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-shared", "-fPIC"]
LIMIT_CYCLES = 200_000
PAUSE_CYCLES = 200
MAX_POLLS = 10_000
ALL_ONES = 0xFFFFFFFF

READ = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32)
WRITE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)
PAUSE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class CBus(ctypes.Structure):
    """`struct multitree_bus`."""

    _fields_ = (
        ("read32", READ),
        ("write32", WRITE),
        ("pause", PAUSE),
        ("ctx", ctypes.c_void_p),
    )


class CCard(ctypes.Structure):
    """`struct multitree_card`."""

    _fields_ = (
        ("bus", CBus),
        *((name, ctypes.c_uint32) for name in ("rank", "max_polls", "num_ports", "flit_bytes")),
        *((name, ctypes.c_uint32) for name in ("table_depth", "flow_depth", "ports_used")),
        ("error", ctypes.c_char * 256),
    )


class CTable(ctypes.Structure):
    """`struct multitree_table`."""

    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("num_rows", "num_flows")),
        *((name, ctypes.POINTER(ctypes.c_uint32)) for name in ("rows", "flows")),
    )


class CSettings(ctypes.Structure):
    """`struct multitree_settings`."""

    _fields_ = tuple(
        (name, ctypes.c_uint32)
        for name in (
            "mode",
            "window_base",
            "window_flits",
            "watchdog_cycles",
            "first_arrival_cycles",
        )
    )


def compile_driver(folder):
    """Compile driver and example with the generated header; returns the shared library."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("g++")
    if compiler is None:
        raise DeviceError("the C driver needs a C compiler, cc, and there is none on PATH")
    (folder / f"{REGISTERS.name}.h").write_text(c_header(REGISTERS))
    library = folder / "multitree.so"
    sources = [str(path) for path in sorted(HERE.glob("*.c"))]
    command = [compiler, "-x", "c", *FLAGS, f"-I{folder}", "-o", str(library), *sources]
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.all_reduce.restype = ctypes.POINTER(CCard)
    return loaded


def bus_of(bus):
    """A bus of Python as the driver's; what fails there reads as ones, like a card that is gone."""

    def read(_, address):
        try:
            return bus.read(address)
        except DeviceError as error:
            print(error, file=sys.stderr)
            return ALL_ONES

    def write(_, address, value):
        try:
            bus.write(address, value)
        except DeviceError as error:
            print(error, file=sys.stderr)

    def pause(_):
        bus.wait_interrupt(PAUSE_CYCLES)

    return CBus(READ(read), WRITE(write), PAUSE(pause), None)


class Cards:
    """Cards behind some buses, and everything of Python that C points to.

    Parameters
    ----------
    driver : ctypes.CDLL
        From `compile_driver`.
    buses : list of CBus
        One per card, in the order of the ranks.

    Raises
    ------
    DeviceError
        If there is no interface behind a bus.
    """

    def __init__(self, driver, buses):
        self._driver = driver
        self._buses = buses
        self.structs = (CCard * len(buses))()
        for rank, bus in enumerate(buses):
            card = self.structs[rank]
            if driver.multitree_open(ctypes.byref(card), ctypes.byref(bus), rank, MAX_POLLS):
                raise DeviceError(card.error.decode())

    def all_reduce(self, tables, settings):
        """Run the tables once; raises DeviceError with what the driver says."""
        given = (CTable * len(tables))(*tables)
        arguments = self.structs, given, len(tables), ctypes.byref(settings)
        failed = self._driver.all_reduce(*arguments)
        if failed:
            raise DeviceError(failed.contents.error.decode())


def words(writes, window):
    """What a table's writes put into a window, as an array of C."""
    values = [value for address, value in writes if window.base <= address < window.end]
    return (ctypes.c_uint32 * len(values))(*values)


def c_table(table):
    """A rank's table as the driver takes it."""
    writes = table_writes(table)
    rows, flows = words(writes, TABLE_WINDOW), words(writes, FLOW_WINDOW)
    return CTable(table.num_rows, table.num_flows, rows, flows)


def run(schedule, buffers, driver):
    """Run one all-reduce of float32 or int32 buffers on emulated cards; returns their memories."""
    topology, model = schedule.topology, LinkModel()
    config = config_for(topology, model, **needs_of(schedule, model, buffers.shape[1]))
    num_flits = model.num_flits(buffers.shape[1], 4)
    memory = np.zeros((topology.num_ranks, num_flits, config.flit_bytes), dtype=np.uint8)
    memory.reshape(topology.num_ranks, -1)[:, : buffers[0].nbytes] = buffers.view(np.uint8)
    with Network(topology, config, network_library(config), link_model=model) as network:
        network.set_memory(memory)
        buses = [EmulatedBus(network, rank) for rank in range(topology.num_ranks)]
        cards = Cards(driver, list(map(bus_of, buses)))
        tables = [compile_table(schedule, rank, num_flits, config) for rank in range(len(buses))]
        dtype = LANE_TYPES[buffers.dtype.name]
        settings = CSettings(dtype, 0, num_flits, LIMIT_CYCLES, LIMIT_CYCLES)
        cards.all_reduce(list(map(c_table, tables)), settings)
    content = memory.reshape(topology.num_ranks, -1)[:, : buffers[0].nbytes]
    return np.ascontiguousarray(content).view(buffers.dtype)


def main():
    """Run, compare, say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spec", default="ring:4", help="topology of the cards")
    parser.add_argument("--size", default="64KiB", help="of one card's buffer")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    try:
        schedule = build(parse_topology(arguments.spec), "multitree")
        verify(schedule)
        shape = schedule.topology.num_ranks, parse_size(arguments.size) // 4
        buffers = np.random.default_rng(arguments.seed).standard_normal(shape, dtype=np.float32)
        with tempfile.TemporaryDirectory() as folder:
            result = run(schedule, buffers, compile_driver(Path(folder)))
    except (DeviceError, EngineError, ValueError) as error:
        parser.error(str(error))
    equal = bool((result.view(np.uint32) == execute(schedule, buffers).view(np.uint32)).all())
    name = schedule.topology.name
    print(f"{shape[0]} cards ({name}), {arguments.size} each, driven in C")
    print(f"equal to execute: {'yes' if equal else 'NO'}")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
