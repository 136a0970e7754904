"""How a link's end comes up and goes down: the three-way handshake in Python."""

from multitree.hw.link.link import Kind
from multitree.hw.link.session import PERIOD_CYCLES

__all__ = ["CONTROL_KINDS", "LinkSessionModel"]

CONTROL_KINDS = tuple(kind.value for kind in (Kind.DOWN, Kind.INIT, Kind.UP, Kind.FAULT))
"""Kinds of the flits that carry no data."""


class LinkSessionModel:
    """One end of the three-way handshake: DOWN, INIT, UP, as `hw.link.session` has it.

    A session that is over leaves its epoch behind once the other end has returned it.

    Attributes
    ----------
    epoch, peer_epoch : int
        Of this end; of the other one as last received, 0 if never.
    """

    def __init__(self) -> None:
        self.epoch = self.peer_epoch = 0
        self._knows = self._used = False
        self._state, self._timer, self._answer = Kind.DOWN, 0, False

    @property
    def up(self) -> bool:
        """Data may come."""
        return bool(self._state == Kind.UP)

    @property
    def open(self) -> bool:
        """Data may be sent: the other end has received that this one is up."""
        return self.up and self._timer >= PERIOD_CYCLES

    def fall(self) -> None:
        """Go down."""
        self._used |= self._state != Kind.DOWN
        self._state, self._timer, self._answer = Kind.DOWN, 0, False

    def receive(self, kind: Kind, epoch: int, payload: int) -> None:
        """Take a control flit."""
        echoed = payload & 3 == self.epoch | 2
        if kind == Kind.DOWN:
            self.peer_epoch, self._knows = epoch, True
        if self.up:
            self._answer |= kind == Kind.INIT
            if kind == Kind.DOWN:
                self.fall()
        elif self._used:
            if echoed:
                self.epoch, self._used, self._timer = self.epoch ^ 1, False, 0
        elif kind == Kind.DOWN:
            if self._state == Kind.DOWN:
                self._state, self._timer = Kind.INIT, 0
        elif echoed and (kind == Kind.INIT or self._state == Kind.INIT):
            self._state, self._timer, self._answer = Kind.UP, 0, True
            self.peer_epoch, self._knows = epoch, True

    def step(self) -> tuple[int, int] | None:
        """Kind and payload of the control flit to send in this cycle, or None."""
        due = self._answer if self.up else self._timer % PERIOD_CYCLES == 0
        self._timer += 1
        self._answer = False
        return (self._state.value, self.peer_epoch | self._knows << 1) if due else None
