"""A port's receiver: header check of messages, then reduction into memory."""

from amaranth import Module, Mux
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.nic.config import Config, flit_stream
from multitree.nic.receive.header_check import HeaderCheck
from multitree.nic.reduce.reducer import Reducer
from multitree.nic.signatures import (
    ArrivalSignature,
    LookupSignature,
    MemoryReadSignature,
    MemoryWriteSignature,
    QuerySignature,
    RunSignature,
    WaitSignature,
)

__all__ = ["Receiver"]


class Receiver(wiring.Component):
    """A port's receiving side: header check of messages, then reduction into memory.

    A message without payload is reported two cycles after it may, one with payload a cycle after
    its last write is acknowledged.

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
        """Members of a receiver that forwards."""
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
        """Whether bits have flipped in what is queued."""
        return reducer.state_error

    def _wait(self, header_check, reducer, name):
        """A field of what is awaited."""
        return getattr(header_check.wait, name)
