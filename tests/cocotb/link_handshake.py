"""How a link's end comes up and goes down, told once more in Python."""

from multitree.hw.link import Kind
from multitree.hw.link_session import PERIOD_CYCLES

__all__ = ["CONTROL_KINDS", "Handshake"]

CONTROL_KINDS = tuple(kind.value for kind in (Kind.DOWN, Kind.INIT, Kind.UP, Kind.FAULT))


class Handshake:
    """One end of the three-way handshake: DOWN, INIT, UP; an epoch that each fall changes.

    Attributes
    ----------
    up, open : bool
        Data may come; data may be sent.
    epoch, peer_epoch : int
        Of this end, of the other one as it was when the link came up.
    """

    def __init__(self):
        self.epoch = self.peer_epoch = 0
        self._state, self._timer, self._answer = Kind.DOWN, 0, False

    @property
    def up(self):
        """Data may come."""
        return self._state == Kind.UP

    @property
    def open(self):
        """Data may be sent: the other end has heard that this one is up."""
        return self.up and self._timer >= PERIOD_CYCLES

    def fall(self):
        """Go down."""
        self.epoch ^= 1
        self._state, self._timer, self._answer = Kind.DOWN, 0, False

    def hear(self, kind, epoch, payload):
        """A control flit has come."""
        echoed = payload & 1 == self.epoch
        if kind == Kind.DOWN:
            if self.up:
                self.fall()
            else:
                self._state, self._timer, self.peer_epoch = Kind.INIT, 0, epoch
        elif self.up:
            self._answer |= kind == Kind.INIT
        elif echoed and (kind == Kind.INIT or self._state == Kind.INIT):
            self._state, self._timer, self._answer = Kind.UP, 0, True
            self.peer_epoch = epoch

    def step(self):
        """What to send in this cycle as (kind, payload), or None."""
        due = self._answer if self.up else self._timer % PERIOD_CYCLES == 0
        self._timer += 1
        self._answer = False
        return (self._state.value, self.peer_epoch) if due else None
