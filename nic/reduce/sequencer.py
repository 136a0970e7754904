"""The sequencer: which contribution goes next into a sum, and which ones wait."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from multitree.hw.arbiter import RoundRobin
from multitree.hw.check_bits import Checked, check_of, is_intact
from multitree.hw.codes import LATE_MESSAGES, check_width
from multitree.hw.stream import Fifo
from multitree.nic.driver.config import Config
from multitree.nic.driver.formats import OP_GATHER, ORDER_WIDTH
from multitree.nic.layouts import CONTRIBUTION, mark_layout
from multitree.nic.signatures import ArrivalSignature, ReservationSignature, TurnSignature, Verdict

__all__ = ["ReductionSequencer"]

_NAME = ("op", "flow", "order")


def _state_layout(config: Config) -> data.StructLayout:
    """What is known of a flow in the collective whose number has this lowest bit."""
    return data.StructLayout(
        {
            "phase": 1,
            "gathered": 1,
            # One bit more than an order: behind the last contribution it is their number.
            "next": ORDER_WIDTH + 1,
            "locked": config.max_children,
            "staged": config.max_children,
        }
    )


class ReductionSequencer(wiring.Component):
    """Puts the contributions to each sum in order, whatever order they come in.

    A message claims its place before it goes to memory. A contribution that is next in its
    flow's order goes there directly. One all of whose predecessors have claimed theirs waits for
    its turn, which `turn` reports: they have all begun to come in, and none of them waits for it.
    Any other one is staged, so that receivers never wait for what may still be in flight. When a
    contribution is added and the one behind it is staged, that one is handed to
    `drains`, one of a flow at a time. Contributions without payload are only counted. A message
    that came before in this collective is refused.

    What is known of a flow carries the lowest bit of its collective's number, and reads as
    nothing in the next one; another table's flows are kept in another bank (`DuplicateFilter`).
    It is stored with check bits.

    Four cycles per claim and per message that is in; what is in goes before claims, at port 0,
    where staged ones come in again, before the other ports, which take turns. So a claim is
    answered within four cycles for each other port and for each message between its claim and
    memory.

    Members
    -------
    phase, bank : In(1)
        Lowest bit of the running collective's number; the bank in use.
    clear, clearing : In(1), Out(1)
        Begin to clear the other bank; that goes on, for `num_flows` cycles in which no message is
        judged and `bank` must stay.
    reservations : In(ReservationSignature), one per port
        Messages that come in.
    arrivals : In(ArrivalSignature), one per port
        Messages that are in memory, staged or not; not more than `memory_queue_flits` and two
        per virtual channel between claim and arrival at one port, and one more that was staged
        at port 0.
    drains : Out(stream)
        Staged contributions to add now (`CONTRIBUTION`); each ends in an arrival.
    turn : Out(TurnSignature)
        Strobe: all contributions before this one are added.
    staged, counted : Out(1)
        Strobe: a contribution is sent to its slot; a message has done what it came for.
    arrival : Out(ArrivalSignature)
        A flow's sum is complete here, or its result is in; flow and order are also those of
        what is counted.
    state_error : Out(1)
        Strobe: bits of a message that is in, or of what is known of a flow, have flipped.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "phase": In(1),
                "bank": In(1),
                "clear": In(1),
                "clearing": Out(1),
                "reservations": In(ReservationSignature()).array(config.num_ports),
                "arrivals": In(ArrivalSignature(config)).array(config.num_ports),
                "drains": Out(stream.Signature(CONTRIBUTION)),
                "turn": Out(TurnSignature()),
                "staged": Out(1),
                "counted": Out(1),
                "arrival": Out(ArrivalSignature(config)),
                "state_error": Out(1),
            }
        )

    def elaborate(self, platform):
        """One state machine: PICK what came, READ its flow's state, HOLD it, JUDGE."""
        m = Module()
        config = self.config
        waiting, turns, queue_error = self._queue_arrivals(m)
        event = Signal(mark_layout(config))
        is_reservation, asker = Signal(), Signal(range(config.num_ports))
        empty, last = Signal(), Signal(ORDER_WIDTH)
        size = _state_layout(config).size
        m.submodules.states = states = Memory(
            shape=size + check_width(size), depth=2 * config.num_flows, init=[]
        )
        write, read = states.write_port(), states.read_port()
        held = Signal(_state_layout(config), reset_less=True)
        raw = Signal(size + check_width(size), reset_less=True)
        judged, complete, judging = Signal(), Signal(), Signal()
        m.d.comb += read.addr.eq(Cat(self.bank, event.flow))
        # One event at a time: JUDGE writes two cycles before the next READ, which needs no bypass.
        with m.FSM():
            with m.State("PICK"):
                self._pick(m, waiting, turns, event, (is_reservation, asker, empty, last))
            with m.State("READ"):
                m.next = "HOLD"
            with m.State("HOLD"):
                fresh = data.View(_state_layout(config), read.data[:size])
                known = Mux(fresh.phase == self.phase, read.data[:size], 0)
                m.d.sync += raw.eq(read.data)
                m.d.sync += [held.eq(known), held.phase.eq(self.phase)]
                m.next = "JUDGE"
            with m.State("JUDGE"):
                after, drain, over = self._judge(m, event, is_reservation, held, empty)
                m.d.comb += [
                    self.drains.valid.eq(drain),
                    # Nothing is written until the reorder buffer takes the job.
                    judged.eq(~drain | self.drains.ready),
                    write.data.eq(Cat(after, check_of(after))),
                    judging.eq(1),
                    self.counted.eq(judged & over),
                    complete.eq(Mux(is_reservation, held.next == last, event.final)),
                    self.arrival.valid.eq(self.counted & ((event.op == OP_GATHER) | complete)),
                ]
                with m.If(judged):
                    m.d.comb += Cat(reservation.answered for reservation in self.reservations).eq(
                        is_reservation << asker
                    )
                    m.d.comb += self.staged.eq(self.reservations[0].verdict == Verdict.STAGED)
                    m.next = "PICK"
        m.d.comb += [
            self.arrival.op.eq(event.op),
            self.arrival.flow.eq(event.flow),
            self.arrival.order.eq(event.order),
            self.arrival.count.eq(1),
            self.arrival.last.eq(1),
        ]
        flipped = judging & ~is_intact(raw[:size], raw[size:])
        m.d.sync += self.state_error.eq(flipped | queue_error)
        self._sweep(m, write, event, judged)
        return m

    def _queue_arrivals(self, m):
        """Per port what is in and not judged yet; whose turn it is; that bits have flipped."""
        config = self.config
        m.submodules.turns = turns = RoundRobin(count=config.num_ports)
        queues, errors = [], []
        depth = config.memory_queue_flits + 2 * config.num_vcs + LATE_MESSAGES
        for port, arrival in enumerate(self.arrivals):
            queue = Checked(Fifo, shape=mark_layout(config), depth=depth)
            m.submodules[f"arrivals_{port}"] = queue
            queues.append(queue.o)
            errors.append(queue.state_error)
            m.d.comb += queue.i.valid.eq(arrival.valid)
            m.d.comb += [
                queue.i.payload[name].eq(getattr(arrival, name)) for name, _ in mark_layout(config)
            ]
            # Those of port 0 first: a message of another port may add one to them.
            first = ~queues[0].valid if port else 1
            m.d.comb += turns.requests[port].eq(queue.o.valid & first)
        return queues, turns, Cat(errors).any()

    def _pick(self, m, waiting, turns, event, of_reservation):
        """A message that is in, else one that claims its place."""
        is_reservation, asker, empty, last = of_reservation
        m.submodules.askers = askers = RoundRobin(count=self.config.num_ports)
        m.d.comb += Cat(askers.requests).eq(
            Cat(reservation.valid for reservation in self.reservations)
        )
        # Who asks keeps the turn while a message that is in goes first.
        m.d.comb += [turns.advance.eq(1), askers.advance.eq(~turns.valid)]
        m.d.sync += [is_reservation.eq(~turns.valid), asker.eq(askers.grant)]
        for port, (queue, reservation) in enumerate(zip(waiting, self.reservations, strict=True)):
            with m.If(turns.valid & (turns.grant == port)):
                m.d.comb += queue.ready.eq(1)
                m.d.sync += event.eq(queue.payload)
            with m.Elif(~turns.valid & (askers.grant == port)):
                m.d.sync += [event[name].eq(getattr(reservation, name)) for name in _NAME]
                m.d.sync += [empty.eq(reservation.empty), last.eq(reservation.last)]
        with m.If(turns.valid | askers.valid):
            m.next = "READ"

    def _judge(self, m, event, is_reservation, held, empty):
        """State of the flow after it, and whether a staged one is to go and this one is done. Every
        order is below `max_children`: the header lookup compares it with the flow's number of
        children, which the checker has bounded.
        """
        after, drain, over = Signal.like(held), Signal(), Signal()
        place = Signal(len(held.locked))
        all_before = (held.locked & (place - 1)) == (place - 1)
        following = Signal(ORDER_WIDTH + 1)
        verdict = Signal(Verdict)
        is_next = held.next == event.order
        twice = Mux(event.op == OP_GATHER, held.gathered, (held.locked & place).any())
        m.d.comb += [
            place.eq(1 << event.order),
            following.eq(event.order + 1),
            after.eq(held),
            self.turn.flow.eq(event.flow),
            self.turn.order.eq(following),
            self.drains.payload.flow.eq(event.flow),
            self.drains.payload.order.eq(Mux(event.staged, event.order, following)),
            verdict.eq(Verdict.DIRECT),
            over.eq(Mux(is_reservation, empty & ~twice, ~event.staged)),
        ]
        with m.If(is_reservation):
            with m.If(twice):
                m.d.comb += verdict.eq(Verdict.TWICE)
            with m.Elif(event.op == OP_GATHER):
                m.d.comb += after.gathered.eq(1)
            with m.Elif(empty):
                m.d.comb += [after.locked.eq(held.locked | place), after.next.eq(held.next + 1)]
            with m.Else():
                m.d.comb += after.locked.eq(held.locked | place)
                late = Mux(all_before, Verdict.WAITS, Verdict.STAGED)
                m.d.comb += verdict.eq(Mux(is_next, Verdict.DIRECT, late))
        with m.Elif(event.op != OP_GATHER):
            # A staged one is drained here if its turn came before it was in memory.
            with m.If(event.staged):
                m.d.comb += [drain.eq(is_next), after.staged.eq(held.staged | place)]
            with m.Else():
                behind = Cat(held.staged[1:], 0)
                m.d.comb += [after.next.eq(following), drain.eq((behind & place).any())]
                m.d.comb += self.turn.valid.eq(1)
        for reservation in self.reservations:
            m.d.comb += reservation.verdict.eq(verdict)
        return after, drain, over

    def _sweep(self, m, write, event, judged):
        """Write what was judged; else clear the other bank, place by place."""
        sweep = Signal(range(self.config.num_flows))
        with m.If(self.clear):
            m.d.sync += [self.clearing.eq(1), sweep.eq(0)]
        # There is one write port: the sweep waits for what was judged.
        with m.Elif(self.clearing & ~judged):
            m.d.sync += [
                sweep.eq(sweep + 1),
                self.clearing.eq(sweep != self.config.num_flows - 1),
            ]
        m.d.comb += [
            write.en.eq(judged | self.clearing),
            write.addr.eq(Cat(self.bank, event.flow)),
        ]
        with m.If(~judged):
            m.d.comb += [write.addr.eq(Cat(~self.bank, sweep)), write.data.eq(0)]
