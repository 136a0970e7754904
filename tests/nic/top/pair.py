"""Two interfaces back to back with a memory and a host each, for tests."""

from functools import cache

import numpy as np
from amaranth import Elaboratable, Module
from amaranth.lib import wiring

from multitree.hw.axi.lite import Response
from multitree.hw.link.crossing import LinkCrossing, crossing_depth
from multitree.nic.driver.commands import (
    COMMIT,
    RESET,
    START,
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
from multitree.topology.schedules.execute import execute
from multitree.topology.schedules.schedule import Schedule
from tests.hw.streams import put, run, seeded
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


def by_hand(rows, collective="all_reduce", **given):
    """A schedule of a flit per flow between two ranks."""
    offsets = range(max(flow for _, _, flow, *_ in rows) + 2)
    names = {"algorithm": "by hand", "collective": collective}
    return Schedule.from_rows(ring(2), **names, flow_offsets=[*offsets], rows=rows, **given)


class Pair(Elaboratable):
    """Two interfaces of one port each, joined without delay, or over a link on another clock."""

    def __init__(self, config=CONFIG, kind=Interface, is_crossed=False):
        self.ranks = [kind(config), kind(config)]
        depth = crossing_depth(buffer_flits=config.buffer_flits)
        sizes = {"flit_bytes": config.flit_bytes, "depth": depth}
        self.crossings = [LinkCrossing(**sizes) for _ in self.ranks if is_crossed]

    def elaborate(self, platform):
        m = Module()
        m.submodules.rank_0, m.submodules.rank_1 = self.ranks
        m.submodules += self.crossings
        near, far = ((rank.link[0].tx, rank.link[0].rx) for rank in self.ranks)
        if self.crossings:
            for (tx, rx), crossing in zip((near, far), self.crossings, strict=True):
                wiring.connect(m, tx, crossing.tx)
                wiring.connect(m, crossing.rx, rx)
            near, far = ((crossing.link_tx, crossing.link_rx) for crossing in self.crossings)
        wiring.connect(m, near[0], far[1])
        wiring.connect(m, far[0], near[1])
        return m


the_pair = cache(Pair)
"""One for all runs: elaborating it takes longer than a collective."""


class Host:
    """Reads and writes the registers of one interface over its bus."""

    def __init__(self, ctx, interface, rank=0, arrived=None):
        self._ctx, self._bus, self._interface = ctx, interface.s_axil, interface
        self.rank, self._arrived = rank, arrived

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

    async def meet(self):
        """Wait until both hosts have come here as often."""
        self._arrived[self.rank] += 1
        while min(self._arrived) < self._arrived[self.rank]:
            await self.wait(1)

    async def reset(self, *writes):
        """Reset the interface, and wait until it says that it is over."""
        await self.write(*(writes or (RESET,)))
        while (await self.status())["busy"]:
            pass

    async def prepare(self, num_flits, schedule=SCHEDULE, **changes):
        """Load this rank's table of a schedule, and commit it with settings."""
        table = tables(num_flits, schedule)[self.rank]
        await prepare(self, table, settings(num_flits, **changes))
        return table

    async def run(self, *writes):
        """Start the committed table, and see that it is done."""
        await self.write(*writes, START)
        await self.ended()

    async def ended(self):
        """Wait until a collective is done."""
        await self.interrupt()
        status = await self.status()
        assert (status["done"], status["fault"]) == (1, 0)


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


def images(buffers, num_flits):
    """Memory of each rank: something before its buffer, and the buffer."""
    return [[7] * BASE + words(row, num_flits) for row in buffers]


def summed(buffers, times=1, schedule=SCHEDULE):
    """The ranks' buffers after so many runs of a schedule."""
    for _ in range(times):
        buffers = execute(schedule, buffers, flit_bytes=CONFIG.flit_bytes)
    return buffers


async def idle(host):
    """Do nothing."""
    await host.wait(1)


def channels_of(interface, memory, rng, *, stall, late, seed):
    """Background processes that serve an interface's memory channels."""
    memory += [0] * ((1 << interface.config.address_width) - len(memory))
    for name in ("send", "fetch", "write"):
        serve, channel = writer if name == "write" else reader, getattr(interface.memory[0], name)
        delays = {"latency": latencies(rng, late), "stall": stall, "seed": f"{seed} {name}"}
        yield serve(channel, memory, **delays)


def play(pair, scripts, background=(), *, clocks=None, keep=True, deadline_cycles=6000):
    """Run each host's script, a function of its host, or one for both."""
    scripts, arrived = scripts if isinstance(scripts, list) else [scripts] * 2, [0, 0]

    def host(rank):
        return lambda ctx: scripts[rank](Host(ctx, pair.ranks[rank], rank, arrived))

    given = {"clocks": clocks, "keep": keep, "deadline_cycles": deadline_cycles}
    run(pair, host(0), host(1), background=background, **given)


def simulate(
    scripts, memories, *, seed=0, stall="never", late=6, background=(), pair=None, **given
):
    """Run hosts' scripts on a pair with memories, which change in place."""
    rng, pair = seeded(seed), pair or the_pair()
    serving = [
        process
        for interface, memory in zip(pair.ranks, memories, strict=True)
        for process in channels_of(interface, memory, rng, stall=stall, late=late, seed=seed)
    ]
    others = [watch(pair) for watch in background]
    play(pair, scripts, [*serving, *others], **given)
