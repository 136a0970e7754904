"""What can go wrong around an interface, and the fault it must end in."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from multitree.hw.codes import check_columns
from multitree.hw.link.link import Kind
from multitree.nic.driver.commands import COMMIT
from multitree.nic.driver.faults import Awaited, FaultCode
from multitree.nic.driver.formats import NO_PORT
from multitree.nic.driver.registers import ADDRESS, FLOW_WINDOW, TABLE_WINDOW
from multitree.nic.layouts import head_layout
from multitree.topology.collectives import Op
from tests.cocotb.models.environment import CONFIG, NUMBERS
from tests.cocotb.models.random_table import FlowPlan, Plan, make_table

__all__ = ["Case", "cases"]

INNER = FlowPlan(0, 0, 30, (0, 1), 2, 2, (0, 1))
"""An inner node of an all-reduce; its chunk is longer than a link's buffer."""
RELAY = FlowPlan(0, 0, 30, (0, 1), 2, NO_PORT, ())
"""The same of a reduce."""
ROOT = FlowPlan(1, 30, 6, (0, 1), NO_PORT, NO_PORT, ())
"""The root of a reduce, which sends nothing."""
LEAF = FlowPlan(2, 36, 6, (), NO_PORT, 0, ())
"""A leaf of a gather, which sends nothing."""
SENT = FlowPlan(0, 30, 12, (), 2, NO_PORT, ())
"""The leaf of a reduce."""
WINDOW_FLITS = 42
SEQUENCE = head_layout(CONFIG)["sequence"]
FAULT_RECORDS = (int("5A" * 12, 16), int("A5" * 12, 16))
"""What a neighbour tells of a fault: the code, the rank where it began, and more."""


@dataclass(frozen=True)
class Case:
    """One thing that goes wrong, in the order in which it does, and what it has to end in."""

    code: FaultCode
    flows: tuple = (INNER, ROOT, LEAF)
    # What the fault has to tell, and the op of the message that is at fault.
    awaited: Awaited | None = None
    op: str | None = None
    packets: bool = False
    # From the register writes and the table to what is written and loaded.
    change: Callable = lambda writes: writes
    table: Callable = lambda table: table
    # Before the table is loaded; between commit and start; some cycles after the start.
    act: Callable = lambda env: None
    then: tuple = ()
    poke: Callable = lambda dut: None
    later: Callable = lambda env: None
    # Port whose neighbour reports a fault, and what it says of it.
    reporter: int = 0
    record: int = 0

    def plan(self, rng):
        """The table as it should be, with what is wrong in it."""
        flows = [replace(flow, number=number) for number, flow in enumerate(self.flows)]
        table = make_table(flows, CONFIG, rng, nop_chance=0)
        return Plan(tuple(flows), self.table(table), WINDOW_FLITS)


def _edit(field, place, value):
    """A table with one value changed."""

    def edit(table):
        changed = getattr(table, field).copy()
        changed[place] = value
        return replace(table, **{field: changed})

    return edit


def _write(address, value):
    """The writes with another value at one address."""
    return lambda writes: [(a, value if a == address else v) for a, v in writes]


def _register(name, value):
    return _write(ADDRESS[name], value)


def _both(first, second):
    return lambda writes: second(first(writes))


def _on_message(change, *, port=0, op=Op.REDUCE):
    """A neighbour that changes the first message of an op."""

    def act(env):
        done = []

        def tamper(key, flits):
            if key[0] != op or done:
                return flits
            done.append(key)
            return change(flits)

        env.partners[port].tamper = tamper

    return act


def _silent(*ports, op=Op.REDUCE):
    """Neighbours that send nothing of an op."""

    def act(env):
        for port in ports:
            env.partners[port].tamper = lambda key, flits: [] if key[0] == op else flits

    return act


def _on_flit(change, *, port=0, number=3):
    """A link on which a flit is changed; `change` may return None."""

    def act(env):
        env.ends[port].tamper = lambda count, flit: change(flit) if count == number else flit

    return act


def _head_bits(mask):
    """A message whose head has some bits the other way round."""
    return lambda flits: [(flits[0][0], flits[0][1] ^ mask), *flits[1:]]


def _poke(memory, entry, mask):
    """Flip bits of the bank that is executed after the first commit."""

    def poke(dut):
        bank = getattr(dut.core.tables, memory).content.bank_1
        bank[entry].value = int(bank[entry].value) ^ mask

    return poke


def _poke_counts(dut):
    """Flip two bits of every port's count of the first flow's contributions, likewise."""
    for port in range(CONFIG.num_ports):
        counts = getattr(dut.core.tracker, f"counts_{port}")
        counts[1].value = int(counts[1].value) ^ 3


def _tables():
    """Illegal rows, flows, sizes, and tables that are not what they were."""
    row, flow = FaultCode.ROW_ILLEGAL, FaultCode.FLOW_ILLEGAL
    yield Case(row, table=_edit("port", 1, CONFIG.num_ports))
    yield Case(row, table=_edit("op", 1, 3))
    yield Case(row, table=_edit("flow", 1, 3))
    yield Case(row, table=lambda table: replace(table, step=np.arange(table.num_rows)[::-1].copy()))
    yield Case(row, change=_write(TABLE_WINDOW.base, 1 << 22))
    yield Case(row, change=_register("NUM_ROWS", CONFIG.table_depth + 1))
    yield Case(flow, table=_edit("base", 1, WINDOW_FLITS - 5))
    yield Case(flow, table=_edit("parent", 1, CONFIG.num_ports))
    yield Case(flow, table=_edit("children", (1, 0), NO_PORT))
    yield Case(flow, table=_edit("children", (1, 1), 0))
    yield Case(flow, table=_edit("stride", 1, 1 << CONFIG.address_width))
    yield Case(flow, change=_write(FLOW_WINDOW.base + 16, 1 << 4))
    yield Case(flow, change=_register("NUM_FLOWS", CONFIG.num_flows + 1))
    yield Case(FaultCode.ITERATIONS, table=_edit("stage", 1, 1 << CONFIG.wave_width))
    yield Case(FaultCode.TABLE_CRC, change=_register("TABLE_CRC", 0))
    yield Case(FaultCode.TABLE_PARITY, poke=_poke("table", 0, 1))
    yield Case(FaultCode.TABLE_PARITY, poke=_poke("flows", 2, 1 << 33))
    yield Case(FaultCode.TABLE_PARITY, poke=_poke("flows", 2, 3 << 6))
    # A bit of a base that no row uses, and all its check bits: nobody checks it again.
    whole = 1 << 6 | check_columns(32)[6] << 32
    yield Case(FaultCode.OUT_OF_WINDOW, poke=_poke("flows", 2, whole))
    yield Case(FaultCode.STATE_PARITY, poke=_poke_counts)


def _hosts():
    """Starts that cannot be."""
    illegal = FaultCode.SETTINGS_ILLEGAL
    yield Case(FaultCode.NOT_COMMITTED, change=lambda w: [x for x in w if x != COMMIT])
    yield Case(FaultCode.ITERATIONS, change=_register("ITERATIONS", 1 << CONFIG.wave_width))
    # Several waves in lockstep.
    yield Case(illegal, change=_both(_register("ITERATIONS", 1), _register("MODE", 4)))
    # It would wrap around into the window.
    yield Case(
        FaultCode.OUT_OF_WINDOW,
        flows=(SENT,),
        table=_edit("stride", 0, (1 << CONFIG.address_width) - 16),
        change=_register("ITERATIONS", 1),
    )
    yield Case(illegal, change=_register("MODE", 3))
    yield Case(illegal, change=_register("MODE", 1 << 6))
    yield Case(illegal, change=_register("WINDOW_BASE", (1 << CONFIG.address_width) - 1))
    # Another length than the one that was committed.
    yield Case(illegal, then=((ADDRESS["WINDOW_FLITS"], WINDOW_FLITS + 1),))


def _messages():
    """What no neighbour may send."""

    def shortened(flits):
        return [*flits[:-2], flits[-1]]

    def lengthened(flits):
        return [*flits[:-1], (Kind.BODY.value, 0), flits[-1]]

    for op, name in ((Op.REDUCE, "REDUCE"), (Op.GATHER, "GATHER")):

        def case(code, change, op=op, name=name, **more):
            return Case(code, act=_on_message(change, op=op), op=name, **more)

        yield case(FaultCode.FRAMING, shortened)
        yield case(FaultCode.FRAMING, lengthened)
        yield case(FaultCode.FRAMING, lambda flits: flits[1:])
        yield case(FaultCode.FRAMING, _head_bits(1 << 33))
        yield case(FaultCode.UNEXPECTED_MESSAGE, _head_bits(0xFF))
        yield case(FaultCode.UNEXPECTED_MESSAGE, _head_bits(0xFFF8))
        yield case(FaultCode.UNEXPECTED_MESSAGE, _head_bits(0xFFFF << 16))
        yield case(FaultCode.UNEXPECTED_MESSAGE, _head_bits(1 << 16))
        yield case(FaultCode.UNEXPECTED_MESSAGE, _head_bits(1 << 32), flows=(ROOT, LEAF))
        yield case(FaultCode.STALE_SEQUENCE, _head_bits(NUMBERS - 1 << SEQUENCE.offset))
        yield case(FaultCode.DUPLICATE_MESSAGE, lambda flits: flits + flits)
        yield case(FaultCode.LENGTH, _head_bits(1 << 48))
        yield case(FaultCode.LENGTH, _head_bits(0xFFFFFFFF << 48))
    other = lambda flits: [*flits[:5], (flits[5][0], flits[5][1] ^ 1), *flits[6:]]  # noqa: E731
    yield Case(FaultCode.FRAMING, act=_on_message(other), packets=True)


def _links():
    """Flits and credits that are not what was sent."""
    yield Case(FaultCode.LINK_SEQUENCE, act=_on_flit(lambda flit: None))
    yield Case(FaultCode.LINK_SEQUENCE, act=_on_flit(lambda flit: flit | {"sequence": 2}))
    yield Case(FaultCode.LINK_SEQUENCE, act=_on_flit(lambda flit: flit | {"vc": 1}))
    yield Case(FaultCode.LINK_EPOCH, act=_on_flit(lambda flit: flit | {"epoch": 1 - flit["epoch"]}))
    for field in ("payload", "check"):
        flipped = lambda flit, name=field: flit | {name: flit[name] ^ 4}  # noqa: E731
        yield Case(FaultCode.LINK_CHECK, act=_on_flit(flipped, number=4))

    def heedless(env):
        env.ends[0].ignores_credits = True
        env.channel_stalls[2].stop()

    def generous(env):
        env.ends[1].extra_credits = 1

    yield Case(FaultCode.BUFFER_OVERFLOW, act=heedless)
    yield Case(FaultCode.CREDIT_OVERFLOW, act=generous)
    yield Case(FaultCode.PEER_RESET, later=lambda env: env.ends[1].fall())
    for port, record in itertools.product(range(CONFIG.num_ports), FAULT_RECORDS):
        tells = lambda env, at=port, word=record: env.ends[at].send_fault.append(word)  # noqa: E731
        yield Case(FaultCode.PEER_FAULT, later=tells, reporter=port, record=record)


def _memories():
    """Accesses that fail."""

    def reads(env):
        env.memory.broken_reads = range(5)

    def writes(env):
        env.memory.broken_writes = range(5)

    yield Case(FaultCode.MEMORY_ERROR, act=reads, awaited=Awaited.MEMORY_READ)
    yield Case(FaultCode.MEMORY_ERROR, act=writes, awaited=Awaited.MEMORY_WRITE)


def _waits():
    """Somebody who does not do his part, and what the others wait for."""
    quiet = {"code": FaultCode.WATCHDOG, "flows": (ROOT, LEAF)}
    relay = {"code": FaultCode.WATCHDOG, "flows": (RELAY,)}
    yield Case(FaultCode.WATCHDOG, act=_silent(1), awaited=Awaited.DEPENDENCY)
    yield Case(**relay, act=lambda env: env.ends[2].credit_stall.stop(), awaited=Awaited.CREDIT)
    yield Case(**relay, act=lambda env: env.channel_stalls[6].stop(), awaited=Awaited.MEMORY_READ)
    yield Case(**quiet, act=_silent(0), awaited=Awaited.SIBLING)
    broken_off = _on_message(lambda flits: flits[:3])  # and nothing behind it on this port
    yield Case(FaultCode.FIRST_ARRIVAL, act=broken_off, flows=(ROOT,), awaited=Awaited.FLIT)
    yield Case(**quiet, act=_silent(1), awaited=Awaited.ARRIVALS)
    yield Case(FaultCode.FIRST_ARRIVAL, act=_silent(0, 1), flows=(ROOT,))


def cases():
    """All of them, in an order of no meaning."""
    return [*_tables(), *_hosts(), *_messages(), *_links(), *_memories(), *_waits()]
