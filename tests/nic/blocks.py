"""What the tests of the interface's blocks share: small sizes, settings, fields."""

from amaranth.lib import data
from amaranth.sim import Simulator

from multitree.nic.driver.config import Config
from multitree.nic.driver.formats import NO_PORT
from multitree.nic.layouts import FLOW_ENTRY, ROW, head_layout
from tests.hw.streams import put

SMALL = Config(
    num_ports=3,
    flit_bytes=8,
    table_depth=12,
    num_flows=6,
    buffer_flits=16,
    submessage_flits=4,
    memory_queue_flits=32,
    address_width=10,
)
"""Sizes that simulate fast; the table depth and the number of flows are no powers of two."""

RUNNING = {
    "running": 1,
    "window_flits": 1000,
    "num_rows": SMALL.table_depth,
    "num_flows": SMALL.num_flows,
}
"""A collective runs; what is left out is 0."""


def start(ctx, block, **values):
    """Tell a block that a collective runs, with settings other than the usual ones."""
    put(ctx, block.run, **RUNNING | values)


def plain(value):
    """A payload as nested dictionaries and lists of integers, to compare and to print."""
    if isinstance(value, data.Const):
        layout = value.shape()
        if isinstance(layout, data.ArrayLayout):
            return [plain(value[k]) for k in range(layout.length)]
        return {name: plain(value[name]) for name, _ in layout}
    return getattr(value, "value", value)


def row(**fields):
    """A row of the table memory."""
    return ROW.const(fields)


def entry(*, children=(), **fields):
    """An entry of the flow memory: no parent and no children if not said."""
    ports = [*children, *[NO_PORT] * (8 - len(children))]
    return FLOW_ENTRY.const({"children": ports, "parent": NO_PORT} | fields)


def head(**fields):
    """The payload of a head flit."""
    return head_layout(SMALL).const(fields).as_value().value


async def load(ctx, memory, layout, values):
    """Write entries of table or flow memory, word by word, and use them; a cycle per word."""
    ctx.set(memory.bank, 1)
    for index, value in enumerate(values):
        bits = value.as_value().value
        for word in range(layout.size // 32):
            put(ctx, memory, write=1, index=index, word=word, data=bits >> 32 * word & 0xFFFFFFFF)
            await ctx.tick()
    put(ctx, memory, write=0, bank=0)


def evaluate(block, inputs, output):
    """What a combinational block makes of inputs, one dictionary of members after another."""
    results = []

    async def testbench(ctx):
        for values in inputs:
            put(ctx, block, **values)
            results.append(plain(ctx.get(output)))

    simulator = Simulator(block)
    simulator.add_testbench(testbench)
    simulator.run()
    return results


async def each_is_reported(ctx, block, flips):
    """Hold that a word that leaves any queue with flipped bits raises the block's `state_error`."""
    latency_cycles = 2
    assert flips
    for flip in flips:
        assert not ctx.get(block.state_error)
        seen = 0
        for cycle in range(2 * latency_cycles):
            ctx.set(flip, cycle == 0)
            seen |= ctx.get(block.state_error)
            await ctx.tick()
        assert seen, flip.name
