"""Times of messages over private links, group by group."""

import numpy as np
import numpy.typing as npt

from multitree.sim.analytic.link_buffers import LinkBuffers
from multitree.sim.analytic.table_rows import TableRows
from multitree.sim.link_model import LinkModel
from multitree.sim.sizing import memory_queue_flits
from multitree.sim.trace import Trace
from multitree.topology.collectives import Op
from multitree.topology.schedules.schedule import Schedule

__all__ = ["FloatArray", "IntArray", "PrivateLinks"]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

_NEVER = -1e18


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
        repeats: bool,
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
        self._link = schedule.route_links[schedule.route_offsets[:-1]].astype(np.int64)
        # Cycles from the reducer to the arrival of a message, by op.
        written = model.memory_write_cycles + model.complete_cycles
        added = model.memory_read_cycles + model.fetch_cycles + model.add_cycles
        settle = np.where(schedule.op == Op.REDUCE, written + added, written)
        self._settle = np.where(self._size > 0, settle, model.empty_cycles)

        self._depth, self._room = model.buffer_flits_on(topology), memory_queue_flits(model)
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
        passing = start + (rest - 1) * self._interval[link]
        first = np.where(rest > 0, passing, head + way)
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
