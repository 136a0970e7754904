"""The registers behind the bus: settings out, status in, table writes through."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.axi_lite import RegisterRequestSignature, RegisterResponseSignature
from multitree.nic.registers import FLOW_WINDOW, PORT_WINDOW, REGISTERS, TABLE_WINDOW

__all__ = ["RegisterFile", "readable", "writable"]

_ANYTIME = ("CONTROL", "COUNT_SELECT")


def writable() -> list[str]:
    """Names of the registers that keep what is written."""
    return [register.name for register in REGISTERS.registers if register.access == "rw"]


def readable() -> list[str]:
    """Names of the registers whose value comes from the interface."""
    return [register.name for register in REGISTERS.registers if register.access == "ro"]


class RegisterFile(wiring.Component):
    """Answers register accesses in two cycles; one access at a time.

    The host writes tables and settings for the next collective, also while one runs. While a
    commit or a start waits, what it goes by must not change: such a write is answered with an
    error and changes nothing, and so is a second commit or a second start, and a write to a
    read-only register, to a row or flow beyond the memories or to no register at all.

    Parameters
    ----------
    address_width : int
        Bits of the byte address.
    table_depth, num_flows : int
        Rows and flows that the memories hold.
    num_ports : int
        Ports that count.

    Members
    -------
    request : In(RegisterRequestSignature)
        Access from the bus.
    response : Out(RegisterResponseSignature)
        Its answer.
    claimed : In(1)
        A commit or a start waits.
    start_waits : In(1)
        A start waits.
    config : Out(32), one per register that is written
        Values, in the order of `writable()`.
    status : In(32), one per register that is read
        Values, in the order of `readable()`.
    command : Out(32)
        What is written to CONTROL, for one cycle.
    changed : Out(32)
        Strobe per configuration register, in the order of `writable()`.
    table_write, flow_write : Out(1)
        Store `data` at `index` and `word`.
    index : Out(16)
        Row, flow or port.
    word : Out(3)
        Word of it.
    data : Out(32)
        What to store.
    counter : In(32)
        The counter of port `index` whose number is `word`, in the same cycle.
    """

    def __init__(self, *, address_width: int, table_depth: int, num_flows: int, num_ports: int):
        self._depths = table_depth, num_flows
        self._num_ports = num_ports
        super().__init__(
            {
                "request": In(RegisterRequestSignature(address_width=address_width)),
                "response": Out(RegisterResponseSignature()),
                "claimed": In(1),
                "start_waits": In(1),
                "config": Out(32).array(len(writable())),
                "status": In(32).array(len(readable())),
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
        """Decode, answer in the next cycle; windows by their address bits."""
        m = Module()
        request, response = self.request, self.response
        done, write, address = Signal(), Signal(), request.address
        m.d.comb += [write.eq(request.valid & request.write & ~done), self.data.eq(request.data)]
        m.d.sync += [done.eq(request.valid & ~done), response.done.eq(request.valid & ~done)]
        m.d.sync += [response.error.eq(1), response.data.eq(0)]
        table_depth, num_flows = self._depths
        with m.If((address >= TABLE_WINDOW.base) & request.write):
            exists = self.index < table_depth
            m.d.comb += [
                self.index.eq((address - TABLE_WINDOW.base) >> 3),
                self.word.eq(address[2]),
                self.table_write.eq(write & ~self.claimed & exists),
            ]
            m.d.sync += response.error.eq(self.claimed | ~exists)
        with m.Elif((address >= FLOW_WINDOW.base) & request.write):
            exists = (self.index < num_flows) & (address[2:5] < FLOW_WINDOW.words)
            m.d.comb += [
                self.index.eq((address - FLOW_WINDOW.base) >> 5),
                self.word.eq(address[2:5]),
                self.flow_write.eq(write & ~self.claimed & exists),
            ]
            m.d.sync += response.error.eq(self.claimed | ~exists)
        with m.Elif(address >= PORT_WINDOW.base):
            # Entries are aligned: the bits above the first one's number them from its number on.
            word = address[2:6]
            exists = (self.index < self._num_ports) & (word < PORT_WINDOW.words)
            m.d.comb += [
                self.index.eq((address >> 6) - (PORT_WINDOW.base >> 6)),
                self.word.eq(word),
            ]
            m.d.sync += [
                response.error.eq(request.write | ~exists),
                response.data.eq(Mux(exists, self.counter, 0)),
            ]
        with m.Else(), m.Switch(address):
            for register in REGISTERS.registers:
                with m.Case(register.address):
                    self._register(m, register, write)
        return m

    def _register(self, m, register, write):
        """One register: what a read shows, what a write does."""
        request, response = self.request, self.response
        if register.access == "ro":
            value = self.status[readable().index(register.name)]
            m.d.sync += [response.error.eq(request.write), response.data.eq(value)]
            return
        allowed = ~self.claimed if register.name not in _ANYTIME else 1
        if register.access == "wo":
            refused = (request.data[0] & self.claimed) | (request.data[1] & self.start_waits)
            m.d.sync += response.error.eq(~request.write | refused)
            with m.If(write & ~refused):
                m.d.comb += self.command.eq(request.data)
            return
        number = writable().index(register.name)
        m.d.sync += [
            response.error.eq(request.write & ~allowed if register.name not in _ANYTIME else 0),
            response.data.eq(self.config[number]),
        ]
        with m.If(write & allowed):
            m.d.sync += self.config[number].eq(request.data)
            m.d.comb += self.changed[number].eq(1)
