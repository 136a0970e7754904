"""Messages that ports write: their flits, and what trackers know of them."""

from collections import defaultdict
from typing import NamedTuple

from multitree.nic.driver.config import Config
from tests.nic.forward.ports import FORWARDING, PortModel, encoded
from tests.nic.forward.test_chunk_finder import beginning

__all__ = ["Messages", "Placed", "scripted"]


class Placed(NamedTuple):
    """A message among all that its port writes."""

    wave: int
    position: int
    size: int
    base: int


class Messages:
    """What ports write, in the order of each, and what is known of it at any time.

    A message is known to have begun `lead` flits before its first one is written, but in no cycle
    before `since`.
    """

    def __init__(self, config: Config = FORWARDING, *, lead: int = 0, since: int = 0):
        self.config, self.lead, self.since = config, lead, since
        self.models = [PortModel([], []) for _ in range(config.num_ports)]
        self.placed = defaultdict(list)

    def add(self, flits, *, port, op, flow, base, wave=0):
        """One more message of a port, whose flits go to addresses from `base` on."""
        model = self.models[port]
        placed = Placed(wave, len(model.flits), len(flits), base)
        self.placed[port, op, flow].append(placed)
        model.flits += flits
        model.places += range(base, base + len(flits))
        return placed

    def written_into(self, memory):
        """A memory's content once everything is written, in the order of the ports."""
        content = list(memory)
        for model in self.models:
            for place, flit in zip(model.places, model.flits, strict=True):
                content[place] = flit
        return content

    def position_of(self, address):
        """Port and position of the flit that is written to an address, if one is."""
        for port, model in enumerate(self.models):
            if address in model.places:
                return port, model.places.index(address)
        return None

    def begins(self, cycle, port, op, flow):
        """What the tracker of beginnings knows: the last wave that has begun."""
        written, last = self.models[port].written, 0
        for wave, position, *_ in self.placed[port, op, flow]:
            if written + self.lead >= position and cycle >= self.since:
                last = beginning(self.config, position, wave)
        return last

    def counts(self, cycle, port, op, flow):
        """What the dependency tracker knows: sub-messages of the last wave of which any is in."""
        acknowledged, last = self.models[port].acknowledged, 0
        for wave, position, size, _ in self.placed[port, op, flow]:
            flits, inside = acknowledged - position, self.config.submessage_flits
            whole = -(-size // inside) if flits >= size else flits // inside
            # A message without payload is reported as one sub-message.
            number = max(whole, 1) if flits >= size else whole
            if number > 0:
                last = number | wave << self.config.part_width
        return last


def scripted(forward, models, memory, at, *, flip=None):
    """A background process that shows ports where `at(cycle, port)` says: written, acknowledged.

    A flit is in memory from its acknowledgement on. With `flip` a bit of each kept flit is wrong.
    """

    async def process(ctx):
        shown, cycle = [0] * len(models), 0
        while True:
            for port, model in enumerate(models):
                model.written, acknowledged = at(cycle, port)
                for k in range(model.acknowledged, acknowledged):
                    memory[model.places[k]] = model.flits[k]
                model.acknowledged = acknowledged
                ctx.set(forward.written[port], model.written)
                ctx.set(forward.acknowledged[port], model.acknowledged)
                ctx.set(forward.kept[port], shown[port])
            _, _, address = await ctx.tick().sample(forward.address)
            for port, model in enumerate(models):
                flit = model.kept(address, FORWARDING.forward_flits)
                shown[port] = (
                    0 if flit is None else encoded(flit) ^ (0 if flip is None else 1 << flip)
                )
            cycle += 1

    return process
