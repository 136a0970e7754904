"""What stands around one interface: neighbours, memory, host, and stalls."""

import logging
import random

import cocotb
import numpy as np

from multitree.nic.driver.config import JOB_QUEUE_DEPTH, Config
from multitree.nic.driver.formats import sequence_width
from multitree.sim.cocotb.case import STALLS, Stall, worst
from multitree.sim.cocotb.memory import Memory
from multitree.sim.cocotb.partner import PartnerNetwork
from multitree.sim.cocotb.pins import run_models, until
from multitree.sim.cocotb.register_host import RegisterHost
from multitree.topology.collectives import Op
from tests.cocotb.bins import WRAPS, collective_bins, plan_ops
from tests.cocotb.models.driving import drawn_seed, reset

__all__ = ["CONFIG", "NUMBERS", "Environment"]

CONFIG = Config(
    num_ports=3,
    flit_bytes=16,
    table_depth=32,
    num_flows=8,
    buffer_flits=20,
    submessage_flits=4,
    memory_queue_flits=12,
    address_width=8,
    wave_width=3,
)
"""Small, so that everything that goes round does so soon."""
NUMBERS = 1 << sequence_width(CONFIG)
NUM_FLITS = 1 << CONFIG.address_width
LONGEST_CYCLES = 60000


class Environment:
    """One interface between Python neighbours, a Python memory and a host on AXI4-Lite."""

    def __init__(self, dut, coverage, seed):
        logging.getLogger(f"cocotb.{dut._name}").setLevel(logging.WARNING)
        self.dut, self.coverage = dut, coverage
        self.rng, self.data_rng = random.Random(seed), np.random.default_rng(seed)
        self.ports = range(CONFIG.num_ports)
        self.network = PartnerNetwork(dut, CONFIG, self.rng)
        self.ends = list(self.network.ends.values())
        self.channel_stalls = [Stall(self.rng) for _ in range(3 * CONFIG.num_ports)]
        flits = self.data_rng.integers(0, 256, (NUM_FLITS, CONFIG.flit_bytes), dtype=np.uint8)
        channels = [f"memory_{port}_" for port in self.ports]
        self.memory = Memory(dut, channels, flits, seed=seed, stalls=self.channel_stalls)
        self.bus_stalls = [Stall(self.rng) for _ in range(5)]
        self.model = flits.copy()
        self.num_started = self.num_done = self.num_commits = 0

    @classmethod
    async def started(cls, dut, coverage):
        """One of a seed that is printed, after its reset: neighbours and memory do their part."""
        env = cls(dut, coverage, drawn_seed(dut))
        env.host = RegisterHost(dut)
        env._bus_channels = env.host.channels
        await reset(dut, cycles=4)
        cocotb.start_soon(run_models(dut.clk, env.network, env.memory, env))
        await env.links_up()
        env._meet()
        return env

    async def reset(self, first_sequence=0):
        """Reset the interface, or both ends of its links; memory is as the model has it.

        The next collective has the number `first_sequence`.
        """
        self.network.meet()
        for end in self.ends:
            end.drop()
            end.tamper = None
            if self.rng.random() < 0.5:
                end.fall()
        await self.host.reset(first_sequence)
        await self.links_up()
        self.memory.broken_reads = self.memory.broken_writes = range(0)
        self.memory.flits[:] = self.model
        self._meet(first_sequence)

    async def links_up(self):
        """Wait until both ends of every link are up."""
        # The interface first: an end that has not heard of its reset is still open.
        while await self.host.read("LINKS") != (1 << CONFIG.num_ports) - 1:
            pass
        await self.until(lambda: self.network.up)

    def _meet(self, first_sequence=0):
        self.first_sequence = first_sequence
        self.num_started = self.num_done = self.num_commits = 0
        self.network.meet(first_sequence)
        for partner in self.partners:
            partner.on_send = self._note_send

    @property
    def rounds(self):
        """Collectives that are played, since the last reset."""
        return self.network.collectives

    @property
    def partners(self):
        """Who plays at each port."""
        return self.network.partners

    def step(self):
        """Hold up the channels of the bus."""
        for channel, stall in zip(self._bus_channels, self.bus_stalls, strict=True):
            channel.pause = stall.held()

    async def until(self, condition):
        """Wait for something, not for ever."""
        await until(self.dut.clk, condition, most_cycles=LONGEST_CYCLES, what="nothing")

    def choose_stalls(self, kinds=STALLS):
        """Draw a class of stalls for each boundary."""
        for stalls in self._boundaries().values():
            kind = self.rng.choice(kinds)
            for stall in stalls:
                stall.choose(kind)

    def _boundaries(self):
        reads = [stall for k, stall in enumerate(self.channel_stalls) if k % 3 < 2]
        return {
            "link credits": [end.credit_stall for end in self.ends],
            "link data": [end.data_stall for end in self.ends],
            "memory reads": reads,
            "memory writes": self.channel_stalls[2::3],
            "AXI4-Lite": self.bus_stalls,
        }

    def _note_send(self, message, number):
        """Count what a message that goes to the interface meets there."""
        if number >= self.num_started and self.num_started == self.num_done:
            self.coverage.hit("meeting", meeting="a message came while nothing ran")
        elif number > self.num_done:
            self.coverage.hit("meeting", meeting="a message came for a later collective")
        busy = [partner.message for partner in self.partners if partner.end.waiting()]
        same = [other for other in busy if other and other[:2] == message[:2]]
        if message.op == Op.REDUCE and len(same) > 1:
            self.coverage.hit("meeting", meeting=f"siblings came in at once: {len(same)}")

    def note_round(self, now):
        """Count what a collective that went right has covered."""
        for group, values in collective_bins(now.plan, now.settings):
            self.coverage.hit(group, **values)
        for op in sorted(plan_ops(now.plan)):
            for boundary, stalls in self._boundaries().items():
                kind = worst(stalls)
                if kind:
                    hit = {"boundary": boundary, "op": op, "stall": kind}
                    self.coverage.hit("boundary x op x stall", **hit)
            for wrap in self._wraps(now):
                self.coverage.hit("wrap x op", wrap=wrap, op=op)

    def _wraps(self, now):
        """What has gone round since the last reset, for one of the ports at least."""
        sent = max(end.num_sent for end in self.ends)
        taken = max(end.num_taken for end in self.ends)
        rows = max((now.plan.table.port == port).sum() for port in self.ports)
        reached = (
            (self.first_sequence + now.number + 1, NUMBERS),
            (taken, 8),
            (sent, 8),
            (taken, CONFIG.buffer_flits),
            (sent, CONFIG.buffer_flits),
            (taken, 2 * CONFIG.memory_queue_flits),
            (rows, JOB_QUEUE_DEPTH),
            (self.num_commits, 2),
        )
        pairs = zip(WRAPS, reached, strict=True)
        return [wrap for wrap, (number, limit) in pairs if number > limit]
