"""An output of a switch: who has its channels, and whose flit goes next."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.arbiter import AGE, Ages, OldestFirst
from multitree.hw.codes import check_integer, vc_width
from multitree.hw.link.link import Kind, check_num_vcs, unit_layout, vc_unit_layout
from multitree.hw.twins import with_twins

__all__ = ["SwitchOutput"]


class SwitchOutput(wiring.Component):
    """Gives each virtual channel to one message at a time, and the link to one flit at a time.

    The inputs are the virtual channels of the other ports, port by port. A channel that is free, or
    whose message's tail leaves in this cycle, is granted to the oldest of the heads that ask for
    it, in turns among equals; its message has it until its tail left or it ends without one. Of the
    channels that have a flit, and a credit for it, the one with the oldest message has the link,
    in turns among equals: no channel waits for another one's credits or flits.

    Combinational from the inputs to `granted`, `taken`, `take` and `flit`; a message that is
    granted a channel has it from the next cycle on. One flit per cycle.

    Parameters
    ----------
    num_inputs : int
        Virtual channels of the other ports together.
    num_vcs : int
        Virtual channels of every port, even: they go from even to even and from odd to odd.
    flit_bytes : int
        Bytes of a flit's payload.
    has_twins : bool
        Its registers have twins (`hw.twins`).

    Members
    -------
    requests : In(num_vcs), one per input
        Which channel its head asks for, if it has one that waits.
    older, ages : In(num_inputs), In(AGE), one per input
        While its head asks: the inputs whose heads are older, and its age.
    granted : Out(num_inputs)
        Strobe per input: its message has the channel from the next cycle on.
    valid, flits, taken : In(num_inputs), In(StructLayout) one per input, Out(num_inputs)
        Per input: it offers a flit of its message, `kind` and `payload`; that is taken.
    drops : In(num_inputs)
        Strobe per input: its message ends without a tail.
    gone : In(1)
        The link is lost: every message ends.
    may_send : In(num_vcs)
        Per channel: the transmitter takes a flit.
    take, flit : Out(1), Out(StructLayout)
        Here is one: `kind`, `vc` and `payload`.
    state_error : Out(1)
        Bits of its registers have flipped.
    """

    def __init__(self, *, num_inputs: int, num_vcs: int, flit_bytes: int, has_twins: bool = False):
        check_integer("Inputs", num_inputs, least=1)
        self.num_vcs = check_num_vcs(num_vcs, least=2)
        if num_vcs % 2:
            raise ValueError(f"VCs must be an even number, not {num_vcs!r}")
        if num_inputs % num_vcs:
            raise ValueError(f"Inputs must be a multiple of {num_vcs}, not {num_inputs!r}")
        self.num_inputs = num_inputs
        self.flit_bytes, self.has_twins = flit_bytes, has_twins
        super().__init__(
            {
                "requests": In(num_vcs).array(num_inputs),
                "older": In(num_inputs).array(num_inputs),
                "ages": In(AGE).array(num_inputs),
                "granted": Out(num_inputs),
                "valid": In(num_inputs),
                "flits": In(unit_layout(flit_bytes=flit_bytes)).array(num_inputs),
                "taken": Out(num_inputs),
                "drops": In(num_inputs),
                "gone": In(1),
                "may_send": In(num_vcs),
                "take": Out(1),
                "flit": Out(vc_unit_layout(flit_bytes=flit_bytes, num_vcs=num_vcs)),
                "state_error": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.link = link = OldestFirst(count=self.num_vcs)
        m.submodules.ages = ages = Ages(count=self.num_vcs)
        goes, ends = Signal(self.num_vcs), Signal()
        held = [self._channel(m, vc, goes[vc], ends, link, ages) for vc in range(self.num_vcs)]
        for older, messages in zip(link.older, ages.older, strict=True):
            m.d.comb += older.eq(messages)
        vc = Signal(vc_width(self.num_vcs))
        source = Signal(range(self.num_inputs))
        m.d.comb += [link.advance.eq(1), vc.eq(link.grant), self.take.eq(link.valid)]
        with m.Switch(vc):
            for number, holder in enumerate(held):
                with m.Case(number):
                    # Inputs and channels of one parity: their numbers are the even or odd ones.
                    m.d.comb += source.eq(Cat(vc[0], holder))
        chosen = Signal(self.flits[0].shape())
        with m.Switch(source):
            for number, flit in enumerate(self.flits):
                with m.Case(number):
                    m.d.comb += chosen.eq(flit)
        m.d.comb += [
            goes.eq(Mux(link.valid, 1 << link.grant, 0)),
            ends.eq((chosen.kind == Kind.TAIL) | (chosen.kind == Kind.SINGLE)),
            self.taken.eq(Mux(link.valid, 1 << source, 0)),
            self.flit.kind.eq(chosen.kind),
            self.flit.vc.eq(vc),
            self.flit.payload.eq(chosen.payload),
        ]
        return with_twins(m, platform, self.state_error) if self.has_twins else m

    def _channel(self, m, vc, goes, ends, link, ages):
        """One channel: who has it, among the inputs of its parity, and whether that can send."""
        inputs = range(vc % 2, self.num_inputs, 2)
        allocator = OldestFirst(count=len(inputs))
        m.submodules[f"allocator_{vc}"] = allocator
        busy, free, drops = Signal(name=f"busy_{vc}"), Signal(), Signal()
        holder = Signal(range(len(inputs)), name=f"holder_{vc}")
        m.d.comb += [
            allocator.requests.eq(Cat(self.requests[number][vc] for number in inputs)),
            drops.eq(Cat(self.drops[number] for number in inputs).bit_select(holder, 1)),
            # Free already while the tail leaves: no cycle is lost between two messages.
            free.eq(~busy | (goes & ends)),
            allocator.advance.eq(free & ~self.gone),
            link.requests[vc].eq(
                busy
                & self.may_send[vc]
                & ~self.gone
                & Cat(self.valid[number] for number in inputs).bit_select(holder, 1)
            ),
        ]
        for place, number in enumerate(inputs):
            older = Cat(self.older[number][other] for other in inputs)
            m.d.comb += allocator.older[place].eq(older)
            with m.If(allocator.valid & allocator.advance & (allocator.grant == place)):
                m.d.comb += self.granted[number].eq(1)
                # The head leaves first, but the link is arbitrated by age up to the tail.
                m.d.sync += ages.ages[vc].eq(self.ages[number])
        # A grant goes before the release: in the cycle of a tail the channel only changes hands.
        with m.If(allocator.valid & allocator.advance):
            m.d.sync += [busy.eq(1), holder.eq(allocator.grant)]
        with m.Elif(free | drops | self.gone):
            m.d.sync += busy.eq(0)
        return holder
