"""Runs of the fault campaign: what each one draws from its seed."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import networkx
import numpy as np

from multitree.nic.config import Config
from multitree.sim import injection
from multitree.sim.injection import FlitField, Injection, MemoryChannel, TableBank
from multitree.sim.link_model import LinkModel
from multitree.sim.memory_timing import MemoryTiming
from multitree.topology.builders import build
from multitree.topology.families import parse_topology
from multitree.topology.schedule import Schedule
from multitree.topology.topology import Topology

CONFIG = Config(
    table_depth=64,
    num_flows=16,
    buffer_flits=64,
    address_width=12,
    dtypes=("int32", "float32", "bfloat16"),
)
NETWORKS = {
    "ring:2": 0.10,
    "ring:3": 0.15,
    "ring:5": 0.15,
    "full:4": 0.20,
    "mesh:3x2": 0.15,
    "mesh:3x3": 0.10,
    "random": 0.15,
}
"""How often each one is drawn."""
KINDS = (
    *(f"flip {field.name.lower()}" for field in FlitField),
    *("drop flit", "duplicate flit", "delay flit", "stuck memory", "dead rank", "reset rank"),
    *("flip row", "flip flow", "flip write"),
)
MAX_DELAY_CYCLES = 300
MAX_SKEW_CYCLES = 200


@dataclass(frozen=True)
class Case:
    """One run: all that is drawn from its seed."""

    seed: int
    network: str
    algorithm: str
    latency_cycles: int
    model: LinkModel
    timing: MemoryTiming
    num_elements: int
    dtype: str
    op: str
    num_collectives: int
    loads_ahead: bool
    lockstep: bool
    skews: tuple[int, ...]
    kinds: tuple[str, ...]
    faults: tuple[Injection, ...]


@cache
def schedule_of(network: str, algorithm: str, latency_cycles: int) -> Schedule:
    """Schedule on a small network; the number of a random one stands behind its name."""
    if network.startswith("random"):
        topology = random_topology(int(network.split(":")[1]))
    else:
        topology = parse_topology(network)
    latencies = np.full(topology.num_links, float(latency_cycles))
    return build(replace(topology, latency_ns=latencies), algorithm)


def random_topology(seed: int) -> Topology:
    """A connected graph of four to nine ranks with at most four links each."""
    rng = np.random.default_rng(seed)
    while True:
        ranks = int(rng.integers(4, 10))
        graph = networkx.gnm_random_graph(ranks, ranks + 2, seed=int(rng.integers(2**31)))
        if networkx.is_connected(graph) and max(dict(graph.degree).values()) <= 4:
            return Topology.from_networkx(graph, name=f"random:{seed}")


def draw(seed: int) -> Case:
    """Everything about one run."""
    rng = np.random.default_rng(seed)
    network = str(rng.choice(list(NETWORKS), p=list(NETWORKS.values())))
    network += f":{rng.integers(20)}" if network == "random" else ""
    rings = network.startswith(("ring", "full", "mesh:3x2"))
    algorithm = str(
        rng.choice(["multitree", "ring", "bidirectional_ring"] if rings else ["multitree"])
    )
    model = LinkModel(
        buffer_flits=CONFIG.buffer_flits,
        dependency=str(rng.choice(["chunk", "submessage"])),
        flow_control=str(rng.choice(["message", "packet"])),
    )
    timing = MemoryTiming(seed=seed)
    if rng.random() < 0.4:
        extra, stall = int(rng.integers(1, 24)), int(rng.integers(0, 30))
        timing = MemoryTiming(extra_cycles=extra, stall_percent=stall, seed=seed)
    case = Case(
        seed=seed,
        network=network,
        algorithm=algorithm,
        latency_cycles=int(rng.choice([3, 10, 25, 60])),
        model=model,
        timing=timing,
        num_elements=int(rng.integers(1, 600)),
        dtype=str(rng.choice(CONFIG.dtypes)),
        op=str(rng.choice(["sum", "max"])),
        num_collectives=int(rng.integers(1, 3)),
        loads_ahead=bool(rng.random() < 0.3),
        lockstep=False,
        skews=(),
        kinds=tuple(str(kind) for kind in rng.choice(KINDS, 1 if rng.random() < 0.75 else 2)),
        faults=(),
    )
    schedule = schedule_of(case.network, case.algorithm, case.latency_cycles)
    if not case.loads_ahead:  # what is loaded ahead starts as soon as it can
        skews = rng.integers(MAX_SKEW_CYCLES, size=schedule.topology.num_ranks)
        skews = skews if rng.random() < 0.4 else np.zeros_like(skews)
        lockstep, skewed = bool(rng.random() < 0.3), tuple(int(skew) for skew in skews)
        case = replace(case, lockstep=lockstep, skews=skewed)
    horizon = _guess_cycles(case, schedule)
    return replace(
        case, faults=tuple(draw_fault(rng, kind, schedule, horizon) for kind in case.kinds)
    )


def _guess_cycles(case: Case, schedule: Schedule) -> int:
    """About how long the hosts run, so that most faults have something to strike."""
    step = case.latency_cycles + 25 + 2 * case.timing.extra_cycles
    collective = schedule.num_steps * step + case.num_elements // 2
    return int(1.2 * case.num_collectives * collective) + max(case.skews, default=0)


def draw_fault(rng: np.random.Generator, kind: str, schedule: Schedule, horizon: int) -> Injection:
    """A fault of a kind, somewhere."""
    rank = int(rng.integers(schedule.topology.num_ranks))
    cycle, bit = int(rng.integers(horizon)), int(rng.integers(256))
    port = int(rng.integers(schedule.topology.degree[rank]))
    what, _, field = kind.partition(" ")
    if what == "flip" and field.upper() in FlitField.__members__:
        return injection.FlipBit(rank, cycle, port, FlitField[field.upper()], bit)
    if kind == "flip write":
        return injection.FlipWrite(rank, int(rng.integers(1024)), bit)
    if what == "flip":
        # The first table goes to the second bank, and rows are read early.
        banks = {"row": ("ROWS_1", "ROWS_0"), "flow": ("FLOWS_1", "FLOWS_0")}[field]
        entries = {"row": int(np.bincount(schedule.src).max()), "flow": schedule.num_flows}[field]
        bank = TableBank[banks[int(rng.random() < 0.2)]]
        return injection.FlipMemory(rank, cycle // 2, bank, int(rng.integers(entries)), bit)
    if kind == "delay flit":
        return injection.DelayFlit(rank, cycle, port, int(rng.integers(1, MAX_DELAY_CYCLES)))
    if kind == "stuck memory":
        return injection.StuckMemory(rank, cycle, port, MemoryChannel(int(rng.integers(3))))
    others: dict[str, Callable[..., Injection]] = {
        "drop flit": injection.DropFlit,
        "duplicate flit": injection.DuplicateFlit,
    }
    if kind in others:
        return others[kind](rank, cycle, port)
    return (injection.DeadRank if kind == "dead rank" else injection.ResetRank)(rank, cycle)
