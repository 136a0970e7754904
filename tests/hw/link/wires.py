"""Wires, drivers and monitors of links, for the simulator."""

import random

from amaranth import Signal

from multitree.hw.link.link import Kind
from tests.hw.streams import receive

FORWARD = ("valid", "kind", "vc", "sequence", "epoch", "check", "payload")


def delay(m, source, target, cycles):
    """Wires of some cycles."""
    for _ in range(cycles):
        later = Signal.like(source)
        m.d.sync += later.eq(source)
        source = later
    m.d.comb += target.eq(source)


def join(m, near, far, cycles, *, back_cycles=None):
    """Wires of some cycles from one transmitting end to a receiving one, and back for credits."""
    for name in FORWARD:
        delay(m, getattr(near, name), getattr(far, name), cycles)
    delay(m, far.credit, near.credit, cycles if back_cycles is None else back_cycles)


def message(rng, size, *, flit_bytes, head=None):
    """Kinds and payloads of a message with so many payload flits, all random but a given head."""
    kinds = [Kind.HEAD, *[Kind.BODY] * (size - 1), Kind.TAIL] if size else [Kind.SINGLE]
    flits = [{"kind": kind, "payload": rng.getrandbits(8 * flit_bytes)} for kind in kinds]
    if head is not None:
        flits[0]["payload"] = head
    return flits


async def offer(ctx, port, flits, moves, seed=0, times=None):
    """Send each virtual channel's flits in order, in turns drawn at random.

    Parameters
    ----------
    ctx : TestbenchContext
    port : LinkTransmitter or LinkPort
    flits : list of lists of dict
        Per virtual channel `kind` and `payload` of each flit.
    moves : iterator of bool
        From `go`: cycles in which a flit may be offered.
    seed : int
        Of the turns.
    times : list, optional
        Gets (cycle, virtual channel) of each flit.
    """
    rng, left, cycle = random.Random(f"turns {seed}"), [list(f) for f in flits], 0
    while any(left):
        may_send = ctx.get(port.may_send)
        ready = [vc for vc, queue in enumerate(left) if queue and may_send >> vc & 1]
        if next(moves) and ready:
            vc = rng.choice(ready)
            ctx.set(port.flit, {"vc": vc, **left[vc].pop(0)})
            ctx.set(port.take, 1)
            if times is not None:
                times.append((cycle, vc))
        await ctx.tick()
        ctx.set(port.take, 0)
        cycle += 1


def taker(port, vc, count, moves, got, times=None):
    """A testbench that takes so many flits of a virtual channel."""

    async def take(ctx):
        units = await receive(ctx, port.o[vc], count, moves, times)
        got[vc] = [{"kind": unit.kind, "payload": unit.payload} for unit in units]

    return take
