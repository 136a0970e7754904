"""Holds writes back until those before them at their addresses are in memory."""

from amaranth import Array, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.check_bits import Checked
from multitree.hw.stream import QuickFifo
from multitree.nic.driver.config import Config
from multitree.nic.forward.chunk_finder import found_layout
from multitree.nic.forward.positions import lead, position_width

__all__ = ["WriteOrder"]

_MESSAGES = 16


class WriteOrder(wiring.Component):
    """Says whether a port's next write may go, where another port writes the same addresses first.

    A sum is forwarded before memory has acknowledged it, so that the next one, or the result, may
    come to the write channel of another port sooner than it is in memory; memory keeps no order
    between channels. A flit therefore waits until the flit of the message before it in its flow,
    which `need_port` writes from `position` on, is acknowledged. One write per cycle, across
    messages, too.

    Members
    -------
    messages : In(stream)
        What is written, in order (`found_layout`): each message with payload, with the message
        before it if `tracked`.
    acknowledged : In(position_width), one per port
        Flits that ports have written, acknowledged.
    may : Out(1)
        The next flit may be written.
    moved, last : In(1)
        It is, only with `may`; it is its message's last one.
    empty : Out(1)
        No message is in hand.
    state_error : Out(1)
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "messages": In(stream.Signature(found_layout(config))),
                "acknowledged": In(position_width(config)).array(config.num_ports),
                "may": Out(1),
                "moved": In(1),
                "last": In(1),
                "empty": Out(1),
                "state_error": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        fields = ("tracked", "need_port", "position")
        layout = found_layout(config)
        shape = data.StructLayout({name: layout[name].shape for name in fields})
        m.submodules.queue = queue = Checked(QuickFifo, shape=shape, depth=_MESSAGES)
        has, tracked, port = Signal(), Signal(), Signal(4)
        position = Signal(position_width(config))
        left, load, offered = Signal(position_width(config)), Signal(), queue.o.payload
        m.d.comb += [
            queue.i.valid.eq(self.messages.valid),
            self.messages.ready.eq(queue.i.ready),
            *(queue.i.payload[name].eq(self.messages.payload[name]) for name in fields),
            load.eq(queue.o.valid & (~has | (self.moved & self.last))),
            queue.o.ready.eq(load),
            # In memory up to and with the flit at `position`: the difference is above 0.
            self.may.eq(has & (~tracked | ((left != 0) & ~left[-1]))),
            self.empty.eq(~has & (queue.level == 0)),
            self.state_error.eq(queue.state_error),
        ]
        ports = Array(self.acknowledged)
        # For the message in hand and for the next one: which it is, is the last thing to be known.
        m.d.sync += position.eq(position + self.moved)
        m.d.sync += left.eq(lead(ports[port], position, self.moved))
        with m.If(load):
            m.d.sync += [has.eq(1), tracked.eq(offered.tracked), port.eq(offered.need_port)]
            m.d.sync += position.eq(offered.position)
            m.d.sync += left.eq(ports[offered.need_port] - offered.position)
        with m.Elif(self.moved & self.last):
            m.d.sync += has.eq(0)
        return m
