"""Properties of the register bus and what is behind it: one answer each."""

from amaranth import Array, Cat, Mux, Signal

from multitree.hw.axi.lite import AxiLiteSubordinate
from multitree.nic.control.counters import PortCounters
from multitree.nic.control.register_file import (
    OF_THE_TABLE,
    RegisterFile,
    Snapshot,
    readable,
    writable,
)
from multitree.nic.driver.config import Config
from multitree.nic.driver.registers import FLOW_WINDOW, PORT_COUNTERS, REGISTERS, TABLE_WINDOW
from tests.formal.bench import holds, steady
from tests.formal.stand_ins import free_outputs

OKAY, SLVERR = 0, 2
ADDRESSES = {register.name: register.address for register in REGISTERS.registers}
_OF_CREDITS = PORT_COUNTERS.index("CREDITS_LOW")
BITS = 2
"""Bits of a register that may be other than 0."""


@holds("axi_lite.answers", {"address_width": 4}, {"address_width": 12})
def axi_lite(bench, *, address_width):
    """Each access on the bus is one request and one response, its own; a wrong one asks nothing."""
    m = bench.m
    m.submodules.block = block = AxiLiteSubordinate(address_width=address_width)
    bus, request, response = block.bus, block.request, block.response
    free_outputs(bench, "write", bus.awvalid, bus.awaddr, bus.wvalid, bus.wdata[:BITS], bus.wstrb)
    free_outputs(bench, "read", bus.arvalid, bus.araddr, bus.rready, bus.bready)
    free_outputs(bench, "answer", response.data[:BITS], response.error)
    done = bench.free("done")
    m.d.comb += response.done.eq(done & request.valid)
    steady(bench, bus.bvalid, bus.bready, bus.bresp)
    steady(bench, bus.rvalid, bus.rready, Cat(bus.rresp, bus.rdata[:BITS]))
    shown = Cat(request.write, request.address, request.data[:BITS])
    stands = bench.past(request.valid & ~response.done)
    bench.check(~stands | (request.valid & (shown == bench.past(shown))))
    bench.check(~bench.past(request.valid & response.done) | ~request.valid)
    held = _transfers(bench, bus)
    asked, begins = Signal(), request.valid & ~bench.past(request.valid)
    expected = {}
    for write, name, resp in ((1, "b", bus.bresp), (0, "r", bus.rresp)):
        valid, ready = getattr(bus, f"{name}valid"), getattr(bus, f"{name}ready")
        address = held["aw"][1] if write else held["ar"][1]
        whole = held["aw"][0] & held["w"][0] if write else held["ar"][0]
        aligned = address[:2] == 0
        legal = aligned & held["w"][1][BITS:].all() if write else aligned
        mine = begins & (request.write == write)
        bench.check(~mine | (whole & legal & (request.address == address) & ~valid))
        if write:
            bench.check(~mine | (request.data[:BITS] == held["w"][1][:BITS]))
        # An answer follows a request of its kind, or what may not be asked.
        answered, error, data = Signal(), Signal(), Signal(BITS)
        finishes = request.valid & response.done & (request.write == write)
        with m.If(finishes):
            m.d.sync += [answered.eq(1), error.eq(response.error), data.eq(response.data)]
        with m.Elif(valid & ready):
            m.d.sync += answered.eq(0)
        bench.check(~valid | whole)
        bench.check(~(valid & legal) | (answered & (resp == Mux(error, SLVERR, OKAY))))
        bench.check(~(valid & ~legal) | (~answered & (resp == SLVERR)))
        if not write:
            bench.check(~(valid & legal) | (bus.rdata[:BITS] == data))
        expected[name] = valid & legal & ~error
    m.d.sync += asked.eq(asked | begins)
    bench.check(~(bus.bvalid & bus.rvalid))
    bench.cover("write", expected["b"] & held["ar"][0])
    bench.cover("read", expected["r"] & (bus.rdata == 3) & asked)
    bench.cover("refused", bus.bvalid & (bus.bresp == SLVERR))


def _transfers(bench, bus):
    """By channel, whether a transfer is held that is not answered, and its content."""
    m, held = bench.m, {}
    of_write = bus.bvalid & bus.bready
    for name, content, over in (
        ("aw", bus.awaddr, of_write),
        ("w", Cat(bus.wdata[:BITS], bus.wstrb), of_write),
        ("ar", bus.araddr, bus.rvalid & bus.rready),
    ):
        valid, ready = getattr(bus, f"{name}valid"), getattr(bus, f"{name}ready")
        stood = bench.past(valid & ~ready)
        bench.assume(~stood | (valid & (content == bench.past(content))))
        inside, value = Signal(name=f"{name}_inside"), Signal(len(content), name=f"{name}_value")
        with m.If(valid & ready):
            m.d.sync += [inside.eq(1), value.eq(content)]
        with m.Elif(over):
            m.d.sync += inside.eq(0)
        bench.check(ready == ~inside)
        held[name] = inside, value
    return held


@holds("axi_lite.progress", {"address_width": 4})
def bus_progress(bench, *, address_width):
    """Reads and writes take turns: each is answered within 10 cycles by a file that takes three."""
    m = bench.m
    m.submodules.block = block = AxiLiteSubordinate(address_width=address_width)
    bus, request, response = block.bus, block.request, block.response
    free_outputs(bench, "write", bus.awvalid, bus.awaddr, bus.wvalid, bus.wstrb)
    free_outputs(bench, "read", bus.arvalid, bus.araddr)
    m.d.comb += [bus.rready.eq(1), bus.bready.eq(1)]
    # As the register file answers.
    m.d.comb += response.done.eq(request.valid & bench.past(request.valid) & bench.past(1))
    for name, waits in (("ar", ~bus.arready), ("write", ~bus.awready & ~bus.wready)):
        waited = Signal(5, name=f"{name}_waited")
        m.d.sync += waited.eq(Mux(waits, waited + ~waited.all(), 0))
        bench.check(waited <= 10)
        bench.cover(f"{name}_waits", waited == 7)


@holds("register_file.once", {"routes": False}, {"routes": True})
def register_file(bench, *, routes):
    """An access does once what it says, a cycle before its answer, or is refused as a whole."""
    m = bench.m
    depths = {"table_depth": 3, "num_flows": 2, "num_ports": 2}
    m.submodules.block = block = RegisterFile(address_width=20, routes=routes, **depths)
    request, response = block.request, block.response
    valid = bench.free("valid")
    write, address = bench.free("write"), bench.free("address", 20)
    value, locked, waits = bench.free("data", BITS + 1), bench.free("locked"), bench.free("waits")
    m.d.comb += [
        request.valid.eq(valid),
        request.write.eq(write),
        request.address.eq(address),
        request.data.eq(value),
        block.locked.eq(locked),
        block.start_waits.eq(waits),
    ]
    # As the bus asks: aligned, held until it is answered, and lowered then.
    stood = bench.past(valid & ~response.done)
    shown = Cat(write, address, value)
    bench.assume(~stood | (valid & (shown == bench.past(shown))))
    bench.assume(~bench.past(valid & response.done) | ~valid)
    bench.assume(~valid | (address[:2] == 0))
    status = [bench.constant(f"status_{k}", BITS) for k in range(len(readable(shared=routes)))]
    m.d.comb += [reported.eq(value_) for reported, value_ in zip(block.status, status, strict=True)]
    acts = bench.past(valid & ~bench.past(valid))
    _config(bench, block, (acts, write, address, value, locked))
    # Answered in the third cycle, once.
    bench.check(response.done == bench.past(acts))
    in_table, in_flow = address >= TABLE_WINDOW.base, address >= FLOW_WINDOW.base
    row, flow = (address - TABLE_WINDOW.base)[3:20], (address - FLOW_WINDOW.base)[5:20]
    allowed = acts & write & ~locked
    fits = in_table & (row < 3)
    bench.check(~block.flow_write | (allowed & in_flow & ~in_table))
    bench.check(~block.table_write | (allowed & (in_flow if routes else in_table)))
    bench.check(~(allowed & fits) | (block.table_write & (block.index == row)))
    bench.check(~(allowed & fits) | (block.word == address[2]))
    bench.check(~(in_table & (row >= 3)) | ~block.table_write)
    bench.check(~block.flow_write | ((block.index == flow) & (flow < 2) & (block.word < 5)))
    stored = block.table_write | block.flow_write
    bench.check(~stored | (block.data == value))
    control = ADDRESSES["CONTROL"]
    refused = (value[0] & locked) | (value[1] & waits)
    commands = acts & write & (address == control) & ~refused
    bench.check(block.command == bench.past(Mux(commands, value, 0)))
    wrong = bench.past(acts & write & (address == control) & refused)
    bench.check(~wrong | response.error)
    bench.check(~bench.past(acts & write & (in_table | in_flow) & ~stored) | response.error)
    bench.check(~bench.past(stored | commands) | ~response.error)
    bench.cover("table", block.table_write & (block.index == 2))
    bench.cover("flow", block.flow_write & (block.index == 1) & (block.word == 4))
    bench.cover("refused", wrong)


def _config(bench, block, access):
    """One arbitrary written register, and one that is read."""
    acts, write, address, value, locked = access
    m = bench.m
    addresses = [ADDRESSES[name] for name in writable()]
    which = bench.constant("which", range(len(addresses)))
    bench.assume(which < len(addresses))
    mine = acts & (address == Array(addresses)[which])
    anytime = Signal()
    for name in ("COUNT_SELECT", "RESET_SEQUENCE"):
        with m.If(which == writable().index(name)):
            m.d.comb += anytime.eq(1)
    kept = Signal(BITS + 1)
    takes = mine & write & (~locked | anytime)
    held, changed = Array(block.config)[which], block.changed.bit_select(which, 1)
    with m.If(takes):
        m.d.sync += kept.eq(value)
    wrote = Signal()
    m.d.sync += wrote.eq(wrote | takes)
    bench.check(~wrote | (held == kept))
    bench.check(wrote | (held == bench.past(held)) | ~bench.past(1))
    bench.check(changed == bench.past(takes))
    reads = bench.past(mine & ~write)
    response = block.response
    bench.check(~reads | ((response.data == bench.past(held)) & ~response.error))
    bench.check(~bench.past(mine & write) | (response.error == bench.past(~takes)))
    bench.cover("read", reads & wrote & (kept == 3))


@holds("snapshot.still", {"bits": 1}, {"bits": 4})
def snapshot(bench, *, bits):
    """What a collective goes by stays while it runs; what is of the table changes with its swap."""
    m = bench.m
    m.submodules.block = block = Snapshot()
    swap, held = bench.free("swap"), bench.free("held")
    m.d.comb += [block.swap.eq(swap), block.held.eq(held)]
    written = [bench.free(f"setting_{k}", bits) for k in range(len(block.settings))]
    for name, value, setting, used in zip(
        writable(), written, block.settings, block.used, strict=True
    ):
        m.d.comb += setting.eq(value)
        stays, follows = (bench.past(~swap), bench.past(swap))
        if name not in OF_THE_TABLE:
            stays, follows = bench.past(held), bench.past(~held)
        bench.check(~stays | (used == bench.past(used)))
        bench.check(~follows | (used == bench.past(setting)))
    bench.cover("swapped", bench.past(swap & held) & (block.used[0] != block.settings[0]))


@holds("counters.counts", {"buffer_flits": 4}, {"buffer_flits": 9})
def counts(bench, *, buffer_flits):
    """Each event counts once while a collective runs; the least credits are kept."""
    m = bench.m
    config = Config(buffer_flits=buffer_flits)
    m.submodules.block = block = PortCounters(config)
    start, running = bench.free("start"), bench.free("running")
    m.d.comb += [block.start.eq(start), block.running.eq(running)]
    events = [name for name in block.activity.signature.members if name != "credits"]
    free_outputs(bench, "event", *(getattr(block.activity, name) for name in events))
    credits = bench.free("credits", range(buffer_flits + 1))
    bench.assume(credits <= buffer_flits)
    m.d.comb += block.activity.credits.eq(credits)
    which = bench.constant("which", range(len(events)))
    bench.assume(which < len(events))
    happens = Array(getattr(block.activity, name) for name in events)[which]
    count, least = Signal(4), Signal(range(buffer_flits + 1), init=buffer_flits)
    reported, was_running = bench.past(happens), bench.past(running)
    low = bench.past(credits)
    with m.If(start):
        m.d.sync += [count.eq(0), least.eq(buffer_flits)]
    with m.Elif(was_running):
        m.d.sync += count.eq(count + reported)
        with m.If(low < least):
            m.d.sync += least.eq(low)
    by_event = [value for k, value in enumerate(block.counts) if k != _OF_CREDITS]
    bench.check(Array([value[:4] for value in by_event])[which] == count)
    bench.check(block.counts[_OF_CREDITS] == least)
    bench.cover("counted", (count == 3) & (least == 1))
