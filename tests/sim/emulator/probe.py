"""Networks of the probe, a module that notes when the harness does things."""

from pathlib import Path

from multitree.nic.driver.commands import HostOp
from multitree.nic.driver.config import Config
from multitree.sim.emulator.library import harness_sources
from multitree.sim.emulator.network import Network
from multitree.sim.emulator.verilator import build_library

CONFIG = Config(num_ports=2, flit_bytes=8, buffer_flits=16, address_width=8)
SEND, CREDIT, READ, WRITE, IRQ, SEND_ON_PORT_1, BURST = range(0, 28, 4)
SENT, CAME, SIDEBAND, CREDITED, CREDIT_CAME = range(5)
READ_TAKEN, READ_CAME, READ_DATA, WRITE_TAKEN, WRITE_ACKED = range(5, 10)
PAYLOAD, NUM_CAME, CHECK = 11, 12, 13
NOW = 0x40


def probe_network(topology, *, waveform=None, **settings):
    """A network of probes on a topology."""
    text = (Path(__file__).parent / "probe.v").read_text()
    sources = harness_sources(CONFIG)
    library = build_library(text, sources, top="probe", waveform=waveform, say=lambda _: None)
    return Network(topology, CONFIG, library, **settings)


def do(network, rank, *ops):
    """Run one host's operations and return their results."""
    for other in range(network.topology.num_ranks):
        network.set_script(other, ops if other == rank else [])
    assert network.run(10_000)
    return network.results(rank)


def write(network, rank, address, value=0):
    """Write one register of the probe."""
    return do(network, rank, HostOp.write(address, value))


def note(network, rank, which):
    """What a probe has noted."""
    return int(do(network, rank, HostOp.read(4 * which))["value"][0])
