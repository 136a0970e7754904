"""Runs of the fault campaign: what each one draws from its seed."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from _networks import random_graph

from multitree import LinkModel, Schedule, Topology, build, parse_topology
from multitree.nic.driver.config import Config
from multitree.sim.emulator.library import State, expose, interface_verilog, switch_verilog
from multitree.sim.faults import injection
from multitree.sim.faults.injection import FlitField, Injection, MemoryChannel
from multitree.sim.timing.link_model import MemoryTiming

CONFIG = Config(
    table_depth=64,
    num_flows=16,
    buffer_flits=64,
    address_width=12,
    dtypes=("int32", "float32", "bfloat16"),
)
SHARED_CONFIG = replace(CONFIG, num_ports=2, num_classes=2, max_children=16, address_width=14)
"""Of interfaces on shared links."""
NUM_SWITCH_PORTS = 4
NETWORKS = {
    **{"ring:2": 0.10, "ring:3": 0.15, "ring:5": 0.15, "full:4": 0.20, "mesh:3x2": 0.15},
    **{"mesh:3x3": 0.10, "random": 0.15},
}
"""How often each one is drawn of those with private links."""
SWITCHED = {
    **{"star:4": 0.20, "twin:4": 0.20, "fat_tree:2x2": 0.15, "kary_tree:2x2": 0.10},
    **{"bigraph:2x2": 0.10, "bigraph:2x4": 0.10, "dragonfly:1x2x1": 0.10, "dragonfly:2x1x2": 0.05},
}
"""How often each one is drawn of those with switches."""
OF_STATE = ("flip row", "flip flow", "flip count", "flip mark", "flip buffer", "flip queue")
OF_STATE += ("flip register",)
KINDS = (
    *(f"flip {field.name.lower()}" for field in FlitField),
    *("drop flit", "duplicate flit", "delay flit", "lose credit", "double credit", "mute link"),
    *("stuck memory", "memory error", "dead rank", "dead switch", "reset rank"),
    *(*OF_STATE, "flip switch", "flip write"),
)
ONLY_PRIVATE, ONLY_SWITCHED = {"flip mark"}, {"dead switch", "flip switch"}
QUEUED = re.compile(r"queue(\.register)?\.(o__payload|spare)$")
"""Registers of a queue that hold an entry with check bits."""
UNPROTECTED = re.compile(r"^bus\.|\.adder\.|^monitor__")
"""Registers of the bus, of what is being added, and of what is shown to monitors."""
MAX_MUTE_CYCLES = 2000
MAX_DELAY_CYCLES = 300
MAX_SKEW_CYCLES = 200


@dataclass(frozen=True)
class Case:
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
    name, _, number = network.partition(":")
    if name in ("random", "star", "twin"):
        topology = {"random": random_topology, "star": star, "twin": twin}[name](int(number))
    else:
        topology = parse_topology(network)
    latencies = np.full(topology.num_links, float(latency_cycles))
    return build(replace(topology, latency_ns=latencies), algorithm)


def random_topology(seed: int) -> Topology:
    """A connected graph of four to nine ranks with at most four links each."""
    rng = np.random.default_rng(seed)

    def draw() -> tuple[int, int, int]:
        ranks = int(rng.integers(4, 10))
        return ranks, ranks + 2, int(rng.integers(2**31))

    return random_graph(draw, f"random:{seed}")


def star(num_ranks: int) -> Topology:
    """Ranks around one switch."""
    links = [ends for rank in range(num_ranks) for ends in ((rank, num_ranks), (num_ranks, rank))]
    return Topology(f"star:{num_ranks}", num_ranks, 1, links, 16.0, 8.0)


def twin(num_ranks: int) -> Topology:
    """Ranks of two ports, one at each of two switches."""
    ends = [(rank, num_ranks + k) for rank in range(num_ranks) for k in range(2)]
    links = [link for a, b in ends for link in ((a, b), (b, a))]
    return Topology(f"twin:{num_ranks}", num_ranks, 2, links, 16.0, 8.0)


def config_of(model: LinkModel, shared: bool) -> Config:
    return SHARED_CONFIG if shared else replace(CONFIG, forward_flits=model.forward_flits)


def draw(seed: int, forward_flits: int = 0, kind: str | None = None) -> Case:
    """Everything about one run, of which every second one is on a network with switches, unless
    `kind`, by default one or two at random, is of the others only.

    On private links interfaces keep so many flits to forward them.
    """
    rng = np.random.default_rng(seed)
    switched = kind in ONLY_SWITCHED or (seed % 2 and kind not in ONLY_PRIVATE)
    networks = SWITCHED if switched else NETWORKS
    network = str(rng.choice(list(networks), p=list(networks.values())))
    network += f":{rng.integers(20)}" if network == "random" else ""
    kinds = [k for k in KINDS if k not in (ONLY_PRIVATE if switched else ONLY_SWITCHED)]
    rings = network.startswith(("ring", "full", "mesh:3x2"))
    algorithms = ["multitree", "ring", "bidirectional_ring"] if rings else ["multitree"]
    model = LinkModel(
        buffer_flits=CONFIG.buffer_flits,
        dependency=str(rng.choice(["chunk", "submessage"])),
        flow_control=str(rng.choice(["message", "packet"])),
        forward_flits=forward_flits,
    )
    if networks is SWITCHED:
        algorithms = ["multitree", "ring", "double_tree", "halving_doubling"]
        model = LinkModel(buffer_flits=CONFIG.buffer_flits)
    algorithm = str(rng.choice(algorithms))
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
        kinds=(kind,) if kind else tuple(map(str, rng.choice(kinds, 1 + (rng.random() >= 0.75)))),
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
        case,
        faults=tuple(draw_fault(rng, kind, schedule, horizon, case.model) for kind in case.kinds),
    )


def _guess_cycles(case: Case, schedule: Schedule) -> int:
    """About how long the hosts run, so that most faults have something to strike."""
    step = case.latency_cycles + 25 + 2 * case.timing.extra_cycles
    collective = schedule.num_steps * step + case.num_elements // 2
    return int(1.2 * case.num_collectives * collective) + max(case.skews, default=0)


def draw_fault(
    rng: np.random.Generator, kind: str, schedule: Schedule, horizon: int, model: LinkModel
) -> Injection:
    topology = schedule.topology
    rank = int(rng.integers(topology.num_ranks))
    node = int(rng.integers(topology.num_nodes))
    switch = topology.num_ranks + int(rng.integers(max(topology.num_switches, 1)))
    cycle, bit = int(rng.integers(horizon)), int(rng.integers(1024))
    port = int(rng.integers(topology.degree[node]))
    at_rank = (rank, cycle, int(rng.integers(topology.degree[rank])))
    what, _, field = kind.partition(" ")
    if what == "flip" and field.upper() in FlitField.__members__:
        return injection.FlipBit(node, cycle, port, FlitField[field.upper()], bit)
    if kind in OF_STATE:
        # Rows are read early.
        when = cycle // 2 if kind in ("flip row", "flip flow") else cycle
        return flip_state(rng, kind, schedule, rank, when, model)
    channel, cycles = MemoryChannel(int(rng.integers(3))), int(rng.integers(1, MAX_MUTE_CYCLES))
    delay, for_good = int(rng.integers(1, MAX_DELAY_CYCLES)), bool(rng.random() < 0.5)
    made: dict[str, Callable[[], Injection]] = {
        "flip write": lambda: injection.FlipWrite(rank, cycle, bit),
        "flip switch": lambda: flip_state(rng, kind, schedule, switch, cycle, model),
        "drop flit": lambda: injection.DropFlit(node, cycle, port),
        "duplicate flit": lambda: injection.DuplicateFlit(node, cycle, port),
        "delay flit": lambda: injection.DelayFlit(node, cycle, port, delay),
        "lose credit": lambda: injection.LoseCredit(node, cycle, port),
        "double credit": lambda: injection.DoubleCredit(node, cycle, port),
        "mute link": lambda: injection.MuteLink(node, cycle, port, 0 if for_good else cycles),
        "stuck memory": lambda: injection.StuckMemory(*at_rank, channel),
        "memory error": lambda: injection.FailedMemory(*at_rank, channel),
        "dead rank": lambda: injection.DeadNode(rank, cycle),
        "dead switch": lambda: injection.DeadNode(switch, cycle),
        "reset rank": lambda: injection.ResetRank(rank, cycle),
    }
    return made[kind]()


@cache
def states_of(config: Config, switch: bool) -> list[State]:
    """State of an interface, or of a switch, whose bits can be flipped; by number."""
    text = switch_verilog(config, NUM_SWITCH_PORTS) if switch else interface_verilog(config)
    return expose(text)[1]


def is_plain(state: State) -> bool:
    """Whether a state is a register without check bits."""
    return not state.depth and not QUEUED.search(state.name)


def is_of_kind(kind: str, state: State) -> bool:
    """Whether a state is one that this kind of fault strikes."""
    if is_plain(state):
        return kind in ("flip register", "flip switch") and not UNPROTECTED.search(state.name)
    places = {
        "flip row": ("tables.table.",),
        "flip flow": ("tables.flows.",),
        "flip count": ("tracker.counts_", "beginnings.counts_", "sequencer.states"),
        "flip mark": ("scoreboard.marks_",),
        "flip buffer": (".link.",),
        "flip switch": ("",),
        "flip register": (),
    }
    if kind in places:
        return any(place in state.name for place in places[kind])
    return not any(is_of_kind(other, state) for other in places if other != "flip switch")


def flip_state(
    rng: np.random.Generator,
    kind: str,
    schedule: Schedule,
    node: int,
    cycle: int,
    model: LinkModel,
) -> Injection:
    """One or two bits of an entry, or the same ones of every entry, of some state of a node."""
    topology = schedule.topology
    config = config_of(model, topology.num_switches > 0)
    states = states_of(config, node >= topology.num_ranks)
    used = [f"port_{port}." for port in range(int(topology.degree[node]))]
    numbers = [
        number
        for number, state in enumerate(states)
        if is_of_kind(kind, state)
        and ("port_" not in state.name or any(port in state.name for port in used))
    ]
    if kind in ("flip row", "flip flow") and rng.random() < 0.8:
        # The first table goes to the second bank.
        numbers = [number for number in numbers if states[number].name.endswith("bank_1")]
    number = int(rng.choice(numbers))
    state = states[number]
    most = {"flip row": np.bincount(schedule.src).max(), "flip flow": schedule.num_flows}
    most["flip count"] = 4 * schedule.num_flows
    most["flip mark"] = 2 * schedule.num_flows
    if is_plain(state):
        return injection.FlipState(node, cycle, number, 0, int(rng.integers(state.width)))
    depth = max(state.depth, 1)
    entry = int(rng.integers(min(depth, int(most.get(kind, depth)))))
    entry = entry if rng.random() < 0.5 else injection.EVERY_ENTRY
    # Queues have a parity, which finds two flips that are neighbours and not any two.
    stays = kind in ("flip row", "flip flow", "flip count", "flip mark")
    distance = int(rng.integers(1, state.width if stays else 2)) if rng.random() < 0.5 else 0
    bit = int(rng.integers(state.width if stays else state.width - distance))
    # Modulo the bits of an entry, so that it is another one.
    other = (bit + distance) % state.width
    return injection.FlipState(node, cycle, number, entry, bit, (other - bit) % 1024)
