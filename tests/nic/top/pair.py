"""Two interfaces back to back with a memory and a host each, for tests."""

from functools import cache

import numpy as np
from amaranth import Elaboratable, Module
from amaranth.lib import wiring

from multitree.hw.axi.lite import Response
from multitree.nic.driver.commands import (
    COMMIT,
    RunSettings,
    count_addresses,
    counts_of,
    decode_fault,
    run_writes,
)
from multitree.nic.driver.config import Config
from multitree.nic.driver.registers import ADDRESS, ID, REGISTERS
from multitree.nic.driver.table import compile_table, table_writes
from multitree.nic.interface import Interface
from multitree.topology.algorithms.build import build
from multitree.topology.families.direct import ring
from tests.hw.streams import run
from tests.nic.blocks import put, seeded
from tests.nic.memory import latencies, reader, writer

CONFIG = Config(
    num_ports=1,
    flit_bytes=8,
    table_depth=6,
    num_flows=3,
    buffer_flits=16,
    submessage_flits=4,
    memory_queue_flits=16,
    address_width=6,
)
LANES = CONFIG.flit_bytes // 4
SCHEDULE = build(ring(2), "multitree")
BASE = 3


class Pair(Elaboratable):
    """Two interfaces of one port each, joined without delay."""

    def __init__(self):
        self.ranks = [Interface(CONFIG), Interface(CONFIG)]

    def elaborate(self, platform):
        """Cross the links."""
        m = Module()
        m.submodules.rank_0, m.submodules.rank_1 = self.ranks
        for here, there in (self.ranks, self.ranks[::-1]):
            wiring.connect(m, here.link[0].tx, there.link[0].rx)
        return m


the_pair = cache(Pair)
"""One for all runs: elaborating it takes longer than a collective."""


class Host:
    """Reads and writes the registers of one interface over its bus."""

    def __init__(self, ctx, interface):
        self._ctx, self._bus, self._interface = ctx, interface.s_axil, interface

    async def access(self, address, data=None):
        """A write, or a read: what was read, and whether it was refused."""
        ctx, bus = self._ctx, self._bus
        if data is None:
            put(ctx, bus, araddr=address, arvalid=1, rready=1)
            await ctx.tick().until(bus.arready)
            ctx.set(bus.arvalid, 0)
            value, response = await ctx.tick().sample(bus.rdata, bus.rresp).until(bus.rvalid)
        else:
            put(ctx, bus, awaddr=address, awvalid=1, wdata=data, wstrb=15, wvalid=1, bready=1)
            await ctx.tick().until(bus.awready & bus.wready)
            put(ctx, bus, awvalid=0, wvalid=0)
            (response,) = await ctx.tick().sample(bus.bresp).until(bus.bvalid)
            value = data
        return value, response == Response.SLVERR.value

    async def write(self, *writes):
        """Write registers; none may be refused."""
        for address, value in writes:
            _, refused = await self.access(address, value)
            assert not refused, f"write of {value:#x} to {address:#x}"

    async def read(self, name):
        """Read a register by name."""
        value, refused = await self.access(ADDRESS[name])
        assert not refused
        return value

    async def ports(self):
        """What the ports counted."""
        places = count_addresses(range(CONFIG.num_ports))
        return counts_of([(await self.access(place))[0] for place in places])

    async def status(self):
        """The fields of STATUS by name."""
        word = await self.read("STATUS")
        (register,) = (known for known in REGISTERS.registers if known.name == "STATUS")
        return {field.name: (word & field.mask) >> field.lsb for field in register.fields}

    async def committed(self):
        """Wait until a table is checked."""
        while (await self.status())["busy"]:
            pass
        assert (await self.status())["committed"]

    async def interrupt(self):
        """Wait for the interrupt."""
        await self._ctx.tick().until(self._interface.irq)

    async def fault(self):
        """The fault latched."""
        return decode_fault(await self.read("FAULT"), await self.read("FAULT_ROW"))

    async def wait(self, cycles):
        """Let cycles pass."""
        if cycles:
            await self._ctx.tick().repeat(cycles)


def tables(num_flits, schedule=SCHEDULE):
    """Both ranks' tables."""
    return [compile_table(schedule, rank, num_flits, CONFIG) for rank in range(2)]


def settings(num_flits, **changes):
    """What a collective needs besides its table, with some changes."""
    usual = {"dtype": "int32", "window_base": BASE, "window_flits": num_flits}
    return RunSettings(**usual | {"watchdog_cycles": 900, "first_arrival_cycles": 2000} | changes)


def integers(seed, count):
    """A row of elements per rank."""
    return np.random.default_rng(seed).integers(-(2**31), 2**31, (2, count)).astype(np.int32)


async def prepare(host, table, how):
    """Load a table and commit it."""
    assert await host.read("ID") == ID
    await host.write(*table_writes(table), *run_writes(how), COMMIT)


def words(values, num_flits):
    """Elements of four bytes as flits, padded with zeros."""
    padded = np.zeros(num_flits * LANES, values.dtype)
    padded[: len(values)] = values
    return padded.view(np.uint64).tolist()


def simulate(
    scripts, memories, *, seed=0, stall="never", late=6, background=(), pair=None, clocks=None
):
    """Run a host's script per rank, each a function of its host; memories change in place."""
    rng, keep = seeded(seed), pair is None
    pair = pair or the_pair()
    channels = []
    for rank, interface in enumerate(pair.ranks):
        ports = interface.memory[0]
        memory = memories[rank]
        memory += [0] * ((1 << CONFIG.address_width) - len(memory))
        for name in ("send", "fetch", "write"):
            serve = writer if name == "write" else reader
            channel = getattr(ports, name)
            delays = {"latency": latencies(rng, late), "stall": stall, "seed": f"{seed} {name}"}
            channels.append(serve(channel, memory, **delays))

    def host(script, interface):
        async def process(ctx):
            await script(Host(ctx, interface))

        return process

    hosts = [host(*pairing) for pairing in zip(scripts, pair.ranks, strict=True)]
    others = [watch(pair) for watch in background]
    background = [*channels, *others]
    run(pair, *hosts, background=background, deadline_cycles=6000, clocks=clocks, keep=keep)
