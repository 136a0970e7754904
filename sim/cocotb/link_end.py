"""The other end of a port's link: sends flits, takes flits, checks the rules."""

import random
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from multitree.hw.codes import PERIOD_CYCLES, Kind
from multitree.nic.driver.config import Config
from multitree.sim.cocotb.case import Stall
from multitree.sim.cocotb.pins import Pins

__all__ = ["CONTROL_KINDS", "KINDS", "LINK_FAULTS", "Flit", "LinkEnd", "LinkSessionModel"]

KINDS: dict[str, int] = {kind.name: kind.value for kind in Kind}
"""Kinds of flits by their names."""
CONTROL_KINDS = tuple(KINDS[name] for name in ("DOWN", "INIT", "UP", "FAULT"))
"""Kinds of the flits that carry no data."""
_DOWN, _INIT, _UP, _ = CONTROL_KINDS

Flit = tuple[int, int]
"""Kind and payload."""
Fields = dict[str, int]
Tamper = Callable[[int, Fields], Fields | None]

LINK_FAULTS = ("loss", "double", "payload", "check", "sequence", "epoch", "channel")
"""What `LinkEnd.inject` does to a flit: it is lost, comes twice, or a field of it is wrong."""
_NUMBERS = 8
_FIELDS = ("kind", "vc", "sequence", "epoch", "check", "payload")
_FIRST = (KINDS["HEAD"], KINDS["SINGLE"])
_LAST = (KINDS["TAIL"], KINDS["SINGLE"])


class LinkSessionModel:
    """One end of the three-way handshake: DOWN, INIT, UP, as in `hw.link.port`.

    `epoch` is this end's; `peer_epoch` the other one's as last received, 0 before that. After a
    session an end changes its epoch once the other end has returned it.
    """

    def __init__(self) -> None:
        self.epoch = self.peer_epoch = 0
        self._knows = self._used = False
        self._state, self._timer, self._answer = _DOWN, 0, False

    @property
    def up(self) -> bool:
        return self._state == _UP

    @property
    def open(self) -> bool:
        """True if data may be sent: the other end has received that this one is up."""
        return self.up and self._timer >= PERIOD_CYCLES

    def fall(self) -> None:
        self._used |= self._state != _DOWN
        self._state, self._timer, self._answer = _DOWN, 0, False

    def receive(self, kind: int, epoch: int, payload: int) -> None:
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
        """Kind and payload of the control flit of this cycle, or None."""
        due = self._answer if self.up else self._timer % PERIOD_CYCLES == 0
        self._timer += 1
        self._answer = False
        return (self._state, self.peer_epoch | self._knows << 1) if due else None


class _RunningCheck:
    """CRC of a channel's current message, carried by the last flit of each sub-message."""

    def __init__(self, config: Config, vc: int) -> None:
        self._flit_bytes, self._vc = config.flit_bytes, vc
        self._submessage_flits = config.submessage_flits
        self._crc = self._place = 0

    def next(self, kind: int, payload: int) -> int:
        """Field `check` of the next flit."""
        first = kind in _FIRST or kind in CONTROL_KINDS
        content = payload.to_bytes(self._flit_bytes, "little") + bytes([kind | self._vc << 3])
        crc = zlib.crc32(content, 0 if first else self._crc)
        if kind in CONTROL_KINDS:
            return crc
        self._crc = crc
        self._place = 0 if first else self._place + 1
        ends = self._place and self._place % self._submessage_flits == 0
        return crc if ends or kind in _LAST else 0


class LinkEnd:
    """Other end of a port's link: sends as credits allow, takes flits, and returns credits.

    It comes up with the design's end, falls and comes up again, and asserts the rules of the link
    for all that the design sends: credits, numbers, epochs, channels and CRCs.

    Parameters
    ----------
    dut : handle
        The design.
    prefix : str
        Of the port's pins, such as ``link_0_``; ``tx_`` and ``rx_`` follow.
    config : Config
        Of the interface.
    rng : random.Random, optional
        Draws the stalls and the next channel.

    Attributes
    ----------
    taken : deque of (int, int, int)
        Channel, kind and payload of received flits.
    received_fault, send_fault : deque of int
        Payloads of FAULT flits received and to be sent.
    data_stall, credit_stall : Stall
        Of flits and of credits.
    tamper : callable or None
        Takes number and fields of the next flit to send, and returns the fields to put on the link,
        or None to lose it.
    """

    def __init__(
        self, dut: Any, prefix: str, config: Config, rng: random.Random | None = None
    ) -> None:
        rng = random.Random(0) if rng is None else rng
        self.config, self.prefix, self._rng = config, prefix, rng
        self._tx = Pins(dut, f"{prefix}tx_", outputs=("valid", *_FIELDS), inputs=("credit",))
        self._rx = Pins(dut, f"{prefix}rx_", outputs=("credit",), inputs=("valid", *_FIELDS))
        self.credit_stall, self.data_stall = Stall(rng), Stall(rng)
        self.session = LinkSessionModel()
        self.received_fault: deque[int] = deque()
        self.send_fault: deque[int] = deque()
        self.clear()

    def clear(self) -> None:
        """Set the state of a link that has just come up: nothing in flight, all credits here."""
        channels = range(self.config.num_vcs)
        self._to_send: list[deque[Flit]] = [deque() for _ in channels]
        self.taken: deque[tuple[int, int, int]] = deque()
        self.tamper: Tamper | None = None
        self._again: Fields | None = None
        self.credits = [self.config.buffer_flits for _ in channels]
        self.owed = [0 for _ in channels]
        self.num_sent = self.num_taken = 0
        self.extra_credits = 0
        self.ignores_credits = False
        self._sent_check = [_RunningCheck(self.config, vc) for vc in channels]
        self._taken_check = [_RunningCheck(self.config, vc) for vc in channels]

    def send(self, flits: Iterable[Flit], vc: int = 0) -> None:
        """Queue flits on a channel."""
        self._to_send[vc].extend(flits)

    def waiting(self, vc: int = 0) -> int:
        """Flits of a channel that are not sent yet."""
        return len(self._to_send[vc])

    @property
    def spent(self) -> int:
        """Credits of all channels that the design has not returned."""
        return len(self.credits) * self.config.buffer_flits - sum(self.credits)

    def drop(self) -> None:
        """Forget all queued flits."""
        for queue in self._to_send:
            queue.clear()

    def inject(self, fault: str, number: int) -> None:
        """Inject one of the `LINK_FAULTS` into a flit to send, else ValueError.

        `number` counts flits since the link came up; a wrong CRC strikes the first flit with one
        from there on.
        """
        if fault not in LINK_FAULTS:
            known = ", ".join(LINK_FAULTS)
            raise ValueError(f"Fault of a link must be one of {known}, not {fault!r}")
        self.tamper = partial(self._tampered, fault, number)

    def fall(self) -> None:
        """Go down, whatever is in flight."""
        self.session.fall()
        self.clear()

    def step(self) -> None:
        """Step in the middle of a cycle: outputs are settled, inputs are set for its end."""
        was_up = self.session.up
        self._take()
        control = self.session.step()
        if not control and self.session.open and self.send_fault:
            control = (KINDS["FAULT"], self.send_fault.popleft())
        if was_up != self.session.up:
            self.clear()
        self._give_credits()
        self._take_credits()
        fields = self._fields(*control, vc=0, sequence=0) if control else self._next()
        self._rx.drive(**(fields or {}), valid=int(bool(fields)))

    def _next(self) -> Fields | None:
        """Next flit on the link, or None."""
        # A flit that is to come twice.
        if self._again:
            fields, self._again = self._again, None
            return fields
        vc = self._ready_channel()
        if vc is None:
            return None
        number = self.num_sent
        flit = self._to_send[vc].popleft()
        fields = self._fields(*flit, vc=vc, sequence=number % _NUMBERS)
        self.num_sent += 1
        put = self.tamper(number, fields) if self.tamper else fields
        # The design gives the credit back on the channel that it sees.
        spent = vc if put is None or put["vc"] >= self.config.num_vcs else put["vc"]
        self.credits[spent] -= 1
        return put

    def _ready_channel(self) -> int | None:
        """A channel with a flit and a credit, or None, as when data are stalled."""
        if not self.session.open:
            return None
        ready = [
            vc
            for vc, queue in enumerate(self._to_send)
            if queue and (self.credits[vc] > 0 or self.ignores_credits)
        ]
        # The stall is asked only where a flit could go, so that it measures what was held up.
        if not ready or self.data_stall.held():
            return None
        return ready[0] if len(ready) == 1 else self._rng.choice(ready)

    def _fields(self, kind: int, payload: int, *, vc: int, sequence: int) -> Fields:
        return {
            "kind": kind,
            "vc": vc,
            "sequence": sequence,
            "epoch": self.session.epoch,
            "check": self._sent_check[vc].next(kind, payload),
            "payload": payload,
        }

    def _tampered(self, fault: str, number: int, at: int, fields: Fields) -> Fields | None:
        # Not every flit carries a CRC.
        if at < number or (fault == "check" and not fields["check"]):
            return fields
        self.tamper = None
        if fault == "loss":
            return None
        if fault == "double":
            self._again = fields
            return fields
        name = "vc" if fault == "channel" else fault
        return fields | {name: fields[name] ^ 1}

    def _take(self) -> None:
        if not self._tx.high("valid"):
            return
        flit = {name: self._tx.number(name) for name in _FIELDS}
        kind, payload, vc = flit["kind"], flit["payload"], flit["vc"]
        place = f"{self.prefix}tx, flit {self.num_taken}"
        if kind in CONTROL_KINDS:
            wanted = {"check": self._taken_check[0].next(kind, payload), "sequence": 0, "vc": 0}
            _check(place, wanted, flit)
            if kind == KINDS["FAULT"]:
                self.received_fault.append(payload)
            else:
                self.session.receive(kind, flit["epoch"], payload)
            return
        # Data of a session that is over mean nothing.
        if not self.session.up:
            return
        assert vc < self.config.num_vcs, f"{place}: there is no channel {vc}"
        wanted = {"sequence": self.num_taken % _NUMBERS, "epoch": self.session.peer_epoch}
        _check(place, wanted | {"check": self._taken_check[vc].next(kind, payload)}, flit)
        assert self.owed[vc] < self.config.buffer_flits, f"{place}: sent without a credit"
        self.taken.append((vc, kind, payload))
        self.num_taken += 1
        self.owed[vc] += 1

    def _take_credits(self) -> None:
        # Credits of a link that is not up mean nothing.
        given = self._rx.number("credit") if self.session.up else 0
        for vc in range(self.config.num_vcs) if given else ():
            self.credits[vc] += given >> vc & 1
            beyond = self.credits[vc] > self.config.buffer_flits
            assert not beyond, f"{self.prefix}rx_credit: a credit of channel {vc} was not spent"

    def _give_credits(self) -> None:
        """Return one credit on each channel that owes one, unless credits are stalled."""
        if self.extra_credits:
            # Credits that were never owed, which the design has to notice.
            self.extra_credits -= 1
            self._tx.drive(credit=1)
            return
        owed = [vc for vc, count in enumerate(self.owed) if count]
        given = [] if not owed or self.credit_stall.held() else owed
        for vc in given:
            self.owed[vc] -= 1
        self._tx.drive(credit=sum(1 << vc for vc in given))


def _check(place: str, wanted: Fields, flit: Fields) -> None:
    for name, value in wanted.items():
        assert flit[name] == value, f"{place}: {name} is {flit[name]:#x} instead of {value:#x}"
