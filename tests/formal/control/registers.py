"""Properties of the register bus and what is behind it: one answer each."""

from amaranth import Array, Cat, Mux, Signal

from multitree.hw.axi.lite import AxiLiteSubordinate
from multitree.nic.control.counters import PortCounters
from multitree.nic.control.register_file import OF_THE_TABLE, RegisterFile, Snapshot, writable
from multitree.nic.driver.config import Config
from multitree.nic.driver.registers import FLOW_WINDOW, PORT_COUNTERS, REGISTERS, TABLE_WINDOW
from tests.formal.bench import holds

OKAY, SLVERR = 0, 2
ADDRESSES = {register.name: register.address for register in REGISTERS.registers}
_OF_CREDITS = PORT_COUNTERS.index("CREDITS_LOW")
BITS = 2
"""Bits of a register that may be other than 0."""


@holds("axi_lite.answers", {"address_width": 4}, {"address_width": 12})
def axi_lite(m, *, address_width):
    """Each access on the bus is one request and one response, its own; a wrong one asks nothing."""
    m.submodules.block = block = AxiLiteSubordinate(address_width=address_width)
    bus, request, response = block.bus, block.request, block.response
    m.drive(bus.awvalid, bus.awaddr, bus.wvalid, bus.wdata[:BITS], bus.wstrb, bus.bready)
    m.drive(bus.arvalid, bus.araddr, bus.rready, response.data[:BITS], response.error)
    m.d.comb += response.done.eq(m.free("done") & request.valid)
    m.check(m.stays(bus.bvalid, bus.bready, bus.bresp))
    m.check(m.stays(bus.rvalid, bus.rready, Cat(bus.rresp, bus.rdata[:BITS])))
    shown = Cat(request.write, request.address, request.data[:BITS])
    m.check(m.stays(request.valid, response.done, shown))
    m.check(~m.past(request.valid & response.done) | ~request.valid)
    held = _transfers(m, bus)
    begins = request.valid & ~m.past(request.valid)
    expected = {}
    for write, name, resp in ((1, "b", bus.bresp), (0, "r", bus.rresp)):
        valid, ready = getattr(bus, f"{name}valid"), getattr(bus, f"{name}ready")
        address = held["aw"][1] if write else held["ar"][1]
        whole = held["aw"][0] & held["w"][0] if write else held["ar"][0]
        aligned = address[:2] == 0
        legal = aligned & held["w"][1][BITS:].all() if write else aligned
        mine = begins & (request.write == write)
        m.check(~mine | (whole & legal & (request.address == address) & ~valid))
        if write:
            m.check(~mine | (request.data[:BITS] == held["w"][1][:BITS]))
        # An answer follows a request of its kind, or what may not be asked.
        answered, error, data = Signal(), Signal(), Signal(BITS)
        finishes = request.valid & response.done & (request.write == write)
        with m.If(finishes):
            m.d.sync += [answered.eq(1), error.eq(response.error), data.eq(response.data)]
        with m.Elif(valid & ready):
            m.d.sync += answered.eq(0)
        m.check(~valid | whole)
        m.check(~(valid & legal) | (answered & (resp == Mux(error, SLVERR, OKAY))))
        m.check(~(valid & ~legal) | (~answered & (resp == SLVERR)))
        if not write:
            m.check(~(valid & legal) | (bus.rdata[:BITS] == data))
        expected[name] = valid & legal & ~error
    m.check(~(bus.bvalid & bus.rvalid))
    m.cover("write", expected["b"] & held["ar"][0])
    m.cover("read", expected["r"] & (bus.rdata == 3) & m.ever(begins))
    m.cover("refused", bus.bvalid & (bus.bresp == SLVERR))


def _transfers(m, bus):
    """By channel, whether a transfer is held that is not answered, and its content."""
    held = {}
    of_write = bus.bvalid & bus.bready
    for name, content, over in (
        ("aw", bus.awaddr, of_write),
        ("w", Cat(bus.wdata[:BITS], bus.wstrb), of_write),
        ("ar", bus.araddr, bus.rvalid & bus.rready),
    ):
        valid, ready = getattr(bus, f"{name}valid"), getattr(bus, f"{name}ready")
        m.assume(m.stays(valid, ready, content))
        inside, value = Signal(name=f"{name}_inside"), Signal(len(content), name=f"{name}_value")
        with m.If(valid & ready):
            m.d.sync += [inside.eq(1), value.eq(content)]
        with m.Elif(over):
            m.d.sync += inside.eq(0)
        m.check(ready == ~inside)
        held[name] = inside, value
    return held


@holds("axi_lite.progress", {"address_width": 4})
def bus_progress(m, *, address_width):
    """Reads and writes take turns: each is answered within 10 cycles by a file that takes three."""
    m.submodules.block = block = AxiLiteSubordinate(address_width=address_width)
    bus, request, response = block.bus, block.request, block.response
    m.drive(bus.awvalid, bus.awaddr, bus.wvalid, bus.wstrb, bus.arvalid, bus.araddr)
    m.d.comb += [bus.rready.eq(1), bus.bready.eq(1)]
    # As the register file answers.
    m.d.comb += response.done.eq(request.valid & m.past(request.valid) & m.past(1))
    for name, waits in (("ar", ~bus.arready), ("write", ~bus.awready & ~bus.wready)):
        waited = Signal(5, name=f"{name}_waited")
        m.d.sync += waited.eq(Mux(waits, waited + ~waited.all(), 0))
        m.check(waited <= 10)
        m.cover(f"{name}_waits", waited == 7)


@holds("register_file.once", {"routes": False}, {"routes": True})
def register_file(m, *, routes):
    """An access does once what it says, a cycle before its answer, or is refused as a whole."""
    depths = {"table_depth": 3, "num_flows": 2, "num_ports": 2}
    m.submodules.block = block = RegisterFile(address_width=20, routes=routes, **depths)
    request, response = block.request, block.response
    valid, write, address = request.valid, request.write, request.address
    value, locked, waits = request.data[: BITS + 1], block.locked, block.start_waits
    m.drive(valid, write, address, value, locked, waits)
    # As the bus asks: aligned, held until it is answered, and lowered then.
    m.assume(m.stays(valid, response.done, Cat(write, address, value)))
    m.assume(~m.past(valid & response.done) | ~valid)
    m.assume(~valid | (address[:2] == 0))
    m.fix(*(status[:BITS] for status in block.status))
    acts = m.past(valid & ~m.past(valid))
    _config(m, block, (acts, write, address, value, locked))
    # Answered in the third cycle, once.
    m.check(response.done == m.past(acts))
    in_table, in_flow = address >= TABLE_WINDOW.base, address >= FLOW_WINDOW.base
    row, flow = (address - TABLE_WINDOW.base)[3:20], (address - FLOW_WINDOW.base)[5:20]
    allowed = acts & write & ~locked
    fits = in_table & (row < 3)
    m.check(~block.flow_write | (allowed & in_flow & ~in_table))
    m.check(~block.table_write | (allowed & (in_flow if routes else in_table)))
    m.check(~(allowed & fits) | (block.table_write & (block.index == row)))
    m.check(~(allowed & fits) | (block.word == address[2]))
    m.check(~(in_table & (row >= 3)) | ~block.table_write)
    m.check(~block.flow_write | ((block.index == flow) & (flow < 2) & (block.word < 5)))
    stored = block.table_write | block.flow_write
    m.check(~stored | (block.data == value))
    control = ADDRESSES["CONTROL"]
    refused = (value[0] & locked) | (value[1] & waits)
    commands = acts & write & (address == control) & ~refused
    m.check(block.command == m.past(Mux(commands, value, 0)))
    wrong = m.past(acts & write & (address == control) & refused)
    m.check(~wrong | response.error)
    m.check(~m.past(acts & write & (in_table | in_flow) & ~stored) | response.error)
    m.check(~m.past(stored | commands) | ~response.error)
    m.cover("table", block.table_write & (block.index == 2))
    m.cover("flow", block.flow_write & (block.index == 1) & (block.word == 4))
    m.cover("refused", wrong)


def _config(m, block, access):
    """One arbitrary written register, and one that is read."""
    acts, write, address, value, locked = access
    addresses = [ADDRESSES[name] for name in writable()]
    which = m.one_of(len(addresses), "which")
    mine = acts & (address == Array(addresses)[which])
    anytime = Signal()
    for name in ("COUNT_SELECT", "RESET_SEQUENCE"):
        with m.If(which == writable().index(name)):
            m.d.comb += anytime.eq(1)
    takes = mine & write & (~locked | anytime)
    held, changed = Array(block.config)[which], block.changed.bit_select(which, 1)
    kept, wrote = m.latch(takes, value), m.ever(takes)
    m.check(~wrote | (held == kept))
    m.check(wrote | (held == m.past(held)) | ~m.past(1))
    m.check(changed == m.past(takes))
    reads = m.past(mine & ~write)
    response = block.response
    m.check(~reads | ((response.data == m.past(held)) & ~response.error))
    m.check(~m.past(mine & write) | (response.error == m.past(~takes)))
    m.cover("read", reads & wrote & (kept == 3))


@holds("snapshot.still", {"bits": 1}, {"bits": 4})
def snapshot(m, *, bits):
    """What a collective goes by stays while it runs; what is of the table changes with its swap."""
    m.submodules.block = block = Snapshot()
    swap, held = block.swap, block.held
    m.drive(swap, held, *(setting[:bits] for setting in block.settings))
    for name, setting, used in zip(writable(), block.settings, block.used, strict=True):
        stays, follows = (m.past(~swap), m.past(swap))
        if name not in OF_THE_TABLE:
            stays, follows = m.past(held), m.past(~held)
        m.check(~stays | (used == m.past(used)))
        m.check(~follows | (used == m.past(setting)))
    m.cover("swapped", m.past(swap & held) & (block.used[0] != block.settings[0]))


@holds("counters.counts", {"buffer_flits": 4}, {"buffer_flits": 9})
def counts(m, *, buffer_flits):
    """Each event counts once while a collective runs; the least credits are kept."""
    config = Config(buffer_flits=buffer_flits)
    m.submodules.block = block = PortCounters(config)
    m.drive(block)
    start, running, credits = block.start, block.running, block.activity.credits
    m.assume(credits <= buffer_flits)
    events = [name for name in block.activity.signature.members if name != "credits"]
    which = m.one_of(len(events), "which")
    happens = Array(getattr(block.activity, name) for name in events)[which]
    count, least = Signal(4), Signal(range(buffer_flits + 1), init=buffer_flits)
    reported, was_running = m.past(happens), m.past(running)
    low = m.past(credits)
    with m.If(start):
        m.d.sync += [count.eq(0), least.eq(buffer_flits)]
    with m.Elif(was_running):
        m.d.sync += count.eq(count + reported)
        with m.If(low < least):
            m.d.sync += least.eq(low)
    by_event = [value for k, value in enumerate(block.counts) if k != _OF_CREDITS]
    m.check(Array([value[:4] for value in by_event])[which] == count)
    m.check(block.counts[_OF_CREDITS] == least)
    m.cover("counted", (count == 3) & (least == 1))
