"""The networks of interfaces: what is built, and what their benches have to know."""

from dataclasses import replace
from functools import cache

from multitree import Topology, build, ring, torus
from multitree.nic.driver.config import SWITCH_MODULE_NAME, Config
from multitree.nic.interface import AXI_MODULE_NAME, AxiInterface, switch_for
from multitree.sim.emulator.library import cached_verilog
from tests.cocotb.models.tops import network_top

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
PAIR_CONFIG = replace(CONFIG, num_ports=1, memory_queue_flits=64)
PAIR_SCHEDULE = build(ring(2), "multitree")
STAR_CONFIG = replace(
    PAIR_CONFIG,
    memory_queue_flits=16,
    dtypes=("float32",),
    num_classes=1,
    max_children=3,
)
STAR = Topology("star", 4, 1, [*((r, 4) for r in range(4)), *((4, r) for r in range(4))], 16.0, 6.0)
STAR_SCHEDULE = build(STAR, "multitree")


def wires(topology):
    """Every link as (node, port, node, port)."""
    ends = []
    for link, (src, dst) in enumerate(topology.links):
        near = list(topology.ports(src)).index(link)
        far = list(topology.ports(dst)).index(topology.reverse[link])
        ends.append((int(src), near, int(dst), far))
    return ends


def network_verilog(interface):
    """Verilog of the torus around that of one interface."""
    ranks = SCHEDULE.topology.num_ranks
    return network_top(
        interface, wires(SCHEDULE.topology), num_ranks=ranks, latency_cycles=LATENCY_CYCLES
    )


def pair_verilog(interface):
    """Verilog of two interfaces with AXI4 memories around that of one."""
    links = wires(PAIR_SCHEDULE.topology)
    return network_top(
        interface, links, num_ranks=2, latency_cycles=LATENCY_CYCLES, design=AXI_MODULE_NAME
    )


@cache
def star_verilog():
    """Verilog of four interfaces with AXI4 memories on shared links, joined by a switch."""
    return network_top(
        cached_verilog(AxiInterface, STAR_CONFIG, name=AXI_MODULE_NAME),
        wires(STAR),
        num_ranks=STAR.num_ranks,
        latency_cycles=LATENCY_CYCLES,
        design=AXI_MODULE_NAME,
        switch=cached_verilog(switch_for, STAR_CONFIG, STAR.num_ranks, name=SWITCH_MODULE_NAME),
    )
