"""A port's receivers on private links, without and with forwarding."""

from amaranth import Module, Mux
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.nic.driver.config import Config
from multitree.nic.forward.positions import (
    ForwardSignature,
    PositionsSignature,
    beginning_layout,
    kept_width,
)
from multitree.nic.layouts import flit_stream
from multitree.nic.receive.forwarding_header_check import ForwardingHeaderCheck
from multitree.nic.receive.header_check import HeaderCheck
from multitree.nic.reduce.forwarding_reducer import ForwardingReducer
from multitree.nic.reduce.reducer import Reducer
from multitree.nic.signatures import (
    ArrivalSignature,
    LookupSignature,
    MemoryReadSignature,
    MemoryWriteSignature,
    QuerySignature,
    ReportSignature,
    RunSignature,
    WaitSignature,
)

__all__ = ["ForwardingReceiver", "Receiver"]


class Receiver(wiring.Component):
    """A port's receiving side: header check of messages, then reduction into memory.

    A message without payload is reported two cycles after it may, one with payload a cycle after
    its last write is acknowledged.

    Members
    -------
    port : In(4)
    flits : In(stream)
    run : In(RunSignature)
    lookup : Out(LookupSignature)
    query : Out(QuerySignature)
    fetch : Out(MemoryReadSignature)
    write : Out(MemoryWriteSignature)
    arrival : Out(ArrivalSignature)
    fault : Out(8)
        `FaultCode`, a strobe, a cycle after it was found.
    wait : Out(WaitSignature)
        What is awaited in the middle of a message, or was in the cycle before.
    state_error : Out(1)
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "port": In(4),
                "flits": In(stream.Signature(flit_stream(config))),
                "run": In(RunSignature(config)),
                "lookup": Out(LookupSignature()),
                "query": Out(QuerySignature(config)),
                "fetch": Out(MemoryReadSignature(config)),
                "write": Out(MemoryWriteSignature(config)),
                "arrival": Out(ArrivalSignature(config)),
                "fault": Out(8),
                "wait": Out(WaitSignature(config)),
                "state_error": Out(1),
                **self._more(config),
            }
        )

    @staticmethod
    def _more(config):
        return {}

    def _blocks(self, m):
        """Header check and reducer, and which of them asks the dependency tracker."""
        header_check = HeaderCheck(self.config)
        return header_check, Reducer(self.config), header_check.query

    def elaborate(self, platform):
        """Wire header check and reducer; an empty message reports while the reducer is idle."""
        m = Module()
        header_check, reducer, query = self._blocks(m)
        m.submodules.header_check, m.submodules.reducer = header_check, reducer
        for name in ("flits", "run"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(header_check, name))
        wiring.connect(m, header_check.lookup, wiring.flipped(self.lookup))
        wiring.connect(m, query, wiring.flipped(self.query))
        for name in ("fetch", "write"):
            wiring.connect(m, getattr(reducer, name), wiring.flipped(getattr(self, name)))
        wiring.connect(m, header_check.items, reducer.items)
        m.d.comb += [
            reducer.dtype.eq(self.run.dtype),
            reducer.maximum.eq(self.run.maximum),
            header_check.port.eq(self.port),
            header_check.drained.eq(reducer.idle),
            self.state_error.eq(self._state_error(header_check, reducer)),
        ]
        # Both together, so that a fault comes with what it concerns.
        m.d.sync += self.fault.eq(header_check.fault)
        for name in self.wait.signature.members:
            m.d.sync += getattr(self.wait, name).eq(self._wait(header_check, reducer, name))
        # Nothing can come in with it: the reducer was idle, and no message gets there sooner.
        empty = ArrivalSignature(self.config).create()
        for name in empty.signature.members:
            m.d.sync += getattr(empty, name).eq(getattr(header_check.empty, name))
            chosen = Mux(empty.valid, getattr(empty, name), getattr(reducer.arrival, name))
            m.d.comb += getattr(self.arrival, name).eq(chosen)
        return m

    def _state_error(self, header_check, reducer):
        return reducer.state_error

    def _wait(self, header_check, reducer, name):
        return getattr(header_check.wait, name)


class ForwardingReceiver(Receiver):
    """A `Receiver` that says where messages begin, and keeps what it has written for others.

    Members
    -------
    port, flits, run, lookup, query, fetch, write, arrival, fault, wait, state_error : In, Out
        As of `Receiver`.
    beginning : Out(QuerySignature)
        Question to the tracker of beginnings.
    report, forward, positions, addresses, kept : In, Out
        As of `ForwardingHeaderCheck` and `ForwardingReducer`.
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
        return header_check.state_error | reducer.state_error

    def _wait(self, header_check, reducer, name):
        """A field of what is awaited: a sibling before anything else but a fault's message."""
        waits = reducer.wait.awaited.any() & ~header_check.fault.any()
        return Mux(waits, getattr(reducer.wait, name), getattr(header_check.wait, name))
