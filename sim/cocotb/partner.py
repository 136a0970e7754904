"""The network around an interface: sends what it expects, checks what it sends."""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from multitree.nic.driver.config import Config
from multitree.nic.driver.formats import sequence_width
from multitree.sim.cocotb.link_end import KINDS, Flit, LinkEnd
from multitree.sim.cocotb.reference import Collective, Message, message_of
from multitree.topology.collectives import Op

__all__ = ["LinkPartner", "PartnerNetwork"]

_LAST = (KINDS["TAIL"], KINDS["SINGLE"])
_LATEST_CYCLES = 300


class LinkPartner:
    """Neighbour on one port: plays one collective after the other, as far ahead as it can.

    REDUCE messages go in the order of `Collective.incoming`, GATHERs when the message that they
    answer has come; the next of them is drawn. The next collective begins when all of this one is
    sent and received, whether the interface is done with it or not.

    Parameters
    ----------
    end : LinkEnd
    port : int
    collectives : list of Collective
        Played in order; it may grow.
    rng : random.Random
    first_sequence : int
        Number of the first collective in heads.

    Attributes
    ----------
    at : int
        Current collective, -1 before the first one.
    message : Message or None
        The last one that was sent.
    tamper : callable or None
        Takes a message and its flits and returns those that are sent.
    on_send : callable or None
        Takes each message that is sent and its collective's number.
    """

    def __init__(
        self,
        end: LinkEnd,
        port: int,
        collectives: Sequence[Collective],
        rng: random.Random,
        first_sequence: int = 0,
    ) -> None:
        self.end, self._port, self._collectives, self._rng = end, port, collectives, rng
        self._config: Config = end.config
        self._first_sequence = first_sequence
        self._coming: dict[int, list[Flit]] = {}
        self._wait = 0
        self.at = -1
        self.message: Message | None = None
        self.tamper: Callable[[Message, list[Flit]], list[Flit]] | None = None
        self.on_send: Callable[[Message, int], None] | None = None
        self._reduces: list[Message] = []
        self._gathers: list[Message] = []
        self._expected: set[Message] = set()

    def step(self) -> None:
        """Check the received flits, then choose what to send."""
        while self.end.taken:
            self._take(*self.end.taken.popleft())
        if self._wait:
            self._wait -= 1
        else:
            self._choose()

    @property
    def idle(self) -> bool:
        """True if all collectives are sent and received and all credits are back."""
        sent = not any(map(self.end.waiting, range(self._config.num_vcs)))
        over = self._over and self.at == len(self._collectives) - 1
        return over and sent and not self.end.spent

    @property
    def missing(self) -> str:
        """Pending messages, flits or credits of the current collective, in words."""
        if self._expected:
            messages, first = len(self._expected), min(self._expected)
            return f"{self.end.prefix}tx: {messages} messages are to come, first {first}"
        flits = sum(map(self.end.waiting, range(self._config.num_vcs)))
        messages = len(self._reduces) + len(self._gathers)
        if not flits + messages:
            return f"{self.end.prefix}rx_credit: {self.end.spent} credits have not come back"
        return f"{self.end.prefix}rx: {flits} flits and {messages} more messages are to go"

    @property
    def _over(self) -> bool:
        return not (self._reduces or self._gathers or self._expected)

    def _choose(self) -> None:
        """Send the next message, or begin the next collective."""
        if self._over:
            if self.at < len(self._collectives) - 1:
                self._begin()
            return
        now = self._collectives[self.at]
        # A flow's waves in order.
        first = {m._replace(wave=0): m for m in reversed(self._gathers)}.values()
        ready = [m for m in first if now.replies.get(m) not in self._expected]
        ready += self._reduces[:1]
        # Flits of two messages must not mix on a channel.
        free = [m for m in ready if not self.end.waiting(self._channel(m))]
        if free:
            message = self._rng.choice(free)
            (self._reduces if message.op == Op.REDUCE else self._gathers).remove(message)
            self.send(message)

    def _channel(self, message: Message) -> int:
        now = self._collectives[self.at]
        return now.channel(message, self._sequence(now), self._config)

    def send(self, message: Message, **changes: int) -> None:
        """Send a message of the current collective; `changes` are wrong values in its head."""
        now = self._collectives[self.at]
        flits = now.framed(message, self._sequence(now), self._config, **changes)
        if self.tamper:
            flits = self.tamper(message, flits)
        self.message = message
        self.end.send(flits, self._channel(message))
        if self.on_send:
            self.on_send(message, now.number)

    def _sequence(self, now: Collective) -> int:
        """Number of a collective as heads have it."""
        return (self._first_sequence + now.number) % (1 << sequence_width(self._config))

    def _begin(self) -> None:
        """Sort the messages of the next collective at this port."""
        self.at += 1
        now = self._collectives[self.at]
        mine = [message for message in now.incoming if message.port == self._port]
        self._reduces = [message for message in mine if message.op == Op.REDUCE]
        self._gathers = [message for message in mine if message.op == Op.GATHER]
        self._expected = {message for message in now.outgoing if message.port == self._port}
        # Ahead of the others, with them or late.
        self._wait = self._rng.choice((0, 0, self._rng.randrange(_LATEST_CYCLES)))

    def _take(self, vc: int, kind: int, payload: int) -> None:
        """Collect the flits of a message, and compare it whole with the expected one."""
        came = self._coming.setdefault(vc, [])
        came.append((kind, payload))
        if kind not in _LAST:
            return
        where = f"{self.end.prefix}tx"
        message, sequence = message_of(self._config, self._port, came[0][1])
        # The interface may begin the next collective before this partner does.
        while self._over and sequence != self._sequence(self._collectives[self.at]):
            assert self.at < len(self._collectives) - 1, (
                f"{where}: {message} is of no collective, its sequence is {sequence}"
            )
            self._begin()
        now = self._collectives[self.at]
        assert message in self._expected, f"{where}: {message} was not to come now"
        right = now.framed(message, self._sequence(now), self._config)
        for place, (wanted, found) in enumerate(zip(right, came, strict=False)):
            assert wanted == found, (
                f"{where}: flit {place} of {message} is {found[1]:#x} (kind {found[0]}) "
                f"instead of {wanted[1]:#x} (kind {wanted[0]})"
            )
        channel = self._channel(message)
        assert vc == channel, f"{where}: {message} is on channel {vc}, not {channel}"
        if len(came) == len(right):
            self._expected.remove(message)
            self._coming[vc] = []


class PartnerNetwork:
    """Rest of the network around one interface: link ends, and the partners that drive them.

    Parameters
    ----------
    dut : handle
        The design.
    config : Config
        Of the interface.
    rng : random.Random
    prefix : str
        Of the interface's pins; ``link_0_`` and so on follow.
    ports : iterable of int, optional
        Ports with a link; all by default.
    """

    def __init__(
        self,
        dut: Any,
        config: Config,
        rng: random.Random,
        *,
        prefix: str = "",
        ports: Iterable[int] | None = None,
    ) -> None:
        self._rng = rng
        numbers = range(config.num_ports) if ports is None else ports
        self.ends = {port: LinkEnd(dut, f"{prefix}link_{port}_", config, rng) for port in numbers}
        self.collectives: list[Collective] = []
        self.partners: list[LinkPartner] = []
        self.meet()

    def meet(self, first_sequence: int = 0) -> None:
        """Forget all collectives; the next one has that number."""
        self.collectives = []
        self.partners = [
            LinkPartner(end, port, self.collectives, self._rng, first_sequence)
            for port, end in self.ends.items()
        ]

    def play(self, collective: Collective) -> None:
        """Play a collective after the ones before."""
        self.collectives.append(collective)

    def step(self) -> None:
        """Step in the middle of a cycle."""
        for end in self.ends.values():
            end.step()
        for partner in self.partners:
            partner.step()

    @property
    def up(self) -> bool:
        """True if all links are open."""
        return not self.down

    @property
    def idle(self) -> bool:
        """True if nothing is left to send or to receive."""
        return all(partner.idle for partner in self.partners)

    @property
    def down(self) -> list[str]:
        """Links that are not open."""
        return [end.prefix.rstrip("_") for end in self.ends.values() if not end.session.open]

    @property
    def missing(self) -> str:
        """Pending messages of all partners, in words."""
        return "; ".join(partner.missing for partner in self.partners if not partner.idle)
