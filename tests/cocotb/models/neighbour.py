"""A neighbour on one port: sends what a table expects and checks what comes."""

from multitree.hw.link.link import Kind
from multitree.nic.layouts import head_layout, sequence_width
from multitree.topology.collectives import Op
from tests.cocotb.models.link_end import frame

__all__ = ["Neighbour"]


class Neighbour:
    """Plays its part of one collective after the other, as far ahead as it can.

    REDUCE messages go wave by wave in the order of the flows, GATHERs when what they answer has
    come; which of them is next is drawn. It begins the next collective when it has sent and seen
    all of this one, whether the interface is done with it or not.

    Parameters
    ----------
    end : LinkEnd
    port : int
    rounds : list of Round
        What is played, in order.
    config : Config
    rng : random.Random
    first_sequence : int
        Number of the first round in heads.
    """

    def __init__(self, end, port, rounds, config, rng, first_sequence=0):
        self.end, self._port, self._rounds, self._rng = end, port, rounds, rng
        self._config, self._head = config, head_layout(config)
        self._first_sequence = first_sequence
        self._message = []
        self._wait = 0
        self.at = -1
        self.key = (None, None, port, None)
        self.tamper = None
        self.on_send = None
        self._reduces, self._gathers, self._expected = [], [], set()

    def step(self):
        """One cycle: what came, then what to send next."""
        while self.end.taken:
            self._take(*self.end.taken.popleft())
        if self._wait:
            self._wait -= 1
        elif not self.end.to_send:
            self._choose()

    @property
    def idle(self):
        """Nothing left to send or to see, of any collective."""
        return self._over and not self.end.to_send and self.at == len(self._rounds) - 1

    @property
    def _over(self):
        """Nothing left to send or to see of the collective that is played."""
        return not (self._reduces or self._gathers or self._expected)

    def _choose(self):
        """Put the next message on its way, or go on to the next collective."""
        if self._over:
            if self.at < len(self._rounds) - 1:
                self._begin()
            return
        now = self._rounds[self.at]
        # A flow's waves in order.
        first = {key[:3]: key for key in reversed(self._gathers)}.values()
        ready = [k for k in first if now.answers(k[0], k[1], k[3]) not in self._expected]
        ready += self._reduces[:1]
        if ready:
            key = self._rng.choice(ready)
            (self._reduces if key[0] == Op.REDUCE else self._gathers).remove(key)
            self.send(key)

    def send(self, key, **changes):
        """Frame a message of the collective that is played and send it."""
        now = self._rounds[self.at]
        flits = self._frame(key, now, **changes)
        if self.tamper:
            flits = self.tamper(key, flits)
        self.key = key
        self.end.to_send.extend(flits)
        if self.on_send:
            self.on_send(key, now.number)

    def _frame(self, key, now, **changes):
        """A message of a collective, in either direction."""
        flits = now.incoming[key] if key in now.incoming else now.outgoing[key]
        packets = now.settings.flow_control == "packet"
        head = {"sequence": self._sequence(now), "wave": key[3]} | changes
        return frame(self._config, key[0], key[1], flits, packets=packets, **head)

    def _sequence(self, now):
        """What heads say of a collective's number."""
        return (self._first_sequence + now.number) % (1 << sequence_width(self._config))

    def _begin(self):
        """Sort out what this port sends and sees in the next collective."""
        self.at += 1
        now = self._rounds[self.at]
        mine = [key for key in now.incoming if key[2] == self._port]
        self._reduces = [key for key in mine if key[0] == Op.REDUCE]
        self._gathers = [key for key in mine if key[0] == Op.GATHER]
        self._expected = {key for key in now.outgoing if key[2] == self._port}
        # Ahead of the others, with them or late.
        self._wait = self._rng.choice((0, 0, self._rng.randrange(300)))

    def _take(self, kind, payload):
        """Collect a message; hold it, whole, against what it has to be."""
        self._message.append((kind, payload))
        if kind == Kind.SINGLE.value or kind == Kind.TAIL.value:
            head = self._head.from_bits(self._message[0][1] & (1 << self._head.size) - 1)
            key = (Op(head.op), head.flow, self._port, head.wave)
            while self._over and head.sequence != self._sequence(self._rounds[self.at]):
                self._begin()
            now = self._rounds[self.at]
            right = self._frame(key, now)
            assert key in self._expected, f"{key} came twice"
            assert self._message == right[: len(self._message)], f"{key} is wrong"
            if len(self._message) == len(right):
                self._expected.remove(key)
                self._message = []
