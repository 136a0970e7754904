"""Random tables, and what every message of a collective has to carry."""

import itertools
from dataclasses import dataclass, replace

import numpy as np

from multitree.nic.driver.formats import NO_PORT
from multitree.nic.driver.table import Table
from multitree.sim.cocotb.reference import Collective, Message
from multitree.topology.collectives import DTYPES, Op, combine

__all__ = ["RANK", "FlowPlan", "Plan", "Round", "draw_plan", "make_table"]

RANK = 5
"""Number of the interface, which it tells with a fault."""
WAVES_CHANCE, LONG_CHANCE = 0.4, 0.1
"""Of a table that is repeated, and of chunks that may take up all memory."""


@dataclass(frozen=True)
class FlowPlan:
    """One flow's part at the interface; ports, and where its chunk lies in the buffer."""

    number: int
    base: int
    size: int
    children: tuple
    reduce_to: int
    gather_from: int
    gather_to: tuple


@dataclass(frozen=True)
class Plan:
    """A table, and the flows that it was made of in the order in which they are executed."""

    flows: tuple
    table: Table
    window_flits: int

    @property
    def num_waves(self):
        """How often the table is repeated, on one slice of the buffer after the other."""
        return self.table.num_waves

    @property
    def stride(self):
        """Flits of a wave."""
        return self.window_flits // self.num_waves


@dataclass
class Round(Collective):
    """One collective of a plan."""

    plan: Plan | None = None

    def play(self, memory, rng):
        """Draw what comes in; change `memory` and note what goes out, as defined."""
        settings, plan = self.settings, self.plan
        for wave, flow in itertools.product(range(plan.num_waves), plan.flows):
            at = settings.window_base + flow.base + wave * plan.stride
            flits = memory[at : at + flow.size].copy()
            chunk = flits.reshape(-1).view(DTYPES[settings.dtype])
            sent = None
            for port in flow.children:
                came = _draw_flits(flits.shape, settings.dtype, rng)
                self.incoming[Message(Op.REDUCE, flow.number, port, wave)] = came
                combine(chunk, came.reshape(-1).view(chunk.dtype), settings.reduction)
            if flow.reduce_to != NO_PORT:
                sent = Message(Op.REDUCE, flow.number, flow.reduce_to, wave)
                self.outgoing[sent] = flits.copy()
            if flow.gather_from != NO_PORT:
                flits = _draw_flits(flits.shape, settings.dtype, rng)
                came = Message(Op.GATHER, flow.number, flow.gather_from, wave)
                self.incoming[came] = flits
                self.replies |= {came: sent} if sent else {}
            for port in flow.gather_to:
                self.outgoing[Message(Op.GATHER, flow.number, port, wave)] = flits.copy()
            memory[at : at + flow.size] = flits


def _draw_flits(shape, dtype, rng):
    """Any bits, or numbers whose sums show the order in which they are added."""
    bits = rng.integers(0, 256, size=shape, dtype=np.uint8)
    if dtype == "int32" or rng.random() < 0.3:
        return bits
    count = bits.size // DTYPES[dtype].itemsize
    numbers = rng.normal(size=count) * 2.0 ** rng.integers(-6, 7, size=count)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40])
    some = rng.random(count) < 0.1
    numbers[some] = rng.choice(special, size=int(some.sum()))
    return numbers.astype(DTYPES[dtype]).view(np.uint8).reshape(shape)


def draw_plan(config, rng, *, num_flows=None, window_flits=None):
    """A random table: trees of every shape, chunks of every size, rows in any legal order."""
    num_flows = num_flows or int(rng.integers(1, config.num_flows + 1))
    most_flits = 12 * num_flows
    if rng.random() < LONG_CHANCE:
        most_flits = (1 << config.address_width) - 1
    window_flits = window_flits or int(rng.integers(num_flows, most_flits + 1))
    cuts = np.sort(rng.integers(0, window_flits + 1, size=num_flows - 1))
    bounds = [0, *(int(cut) for cut in cuts), window_flits]
    flows = [
        _draw_flow(number, base, end - base, config.num_ports, rng)
        for number, (base, end) in enumerate(itertools.pairwise(bounds))
    ]
    rng.shuffle(flows)
    plan = Plan(tuple(flows), make_table(flows, config, rng), window_flits)
    return _in_waves(plan, config, rng) if rng.random() < WAVES_CHANCE else plan


def _in_waves(plan, config, rng):
    """The same for each of some waves; GATHERs perhaps some runs of the table later."""
    # The end of a buffer is an address, too: it cannot be as long as all that is addressed.
    table, most = plan.table, ((1 << config.address_width) - 1) // plan.window_flits
    num_waves = int(rng.integers(1, min(most, 1 << config.wave_width) + 1))
    if num_waves == 1:
        return plan
    stage = int(rng.integers(0, 1 << config.wave_width)) * (rng.random() < 0.7)
    repeated = replace(
        table,
        stage=np.where(table.op == Op.GATHER, stage, 0),
        stride=np.full(table.num_flows, plan.window_flits),
        num_waves=num_waves,
    )
    return Plan(plan.flows, repeated, num_waves * plan.window_flits)


def _draw_flow(number, base, size, num_ports, rng):
    """A tree's part here: all-reduce, reduce or gather; root, inner node or leaf."""
    if rng.random() < 0.15:
        size = 0
    ports = [int(port) for port in rng.permutation(num_ports)]
    kind = rng.choice(["all_reduce", "all_reduce", "reduce", "gather"])
    parent = NO_PORT if rng.random() < 0.35 else ports.pop()
    children = tuple(ports[: rng.integers(0, len(ports) + 1)])
    return FlowPlan(
        number=number,
        base=base,
        size=size,
        children=() if kind == "gather" else children,
        reduce_to=NO_PORT if kind == "gather" else parent,
        gather_from=NO_PORT if kind == "reduce" else parent,
        gather_to=() if kind == "reduce" else children,
    )


def make_table(flows, config, rng, *, nop_chance=0.1):
    """Rows in the order of the flows, GATHERs among or behind all REDUCEs; steps with gaps.

    A NOP is a row in `1 / nop_chance`, and in as few tables the gaps are as wide as can be.
    """
    reduces = [
        [(Op.REDUCE, f.number, f.reduce_to)] if f.reduce_to != NO_PORT else [] for f in flows
    ]
    gathers = [[(Op.GATHER, f.number, port) for port in f.gather_to] for f in flows]
    groups = zip(reduces, gathers, strict=True) if rng.random() < 0.5 else (reduces, gathers)
    moves = [row for group in groups for rows_of in group for row in rows_of]
    rows, step, spare = [], 0, config.table_depth - len(moves)
    for op, flow, port in moves:
        if spare and rng.random() < nop_chance:
            # Neither flow nor port of a NOP means anything.
            rows.append((Op.NOP, rng.integers(1 << 16), rng.integers(1 << 4), step))
            step += 1
            spare -= 1
        rows.append((op, flow, port, step))
        step += int(rng.random() < 0.5)
    rows = np.array(rows, dtype=np.int64).reshape(-1, 4)
    if rng.random() < nop_chance:
        rows[:, 3] *= (1 << 16) // (step + 1)
    by_number = sorted(flows, key=lambda flow: flow.number)
    children = np.full((len(flows), 8), NO_PORT, dtype=np.int64)
    for flow in flows:
        children[flow.number, : len(flow.children)] = flow.children
    column = {name: np.array([getattr(f, name) for f in by_number]) for name in ("base", "size")}
    return Table(
        rank=RANK,
        schedule_hash="",
        op=rows[:, 0],
        flow=rows[:, 1],
        port=rows[:, 2],
        step=rows[:, 3],
        stage=np.zeros(len(rows), dtype=np.int64),
        base=column["base"],
        size=column["size"],
        stride=np.zeros(len(flows), dtype=np.int64),
        parent=np.array([flow.gather_from for flow in by_number]),
        children=children,
    )
