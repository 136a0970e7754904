"""Properties of faults: the first one is kept and sent to each neighbour once."""

from amaranth import Array, Cat, Const, Mux, Signal

from multitree.hw.switch.faults import SwitchFault, SwitchFaults
from multitree.nic.control.monitor import FaultMonitor, FaultRelay, Watchdog
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import Awaited, FaultCode
from tests.formal.bench import holds, sets

_PORTS = ({"num_ports": 2}, {"num_ports": 4})
# A flit of 8 bytes tells who, which fault, row and flow; one of 16 the whole record.
_RECORDS = sets("num_ports flit_bytes", (2, 8), (4, 16))

_NOTHING = {"code": 0, "awaited": 0, "op": 0, "port": 15, "at_port": 15}
_NOTHING |= {"row": 0xFFFF, "flow": 0xFFFF, "wave": 0}
_NAMES_A_FLOW = (
    FaultCode.FRAMING,
    FaultCode.UNEXPECTED_MESSAGE,
    FaultCode.STALE_SEQUENCE,
    FaultCode.TABLE_PARITY,
    FaultCode.DUPLICATE_MESSAGE,
    FaultCode.LENGTH,
)


@holds("watchdog.bites", {"width": 2}, {"width": 4})
def watchdog(m, *, width):
    """A fault exactly when nothing moved for the limit that holds; 0 switches it off."""
    m.submodules.block = block = Watchdog()
    running, progress, arrived = block.running, block.progress, block.arrived
    limits = [block.watchdog_cycles[:width], block.first_arrival_cycles[:width]]
    m.drive(running, progress, arrived)
    m.fix(*limits)
    # As ports report both: an arrival is progress.
    m.assume(~arrived | progress)
    still, seen = Signal(width + 1), Signal()
    limit = Mux(seen, limits[0], limits[1])
    with m.If(~running):
        m.d.sync += [still.eq(0), seen.eq(0)]
    with m.Else():
        m.d.sync += [still.eq(Mux(progress, 0, still + ~still.all())), seen.eq(seen | arrived)]
    bites = running & (limit != 0) & (still >= limit)
    code = Mux(seen, FaultCode.WATCHDOG.value, FaultCode.FIRST_ARRIVAL.value)
    # A limit is reached after less time than the counter of this bench holds.
    m.check(still.all() | (block.code == Mux(bites, code, 0)))
    m.cover("bites", bites & seen)
    m.cover("off", running & ~limit.any() & (still == 3))


class _Found:
    """A fault with all that it concerns; of several sources the one found first counts."""

    def __init__(self):
        self.found, self.fields = 0, dict(_NOTHING)

    def add(self, here, **fields):
        """A source that ranks below those before; what it does not name is unknown."""
        for name, unknown in _NOTHING.items():
            value = fields.get(name, unknown)
            self.fields[name] = Mux(self.found, self.fields[name], Mux(here, value, unknown))
        self.found = self.found | here


def _of_port(block, number, num_ports):
    """What is known of a port's fault: only a message's names a flow, and its wave."""
    code, wait = block.ports[number], block.waits[num_ports + number]
    named = Cat(code == kind.value for kind in _NAMES_A_FLOW).any()
    flow = Mux(named, wait.flow, 0xFFFF)
    wave = Cat(wait.wave, flow != 0xFFFF) if len(block.wave) else 0
    known = {"code": code, "awaited": block.ports_awaited[number], "at_port": number}
    return known | {"flow": flow, "wave": wave}


def _waiting(block, num_ports):
    """Who waits, and for what: senders first, of which alone the row is known."""
    waiting = _Found()
    for index, wait in enumerate(block.waits):
        known = {"row": wait.row} if index < num_ports else {}
        waiting.add(
            wait.awaited != Awaited.NOTHING.value,
            **{name: getattr(wait, name) for name in ("awaited", "op", "port", "flow")},
            at_port=index % num_ports,
            wave=Cat(wait.wave, 1) if len(block.wave) else 0,
            **known,
        )
    waiting.add(1, awaited=Awaited.ARRIVALS.value)
    return waiting.fields


def _monitor(m, num_ports, wave_width):
    """The monitor with free inputs."""
    block = FaultMonitor(Config(num_ports=num_ports, wave_width=wave_width))
    m.submodules.block = block
    m.drive(block.control, block.table, block.watchdog, *block.ports)
    m.drive(block.table_index, block.table_of_flow, *block.ports_awaited)
    for wait in block.waits:
        waves = [wait.wave] if wave_width else []
        m.drive(wait.awaited, wait.row, wait.flow, wait.port, wait.op, *waves)
    return block


@holds("monitor.first", *_PORTS, {"num_ports": 2, "wave_width": 3})
def first(m, *, num_ports, wave_width=0):
    """The first fault is kept as it came, with what it concerns; of several the one that ranks
    highest.
    """
    block = _monitor(m, num_ports, wave_width)
    expected, of_flow = _Found(), block.table_of_flow
    expected.add(block.control.any(), code=block.control)
    row, flow = (Mux(known, block.table_index, 0xFFFF) for known in (~of_flow, of_flow))
    expected.add(block.table.any(), code=block.table, row=row, flow=flow)
    for number in range(num_ports):
        expected.add(block.ports[number].any(), **_of_port(block, number, num_ports))
    of_watchdog = block.watchdog.any() & ~expected.found
    # What waits is registered before: nothing moves when a watchdog bites.
    waiting = {name: m.past(value) for name, value in _waiting(block, num_ports).items()}
    expected.add(block.watchdog.any(), **{**waiting, "code": block.watchdog})
    kept, fault = m.past(block.faulted), Cat(block.fault.as_value(), block.wave)
    m.check(~kept | (block.faulted & (fault == m.past(fault))))
    m.check(block.faulted == (kept | m.past(expected.found)))
    begins = ~kept & block.faulted
    known = ~m.past(of_watchdog) | m.past(1, 2)
    for name, value in expected.fields.items():
        is_wave = name == "wave"
        if is_wave and not wave_width:
            continue
        reported = block.wave if is_wave else getattr(block.fault, name)
        m.check(~(begins & known) | (reported == m.past(value)))
    m.check(block.faulted | ~fault.any())
    m.cover("watchdog", begins & m.past(of_watchdog) & (block.fault.at_port == 0))
    m.cover("another", kept & m.past(block.control.any()))


def _told(m, block, *, fault, own, from_port, num_ports):
    """What one arbitrary neighbour learns of a fault, which is there for good.

    It began here, or at the port whose neighbour reported it.
    """
    port = m.one_of(num_ports, "port")
    tell, up, reported = (
        bits.bit_select(port, 1) for bits in (block.send_fault, block.up, block.fault_sent)
    )
    m.assume(~reported | tell)
    known, owed = m.past(fault), Signal()
    with m.If(fault & ~known):
        m.d.sync += owed.eq(own | (from_port != port))
    with m.Elif(~up):
        m.d.sync += owed.eq(fault & own)
    with m.Elif(reported):
        m.d.sync += owed.eq(0)
    # Owed since the fault or since the link came up, paid once: offered all the while.
    m.check(tell == (owed & up & known))
    m.cover("passed_on", known & ~own & reported)
    m.cover("again", known & own & reported & m.past(~up, 2))


def _record(m, block, *, fault, own, said, came):
    """What is told of a fault: all that is said of an own one, or what came; and who began it."""
    known, record = m.past(fault), block.fault_record
    m.check(~known | (record == Mux(own, said[: len(record)], came)))
    return Mux(known, Cat(record[:24], 1), 0)


@holds("relay.sent", *_RECORDS)
def relay(m, *, num_ports, flit_bytes):
    """Each neighbour is notified once, an own fault again at link-up, never its sender."""
    config = Config(num_ports=num_ports, flit_bytes=flit_bytes)
    m.submodules.block = block = FaultRelay(config)
    m.drive(block.rank, block.fault_received, block.up, block.fault_sent, *block.received_fault)
    m.fix(block.fault)
    faulted = Signal()
    # As the monitor latches it: for good, and after a neighbour's word if that is what it is.
    begins = m.free("begins") & ~faulted
    m.d.sync += faulted.eq(faulted | begins)
    m.d.comb += block.faulted.eq(faulted)
    own = block.fault.code != FaultCode.PEER_FAULT.value
    heard, from_port = block.fault_received, block.fault.at_port
    lowest = heard & (~heard + 1)[:num_ports]
    m.assume(~begins | own | ((1 << from_port)[:num_ports] == lowest) & heard.any())
    _told(m, block, fault=faulted, own=own, from_port=from_port, num_ports=num_ports)
    came = m.latch(begins, Array(block.received_fault)[from_port])
    words = block.fault.as_value()
    said = Cat(block.rank, block.fault.code, Const(0, 8), words[32:], words[:32])
    m.check(block.origin == _record(m, block, fault=faulted, own=own, said=said, came=came))


@holds("switch_faults.sent", *_RECORDS)
def switch_faults(m, *, num_ports, flit_bytes):
    """The first fault is kept, and sent to each neighbour once, whole, as an interface's is."""
    m.submodules.block = block = SwitchFaults(num_ports=num_ports, flit_bytes=flit_bytes)
    m.drive(block)
    peer = SwitchFault.PEER_FAULT.value
    for code in block.faults:
        m.assume(code != peer)
    fault = block.fault.as_value()
    faulted, kept = block.fault.code.any(), m.past(block.fault.code.any())
    m.check(~kept | (fault == m.past(fault)))
    wrong = Cat(code.any() for code in block.faults) | block.fault_received
    m.check(faulted == (kept | m.past(wrong).any()))
    port, expected = 0, 0
    for number in reversed(range(num_ports)):
        own, mine = block.faults[number], wrong[number]
        expected = Mux(mine, Mux(own.any(), own, peer), expected)
        port = Mux(mine, number, port)
    begins = faulted & ~kept
    named = (block.fault.code == m.past(expected)) & (block.fault.port == m.past(port))
    m.check(~begins | named)
    own = block.fault.code != peer
    _told(m, block, fault=faulted, own=own, from_port=block.fault.port, num_ports=num_ports)
    came = m.latch(~faulted, Array(block.received_fault)[port])
    # Row and flow are unknown, and no port is awaited.
    word = Cat(block.fault.code, Const(0xF0, 8), block.fault.port, Const(0, 8))
    said = Cat(block.number, block.fault.code, Const(0, 8), Const(0xFFFFFFFF, 32), word)
    origin = _record(m, block, fault=faulted, own=own, said=said, came=came)
    m.check(block.origin == m.past(origin))
