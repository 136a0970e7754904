"""Signatures that the interface's blocks share: questions, reports, memory."""

from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.memory_channel import ReadChannelSignature, WriteChannelSignature
from multitree.nic.driver.config import Config
from multitree.nic.driver.formats import ORDER_WIDTH, sequence_width
from multitree.nic.layouts import FLOW_ENTRY, mark_layout

__all__ = [
    "ArrivalSignature",
    "LookupSignature",
    "MemoryReadSignature",
    "MemorySignature",
    "MemoryWriteSignature",
    "QuerySignature",
    "ReportSignature",
    "ReservationSignature",
    "RunSignature",
    "TurnSignature",
    "Verdict",
    "WaitSignature",
]


class Verdict(enum.Enum, shape=2):
    """Outcome of an incoming message's reservation."""

    DIRECT = 0
    STAGED = 1
    TWICE = 2
    WAITS = 3


class ReservationSignature(wiring.Signature):
    """Reservation of the place that an incoming message may go to.

    Members
    -------
    valid, op, flow, order : Out
        The question, held until answered.
    empty : Out(1)
        It has no payload: it is in with the answer.
    last : Out
        The place of the flow's last contribution.
    answered : In(1)
        Strobe.
    verdict : In(Verdict)
        The answer: add it to memory or write it over memory, stage it, refuse a repeated message
        of this collective, or let it wait for its turn, since all before it have begun to come
        in. Without payload anything but a refusal means it is in.
    """

    def __init__(self):
        super().__init__(
            {
                "valid": Out(1),
                "op": Out(1),
                "flow": Out(16),
                "order": Out(ORDER_WIDTH),
                "empty": Out(1),
                "last": Out(ORDER_WIDTH),
                "answered": In(1),
                "verdict": In(Verdict),
            }
        )


class TurnSignature(wiring.Signature):
    """Turn of a contribution, which may be added now.

    Members
    -------
    valid : Out(1)
        There is one.
    flow, order : Out
        Which one.
    """

    def __init__(self):
        super().__init__({"valid": Out(1), "flow": Out(16), "order": Out(ORDER_WIDTH)})


class RunSignature(wiring.Signature):
    """Collective that runs, driven by the control to every block.

    Members
    -------
    running : Out(1)
        A collective runs and there is no fault.
    faulted : Out(1)
        There is a fault: stop sending, keep sinking.
    sequence : Out(sequence_width(config))
        Number of the collective, modulo as many as there are.
    dtype : Out(2)
        `hw.lanes.DType` of the lanes.
    lockstep : Out(1)
        Rows wait for the step counter.
    cut_through : Out(1)
        A row waits for each sub-message that it needs, not for whole chunks.
    packets : Out(1)
        A head flit before every sub-message, not one per message.
    maximum : Out(1)
        Keep the larger one of two lanes instead of their sum.
    window_base : Out(address_width)
        First flit of the buffer in memory.
    window_flits : Out(address_width)
        Length of the buffer in flits.
    num_rows, num_flows : Out(17)
        Rows and flows in use.
    last_wave : Out(wave_width)
        Number of the last wave.
    last_run : Out(run_width)
        Number of the last run of the table: as many as waves, and one more for every stage.
    step_cycles : Out(32)
        Estimated serialisation time of a step in lockstep.
    bank : Out(1)
        The bank of tables, counts and marks in use.
    clear : Out(1)
        Begin to clear the marks of the other bank.
    header_only : Out(2)
        By op, on shared links: messages are heads without payload, whatever their chunk.
    """

    def __init__(self, config: Config):
        shared = {"header_only": Out(2)} if config.shared else {}
        super().__init__(
            {
                "running": Out(1),
                "faulted": Out(1),
                "sequence": Out(sequence_width(config)),
                "dtype": Out(2),
                "lockstep": Out(1),
                "cut_through": Out(1),
                "packets": Out(1),
                "maximum": Out(1),
                "window_base": Out(config.address_width),
                "window_flits": Out(config.address_width),
                "num_rows": Out(17),
                "num_flows": Out(17),
                "last_wave": Out(config.wave_width),
                "last_run": Out(config.run_width),
                "step_cycles": Out(32),
                "bank": Out(1),
                "clear": Out(1),
                **shared,
            }
        )


class QuerySignature(wiring.Signature):
    """Query of a client to the dependency tracker: how much of a flow came in on a port.

    The client holds the question stable while `valid`, lowers `valid` for at least one cycle
    between two questions, and takes an answer only if the question stood in the cycle before.

    Parameters
    ----------
    config : Config
    width : int, optional
        Bits of an answer; by default those of a count.

    Members
    -------
    valid, port, op, flow : Out
        The question.
    answered : In(1)
        `count` is the answer to the question that stood in the cycle before.
    count : In(count_width)
        Sub-messages that are in of the last wave that began to come in, in this collective, and
        above them its number; or a `beginning_layout`, where that is tracked.
    """

    def __init__(self, config: Config, *, width: int | None = None):
        super().__init__(
            {
                "valid": Out(1),
                "port": Out(4),
                "op": Out(1),
                "flow": Out(16),
                "answered": In(1),
                "count": In(width or config.count_width),
            }
        )


class ReportSignature(wiring.Signature):
    """Report to the dependency tracker, which keeps it for its flow, port and op.

    Parameters
    ----------
    width : int
        Bits that it keeps.

    Members
    -------
    valid : Out(1)
        Strobe.
    op, flow : Out
        Of a message.
    count : Out(width)
        Sub-messages of it that are in memory, and above them its wave; or where it begins, a
        `beginning_layout`.
    """

    def __init__(self, width: int):
        super().__init__({"valid": Out(1), "op": Out(1), "flow": Out(16), "count": Out(width)})


class ArrivalSignature(wiring.Signature):
    """A sub-message of a flow is in memory, its writes acknowledged.

    On shared links it is always a whole message: `order` is its place in the order of summation,
    `staged` says that it waits in memory for those before it, `final` that it is the last.

    Members
    -------
    valid : Out(1)
        Strobe.
    op, flow : Out
        Of the message.
    count : Out(count_width)
        Sub-messages of the message that are in, this one included, and above them its wave.
    last : Out(1)
        The whole message is in.
    """

    def __init__(self, config: Config):
        fields = {name: Out(field.shape) for name, field in mark_layout(config)}
        super().__init__({"valid": Out(1), **fields})


class LookupSignature(wiring.Signature):
    """Look-up of an entry of the flow memory, which comes two cycles after `granted`.

    Members
    -------
    valid, flow : Out
        The question, held until granted.
    granted : In(1)
        Taken in this cycle (combinational).
    entry : In(FLOW_ENTRY)
        The answer, valid only two cycles after `granted`.
    intact : In(1)
        It is as it was written; an entry that is not may not be used.
    """

    def __init__(self):
        super().__init__(
            {
                "valid": Out(1),
                "flow": Out(16),
                "granted": In(1),
                "entry": In(FLOW_ENTRY),
                "intact": In(1),
            }
        )


class MemoryReadSignature(ReadChannelSignature):
    """A read channel of the interface's sizes.

    Members
    -------
    valid, address, ready : Out, Out, In
        A read is taken at an edge where valid and ready.
    data_valid, data : In
        One pulse per read, in order; room is reserved before the read, so it is never refused.
    error : In(1)
        Strobe, no later than the data it concerns: memory could not read.
    """

    def __init__(self, config: Config):
        super().__init__(address_width=config.address_width, flit_bytes=config.flit_bytes)


class MemoryWriteSignature(WriteChannelSignature):
    """A write channel of the interface's sizes.

    Members
    -------
    valid, address, data, ready : Out, Out, Out, In
        A write is taken at an edge where valid and ready.
    ack : In(1)
        One pulse per write, in order: it is in memory, and every later read sees it.
    error : In(1)
        Strobe, no later than the acknowledgement it concerns: memory could not write.
    """

    def __init__(self, config: Config):
        super().__init__(address_width=config.address_width, flit_bytes=config.flit_bytes)


class MemorySignature(wiring.Signature):
    """The three memory channels of a port.

    Members
    -------
    send : Out(MemoryReadSignature)
        The sender's reads.
    fetch : Out(MemoryReadSignature)
        The receiver's reads.
    write : Out(MemoryWriteSignature)
        The receiver's writes.
    """

    def __init__(self, config: Config):
        super().__init__(
            {
                "send": Out(MemoryReadSignature(config)),
                "fetch": Out(MemoryReadSignature(config)),
                "write": Out(MemoryWriteSignature(config)),
            }
        )


class WaitSignature(wiring.Signature):
    """Awaited event of a block, so that a fault can name it.

    Members
    -------
    awaited : Out(3)
        `nic.driver.faults.Awaited`.
    row, flow : Out(16)
        The row (senders) and the flow that wait.
    port, op : Out
        Port and op of the awaited message.
    wave : Out(16)
        The wave that waits, where tables are repeated.
    """

    def __init__(self, config: Config):
        fields = {"awaited": 3, "row": 16, "flow": 16, "port": 4, "op": 1}
        fields |= {"wave": 16} if config.wave_width else {}
        super().__init__({name: Out(width) for name, width in fields.items()})
