"""The registers behind the bus, and what a running collective goes by."""

from functools import reduce
from operator import or_

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.axi.lite import RegisterRequestSignature, RegisterResponseSignature
from multitree.nic.driver.registers import (
    FLOW_WINDOW,
    PORT_WINDOW,
    REGISTERS,
    ROUTE_WINDOW,
    TABLE_WINDOW,
)
from multitree.nic.layouts import register_view

__all__ = [
    "OF_THE_TABLE",
    "RegisterFile",
    "Snapshot",
    "readable",
    "writable",
]

_ANYTIME = ("CONTROL", "COUNT_SELECT", "RESET_SEQUENCE")
_SHARED_ONLY = ("STAGED",)
_WAVES_ONLY = ("FAULT_WAVE",)


def writable() -> list[str]:
    """Names of the registers that keep what is written."""
    return [register.name for register in REGISTERS.registers if register.access == "rw"]


def readable(*, shared: bool = False, waves: bool = False) -> list[str]:
    """Names of the registers whose value comes from the interface, those that not all have last."""
    names = [register.name for register in REGISTERS.registers if register.access == "ro"]
    more = shared * _SHARED_ONLY + waves * _WAVES_ONLY
    return [name for name in names if name not in _SHARED_ONLY + _WAVES_ONLY] + list(more)


class RegisterFile(wiring.Component):
    """Answers register accesses in three cycles; one access at a time.

    An address is decoded in a cycle of its own, and what it means is done in the next one.
    The host writes tables and settings for the next collective, also while one runs. While a
    commit or a start waits, what it goes by must not change: such a write is answered with an
    error and changes nothing, and so is a second commit or a second start, and a write to a
    read-only register, to a row or flow beyond the memories or to no register at all.

    Parameters
    ----------
    address_width : int
        Bits of the byte address.
    table_depth, num_flows, num_ports : int
        Rows and flows that the memories hold; ports that count.
    routes : bool
        Rows have routes, as on shared links.
    waves : bool
        Tables are repeated.

    Members
    -------
    request : In(RegisterRequestSignature)
    response : Out(RegisterResponseSignature)
    locked, start_waits : In(1)
        A commit or a start waits; a start waits.
    config : Out(32), one per register that is written
        Values, in the order of `writable()`.
    status : In(32), one per register that is read
        Values, in the order of `readable()`.
    command : Out(32)
        What is written to CONTROL, for one cycle, the one in which it is answered.
    changed : Out(32)
        Strobe per configuration register, in the order of `writable()`, with its new value.
    table_write, flow_write, index, word, data : Out(1), Out(1), Out(16), Out(3), Out(32)
        Store `data` at word `word` of row or flow `index`; of a counter, `index` is its port.
    counter : In(32)
        The counter of port `index` whose number is `word`, in the same cycle.
    """

    def __init__(
        self,
        *,
        address_width: int,
        table_depth: int,
        num_flows: int,
        num_ports: int,
        routes: bool = False,
        waves: bool = False,
    ):
        self._readable = readable(shared=routes, waves=waves)
        self._depths = table_depth, num_flows
        self.routes = routes
        self.num_ports = num_ports
        self.address_width, self.table_depth, self.num_flows, self.waves = (
            address_width,
            table_depth,
            num_flows,
            waves,
        )
        super().__init__(
            {
                "request": In(RegisterRequestSignature(address_width=address_width)),
                "response": Out(RegisterResponseSignature()),
                "locked": In(1),
                "start_waits": In(1),
                "config": Out(32).array(len(writable())),
                "status": In(32).array(len(self._readable)),
                "command": Out(32),
                "changed": Out(32),
                "table_write": Out(1),
                "flow_write": Out(1),
                "index": Out(16),
                "word": Out(3),
                "data": Out(32),
                "counter": In(32),
            }
        )

    def elaborate(self, platform):
        """Decode in the first cycle, act in the second; one register or window answers at most."""
        m = Module()
        request, response = self.request, self.response
        began, write = Signal(), Signal()
        m.d.sync += [
            # The request stands until it is answered: without both terms it would be done twice.
            began.eq(request.valid & ~began & ~response.done),
            response.done.eq(began),
        ]
        m.d.comb += [write.eq(began & request.write), self.data.eq(request.data)]
        m.d.sync += [self.command.eq(0), self.changed.eq(0)]
        table, flow, port, exists = self._decode(m)
        # A commit or start that waits uses what is written: it must not change.
        allowed = exists & ~self.locked
        m.d.comb += [
            self.table_write.eq(write & table & allowed),
            self.flow_write.eq(write & flow & allowed),
        ]
        counted = port & exists & ~request.write
        values = [Mux(counted, self.counter, 0)]
        good = [((table | flow) & allowed) | counted]
        for register in REGISTERS.registers:
            if register.access == "ro" and register.name not in self._readable:
                continue
            here = Signal(name=f"at_{register.name}")
            m.d.sync += here.eq(request.address == register.address)
            value, taken = self._register(m, register, write & here)
            values.append(Mux(here, value, 0))
            good.append(here & taken)
        # An OR will do: no two of registers and windows share an address.
        m.d.sync += [response.data.eq(reduce(or_, values)), response.error.eq(~Cat(good).any())]
        return m

    def _decode(self, m):
        """Which window is meant, and which of its words: registers, as are the outputs for it."""
        address, write = self.request.address, self.request.write
        table_depth, num_flows = self._depths
        table, flow, port, exists = (Signal(name=n) for n in ("table", "flow", "port", "exists"))
        in_table = (address >= TABLE_WINDOW.base) & write
        in_flow = (address >= FLOW_WINDOW.base) & write & ~in_table
        m.d.sync += [
            table.eq(in_table),
            flow.eq(in_flow),
            port.eq((address >= PORT_WINDOW.base) & ~in_table & ~in_flow),
        ]
        # Entries are aligned: the bits above a window's first entry's number them from its number
        # on. Only the ports' window can be read.
        # A route is the second half of its row.
        in_route = (address >= ROUTE_WINDOW.base) & in_flow if self.routes else None
        for chosen, window, index, word, number in (
            (in_table, TABLE_WINDOW, (address - TABLE_WINDOW.base)[3:], address[2], table_depth),
            (in_flow, FLOW_WINDOW, (address - FLOW_WINDOW.base)[5:], address[2:5], num_flows),
            (
                ~in_table & ~in_flow,
                PORT_WINDOW,
                (address[6:] - (PORT_WINDOW.base >> 6)).as_unsigned(),
                address[2:6],
                self.num_ports,
            ),
        ):
            with m.If(chosen):
                m.d.sync += [self.index.eq(index), self.word.eq(word)]
                m.d.sync += exists.eq((index < number) & (word < window.words))
        if self.routes:
            # Later assignments win over FLOW's: ROUTE lies where flows beyond 4 095 would be, so
            # that without routes an access to it is refused.
            index = (address - ROUTE_WINDOW.base)[3:]
            with m.If(in_route):
                m.d.sync += [table.eq(1), flow.eq(0), self.index.eq(index)]
                m.d.sync += [self.word.eq(2 + address[2]), exists.eq(index < table_depth)]
        return table, flow, port, exists

    def _register(self, m, register, write):
        """One register: what a read shows, whether the access is right; does what a write does."""
        request = self.request
        if register.access == "ro":
            return self.status[self._readable.index(register.name)], ~request.write
        if register.access == "wo":
            command = register_view("CONTROL", request.data)
            refused = (command.commit & self.locked) | (command.start & self.start_waits)
            with m.If(write & ~refused):
                m.d.sync += self.command.eq(request.data)
            return Const(0, 32), request.write & ~refused
        number = writable().index(register.name)
        allowed = 1 if register.name in _ANYTIME else ~self.locked
        with m.If(write & allowed):
            m.d.sync += self.config[number].eq(request.data)
            m.d.sync += self.changed[number].eq(1)
        return self.config[number], ~request.write | allowed


OF_THE_TABLE = ("NUM_ROWS", "NUM_FLOWS", "WINDOW_FLITS", "TABLE_CRC")
"""Registers that belong to a table: they change with the bank, all others with a start."""


class Snapshot(wiring.Component):
    """Holds the registers still while a collective runs, so that the host may write the next.

    What belongs to the table is taken over when the banks are swapped; the rest follows the
    registers, a cycle later, as long as no collective runs.

    Members
    -------
    settings : In(32), one per written register
        The registers, in the order of `writable()`.
    swap : In(1)
        The shadow bank becomes the active one.
    held : In(1)
        A collective runs.
    used : Out(32), one per written register
        What it goes by, in the same order.
    """

    def __init__(self):
        count = len(writable())
        super().__init__(
            {
                "settings": In(32).array(count),
                "swap": In(1),
                "held": In(1),
                "used": Out(32).array(count),
            }
        )

    def elaborate(self, platform):
        m = Module()
        for name, written, used in zip(writable(), self.settings, self.used, strict=True):
            with m.If(self.swap if name in OF_THE_TABLE else ~self.held):
                m.d.sync += used.eq(written)
        return m
