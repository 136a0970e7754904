"""What ports have written, as seen by blocks that go on with it."""

from dataclasses import dataclass, replace

from multitree.hw.check_bits import parity_width
from multitree.nic.driver.config import Config
from tests.hw.streams import go, seeded
from tests.nic.blocks import SMALL

__all__ = ["FORWARDING", "PortModel", "encoded", "ports"]

FORWARDING: Config = replace(SMALL, forward_flits=32)


def encoded(word: int, width: int = 64) -> int:
    """A flit as it is kept, with its parity: the sum of its groups is zero."""
    groups, stored = parity_width(width), word
    for place in range(width, width + groups):
        of_group = (word >> bit & 1 for bit in range(place % groups, width, groups))
        stored |= sum(of_group) % 2 << place
    return stored


@dataclass
class PortModel:
    """One port: what it writes, in order, and how far it has come."""

    flits: list[int]
    places: list[int]
    """Memory addresses of the flits."""
    written: int = 0
    acknowledged: int = 0

    def kept(self, address: int, size: int) -> int | None:
        """The last flit whose position has these low bits, if one is kept."""
        last = self.written - 1 - (self.written - 1 - address) % size
        return self.flits[last] if 0 <= last < self.written else None


def ports(forward, models, memory, *, writes="seldom", acks="often", seed=0):
    """A background process that writes the ports' flits, acknowledges them and shows both.

    A flit is in memory from its acknowledgement on. What is not kept is shown as zeros.
    """
    moves = [(go(writes, f"{seed} {k}"), go(acks, f"{seed} {k} ack")) for k in range(len(models))]
    seeded(seed)

    async def process(ctx):
        size = FORWARDING.forward_flits
        shown = [0] * len(models)
        while True:
            for number, model in enumerate(models):
                ctx.set(forward.written[number], model.written)
                ctx.set(forward.acknowledged[number], model.acknowledged)
                ctx.set(forward.kept[number], shown[number])
            _, _, address = await ctx.tick().sample(forward.address)
            for number, (model, (may_write, may_ack)) in enumerate(zip(models, moves, strict=True)):
                flit = model.kept(address, size)
                shown[number] = 0 if flit is None else encoded(flit)
                if model.acknowledged < model.written and next(may_ack):
                    place = model.places[model.acknowledged]
                    memory[place] = model.flits[model.acknowledged]
                    model.acknowledged += 1
                if model.written < len(model.flits) and next(may_write):
                    model.written += 1

    return process
