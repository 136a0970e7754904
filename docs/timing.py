"""Draws the timing diagrams of every port of the interface, from a run of its Verilog.

Two interfaces in RTL, joined by a link of three cycles, with memory that pauses now and then,
all-reduce 32 integers; what rank 0's ports did meanwhile is cut into pictures. The buses of the
AXI4 managers are drawn from a simulation of these alone:

    python docs/timing.py

The run is the same every time, so the pictures only change when the hardware does.
"""

import argparse
import dataclasses
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from axi_bursts import NUM_CYCLES, read_burst, write_burst
from waves import Line, read_cycles, svg

from multitree import DeviceError, LinkModel, build, execute, ring
from multitree.hw.link.link import Kind, flit_layout
from multitree.nic.driver.commands import (
    ACKNOWLEDGE,
    COMMIT,
    START,
    HostOp,
    RunSettings,
    run_writes,
)
from multitree.nic.driver.registers import ADDRESS
from multitree.nic.driver.table import compile_table, table_writes
from multitree.sim.emulator.library import network_library
from multitree.sim.emulator.network import Network
from multitree.sim.timing.link_model import MemoryTiming
from multitree.sim.timing.sizing import config_for

FLIT_FIELDS = [name for name, _ in flit_layout(flit_bytes=1)]
FOLDER = Path(__file__).resolve().parent / "timing"
NUM_ELEMENTS, NUM_FLITS = 32, 8
LINK_CYCLES = 3
CHECK_CYCLES = 1500
LIMIT_CYCLES = 5000


def hexadecimal(value):
    """A value in full."""
    return f"{value:x}"


def low_digits(value):
    """The lowest two bytes of what is wider than a box."""
    return f"{value & 0xFFFF:04x}"


def kind(value):
    """A kind of flit."""
    return Kind(value).name


def simulate(folder):
    """Run the all-reduce; returns what rank 0's ports sampled, by port, cycle by cycle."""
    topology = dataclasses.replace(ring(2), latency_ns=np.full(2, float(LINK_CYCLES)))
    schedule, model = build(topology, "multitree"), LinkModel()
    config = config_for(topology, model)
    buffers = np.arange(2 * NUM_ELEMENTS, dtype=np.int32).reshape(2, NUM_ELEMENTS)
    memory = np.ascontiguousarray(buffers).view(np.uint8).reshape(2, NUM_FLITS, config.flit_bytes)
    memory = memory.copy()
    settings = RunSettings("int32", 0, NUM_FLITS, LIMIT_CYCLES, LIMIT_CYCLES)
    with Network(
        topology,
        config,
        network_library(config, waveform="vcd"),
        link_model=model,
        memory_timing=MemoryTiming(extra_cycles=2, stall_percent=45, seed=6),
    ) as network:
        network.set_memory(memory)
        network.trace_to(folder / "run.vcd")
        network.reset(4)
        for rank in range(2):
            table = compile_table(schedule, rank, NUM_FLITS, config)
            writes = [*table_writes(table), *run_writes(settings), COMMIT]
            ops = HostOp.writes(writes)
            ops += [HostOp.wait(CHECK_CYCLES), HostOp.read(ADDRESS["STATUS"])]
            ops += [HostOp.write(*START), HostOp.wait_irq(), HostOp.write(*ACKNOWLEDGE)]
            network.set_script(rank, [*ops, HostOp.wait(20)])
        if not network.run(LIMIT_CYCLES):
            raise DeviceError("the all-reduce of the pictures is not over in time")
    if not np.array_equal(memory.view(np.int32).reshape(2, -1), execute(schedule, buffers)):
        raise DeviceError("the all-reduce of the pictures is wrong")
    return read_cycles(folder / "run.vcd", "rank_0")


def first_flit(values, side, name):
    """Cycle of the first flit of a kind on one side of link 0."""
    flits = zip(values[f"link_0_{side}_valid"], values[f"link_0_{side}_kind"], strict=True)
    return next(k for k, (valid, code) in enumerate(flits) if valid and kind(code) == name)


def rises(values, name):
    """Cycles in which a port goes up."""
    shown = values[name]
    return [k for k in range(1, len(shown)) if shown[k] and not shown[k - 1]]


def flit(side, names=FLIT_FIELDS):
    """Lines of the flits of one side of link 0."""
    gate = f"link_0_{side}_valid"
    texts = {"kind": kind, "payload": low_digits, "check": low_digits}
    fields = [Line(f"link_0_{side}_{n}", gate, texts.get(n, hexadecimal)) for n in names]
    return [Line(gate), *fields]


def read_channel(name):
    """Lines of a read channel of memory."""
    prefix = f"memory_0_{name}"
    return [
        Line(f"{prefix}_valid"),
        Line(f"{prefix}_ready"),
        Line(f"{prefix}_address", f"{prefix}_valid", hexadecimal),
        Line(f"{prefix}_data_valid"),
        Line(f"{prefix}_data", f"{prefix}_data_valid", low_digits),
        Line(f"{prefix}_error"),
    ]


def write_channel():
    """Lines of the write channel of memory."""
    prefix = "memory_0_write"
    return [
        Line(f"{prefix}_valid"),
        Line(f"{prefix}_ready"),
        Line(f"{prefix}_address", f"{prefix}_valid", hexadecimal),
        Line(f"{prefix}_data", f"{prefix}_valid", low_digits),
        Line(f"{prefix}_ack"),
        Line(f"{prefix}_error"),
    ]


def handshakes(prefix, channels):
    """Lines of AXI channels, each as (name, payload ports)."""
    lines = []
    for channel, *payload in channels:
        gate = f"{prefix}{channel}valid"
        lines += [Line(f"{prefix}{name}", gate, hexadecimal) for name in payload]
        lines += [Line(gate), Line(f"{prefix}{channel}ready")]
    return lines


WRITE = [("aw", "awaddr"), ("w", "wdata", "wstrb"), ("b", "bresp")]
READ = [("ar", "araddr"), ("r", "rdata", "rresp")]
WRITE_BURST = [("aw", "awaddr", "awlen"), ("w", "wdata", "wlast"), ("b", "bresp")]
READ_BURST = [("ar", "araddr", "arlen"), ("r", "rdata", "rlast", "rresp")]


def pictures(values):
    """Every picture of rank 0's ports: its name, its lines and its cycles."""
    message = first_flit(values, "tx", "HEAD")
    first_write = rises(values, "s_axil_awvalid")[0]
    read = rises(values, "s_axil_arvalid")[0]
    (interrupt,) = rises(values, "irq")
    writes, reads = handshakes("s_axil_", WRITE), handshakes("s_axil_", READ)
    return {
        "reset": ([Line("rst"), *writes, Line("irq")], 0, first_write + 7),
        "link_up": link_up(values),
        "axi_lite_write": (writes, first_write - 1, first_write + 8),
        "axi_lite_read": (reads, read - 1, read + 8),
        "link": ([*flit("tx"), Line("link_0_tx_credit")], message - 1, message + 30),
        "memory_send": around(values, "send", read_channel("send")),
        "memory_fetch": around(values, "fetch", read_channel("fetch")),
        "memory_write": around(values, "write", write_channel()),
        "monitor": monitor(values),
        "interrupt": ([Line("irq"), *writes], interrupt - 2, interrupt + 9),
    }


def link_up(values):
    """Both directions of a link from reset on, until both ends are up."""
    up = first_flit(values, "rx", "UP")
    names = ("kind", "epoch")
    return [Line("rst"), *flit("tx", names), *flit("rx", names)], 2, up + 3


def monitor(values):
    """The last acknowledgements of a message, and the monitor that tells of it."""
    reported = rises(values, "monitor_0_valid")[0]
    gate = "monitor_0_valid"
    fields = [Line(f"monitor_0_{name}", gate, hexadecimal) for name in ("op", "flow")]
    return [Line("memory_0_write_ack"), Line(gate), *fields], reported - 8, reported + 3


def around(values, name, lines):
    """A memory channel's lines, from its first request to the end of a burst."""
    first = rises(values, f"memory_0_{name}_valid")[0]
    return lines, first - 1, first + 20


def drawn():
    """Simulate, and draw every picture: texts of SVG by name."""
    with tempfile.TemporaryDirectory() as temporary:
        values = simulate(Path(temporary))
    texts = {name: svg(values, *picture) for name, picture in pictures(values).items()}
    for name, values, channels in (
        ("axi_read_burst", read_burst(), READ_BURST),
        ("axi_write_burst", write_burst(), WRITE_BURST),
    ):
        texts[name] = svg(values, handshakes("", channels), 5, NUM_CYCLES)
    return texts


def main():
    """Draw the pictures and name them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=FOLDER, metavar="DIR")
    arguments = parser.parse_args()
    try:
        texts = drawn()
        arguments.out.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            path = arguments.out / f"{name}.svg"
            path.write_text(text)
            print(path)
    except (DeviceError, OSError) as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
