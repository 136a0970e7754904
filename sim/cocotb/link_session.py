"""How a link's end comes up and goes down: the three-way handshake in Python."""

from typing import Any, cast

from multitree.hw.link.link import Kind
from multitree.hw.link.session import PERIOD_CYCLES

__all__ = ["CONTROL_KINDS", "KINDS", "LinkSessionModel"]

KINDS: dict[str, int] = {kind.name: int(kind.value) for kind in cast(Any, Kind)}
"""Kinds of flits by their names."""
CONTROL_KINDS = tuple(KINDS[name] for name in ("DOWN", "INIT", "UP", "FAULT"))
"""Kinds of the flits that carry no data."""
_DOWN, _INIT, _UP, _ = CONTROL_KINDS


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
        self._state, self._timer, self._answer = _DOWN, 0, False

    @property
    def up(self) -> bool:
        """Data may come."""
        return self._state == _UP

    @property
    def open(self) -> bool:
        """Data may be sent: the other end has received that this one is up."""
        return self.up and self._timer >= PERIOD_CYCLES

    def fall(self) -> None:
        """Go down."""
        self._used |= self._state != _DOWN
        self._state, self._timer, self._answer = _DOWN, 0, False

    def receive(self, kind: int, epoch: int, payload: int) -> None:
        """Take a control flit."""
        echoed = payload & 3 == self.epoch | 2
        if kind == _DOWN:
            self.peer_epoch, self._knows = epoch, True
        if self.up:
            self._answer |= kind == _INIT
            if kind == _DOWN:
                self.fall()
        elif self._used:
            if echoed:
                self.epoch, self._used, self._timer = self.epoch ^ 1, False, 0
        elif kind == _DOWN:
            if self._state == _DOWN:
                self._state, self._timer = _INIT, 0
        elif echoed and (kind == _INIT or self._state == _INIT):
            self._state, self._timer, self._answer = _UP, 0, True
            self.peer_epoch, self._knows = epoch, True

    def step(self) -> tuple[int, int] | None:
        """Kind and payload of the control flit to send in this cycle, or None."""
        due = self._answer if self.up else self._timer % PERIOD_CYCLES == 0
        self._timer += 1
        self._answer = False
        return (self._state, self.peer_epoch | self._knows << 1) if due else None
