"""A port's receiver that forwards what it writes."""

from amaranth import Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.nic.forward.positions import (
    ForwardSignature,
    PositionsSignature,
    beginning_layout,
    kept_width,
)
from multitree.nic.receive.forwarding_header_check import ForwardingHeaderCheck
from multitree.nic.receive.receiver import Receiver
from multitree.nic.reduce.forwarding_reducer import ForwardingReducer
from multitree.nic.signatures import (
    QuerySignature,
    ReportSignature,
)

__all__ = ["ForwardingReceiver"]


class ForwardingReceiver(Receiver):
    """A `Receiver` that says where messages begin, and keeps what it has written for others.

    Parameters
    ----------
    config : Config

    Members
    -------
    port : In(4)
        Number of this port.
    flits : In(stream)
        From the link's buffer.
    run : In(RunSignature)
        The collective that runs.
    lookup : Out(LookupSignature)
        Question to the flow memory.
    query : Out(QuerySignature)
        Question to the dependency tracker.
    fetch : Out(MemoryReadSignature)
        Read channel.
    write : Out(MemoryWriteSignature)
        Write channel.
    arrival : Out(ArrivalSignature)
        A sub-message is in memory.
    fault : Out(8)
        `FaultCode`, a strobe, a cycle after it was found.
    wait : Out(WaitSignature)
        What is awaited in the middle of a message, or was in the cycle before.
    state_error : Out(1)
        Strobe: bits of what it queues have flipped.
    beginning : Out(QuerySignature)
        Question to the tracker of beginnings.
    report : Out(ReportSignature)
        A message has begun to come in.
    forward : Out(ForwardSignature)
        What ports have written, to add to it.
    positions : Out(PositionsSignature)
        How far this port has come.
    addresses : In(range(forward_flits)), one per reader
        Positions to read.
    kept : Out(kept_width), one per reader
        Flits that were written there, a cycle later.
    """

    @staticmethod
    def _more(config):
        readers = 2 * config.num_ports
        return {
            "beginning": Out(QuerySignature(config, width=beginning_layout(config).size)),
            "report": Out(ReportSignature(beginning_layout(config).size)),
            "forward": Out(ForwardSignature(config)),
            "positions": Out(PositionsSignature(config)),
            "addresses": In(range(config.forward_flits)).array(readers),
            "kept": Out(kept_width(config)).array(readers),
        }

    def _blocks(self, m):
        """The blocks that forward, and what goes between them and to others."""
        header_check = ForwardingHeaderCheck(self.config)
        reducer = ForwardingReducer(self.config)
        wiring.connect(m, header_check.jobs, reducer.jobs)
        wiring.connect(m, wiring.flipped(self.run), reducer.run)
        wiring.connect(m, header_check.report, wiring.flipped(self.report))
        for name in ("beginning", "forward", "positions"):
            wiring.connect(m, getattr(reducer, name), wiring.flipped(getattr(self, name)))
        for number, address in enumerate(self.addresses):
            m.d.comb += [
                reducer.addresses[number].eq(address),
                self.kept[number].eq(reducer.kept[number]),
            ]
        return header_check, reducer, reducer.query

    def _state_error(self, header_check, reducer):
        """Whether bits have flipped in what is queued, here or there."""
        return header_check.state_error | reducer.state_error

    def _wait(self, header_check, reducer, name):
        """A field of what is awaited: a sibling before anything else but a fault's message."""
        waits = reducer.wait.awaited.any() & ~header_check.fault.any()
        return Mux(waits, getattr(reducer.wait, name), getattr(header_check.wait, name))
