"""Any table: one arbitrary row and its flow are looked at, all others are free."""

from dataclasses import dataclass

from amaranth import Mux, Signal
from amaranth.hdl import Value
from amaranth.lib import data

from multitree.nic.driver.formats import NO_PORT
from multitree.nic.layouts import FLOW_ENTRY, ROW

__all__ = ["NOP", "Words", "illegal_entry", "illegal_row", "table"]

NOP = 2
# Bits of each field that are free; the others are 0, or no port: few make the proof feasible.
_ROW_BITS = {"flow": 3, "port": 4, "op": 2, "reserved": 1, "step": 2, "stage": 1}
_ENTRY_BITS = {"base": 5, "size": 5, "stride": 1, "parent": 4, "reserved": 1}
_CHILDREN = 2


def _row(bits, fields):
    """A row, every field of which has some free bits."""
    row, place, parts = Signal(ROW, name="any_row"), 0, []
    for field, width in fields.items():
        parts.append(row[field].eq(bits[place : place + width]))
        place += width
    return row, parts


def _entry(bits, fields):
    """An entry of the flow memory, every field of which has some free bits."""
    entry, place, parts = Signal(FLOW_ENTRY, name="any_entry"), 4 * _CHILDREN, []
    for child in range(8):
        port = bits[4 * child : 4 * child + 4] if child < _CHILDREN else NO_PORT
        parts.append(entry.children[child].eq(port))
    for field, size in fields.items():
        parts.append(entry[field].eq(bits[place : place + size]))
        place += size
    return entry, parts


@dataclass(frozen=True)
class Words:
    """A table of which one row, at an arbitrary index, and its flow's entry are known.

    What the memories show of rows and entries comes two cycles after the address.
    """

    index: Value
    row: data.View
    entry: data.View
    shown_row: data.View
    shown_entry: data.View


def _shown(m, address, known_at, known, other):
    """The word of the address two cycles before; the same one as long as that stays."""
    at = m.past(address, 2)
    held, still, value = Signal(len(known)), at == m.past(at), Signal(len(known))
    m.d.sync += held.eq(value)
    m.d.comb += value.eq(Mux(at == known_at, known, Mux(still, held, other)))
    return value


def table(m, *, row_address, flow_address, wave_width=0):
    """Any table at all, of which a block asks for a row and for an entry.

    Stages and strides have one bit more than is legal.
    """
    of_row, of_entry = dict(_ROW_BITS), dict(_ENTRY_BITS)
    if wave_width:
        of_row["stage"], of_entry["stride"] = wave_width + 1, 5
    row_width, entry_width = sum(of_row.values()), sum(of_entry.values()) + 4 * _CHILDREN
    index = m.constant("index", 3)
    row_bits = m.constant("row", row_width)
    entry_bits = m.constant("flow", entry_width)
    row, assigned = _row(row_bits, of_row)
    entry, also = _entry(entry_bits, of_entry)
    others = m.free("other_row", row_width), m.free("other_flow", entry_width)
    shown_row, more = _row(_shown(m, row_address[:4], index, row_bits, others[0]), of_row)
    found = _shown(m, flow_address[:4], row.flow[:4], entry_bits, others[1])
    shown_entry, rest = _entry(found, of_entry)
    m.d.comb += [*assigned, *also, *more, *rest]
    return Words(index, row, entry, shown_row, shown_entry)


def illegal_row(row, num_ports, num_flows, wave_width=0):
    """Whether a row breaks a rule that needs no other row."""
    stage = row.stage[wave_width:] if wave_width else row.stage
    wrong = (row.op > NOP) | (row.reserved != 0) | (stage != 0)
    return wrong | ((row.op != NOP) & ((row.port >= num_ports) | (row.flow >= num_flows)))


def illegal_entry(entry, num_ports, window_flits, wave_width=0):
    """Whether an entry names a port that is not there, or leaves the window."""
    stride = entry.stride[len(window_flits) :] if wave_width else entry.stride
    wrong = (entry.parent != NO_PORT) & (entry.parent >= num_ports)
    outside = (entry.base + entry.size) > window_flits
    return wrong | outside | (stride != 0) | (entry.reserved != 0)
