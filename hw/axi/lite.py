"""AXI4-Lite: the bus, and a subordinate that turns it into register accesses."""

from amaranth import Module, Mux, Signal
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.codes import check_integer

__all__ = [
    "AxiLiteSignature",
    "AxiLiteSubordinate",
    "RegisterRequestSignature",
    "RegisterResponseSignature",
    "Response",
]

DATA_WIDTH = 32
"""Bits of a register."""


class Response(enum.Enum, shape=2):
    """What the bus says of an access."""

    OKAY = 0
    SLVERR = 2


class AxiLiteSignature(wiring.Signature):
    """An AXI4-Lite bus with 32 bits of data, seen from the manager; names as in the standard.

    Every channel moves at a clock edge at which its valid and its ready are both high. Byte
    addresses have at least 3 bits.

    Members
    -------
    awaddr, awprot, awvalid, awready : Out, Out, Out, In
        Write address.
    wdata, wstrb, wvalid, wready : Out, Out, Out, In
        Write data, and the bytes to write.
    bresp, bvalid, bready : In, In, Out
        `Response` to a write.
    araddr, arprot, arvalid, arready : Out, Out, Out, In
        Read address.
    rdata, rresp, rvalid, rready : In, In, In, Out
        Read data, and `Response` to a read.

    References
    ----------
    Arm, "AMBA AXI and ACE Protocol Specification", IHI 0022, part B: AXI4-Lite.
    """

    def __init__(self, *, address_width: int):
        check_integer("Address width", address_width, least=3)
        super().__init__(
            {
                "awaddr": Out(address_width),
                "awprot": Out(3),
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(DATA_WIDTH),
                "wstrb": Out(DATA_WIDTH // 8),
                "wvalid": Out(1),
                "wready": In(1),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
                "araddr": Out(address_width),
                "arprot": Out(3),
                "arvalid": Out(1),
                "arready": In(1),
                "rdata": In(DATA_WIDTH),
                "rresp": In(2),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )


class RegisterRequestSignature(wiring.Signature):
    """An access to a register, held until it is answered; seen from the one who asks.

    Members
    -------
    valid : Out(1)
        There is an access; nothing changes until its response is done.
    write : Out(1)
        It writes.
    address : Out(address_width)
        Byte address, a multiple of 4.
    data : Out(32)
        What to write.
    """

    def __init__(self, *, address_width: int):
        super().__init__(
            {
                "valid": Out(1),
                "write": Out(1),
                "address": Out(address_width),
                "data": Out(DATA_WIDTH),
            }
        )


class RegisterResponseSignature(wiring.Signature):
    """The answer to a register access, seen from the one who answers.

    Members
    -------
    done : Out(1)
        Strobe: the access is done; only while there is one, in the same cycle or later.
    data : Out(32)
        What was read, with `done`.
    error : Out(1)
        The access was refused, with `done`.
    """

    def __init__(self):
        super().__init__({"done": Out(1), "data": Out(DATA_WIDTH), "error": Out(1)})


class AxiLiteSubordinate(wiring.Component):
    """Turns the accesses of an AXI4-Lite bus into register accesses, one at a time.

    Write address and write data may come in either order or together. An address that is not a
    multiple of 4, or a write of less than all four bytes, is answered with SLVERR and asks for no
    register access; so is an access that the registers refuse. While reads and writes both wait
    they take turns. The protection bits are ignored: every manager may do everything.

    Latency from address and data to `request` 2 cycles, from `response.done` to the bus 1 cycle.
    One access at a time: each channel takes one transfer and is ready again when its response was
    taken. All outputs to the bus and `request` are registers.

    Members
    -------
    bus : In(AxiLiteSignature)
    request : Out(RegisterRequestSignature)
    response : In(RegisterResponseSignature)
    """

    def __init__(self, *, address_width: int):
        self.address_width = address_width
        super().__init__(
            {
                "bus": In(AxiLiteSignature(address_width=address_width)),
                "request": Out(RegisterRequestSignature(address_width=address_width)),
                "response": In(RegisterResponseSignature()),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bus, request, response = self.bus, self.request, self.response
        write_address = self._collect(m, "aw", bus.awaddr)
        read_address = self._collect(m, "ar", bus.araddr)
        write_data = self._collect(m, "w", bus.wdata)
        strobe = Signal(4)
        with m.If(bus.wvalid & bus.wready):
            m.d.sync += strobe.eq(bus.wstrb)

        write, read = Signal(), Signal()
        address = Signal(self.address_width)
        legal = Signal()
        m.d.comb += [
            # A channel that is not ready holds a transfer that is not answered yet.
            write.eq(~bus.awready & ~bus.wready),
            read.eq(~bus.arready),
            # A write cannot wait again before a read that waits has had its turn: its channels
            # are ready only when its response was taken. So a fixed priority is fair.
            address.eq(Mux(write, write_address, read_address)),
            legal.eq((address[:2] == 0) & (~write | strobe.all())),
        ]
        with m.FSM():
            with m.State("CHOOSE"), m.If(write | read):
                m.d.sync += [
                    request.valid.eq(legal),
                    request.write.eq(write),
                    request.address.eq(address),
                    request.data.eq(write_data),
                ]
                with m.If(legal):
                    m.next = "ASK"
                with m.Else():
                    self._answer(m, write, error=1, data=0)
                    m.next = "ANSWER"
            with m.State("ASK"), m.If(response.done):
                m.d.sync += request.valid.eq(0)
                self._answer(m, request.write, error=response.error, data=response.data)
                m.next = "ANSWER"
            with m.State("ANSWER"), m.If((bus.bvalid & bus.bready) | (bus.rvalid & bus.rready)):
                m.d.sync += [bus.bvalid.eq(0), bus.rvalid.eq(0)]
                m.next = "CHOOSE"
        return m

    def _collect(self, m, channel, payload):
        """Take one transfer of a channel; ready again when its response is taken."""
        bus = self.bus
        valid, ready = getattr(bus, f"{channel}valid"), getattr(bus, f"{channel}ready")
        accepts = Signal(init=1, name=f"{channel}_accepts")
        held = Signal(len(payload), name=f"{channel}_held", reset_less=True)
        answered = bus.rvalid & bus.rready if channel == "ar" else bus.bvalid & bus.bready
        m.d.comb += ready.eq(accepts)
        with m.If(valid & accepts):
            m.d.sync += [accepts.eq(0), held.eq(payload)]
        # B releases AW and W together, since a write is one transfer of each.
        with m.Elif(answered):
            m.d.sync += accepts.eq(1)
        return held

    def _answer(self, m, write, *, error, data):
        bus = self.bus
        code = Mux(error, Response.SLVERR.value, Response.OKAY.value)
        m.d.sync += [bus.bvalid.eq(write), bus.rvalid.eq(~write)]
        with m.If(write):
            m.d.sync += bus.bresp.eq(code)
        with m.Else():
            m.d.sync += [bus.rresp.eq(code), bus.rdata.eq(data)]
