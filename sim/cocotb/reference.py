"""Reference of a collective: messages at each port, and memories afterwards."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from multitree.nic.driver.commands import RunSettings
from multitree.nic.driver.config import Config
from multitree.nic.driver.formats import head_format
from multitree.nic.driver.routed_rows import places_in_sums, routes_of
from multitree.sim.cocotb.link_end import KINDS, Flit
from multitree.sim.rtl.loads import Load, Upcoming
from multitree.topology.collectives import DTYPES, Op, combine
from multitree.topology.schedules.execute import execute
from multitree.topology.schedules.schedule import Schedule

__all__ = [
    "Collective",
    "Message",
    "as_flits",
    "check_rank",
    "collective_of",
    "draw_buffers",
    "expected",
    "frame",
    "message_of",
]

Flits = npt.NDArray[np.uint8]
Buffers = npt.NDArray[Any]

_SHOWN = 4
_SPREAD = 20


class Message(NamedTuple):
    """Message by operation, flow, wave and port of the interface.

    On shared links `order` is the contribution's position in its sum, and `route` the hops ahead of
    the message, which distinguishes those of one flow to several ranks; they are 0 elsewhere.
    """

    op: int
    flow: int
    port: int
    wave: int = 0
    order: int = 0
    route: int = 0

    def __str__(self) -> str:
        """Operation, flow, and other fields that are not 0."""
        known = self.op in list(Op)
        rest = {name: getattr(self, name) for name in ("wave", "order", "route")}
        where = "".join(f", {name} {value}" for name, value in rest.items() if value)
        return f"{Op(self.op).name if known else f'op {self.op}'} of flow {self.flow}{where}"


@dataclass
class Collective:
    """Collective at one interface: its settings, and the messages that come in and go out.

    Parameters
    ----------
    number : int
        Among those that run one after the other.
    settings : RunSettings
    incoming, outgoing : dict of Message to uint8 array, shape (num_flits, flit_bytes)
        Their payload, incoming ones in an order in which the network can deliver them.
    steps : dict of Message to int
        Step in their heads, on shared links.
    vc_classes : dict of Message to int
        Class of their channel; 0 by default.
    replies : dict of Message to Message
        Outgoing REDUCE that each incoming GATHER answers.
    """

    number: int
    settings: RunSettings
    incoming: dict[Message, Flits] = field(default_factory=dict)
    outgoing: dict[Message, Flits] = field(default_factory=dict)
    steps: dict[Message, int] = field(default_factory=dict)
    vc_classes: dict[Message, int] = field(default_factory=dict)
    replies: dict[Message, Message] = field(default_factory=dict)

    def channel(self, message: Message, sequence: int, config: Config) -> int:
        """Virtual channel of a message: 0 on private links, else parity and class."""
        return sequence & 1 | self.vc_classes.get(message, 0) << 1 if config.shared else 0

    def framed(self, message: Message, sequence: int, config: Config, **changes: int) -> list[Flit]:
        """Flits of a message; `changes` are wrong values for fields of the head."""
        flits = (self.incoming if message in self.incoming else self.outgoing)[message]
        packets = self.settings.flow_control == "packet"
        step = {"step": self.steps[message]} if config.shared else {}
        fields = {"sequence": sequence} | step | changes
        return frame(config, message, flits, packets=packets, **fields)


def frame(
    config: Config, message: Message, flits: Flits, *, packets: bool = False, **fields: int
) -> list[Flit]:
    """Flits of a message as (kind, payload): one head, or one per packet.

    Parameters
    ----------
    config : Config
    message : Message
    flits : uint8 array, shape (num_flits, flit_bytes)
        The payload.
    packets : bool
        A head before each sub-message.
    **fields : int
        Other fields of the head, such as `sequence`, and wrong values.

    Raises
    ------
    KeyError
        If a head has no such field.
    """
    places = head_format(config)
    # Heads on private links have a wave, those on shared ones an order and a route.
    named = {name: value for name, value in message._asdict().items() if name in places.fields}
    values = {**named, "size": len(flits)} | fields

    def head(**more: int) -> int:
        given = (values | more).items()
        return places.pack(**{name: value & places.mask(name) for name, value in given})

    if not len(flits):
        return [(KINDS["SINGLE"], head())]
    framed: list[Flit] = []
    step = config.submessage_flits if packets else len(flits)
    for first in range(0, len(flits), step):
        framed.append((KINDS["HEAD"], head(**({"continued": 1} if first else {}))))
        for flit in flits[first : first + step]:
            framed.append((KINDS["BODY"], int.from_bytes(flit.tobytes(), "little")))
        framed[-1] = (KINDS["TAIL"], framed[-1][1])
    return framed


def message_of(config: Config, port: int, payload: int) -> tuple[Message, int]:
    """Message that a head's payload names, and the number of its collective."""
    head = head_format(config).unpack(payload)
    names = ("order", "route") if config.shared else ("wave",)
    place = {name: head[name] for name in names}
    return Message(head["op"], head["flow"], port, **place), head["sequence"]


def collective_of(
    load: Load, rank: int, buffers: Buffers, config: Config, *, number: int = 0
) -> Collective:
    """Messages of one rank's interface in a collective.

    Parameters
    ----------
    load : Load
        Of all ranks.
    rank : int
    buffers : numpy.ndarray, shape (num_ranks, num_elements)
        Of all ranks, before.
    config : Config
        Of the interfaces.
    number : int
        Of the collective among several.

    Returns
    -------
    Collective

    Notes
    -----
    O(num_transfers + bytes moved): the partial sums of all ranks are computed.
    """
    schedule, settings = load.schedule, load.settings
    found: list[tuple[int, Message, bool, Flits, int]] = []
    places = places_in_sums(schedule) if config.shared else np.zeros_like(schedule.op)
    for row, moved in _moves(load, buffers, config):
        for is_outgoing in (False, True):
            if rank != (schedule.src if is_outgoing else schedule.dst)[row]:
                continue
            name = int(schedule.op[row]), int(schedule.flow[row]), _port(schedule, row, is_outgoing)
            vc_class, route = _way(schedule, row, is_outgoing, config)
            for wave, flits in enumerate(moved):
                turn = int(schedule.step[row]) + wave * schedule.period
                message = Message(*name, wave, int(places[row]), route)
                found.append((turn, message, is_outgoing, flits, vc_class))
    made = Collective(number, settings)
    # Stable: rows of one step stay in their order.
    for turn, message, is_outgoing, flits, vc_class in sorted(found, key=lambda entry: entry[0]):
        (made.outgoing if is_outgoing else made.incoming)[message] = flits
        made.vc_classes[message], made.steps[message] = vc_class, turn
    sent = {(m.flow, m.wave): m for m in made.outgoing if m.op == Op.REDUCE}
    for message in made.incoming:
        if message.op == Op.GATHER and (message.flow, message.wave) in sent:
            made.replies[message] = sent[message.flow, message.wave]
    return made


def _moves(load: Load, buffers: Buffers, config: Config) -> Iterator[tuple[int, list[Flits]]]:
    """Rows in an order in which they can happen, each with its payload in each wave."""
    schedule, settings = load.schedule, load.settings
    elements = config.flit_bytes // buffers.itemsize
    bounds = (schedule.chunks(load.num_flits) * elements).tolist()
    padding = schedule.padded(load.num_flits) * elements - buffers.shape[1]
    memory = np.pad(buffers, ((0, 0), (0, padding)))
    memory = memory.reshape(len(buffers), schedule.num_waves, bounds[-1])
    # Sums are rounded, so that contributions are added in the order of the schedule.
    for row in np.lexsort((schedule.src, schedule.order, schedule.step)).tolist():
        op, flow, src, dst = (
            int(column[row]) for column in (schedule.op, schedule.flow, schedule.src, schedule.dst)
        )
        chunk = slice(bounds[flow], bounds[flow + 1])
        # What ends a broadcast or a reduce moves no data.
        if op in settings.header_only:
            yield row, [np.zeros((0, config.flit_bytes), np.uint8)]
            continue
        sent = memory[src, :, chunk].copy()
        if op == Op.GATHER:
            memory[dst, :, chunk] = sent
        else:
            combine(memory[dst, :, chunk], sent, settings.reduction)
        yield row, [wave.view(np.uint8).reshape(-1, config.flit_bytes) for wave in sent]


def _port(schedule: Schedule, row: int, is_outgoing: bool) -> int:
    """Port of the interface that a row leaves or comes in on."""
    if is_outgoing:
        link = schedule.route_links[schedule.route_offsets[row]]
    else:
        last = schedule.route_links[schedule.route_offsets[row + 1] - 1]
        link = schedule.topology.reverse[last]
    return schedule.topology.port_of_link(int(link))


def _way(schedule: Schedule, row: int, is_outgoing: bool, config: Config) -> tuple[int, int]:
    """Class of a row's channel at the interface, and the route in its head there."""
    if not config.shared:
        return 0, 0
    if is_outgoing:
        vc_class, route = routes_of(schedule, np.array([row]), config)
        return int(vc_class[0]), int(route[0])
    # Switches took all hops out of the route.
    return int(schedule.route_classes[schedule.route_offsets[row + 1] - 1]), 0


def draw_buffers(shape: tuple[int, int], dtype: str, rng: np.random.Generator) -> Buffers:
    """Draw buffers whose sums depend on the order of additions.

    The shape is (ranks, elements of one). Integers are any of "int32"; numbers of "float32" and
    "bfloat16" are spread over 2^-20 to 2^20.
    """
    if dtype == "int32":
        return rng.integers(-(1 << 31), 1 << 31, size=shape).astype(np.int32)
    numbers = rng.normal(size=shape) * 2.0 ** rng.integers(-_SPREAD, _SPREAD + 1, size=shape)
    return numbers.astype(DTYPES[dtype])


def as_flits(row: Buffers, num_flits: int, flit_bytes: int) -> Flits:
    """Bytes of a rank's buffer, padded with zeros to an array of shape (num_flits, flit_bytes)."""
    padded = np.zeros(num_flits * flit_bytes // row.itemsize, row.dtype)
    padded[: len(row)] = row
    return padded.view(np.uint8).reshape(num_flits, flit_bytes)


def expected(collectives: Sequence[Upcoming], buffers: Buffers, flit_bytes: int) -> Buffers:
    """All ranks' buffers, shape (num_ranks, num_elements), after collectives by `execute`."""
    for each in collectives:
        buffers = execute(each.schedule, buffers, each.op, flit_bytes=flit_bytes)
    return buffers


def check_rank(load: Load, rank: int, found: Flits, wanted: Flits) -> None:
    """Assert that a rank's buffer in memory, uint8 of shape (num_flits, flit_bytes), is right.

    The AssertionError names rank, flits, flow, and the values found and wanted.
    """
    wrong = np.flatnonzero((found != wanted).any(axis=1))
    if not len(wrong):
        return
    table = load.tables[rank]
    first = int(wrong[0])
    # Tables hold addresses of the first wave; the others follow at one stride.
    waves_first = first % int(table.stride[0]) if table.stride.any() else first
    flow = int(np.flatnonzero((table.base <= waves_first) & (table.size > 0))[-1])
    flits = ", ".join(map(str, wrong[:_SHOWN])) + (" ..." if len(wrong) > _SHOWN else "")
    shown = [int.from_bytes(flit[first].tobytes(), "little") for flit in (found, wanted)]
    raise AssertionError(
        f"memory of rank {rank}: {len(wrong)} of {len(found)} flits are wrong ({flits}); "
        f"flit {first}, of flow {flow}, is {shown[0]:#x} instead of {shown[1]:#x}"
    )
