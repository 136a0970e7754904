"""A credited link delivers every flit once and in order, whatever stalls."""

import random

import cocotb
from cocotb.triggers import FallingEdge

from tests.cocotb.models.driving import reset

LATENCY_CYCLES, DEPTH, FLIT_BITS = 7, 24, 128
FLITS = 400


async def start(dut):
    """Clock and reset, until the registers of the link have been reset too."""
    await reset(dut, i_valid=0, i_payload=0, o_ready=0)


async def transfer(dut, flits, *, send_chance=1.0, take_chance=1.0, num_cycles=20000):
    """Offer flits and take what comes out, for some cycles or until all are through.

    In the middle of a cycle the design's outputs are settled; an input that is set then counts
    at the cycle's end, together with them.
    """
    waiting, taken, offering, cycle = list(flits), [], False, 0
    while len(taken) < len(flits) and cycle < num_cycles:
        await FallingEdge(dut.clk)
        cycle += 1
        offering = bool(waiting) and (offering or random.random() < send_chance)
        dut.i_valid.value = int(offering)
        if offering:
            dut.i_payload.value = waiting[0]
            if dut.i_ready.value:
                offering = False
                waiting.pop(0)
        taking = random.random() < take_chance
        dut.o_ready.value = int(taking)
        if taking and dut.o_valid.value:
            taken.append(int(dut.o_payload.value))
    assert dut.error.value == 0, "credits, buffer and sequence numbers must agree"
    return taken, len(waiting), cycle


def draw(count):
    """Random flits of data: payload above the three bits of the kind."""
    return [random.getrandbits(FLIT_BITS) << 3 | random.randrange(4) for _ in range(count)]


@cocotb.test()
async def every_flit_comes_out_once_and_in_order_whatever_stalls(dut):
    await start(dut)
    for send_chance, take_chance in [(1, 1), (0.3, 1), (1, 0.3), (0.6, 0.6)]:
        flits = draw(FLITS)
        taken, _, _ = await transfer(dut, flits, send_chance=send_chance, take_chance=take_chance)
        assert taken == flits


@cocotb.test()
async def a_buffer_of_two_latencies_and_a_few_registers_keeps_the_link_busy(dut):
    await start(dut)
    flits = draw(FLITS)
    taken, _, cycles = await transfer(dut, flits)
    assert taken == flits
    assert cycles <= FLITS + LATENCY_CYCLES + 8


@cocotb.test()
async def a_sender_stops_when_its_credits_are_spent_and_goes_on_when_they_return(dut):
    await start(dut)
    flits = draw(FLITS)
    taken, left, _ = await transfer(dut, flits, take_chance=0, num_cycles=200)
    assert (len(taken), FLITS - left) == (0, DEPTH)
    assert dut.i_ready.value == 0
    # The flit on offer is still there: go on with what was not taken.
    taken, _, _ = await transfer(dut, flits[-left:], num_cycles=1000)
    assert taken[:DEPTH] == flits[:DEPTH]
