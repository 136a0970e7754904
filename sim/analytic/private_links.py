"""Times of messages over private links, group by group."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from multitree.sim.analytic.link_buffers import NEVER, LinkBuffers
from multitree.sim.analytic.table_rows import TableRows
from multitree.sim.timing.link_model import LinkModel
from multitree.sim.timing.model import Times
from multitree.topology.collectives import Op
from multitree.topology.schedules.schedule import Schedule

__all__ = ["BoolArray", "FloatArray", "Group", "IntArray", "Limits", "PrivateLinks"]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Group:
    """Transfers of which none waits for another; all arrays have the shape (num_rows,).

    `sibling` is -1 for none. Of each row's link, `interval` is the cycles per flit and `way` those
    to the receiver; `rest` is the flits after the first payload flit.
    """

    rows: IntArray
    sibling: IntArray
    link: IntArray
    src: npt.NDArray[np.int32]
    dst: npt.NDArray[np.int32]
    flow: npt.NDArray[np.int32]
    size: FloatArray
    interval: FloatArray
    way: FloatArray
    rest: FloatArray
    is_full: BoolArray
    waits: BoolArray


@dataclass(frozen=True)
class Limits:
    """Earliest cycles at the receivers of a group, set by earlier messages.

    A head may be looked up from `known` on and takes `asked` cycles more to ask for its sibling;
    first and last payload flit go to the reducer from `start` and `end` on.
    """

    known: FloatArray
    asked: FloatArray
    start: FloatArray
    end: FloatArray


class PrivateLinks:
    """Times of all transfers so far, and of the ports, tables and receivers that they occupy.

    Times of a sender are those at which a head flit could be on the link.
    """

    def __init__(
        self,
        schedule: Schedule,
        num_flits: int,
        model: LinkModel,
        table: TableRows,
        start: FloatArray,
        *,
        repeats: bool = False,
        link: IntArray | None = None,
    ) -> None:
        topology = schedule.topology
        num_links = topology.num_links
        self._schedule, self._table, self._start = schedule, table, start
        self._model = model
        self._head_cycles = model.head_cycles + repeats
        # From a message's last flit that goes to the reducer to the next head that is taken.
        self._next = 1
        # The tracker answers in turn; on average half of the other ports ask, too.
        self._ask = model.ask_cycles + (topology.num_ports[: topology.num_ranks] - 1) / 2
        self._latency = model.latency_cycles(topology).astype(np.float64)
        # From a flit that leaves the link's buffer to the one that has its credit.
        self._returned = model.credit_latency_cycles(topology) + float(model.credit_cycles)
        self._interval = model.cycles_per_flit(topology)
        payload = np.diff(schedule.chunks(num_flits))[schedule.flow].astype(np.float64)
        self._payload = payload
        # Flits of a message behind its first head, and of a sub-message, on the link.
        packets = model.flow_control == "packet"
        more_heads = np.maximum(np.ceil(payload / model.submessage_flits) - 1, 0)
        self._size = payload + more_heads if packets else payload
        self._part = model.submessage_flits + packets
        self._cut_through = model.dependency == "submessage"
        first = schedule.route_links[schedule.route_offsets[:-1]]
        self._link = first.astype(np.int64) if link is None else link
        # Cycles from the reducer to the arrival of a message, by op.
        written = model.written_cycles + model.complete_cycles
        added = model.memory_read_cycles + model.fetch_cycles + model.add_cycles
        settle = np.where(schedule.op == Op.REDUCE, written + added, written)
        self._settle = np.where(self._size > 0, settle, model.empty_cycles)

        self._depth, self._room = model.buffer_flits_on(topology), model.memory_queue_flits
        self._buffers = LinkBuffers(self._link, self._size, num_links, self._depth)
        self._places = self._buffers.places(0), self._buffers.places(1)
        # The last flit is `rounds` buffers behind flit `rest`.
        rest = self._size % self._depth
        self._rest, self._rest_places = rest, self._buffers.places(rest)
        self._forget(num_links, (schedule.num_flows, topology.num_ranks))

    def _forget(self, num_links: int, places: tuple[int, int]) -> None:
        """Set the state before the first message."""
        self._taken = np.full((num_links, max(self._model.port_queue_rows, 1)), NEVER)
        self._issued = np.zeros(num_links)
        # Ports' last tails, and when links can take the next head, which may be slower.
        self._tail, self._entered = np.full((2, num_links), NEVER)
        # With cut-through, when a last sub-message that came late is over the link.
        self._crossed = np.full(num_links, NEVER)
        self._passed, self._drained = np.full((2, num_links), NEVER)
        # When what came in of a flow lets a message begin, and end.
        self._ready, self._whole = np.full((2, *places), NEVER)
        # When the first sub-message has gone to the reducer, and the last flit.
        self._sent, self._arrived, self._part_pass, self._last_pass = np.zeros(
            (4, self._schedule.num_transfers)
        )

    def advance(self, rows: IntArray, sibling: IntArray) -> None:
        """Time transfers after all that they wait for."""
        group = self._group(rows, sibling)
        # Credits pace the last flit and depend on when its receiver begins, so that this is timed
        # twice.
        limits = self._limits(group)
        # The receiver is timed twice: credits, which pace the last flit, depend on when it begins.
        head, first, tail = self._send(group)
        start, end = self._receive(group, limits, head, first, tail)
        tail = np.maximum(tail, self._paced(group, head, self._leave(start, end)[0]))
        start, end = self._receive(group, limits, head, first, tail)
        self._sent[rows], self._tail[group.link] = head, tail
        self._take_in(group, start, end)

    def _take_in(self, group: Group, start: FloatArray, end: FloatArray) -> None:
        """Record what later messages depend on."""
        rows, link = group.rows, group.link
        self._buffers.add(rows, *self._leave(start, end))
        arrived = self._arrival(group, start, end)
        self._arrived[rows] = arrived
        part = np.clip(group.size, 1, self._part)
        self._part_pass[rows] = self._passing(group, start, part - 1)
        self._last_pass[rows] = end
        self._passed[link], self._drained[link] = end, arrived
        self._entered[link] = self._over + group.interval
        # Rows wait for the last contribution only, which no group has together with another one.
        place = group.flow, group.dst
        self._whole[place], self._ready[place] = arrived, self._ready_at(group, arrived)

    def _group(self, rows: IntArray, sibling: IntArray) -> Group:
        link, size = self._link[rows], self._size[rows]
        return Group(
            rows=rows,
            sibling=sibling,
            link=link,
            src=self._schedule.src[rows],
            dst=self._schedule.dst[rows],
            flow=self._schedule.flow[rows],
            size=size,
            interval=self._interval[link],
            way=self._latency[link] + self._model.receive_cycles,
            rest=np.maximum(size - 1, 0),
            is_full=size > 0,
            waits=sibling >= 0,
        )

    def _leave(self, start: FloatArray, end: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Cycles in which first and last flit leave the link's buffer for the reducer."""
        return start, end

    def _arrival(self, group: Group, start: FloatArray, end: FloatArray) -> FloatArray:
        """Cycles in which messages are whole in memory."""
        arrived: FloatArray = end + self._settle[group.rows]
        return arrived

    def _ready_at(self, group: Group, arrived: FloatArray) -> FloatArray:
        """Cycles from which rows may send messages on."""
        if not self._cut_through:
            return arrived
        # The first sub-message lets a row begin (`_first_needed` in nic/send/issuer.py).
        passed = self._part_pass[group.rows]
        earlier: FloatArray = np.minimum(arrived, passed + self._settle[group.rows])
        return earlier

    def _passing(self, group: Group, start: FloatArray, number: FloatArray | int) -> FloatArray:
        """Cycles in which payload flit `number` goes to the reducer, the first one at `start`."""
        # Behind a sibling flits are there already and go one per cycle; else as links bring them.
        there = self._first_there + number * group.interval
        passing: FloatArray = np.maximum(start + number, there)
        return passing

    def _send(self, group: Group) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Cycles of head, first and last payload flit at the near end of the link."""
        model, rows, link, size = self._model, group.rows, group.link, group.size
        src, flow = group.src, group.flow
        # No two rows of a group have one source (`generations_of`), so that each index occurs once.
        # PUSH of nic/send/fetcher.py waits while the queue of the port is full: `_taken`.
        read = self._table.read(rows, src, self._taken[link, 0] + model.refill_cycles)
        taken = np.maximum(read, self._issued[link])
        self._taken[link] = np.concatenate([self._taken[link, 1:], taken[:, None]], axis=1)
        ready = self._ready[flow, src]
        asked = taken + np.where(ready > NEVER, self._ask[src], 0)
        issue = np.maximum(asked, ready + model.dependency_cycles)

        head_place, first_place = self._place_left(group)
        # A head follows the tail before it in the next cycle (nic/send/sender.py).
        head = np.maximum(issue, self._tail[link] + 1)
        head = np.maximum(head, head_place)
        fetched = issue + model.memory_read_cycles + model.payload_cycles
        first = np.maximum(head + 1, fetched)
        first = np.maximum(first, first_place)
        tail = first + size - 1
        if self._cut_through:
            # The last sub-message is read once it is in, and its flits follow one per cycle.
            rest = (size - 1) % self._part
            came = np.where(group.is_full, self._whole[flow, src], NEVER) + model.dependency_cycles
            came += model.memory_read_cycles + model.payload_cycles
            self._crossed[link] = came + rest * group.interval
            tail = np.maximum(tail, came + rest)
        delayed = tail - (first + size - 1)
        # Reads run at most so far ahead of the link (`room` in nic/send/issuer.py).
        read_all = np.maximum(issue + np.maximum(size, 1) + delayed, tail - self._room + 3)
        self._issued[link] = read_all + model.take_cycles
        # A message without payload is one flit of kind SINGLE (nic/send/sender.py).
        return head, np.where(group.is_full, first, head), np.where(group.is_full, tail, head)

    def _place_left(self, group: Group) -> list[FloatArray]:
        """Cycles in which senders know that the places of head and first payload flit are free."""
        returned = self._returned[group.link]
        return [self._buffers.left(group.rows, places) + returned for places in self._places]

    def _paced(self, group: Group, head: FloatArray, start: FloatArray) -> FloatArray:
        """Cycle of the last payload flit at the near end, as credits allow it.

        A buffer of flits, head included, goes out per round trip of a credit, unless one goes per
        cycle.
        """
        depth, way, rest = self._depth, group.way, self._rest[group.rows]
        around = way + self._returned[group.link]
        # Each buffer costs a round trip.
        rounds = group.size // depth
        # Flit 0 is the head: it may leave before memory answers, the first buffer's last flit not.
        begun = np.maximum(head + way, self._passing(group, start, depth - 1) - around)
        first = np.where(rest > 0, self._passing(group, start, rest - 1), begun)
        # A message that fits the buffer needs no place of its own.
        first = np.where(rounds > 0, first, NEVER)
        passed = np.maximum(first, self._buffers.left(group.rows, self._rest_places) + around)
        last = passed + rounds * around - way
        return np.where(group.is_full, last, NEVER)

    def _limits(self, group: Group) -> Limits:
        """Limits that earlier messages set at these messages' receivers."""
        model, link = self._model, group.link
        # A message without payload is in only when all before it are in memory: state REPORT of
        # nic/receive/header_check.py waits for `drained`.
        start = np.where(group.is_full, NEVER, self._drained[link] + 1)
        end, asked = np.full_like(start, NEVER), np.zeros_like(start)
        waiting = np.flatnonzero(self._in_turn(group))
        if len(waiting):
            sibling, size = group.sibling[waiting], group.size[waiting]
            # `gate` of nic/receive/header_check.py opens for a sub-message when that of the sibling
            # is in memory.
            behind = self._settle[sibling] + model.sibling_cycles
            start[waiting] = np.maximum(start[waiting], self._part_pass[sibling] + behind)
            rest = np.where(size > 0, (size - 1) % self._part, 0)
            end[waiting] = self._last_pass[sibling] + behind + rest
            # Who waits for a sibling asks for it first, even where it is in.
            asked[waiting] = self._ask[group.dst[waiting]]
        known = np.maximum(
            self._start[group.dst] + model.listen_cycles, self._passed[link] + self._next
        )
        return Limits(known=known, asked=asked, start=start, end=end)

    def _in_turn(self, group: Group) -> BoolArray:
        """Rows that pass to the reducer only after their siblings."""
        return group.waits

    def _receive(
        self,
        group: Group,
        limits: Limits,
        head: FloatArray,
        first: FloatArray,
        tail: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Cycles in which the first and the last payload flit go to the reducer."""
        size, link, interval, way = group.size, group.link, group.interval, group.way
        # A slow link takes a flit every few cycles; ports go on until credits are spent.
        slow = np.maximum(head, self._entered[link])
        first = np.maximum(first, slow + group.is_full * interval)
        tail = np.maximum(tail, np.maximum(slow + size * interval, first + group.rest * interval))
        tail = np.maximum(tail, self._crossed[link])
        self._over, self._first_there = tail, first + way
        known = np.maximum(head + way, limits.known) + self._head_cycles
        start = np.maximum(np.maximum(first + way, known + limits.asked), limits.start)
        last = np.maximum(start + group.rest, tail + way)
        return start, np.maximum(last, limits.end)

    def times(self) -> Times:
        """All times, rounded to cycles."""
        schedule = self._schedule
        # A rank is done when all is in, table and senders are through (nic/control/collective.py).
        done = self._table.over(schedule.num_steps)
        np.maximum.at(done, schedule.dst, self._arrived)
        np.maximum.at(done, schedule.src, self._sent + self._size)
        done = done + self._model.done_cycles
        return Times(
            *(np.rint(cycles).astype(np.int64) for cycles in (self._sent, self._arrived, done))
        )
