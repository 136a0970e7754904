"""What cocotb benches import: models, whole benches, simulators."""

from multitree.sim.cocotb.bench import InterfaceBench, NetworkBench
from multitree.sim.cocotb.case import LEVELS, STALLS, BenchCase, Stall
from multitree.sim.cocotb.coverage import Coverage, Group, bench_bins
from multitree.sim.cocotb.link_end import LINK_FAULTS, LinkEnd
from multitree.sim.cocotb.memory import AxiMemory, Memory
from multitree.sim.cocotb.partner import LinkPartner, PartnerNetwork
from multitree.sim.cocotb.pins import located, run_models, until
from multitree.sim.cocotb.rank import Rank
from multitree.sim.cocotb.reference import (
    Collective,
    Message,
    as_flits,
    check_rank,
    collective_of,
    draw_buffers,
    expected,
    frame,
)
from multitree.sim.cocotb.register_host import RegisterHost
from multitree.sim.cocotb.runs import RunOptions, run_benches
from multitree.sim.cocotb.simulators import (
    SIMULATORS,
    BenchError,
    TestResult,
    missing,
    simulate,
)
from multitree.sim.rtl.loads import Load, Loader, Upcoming

__all__ = [
    "LEVELS",
    "LINK_FAULTS",
    "SIMULATORS",
    "STALLS",
    "AxiMemory",
    "BenchCase",
    "BenchError",
    "Collective",
    "Coverage",
    "Group",
    "InterfaceBench",
    "LinkEnd",
    "LinkPartner",
    "Load",
    "Loader",
    "Memory",
    "Message",
    "NetworkBench",
    "PartnerNetwork",
    "Rank",
    "RegisterHost",
    "RunOptions",
    "Stall",
    "TestResult",
    "Upcoming",
    "as_flits",
    "bench_bins",
    "check_rank",
    "collective_of",
    "draw_buffers",
    "expected",
    "frame",
    "located",
    "missing",
    "run_benches",
    "run_models",
    "simulate",
    "until",
]
