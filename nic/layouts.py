"""Layouts of bits that blocks share, made from the programmer's formats."""

from amaranth.lib import data

from multitree.hw.lanes import DType
from multitree.hw.link.link import Kind
from multitree.nic.driver.config import LANE_TYPES, Config
from multitree.nic.driver.formats import (
    FLOW_FORMAT,
    NUM_CHILD_PORTS,
    ORDER_WIDTH,
    PORT_FIELD_WIDTH,
    ROUTE_WIDTH,
    ROW_FORMAT,
    SHARED_FLOW_FORMAT,
    SHARED_ROW_FORMAT,
    Format,
    head_format,
    row_format,
)
from multitree.nic.driver.registers import fields_of

__all__ = [
    "CONTRIBUTION",
    "FLOW_ENTRY",
    "ROW",
    "SHARED_FLOW",
    "SHARED_ROW",
    "descriptor_layout",
    "flit_stream",
    "head_layout",
    "job_layout",
    "lane_types",
    "mark_layout",
    "register_layout",
    "register_view",
    "row_layout",
]


def _layout(entry: Format, **shapes) -> data.StructLayout:
    """The fields of a format, as numbers but for those that have another shape."""
    widths = {name: bits.width for name, bits in entry.fields.items()}
    return data.StructLayout(widths | shapes)


ROW, SHARED_ROW = _layout(ROW_FORMAT), _layout(SHARED_ROW_FORMAT)
"""Rows of the table memory, on private and on shared links."""
FLOW_ENTRY = _layout(FLOW_FORMAT, children=data.ArrayLayout(PORT_FIELD_WIDTH, NUM_CHILD_PORTS))
"""An entry of the flow memory on private links."""
SHARED_FLOW = _layout(SHARED_FLOW_FORMAT)
"""An entry of the flow memory on shared links."""
CONTRIBUTION = data.StructLayout({"flow": 16, "order": ORDER_WIDTH})
"""A contribution by its flow and its place in the order of summation."""

# Fields of a message's head on shared links in addition to flow, op and size.
_ROUTED = {"order": ORDER_WIDTH, "vc_class": 1, "step": 16, "route": ROUTE_WIDTH}


def lane_types(config: Config) -> tuple[DType, ...]:
    """Types of lanes that an interface is built to reduce."""
    return tuple(DType(LANE_TYPES[name].value) for name in config.dtypes)


def row_layout(config: Config) -> data.StructLayout:
    """A row of this interface's table."""
    return _layout(row_format(config))


def head_layout(config: Config) -> data.StructLayout:
    """Lowest bits of a head flit's payload."""
    return _layout(head_format(config))


def job_layout(config: Config) -> data.StructLayout:
    """A checked row for a port's sender, with the dependency it has to wait for."""
    return data.StructLayout(
        {
            "row": 16,
            "flow": 16,
            "op": 1,
            "base": config.address_width,
            "size": config.address_width,
            "wave": config.wave_width,
            "needs": 1,
            "need_port": 4,
            "need_op": 1,
            **(_ROUTED if config.shared else {}),
        }
    )


def descriptor_layout(config: Config) -> data.StructLayout:
    """A message to frame: fields of its head, its size in flits, and its row of the table."""
    fields = {"flow": 16, "op": 1, "size": config.address_width, "row": 16}
    fields |= {"wave": config.wave_width}
    return data.StructLayout(fields | (_ROUTED if config.shared else {}))


def flit_stream(config: Config) -> data.StructLayout:
    """Payload of the streams between a port and its link: kind and payload of a flit."""
    return data.StructLayout({"kind": Kind, "payload": 8 * config.flit_bytes})


def mark_layout(config: Config) -> data.StructLayout:
    """Report of an arrival; on shared links of whole messages, with their place."""
    fields = {"op": 1, "flow": 16, "count": config.count_width, "last": 1}
    place = {"order": ORDER_WIDTH, "staged": 1, "final": 1} if config.shared else {}
    return data.StructLayout(fields | place)


def register_layout(*registers: str) -> data.StructLayout:
    """The fields of registers that follow each other, and what is reserved between them."""
    fields: dict[str, int] = {}

    def skip(width: int) -> None:
        if width:
            fields[f"reserved_{len(fields)}" if "reserved" in fields else "reserved"] = width

    for register in registers:
        end = 0
        for field in fields_of(register):
            skip(field.lsb - end)
            fields[field.name], end = field.width, field.lsb + field.width
        skip(32 - end)
    return data.StructLayout(fields)


def register_view(register: str, word):
    """A register's word in hardware, by the names of its fields."""
    return data.View(register_layout(register), word)
