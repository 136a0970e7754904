"""The faults that are seeded in links with virtual channels and in the switch."""

from tests.formal.mutants import Mutant

__all__ = ["MUTANTS"]

MUTANTS = (
    Mutant(
        "link.channels",
        "hw/link/transmitter.py",
        "self._count(m, vc, sent & (unit.vc == vc))",
        "self._count(m, vc, sent)",
        "a flit costs every channel a credit",
    ),
    Mutant(
        "link.channels",
        "hw/link/transmitter.py",
        "self.open & ~self.control.valid & left)",
        "self.open & ~self.control.valid & left & (self.available[0] != 0))",
        "no channel may send while one has no credit",
    ),
    Mutant(
        "link.channels",
        "hw/link/receiver.py",
        "has_room.eq((chosen & room).any()),",
        "has_room.eq(room.all()),",
        "a full buffer refuses flits of the other channels",
    ),
    Mutant(
        "link.channels",
        "hw/link/receiver.py",
        "self._count(m, vc, taken & chosen[vc], room[vc])",
        "self._count(m, vc, taken, room[vc])",
        "a flit takes a place in every buffer",
    ),
    Mutant(
        "link.down",
        "hw/link/transmitter.py",
        "m.d.sync += available.eq(self.credits)",
        "m.d.sync += available.eq(available)",
        "a link that comes up again has not got the credits of its channels back",
    ),
    Mutant(
        "link.down",
        "hw/link/receiver.py",
        "ResetInserter(~self.up)(buffer)",
        "buffer",
        "what a buffer holds is offered when the link comes up again",
    ),
    Mutant(
        "switch.oldest",
        "hw/arbiter.py",
        "turns.requests.eq(Mux(oldest.any(), oldest, self.requests)),",
        "turns.requests.eq(self.requests),",
        "a younger message gets the channel",
    ),
    Mutant(
        "switch.oldest",
        "hw/arbiter.py",
        "turns.advance.eq(self.advance),",
        "turns.advance.eq(0),",
        "among equals the first one always gets the channel",
    ),
    Mutant(
        "switch.ages",
        "hw/arbiter.py",
        "before.eq(distance[7] |",
        "before.eq((a.sequence < b.sequence) |",
        "sequence numbers do not wrap",
    ),
    Mutant(
        "switch.messages",
        "hw/switch/output.py",
        "free.eq(~busy | (goes & ends)),",
        "free.eq(~busy | goes),",
        "a channel is given away in the middle of a message",
    ),
    Mutant(
        "switch.messages",
        "hw/switch/input.py",
        "self.i.ready.eq((self.o.ready | ~full) & ~ends & ~first)",
        "self.i.ready.eq(~ends & ~first)",
        "a flit is taken where another one still waits",
    ),
    Mutant(
        "switch.channels",
        "hw/switch/input.py",
        "self.to_vc.eq(Cat(Const(self._parity, 1), vc_class)),",
        "self.to_vc.eq(Cat(Const(0, 1), vc_class)),",
        "a message asks for a channel of the other parity",
    ),
    Mutant(
        "switch.channels",
        "hw/switch/output.py",
        "with m.Elif(free | drops | self.gone):",
        "with m.Elif(free | self.gone):",
        "a message that is cut keeps its channel",
    ),
    Mutant(
        "switch.channels",
        "hw/switch/output.py",
        "& self.may_send[vc]",
        "& self.may_send.all()",
        "a channel without a credit stops the others",
    ),
    Mutant(
        "switch.channels",
        "hw/switch/output.py",
        "older.eq(messages)",
        "older.eq(0)",
        "a younger message has the link",
    ),
    Mutant(
        "switch.channels",
        "hw/switch/input.py",
        "self.message_lost.eq(self.lost | gone)",
        "self.message_lost.eq(self.lost)",
        "a message to a link that is lost is dropped without a word",
    ),
    Mutant(
        "switch.messages",
        "hw/switch/fabric.py",
        "asks = end.request & (end.to_port == number)",
        "asks = end.request & (end.to_port >= number)",
        "a head asks at ports in front of its own, too",
    ),
)
