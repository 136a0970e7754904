"""Bits that flip in the queues of a block, while it works."""

from amaranth.lib.memory import Memory

from multitree.hw import stream

__all__ = ["flipping", "recorded"]


def recorded(monkeypatch, *modules):
    """The memories that queues, or other modules, make from now on, in their order."""
    made = []

    class Recorded(Memory):
        def __init__(self, **sizes):
            super().__init__(**sizes)
            made.append(self)

    for module in modules or [stream]:
        monkeypatch.setattr(module, "Memory", Recorded)
    return made


def flipping(memory, flipped):
    """A background process that flips the last bit of each word once it is written.

    It is a check bit: what is queued means what it did. `flipped` gets the place of each.
    """

    async def process(ctx):
        stored = [ctx.get(memory.data[k]) for k in range(memory.depth)]
        while True:
            await ctx.tick()
            for k, before in enumerate(stored):
                now = ctx.get(memory.data[k])
                if now != before:
                    stored[k] = now ^ 1 << memory.shape - 1
                    ctx.set(memory.data[k], stored[k])
                    flipped.append(k)

    return process
