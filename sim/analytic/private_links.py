"""Times of messages over private links, group by group."""

import numpy as np
import numpy.typing as npt

from multitree.sim.analytic.table_rows import TableRows
from multitree.sim.link_model import LinkModel
from multitree.sim.trace import Trace
from multitree.topology.arrays import positions_in_group
from multitree.topology.collectives import Op
from multitree.topology.schedules.schedule import Schedule

__all__ = ["FloatArray", "IntArray", "LinkBuffers", "PrivateLinks"]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

# It is finite, since NumPy also computes differences of two such times, which are then masked.
_NEVER = -1e18


class LinkBuffers:
    """Per link the messages that went through its buffer, head flits included.

    A flit needs the place of the one that went `buffer_flits` earlier over the same link.
    Messages are added in the order in which their link carries them. Between a message's first
    and last payload flit those in between are taken to leave evenly.

    Parameters
    ----------
    link : int64 array, shape (num_transfers,)
        The link of each message.
    size : float64 array, shape (num_transfers,)
        Its payload flits.
    num_links : int
    buffer_flits : int
        Places of each buffer.
    """

    def __init__(self, link: IntArray, size: FloatArray, num_links: int, buffer_flits: int) -> None:
        self._link = link
        self._size = size
        self._depth = buffer_flits
        turn = positions_in_group(self._link)
        # Message t of link l is number `offset[l] + t` here, and `before` counts flits ahead of
        # its head.
        self._offset = np.concatenate([[0], np.bincount(self._link, minlength=num_links)]).cumsum()
        self._number = self._offset[self._link] + turn
        flits = np.zeros(len(size))
        flits[self._number] = size + 1
        total = np.concatenate([[0.0], flits.cumsum()])
        self._before = total[self._number] - total[self._offset[self._link]]
        self._end = np.zeros(len(size))
        self._end[self._number] = self._before + size + 1
        self._start_pass = np.full(len(size), _NEVER)
        self._end_pass = np.full(len(size), _NEVER)
        self._payload = np.zeros(len(size))
        self._payload[self._number] = size
        self._oldest = self._offset[:-1].copy()

    def earlier(self, rows: IntArray, flit: int | FloatArray) -> FloatArray:
        """When the place for a message's flit is left by a flit of an earlier message.

        Parameters
        ----------
        rows : int64 array
            Messages that come next on their links, one per link.
        flit : int or float64 array
            0 for the head, 1 for the first payload flit.

        Returns
        -------
        float64 array
            Cycles; far in the past where no place is needed, or one of the message itself.
        """
        wanted = self._before[rows] + flit - self._depth
        mine = self._number[rows]
        link = self._link[rows]
        needed = (wanted >= 0) & (wanted < self._before[rows])
        # Later messages of a link want later flits, so that the search goes on where it ended.
        number = self._oldest[link]
        # But for one: the head's place may be asked for again after that of the flit behind it.
        begin = self._end[number] - self._payload[number] - 1
        number = np.where(needed & (wanted < begin), number - 1, number)
        while True:
            behind = needed & (self._end[np.minimum(number, mine)] <= wanted) & (number < mine)
            if not behind.any():
                break
            number = np.where(behind, number + 1, number)
        self._oldest[link] = np.where(needed, number, self._oldest[link])
        number = np.minimum(number, mine)
        place = wanted - (self._end[number] - self._payload[number])
        return np.where(needed, self._between(number, place), _NEVER)

    def add(self, rows: IntArray, start: FloatArray, end: FloatArray) -> None:
        """Note when the first and the last payload flit of messages left the buffer."""
        number = self._number[rows]
        self._start_pass[number], self._end_pass[number] = start, end

    def _between(self, number: IntArray, place: FloatArray) -> FloatArray:
        """When a payload flit of a message left; the head just before the first."""
        share = np.clip(place, 0, None) / np.maximum(self._payload[number] - 1, 1)
        span = self._end_pass[number] - self._start_pass[number]
        return np.where(
            place < 0, self._start_pass[number] - 1, self._start_pass[number] + share * span
        )


class PrivateLinks:
    """Times of all transfers so far, and until when ports, tables and receivers are taken.

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
        self._forget(num_links, (schedule.num_flows, topology.num_ranks))

    def _forget(self, num_links: int, places: tuple[int, int]) -> None:
        """Begin where nothing was sent, nor came in, on any link, of any flow at any rank."""
        self._taken = np.full((num_links, max(self._model.port_queue_rows, 1)), _NEVER)
        self._issued = np.zeros(num_links)
        # Ports' last tails, and when links can take the next head, which may be slower.
        self._tail, self._entered = np.full((2, num_links), _NEVER)
        # With cut-through, when a last sub-message that came late is over the link.
        self._crossed = np.full(num_links, _NEVER)
        self._passed, self._drained = np.full((2, num_links), _NEVER)
        # When what came in of a flow lets a message begin, and end.
        self._ready, self._whole = np.full((2, *places), _NEVER)
        self._sent, self._arrived, self._first_pass, self._last_pass = np.zeros(
            (4, self._schedule.num_transfers)
        )

    def advance(self, rows: IntArray, sibling: IntArray) -> None:
        """Time transfers, all that they wait for being timed."""
        link = self._link[rows]
        # The receiver is timed twice: credits, which pace the last flit, depend on when it begins.
        head, first, tail = self._send(rows, link)
        start, end = self._receive(rows, link, sibling, head, first, tail)
        tail = np.maximum(tail, self._paced(rows, link, head, self._leave(start, end)[0]))
        start, end = self._receive(rows, link, sibling, head, first, tail)
        self._buffers.add(rows, *self._leave(start, end))

        arrived = self._arrival(rows, start, end)
        self._sent[rows], self._arrived[rows] = head, arrived
        self._first_pass[rows], self._last_pass[rows] = start, end
        self._tail[link], self._passed[link], self._drained[link] = tail, end, arrived
        self._entered[link] = self._over + self._interval[link]
        place = self._schedule.flow[rows], self._schedule.dst[rows]
        np.maximum.at(self._whole, place, arrived)
        np.maximum.at(self._ready, place, self._ready_at(rows, start, arrived))

    def _leave(self, start: FloatArray, end: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Cycles in which first and last flit leave the link's buffer: to go to the reducer."""
        return start, end

    def _arrival(self, rows: IntArray, start: FloatArray, end: FloatArray) -> FloatArray:
        """Cycles in which messages are whole in memory."""
        arrived: FloatArray = end + self._settle[rows]
        return arrived

    def _ready_at(self, rows: IntArray, start: FloatArray, arrived: FloatArray) -> FloatArray:
        """Cycles from which on rows may go on with messages."""
        if not self._cut_through:
            return arrived
        # The first sub-message lets a row begin (`_first_needed` in nic/send/issuer.py).
        part = np.clip(self._size[rows], 1, self._part)
        behind = (part - 1) * self._interval[self._link[rows]] + self._settle[rows]
        earlier: FloatArray = np.minimum(arrived, start + behind)
        return earlier

    def _send(self, rows: IntArray, link: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Cycles of head, first and last payload flit at the near end of the link."""
        model, size = self._model, self._size[rows]
        src, flow = self._schedule.src[rows], self._schedule.flow[rows]
        # No two rows of a group have one source (`generations_of`), so that each index occurs once.
        # PUSH of nic/send/fetcher.py waits while the queue of the port is full: `_taken`.
        read = self._table.read(rows, src, self._taken[link, 0] + model.refill_cycles)
        taken = np.maximum(read, self._issued[link])
        self._taken[link] = np.concatenate([self._taken[link, 1:], taken[:, None]], axis=1)
        ready = self._ready[flow, src]
        asked = taken + np.where(ready > _NEVER, self._ask[src], 0)
        issue = np.maximum(asked, ready + model.dependency_cycles)

        returned = self._returned[link]
        # A head follows the tail before it in the next cycle (nic/send/framer.py).
        head = np.maximum(issue, self._tail[link] + 1)
        head = np.maximum(head, self._buffers.earlier(rows, 0) + returned)
        fetched = issue + model.memory_read_cycles + model.payload_cycles
        first = np.maximum(head + 1, fetched)
        first = np.maximum(first, self._buffers.earlier(rows, 1) + returned)
        tail = first + size - 1
        if self._cut_through:
            # The last sub-message is read once it is in, and its flits follow one per cycle.
            rest = (size - 1) % self._part
            came = np.where(size > 0, self._whole[flow, src], _NEVER) + model.dependency_cycles
            came += model.memory_read_cycles + model.payload_cycles
            self._crossed[link] = came + rest * self._interval[link]
            tail = np.maximum(tail, came + rest)
        delayed = tail - (first + size - 1)
        # Reads run at most so far ahead of the link (`room` in nic/send/issuer.py).
        read_all = np.maximum(issue + np.maximum(size, 1) + delayed, tail - self._room + 3)
        self._issued[link] = read_all + model.take_cycles
        # A message without payload is one flit of kind SINGLE (nic/send/framer.py).
        empty = size == 0
        return head, np.where(empty, head, first), np.where(empty, head, tail)

    def _paced(
        self, rows: IntArray, link: IntArray, head: FloatArray, start: FloatArray
    ) -> FloatArray:
        """Cycle of the last payload flit at the near end, as credits allow it.

        A buffer full of flits goes out per round trip of a credit, if not one per cycle; the head
        flit is one of them.
        """
        model, size, depth = self._model, self._size[rows], self._depth
        way = self._latency[link] + model.receive_cycles
        around = way + self._returned[link]
        # The last flit is `rounds` buffers behind flit `rest`, and each buffer costs a round trip.
        rounds, rest = np.divmod(size, depth)
        interval = self._interval[link]
        # Flit 0 is the head: it may leave before memory answers, the first buffer's last flit not.
        begun = np.maximum(head + way, start + (depth - 1) * interval - around)
        first = np.where(rest > 0, start + (rest - 1) * interval, begun)
        # A message that fits the buffer needs no place of its own.
        first = np.where(rounds > 0, first, _NEVER)
        passed = np.maximum(first, self._buffers.earlier(rows, rest) + around)
        last = passed + rounds * around - way
        return np.where(size > 0, last, _NEVER)

    def _receive(
        self,
        rows: IntArray,
        link: IntArray,
        sibling: IntArray,
        head: FloatArray,
        first: FloatArray,
        tail: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Cycles in which the first and the last payload flit go to the reducer."""
        model, size = self._model, self._size[rows]
        # A slow link takes a flit every few cycles; ports go on until credits are spent.
        slow = np.maximum(head, self._entered[link])
        first = np.maximum(first, slow + np.minimum(size, 1) * self._interval[link])
        behind_first = first + np.maximum(size - 1, 0) * self._interval[link]
        tail = np.maximum(tail, np.maximum(slow + size * self._interval[link], behind_first))
        tail = np.maximum(tail, self._crossed[link])
        self._over = tail
        way = self._latency[link] + model.receive_cycles
        dst = self._schedule.dst[rows]
        known = np.maximum(head + way, self._start[dst] + model.listen_cycles)
        known = np.maximum(known, self._passed[link] + self._next) + self._head_cycles
        # Who waits for a sibling asks for it first, even where it is in.
        waits = sibling >= 0
        start = np.maximum(first + way, known + np.where(waits, self._ask[dst], 0))
        # A message without payload is in only when all before it are in memory: state REPORT of
        # nic/receive/header_check.py waits for `drained`.
        start = np.where(size > 0, start, np.maximum(start, self._drained[link] + 1))
        last = np.maximum(start + np.maximum(size - 1, 0), tail + way)
        # `gate` of nic/receive/header_check.py opens for a sub-message when that of the sibling is
        # in memory; without a sibling, index -1 reads a value that is masked.
        part = np.clip(size, 1, self._part)
        behind = self._settle[sibling] + model.sibling_cycles
        ahead = (part - 1) * self._interval[self._link[sibling]]
        start = np.where(
            waits, np.maximum(start, self._first_pass[sibling] + ahead + behind), start
        )
        rest = np.where(size > 0, (size - 1) % self._part, 0)
        last = np.maximum(last, start + np.maximum(size - 1, 0))
        end = np.where(waits, np.maximum(last, self._last_pass[sibling] + behind + rest), last)
        return start, end

    def trace(self, num_flits: int) -> Trace:
        """All times, rounded to cycles."""
        schedule = self._schedule
        # A rank is done when all is in, and table and senders are through (nic/control/control.py).
        done = self._table.over(schedule.num_steps)
        np.maximum.at(done, schedule.dst, self._arrived)
        np.maximum.at(done, schedule.src, self._sent + self._size)
        return Trace(
            schedule=schedule,
            engine="analytic",
            num_flits=num_flits,
            sent=np.rint(self._sent).astype(np.int64)[None],
            arrived=np.rint(self._arrived).astype(np.int64)[None],
            start=np.rint(self._start).astype(np.int64),
            done=np.rint(done + self._model.done_cycles).astype(np.int64),
            link_flits=np.bincount(self._link, self._payload, schedule.topology.num_links).astype(
                np.int64
            ),
        )
