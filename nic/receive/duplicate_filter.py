"""Which messages may come in on a port, and which have, each only once."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from multitree.hw.check_bits import check_of, is_intact
from multitree.hw.codes import check_width
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import FaultCode
from multitree.nic.driver.formats import OP_GATHER
from multitree.nic.layouts import FLOW_ENTRY

__all__ = ["DuplicateFilter", "Expectation", "refusal"]


def refusal(m, lookup, expectation, duplicates, stale, wrong_size):
    """What is wrong with a message, a `FaultCode` or 0, in the cycle in which its flow's entry is
    valid. `stale`: the collective was over while the entry was looked up; `wrong_size`: the head
    says another size than the entry.
    """
    code = Signal(8, name="refusal")
    # Check bits first: an entry or a mark that flipped says nothing of the message.
    for wrong, name in (
        (wrong_size, FaultCode.LENGTH),
        (duplicates.seen, FaultCode.DUPLICATE_MESSAGE),
        (~expectation.expected | duplicates.early, FaultCode.UNEXPECTED_MESSAGE),
        (stale, FaultCode.STALE_SEQUENCE),
        (~duplicates.intact, FaultCode.STATE_PARITY),
        (~lookup.intact, FaultCode.TABLE_PARITY),
    ):
        # Later assignments win.
        with m.If(wrong):
            m.d.comb += code.eq(name)
    return code


class Expectation(wiring.Component):
    """Holds a head against the flow memory's entry: is it expected here, and after whom?

    Combinational. A REDUCE is expected on a port that is among the flow's children, after the
    child before it in the order of summation; a GATHER on the flow's parent port. A head without
    payload is expected exactly for a flow of size 0.

    Members
    -------
    port : In(4)
        The port the message came in on.
    entry : In(FLOW_ENTRY)
        The flow's entry.
    op, single : In(1)
        Of the head.
    expected : Out(1)
        The message may come in on this port.
    after, sibling : Out(1), Out(4)
        It has to wait for a sibling; the port that one comes in on.
    """

    def __init__(self):
        super().__init__(
            {
                "port": In(4),
                "entry": In(FLOW_ENTRY),
                "op": In(1),
                "single": In(1),
                "expected": Out(1),
                "after": Out(1),
                "sibling": Out(4),
            }
        )

    def elaborate(self, platform):
        m = Module()
        children = self.entry.children
        is_child = Cat(children[k] == self.port for k in range(8))
        with m.If(self.op == OP_GATHER):
            m.d.comb += self.expected.eq(
                (self.entry.parent == self.port) & (self.single == (self.entry.size == 0))
            )
        with m.Else():
            m.d.comb += [
                self.expected.eq(is_child.any() & (self.single == (self.entry.size == 0))),
                self.after.eq(is_child[1:].any()),
            ]
        # At most one condition holds: the checker lets no port be a child twice.
        for k in range(1, 8):
            with m.If(is_child[k]):
                m.d.comb += self.sibling.eq(children[k - 1])
        return m


class DuplicateFilter(wiring.Component):
    """Remembers every message that a port has admitted, so that none is admitted twice.

    Per flow and op: that a message came, the lowest bit of the number of the collective that it
    came in, and its wave, each of which must come behind the one before it. An answer takes two
    cycles, since memories are slow; a mark is seen by what is asked from the next cycle on, and
    must not be asked for in the cycle in which it is set. A mark is stored with check bits.

    Members
    -------
    bank : In(1)
        The bank in use.
    clear : In(1)
        Begin to clear the other bank: over after `2 * num_flows` cycles, in which `bank` must
        stay, whatever is marked.
    op, flow : In(1), In(16)
        Of the message asked for, or marked.
    phase, wave : In(1), In(wave_width)
        Lowest bit of its collective's number, and its wave; a cycle before an answer, with a mark.
    seen, early : Out(1)
        The message asked for two cycles before has come in this collective; one of an earlier wave
        has not come yet.
    intact : Out(1)
        What is known of that message is as it was written.
    mark : In(1)
        The message has come.
    """

    def __init__(self, config: Config):
        self._num_marks, self._wave_width = 2 * config.num_flows, config.wave_width
        self.config = config
        super().__init__(
            {
                "bank": In(1),
                "clear": In(1),
                "op": In(1),
                "flow": In(16),
                "phase": In(1),
                "wave": In(config.wave_width),
                "seen": Out(1),
                "early": Out(1),
                "intact": Out(1),
                "mark": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        # A mark of the collective before is none. That is sound because a collective only ends when
        # every expected message is in, so that no mark of an expected message is ever two
        # collectives old; another table's marks are kept in another bank, which is cleared before
        # that table may run. A memory per bank, so that a sweep and a mark never meet.
        # No busy flag: the tracker clears as many counts from the same cycle on, and a swap waits
        # for the tracker.
        sweep, sweeping = Signal(ceil_log2(self._num_marks)), Signal()
        # It stands still in between, so that nothing changes while nothing happens.
        m.d.sync += sweep.eq(Mux(self.clear, 0, sweep + sweeping))
        with m.If(self.clear):
            m.d.sync += sweeping.eq(1)
        with m.Elif(sweep == self._num_marks - 1):
            m.d.sync += sweeping.eq(0)
        place, size = Cat(self.op, self.flow), 2 + self._wave_width
        stored = size + check_width(size)
        for number in range(2):
            # A mark is not asked for in the cycle in which it is set: no logic for that case.
            attrs = {"no_rw_check": 1}
            marks = Memory(shape=stored, depth=self._num_marks, init=[], attrs=attrs)
            m.submodules[f"marks_{number}"] = marks
            write, read = marks.write_port(), marks.read_port()
            used = self.bank == number
            known = Mux(used, Cat(self.phase, 1, self.wave), 0)
            m.d.comb += [
                read.addr.eq(place),
                write.en.eq(Mux(used, self.mark, sweeping)),
                write.addr.eq(Mux(used, place, sweep)),
                write.data.eq(Cat(known, check_of(known))),
            ]
            with m.If(used):
                came = read.data[:2] == Cat(self.phase, 1)
                m.d.sync += self.intact.eq(is_intact(read.data[:size], read.data[size:]))
                if not self._wave_width:
                    m.d.sync += self.seen.eq(came)
                    continue
                last = read.data[2:size]
                m.d.sync += self.seen.eq(came & (self.wave <= last))
                # Waves come one by one: wave 0 first, then the one behind the last.
                m.d.sync += self.early.eq(self.wave > Mux(came, last + 1, 0))
        return m
