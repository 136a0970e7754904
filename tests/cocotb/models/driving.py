"""What benches do alike: clock, reset, offers on a stream, seeds."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

__all__ = ["at_once", "cleared", "drawn_seed", "offer", "reset"]


async def reset(dut, *, cycles=3, resets=("rst",), **inputs):
    """Start the clock and hold resets for some cycles; inputs are as given from the beginning."""
    for name, value in {**dict.fromkeys(resets, 1), **inputs}.items():
        getattr(dut, name).value = value
    cocotb.start_soon(Clock(dut.clk, 2, "ns").start())
    for _ in range(cycles):
        await FallingEdge(dut.clk)
    for name in resets:
        getattr(dut, name).value = 0


async def offer(dut, name, items, *, pause_chance=0.0):
    """Offer a stream items, each the values of its pins; the cycles until all are taken.

    It begins and ends in the middle of a cycle.
    """
    valid, ready, cycles = getattr(dut, f"{name}_valid"), getattr(dut, f"{name}_ready"), 0
    for item in items:
        while random.random() < pause_chance:
            valid.value = 0
            await FallingEdge(dut.clk)
        valid.value = 1
        for pin, value in item.items():
            getattr(dut, f"{name}_{pin}").value = value
        taken = False
        while not taken:
            # Ready may hang on the pins in the same cycle: look once it has settled.
            await ReadOnly()
            taken = ready.value == 1
            await FallingEdge(dut.clk)
            cycles += 1
    valid.value = 0
    return cycles


async def at_once(coroutines):
    """What coroutines return that run at the same time."""
    tasks = [cocotb.start_soon(coroutine) for coroutine in coroutines]
    return [await task for task in tasks]


async def cleared(host, field):
    """Wait until a field of STATUS is 0."""
    while await host.status(field):
        pass


def drawn_seed(dut):
    """A seed that is printed."""
    seed = random.getrandbits(32)
    dut._log.warning("seed %d", seed)
    return seed
