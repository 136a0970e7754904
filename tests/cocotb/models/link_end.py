"""The other end of one port's link: a driver and a monitor that live by its rules."""

import zlib
from collections import deque

from multitree.hw.link.link import Kind
from multitree.nic.layouts import head_layout
from tests.cocotb.models.link_handshake import CONTROL_KINDS, Handshake
from tests.cocotb.models.stalls import Stall

__all__ = ["LinkEnd", "frame"]

_NUMBERS = 8
_FIELDS = ("kind", "vc", "sequence", "epoch", "check", "payload")
_LAST_KINDS = (Kind.TAIL.value, Kind.SINGLE.value)
_FIRST_KINDS = (Kind.HEAD.value, Kind.SINGLE.value)


def frame(config, op, flow, flits, *, sequence, packets, **changes):
    """Flits of a message as (kind, payload): one head, or one per packet.

    Parameters
    ----------
    config : Config
    op, flow, sequence : int
        What the head says.
    flits : uint8 array, shape (num_flits, flit_bytes)
        The chunk.
    packets : bool
        A head before each sub-message.
    **changes : int
        Other fields of the head that are not as they should be.
    """
    layout = head_layout(config)
    values = {"flow": flow, "wave": 0, "op": op, "continued": 0, "reserved": 0}
    values |= {"sequence": sequence, "size": len(flits)} | changes

    def head(**more):
        return layout.const(values | more).as_value().value

    if not len(flits):
        return [(Kind.SINGLE.value, head())]
    framed = []
    step = config.submessage_flits if packets else len(flits)
    for first in range(0, len(flits), step):
        framed.append((Kind.HEAD.value, head(**({"continued": 1} if first else {}))))
        for flit in flits[first : first + step]:
            framed.append((Kind.BODY.value, int.from_bytes(flit.tobytes(), "little")))
        framed[-1] = (Kind.TAIL.value, framed[-1][1])
    return framed


class _RunningCheck:
    """The CRC of a message as it goes by, and whether a flit has to carry it."""

    def __init__(self, config):
        self._config = config
        self._crc = self._place = 0

    def next(self, kind, payload):
        """The `check` of the next flit."""
        first = kind in _FIRST_KINDS or kind in CONTROL_KINDS
        content = payload.to_bytes(self._config.flit_bytes, "little") + bytes([kind])
        crc = zlib.crc32(content, 0 if first else self._crc)
        if kind in CONTROL_KINDS:
            return crc
        self._crc = crc
        self._place = 0 if first else self._place + 1
        ends = self._place and self._place % self._config.submessage_flits == 0
        return crc if ends or kind in _LAST_KINDS else 0


class LinkEnd:
    """Sends flits as credits allow, takes what comes, and gives credits back when it likes.

    Parameters
    ----------
    dut : handle
        The interface.
    port : int
    config : Config
    rng : random.Random

    Attributes
    ----------
    to_send : deque of (kind, payload)
        Flits that wait to be sent.
    taken : deque of (kind, payload)
        Flits that came.
    received_fault, send_fault : deque of int
        Payloads of FAULT flits that came, and that are to be sent.
    tamper : callable or None
        Takes the number and the fields of the next flit to send, by name, and returns those that
        are put on the link, or None for nothing.
    """

    def __init__(self, dut, port, config, rng):
        self._config = config
        out, into = f"link_{port}_tx_", f"link_{port}_rx_"
        self._tx = {name: getattr(dut, out + name) for name in ("valid", *_FIELDS, "credit")}
        self._rx = {name: getattr(dut, into + name) for name in ("valid", *_FIELDS, "credit")}
        self.credit_stall, self.data_stall = Stall(rng), Stall(rng)
        self._driven = self._credited = 0
        for name in ("valid", *_FIELDS):
            self._rx[name].value = 0
        self._tx["credit"].value = 0
        self.handshake = Handshake()
        self.received_fault, self.send_fault = deque(), deque()
        self.clear()

    def clear(self):
        """As when the link comes up: nothing in flight, all credits here."""
        self.to_send, self.taken, self.tamper = deque(), deque(), None
        self.credits, self.owed = self._config.buffer_flits, 0
        self.num_sent = self.num_taken = 0
        self.extra_credits = 0
        self.ignores_credits = False
        self._sent_check = _RunningCheck(self._config)
        self._taken_check = _RunningCheck(self._config)

    def fall(self):
        """Go down, whatever is in flight."""
        self.handshake.fall()
        self.clear()

    def step(self):
        """One cycle, in its middle: outputs are settled, inputs are set for its end."""
        was_up = self.handshake.up
        self._take()
        control = self.handshake.step()
        if not control and self.handshake.open and self.send_fault:
            control = (Kind.FAULT.value, self.send_fault.popleft())
        if was_up != self.handshake.up:
            self.clear()
        self._give_credit()
        if self.handshake.up and self._rx["credit"].value:
            self.credits += 1
            assert self.credits <= self._config.buffer_flits, "a credit came that was not spent"
        if control:
            fields = self._fields(*control, sequence=0)
        elif self.handshake.open and self.to_send and self._may_send():
            fields = self._fields(*self.to_send.popleft(), sequence=self.num_sent % _NUMBERS)
            if self.tamper:
                fields = self.tamper(self.num_sent, fields)
            self.num_sent += 1
            self.credits -= 1
        else:
            fields = None
        for name, value in (fields or {}).items():
            self._rx[name].value = value
        if bool(fields) != self._driven:
            self._driven = bool(fields)
            self._rx["valid"].value = int(self._driven)

    def _may_send(self):
        return (self.credits > 0 or self.ignores_credits) and not self.data_stall.held()

    def _fields(self, kind, payload, *, sequence):
        """All that goes with a flit."""
        return {
            "kind": kind,
            "vc": 0,
            "sequence": sequence,
            "epoch": self.handshake.epoch,
            "check": self._sent_check.next(kind, payload),
            "payload": payload,
        }

    def _take(self):
        if not self._tx["valid"].value:
            return
        flit = {name: int(self._tx[name].value) for name in _FIELDS}
        kind, payload = flit["kind"], flit["payload"]
        if kind in CONTROL_KINDS:
            assert flit["check"] == self._taken_check.next(kind, payload)
            assert (flit["sequence"], flit["vc"]) == (0, 0)
            if kind == Kind.FAULT.value:
                self.received_fault.append(payload)
            else:
                self.handshake.hear(Kind(kind), flit["epoch"], payload)
            return
        if not self.handshake.up:
            return
        assert self.owed < self._config.buffer_flits, "a flit was sent without a credit"
        assert flit["sequence"] == self.num_taken % _NUMBERS
        assert (flit["vc"], flit["epoch"]) == (0, self.handshake.peer_epoch)
        assert flit["check"] == self._taken_check.next(kind, payload), "a CRC is wrong"
        self.taken.append((kind, payload))
        self.num_taken += 1
        self.owed += 1

    def _give_credit(self):
        gives = self.extra_credits > 0 or (self.owed > 0 and not self.credit_stall.held())
        if gives and self.extra_credits:
            self.extra_credits -= 1
        elif gives:
            self.owed -= 1
        if gives != self._credited:
            self._tx["credit"].value = int(gives)
            self._credited = gives
