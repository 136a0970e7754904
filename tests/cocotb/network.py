"""The 2x2 torus of four interfaces: what is built, and what its bench has to know."""

from multitree.nic.config import Config
from multitree.topology.builders import build
from multitree.topology.families import torus
from tests.cocotb.tops import network_top

__all__ = ["CONFIG", "LATENCY_CYCLES", "SCHEDULE", "network_verilog", "wires"]

LATENCY_CYCLES = 6
CONFIG = Config(
    num_ports=2,
    flit_bytes=16,
    table_depth=32,
    num_flows=8,
    buffer_flits=64,
    submessage_flits=4,
    memory_queue_flits=32,
    address_width=12,
)
SCHEDULE = build(torus(2, 2), "multitree")


def wires():
    """Every link as (rank, port, rank, port)."""
    topology = SCHEDULE.topology
    ends = []
    for link, (src, dst) in enumerate(topology.links):
        near = list(topology.ports(src)).index(link)
        far = list(topology.ports(dst)).index(topology.reverse[link])
        ends.append((int(src), near, int(dst), far))
    return ends


def network_verilog(interface):
    """Verilog of the torus around that of one interface."""
    ranks = SCHEDULE.topology.num_ranks
    return network_top(interface, wires(), num_ranks=ranks, latency_cycles=LATENCY_CYCLES)
