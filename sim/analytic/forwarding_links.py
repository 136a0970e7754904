"""Times of messages over private links whose flits go on before memory has them."""

import numpy as np

from multitree.hw.codes import AHEAD_FLITS, STALE_FLITS
from multitree.sim.analytic.link_buffers import NEVER
from multitree.sim.analytic.private_links import (
    BoolArray,
    FloatArray,
    Group,
    IntArray,
    Limits,
    PrivateLinks,
)
from multitree.sim.analytic.table_rows import TableRows
from multitree.sim.timing.link_model import LinkModel
from multitree.topology.collectives import Op
from multitree.topology.schedules.schedule import Schedule

__all__ = ["ForwardingLinks"]


class ForwardingLinks(PrivateLinks):
    """`PrivateLinks` of interfaces that forward.

    A head leaves when the message that it waits for has begun to arrive, and each flit when the
    same one of that is written into the ring that ports keep. Memory is read only for chunks that
    need no message, ahead of their turn. Operands come the same way: from memory, or from the
    sibling before. Acknowledgements of memory count for the end of the collective, and for rows
    that wait for whole chunks.
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
        super().__init__(schedule, num_flits, model, table, start, repeats=repeats, link=link)
        # Heads are looked up while the payload before them passes: none stops its link.
        self._next = 1 - self._head_cycles
        places = schedule.num_flows, schedule.topology.num_ranks
        # Of what came in last of a flow at a rank: when its first and last flit were written.
        self._first_here, self._last_here = (np.full(places, NEVER) for _ in range(2))
        count = schedule.num_transfers
        self._begun, self._first_put, self._last_put = (np.zeros(count) for _ in range(3))
        # Acknowledged in memory, where the next one's write has to wait for it.
        self._first_acked, self._last_acked = (np.zeros(count) for _ in range(2))
        # Per link, when the last flit was put, and acknowledged.
        self._put, self._acked = np.full((2, schedule.topology.num_links), NEVER)
        # When a sender's, and a receiver's, last search for a chunk began; another one follows.
        self._sought = np.full((2, schedule.topology.num_links), NEVER)
        self._found = np.full(schedule.num_transfers, NEVER)
        self._seek = self._ask - model.ask_cycles + model.find_cycles
        self._looked, self._last_looked = self._put.copy(), np.zeros(schedule.num_transfers)
        self._adds = schedule.op == Op.REDUCE
        # What replaces a sum has to find it.
        place = schedule.dst.astype(np.int64) * schedule.num_flows + schedule.flow
        self._before = ~self._adds & np.isin(place, place[self._adds])
        rows = model.port_queue_rows + model.source_queue_rows
        self._taken = np.full((schedule.topology.num_links, rows), NEVER)

    def _take_in(self, group: Group, start: FloatArray, end: FloatArray) -> None:
        """Record what later messages depend on."""
        super()._take_in(group, start, end)
        rows, link = group.rows, group.link
        self._looked[link] = self._last_looked[rows]
        self._sought[1, link] = np.maximum(self._sought[1, link], self._found[rows])
        place = group.flow, group.dst
        np.maximum.at(self._first_here, place, self._first_put[rows])
        np.maximum.at(self._last_here, place, self._last_put[rows])
        rows, link = rows[group.is_full], link[group.is_full]
        self._put[link], self._acked[link] = self._last_put[rows], self._last_acked[rows]

    def _leave(self, start: FloatArray, end: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Cycles in which first and last flit leave the link's buffer, after which some wait."""
        first, last = (
            passed - np.clip(passed - came, 0, AHEAD_FLITS)
            for passed, came in zip((start, end), self._came, strict=True)
        )
        return first, last

    def _arrival(self, group: Group, start: FloatArray, end: FloatArray) -> FloatArray:
        """Cycles in which messages are whole in memory."""
        model = self._model
        later = model.written_cycles - model.memory_write_cycles + model.acknowledged_cycles
        acked = self._last_acked[group.rows] + later
        return np.where(group.is_full, acked, end + self._settle[group.rows])

    def _ready_at(self, group: Group, arrived: FloatArray) -> FloatArray:
        """Cycles from which rows may send messages on."""
        if not self._cut_through:
            return arrived
        return np.where(group.is_full, self._begun[group.rows], arrived)

    def _send(self, group: Group) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Cycles of head, first and last payload flit at the near end of the link."""
        model, rows, link, size = self._model, group.rows, group.link, group.size
        src, flow = group.src, group.flow
        read = self._table.read(rows, src, self._taken[link, 0] + model.piped_refill_cycles)
        ready = self._ready[flow, src]
        needs = ready > NEVER
        issue = np.maximum(np.maximum(read, self._issued[link] + 1), ready + model.follow_cycles)
        sought = self._sought[0, link] + self._seek[src]
        issue = np.where(needs, np.maximum(issue, sought), issue)
        self._issued[link] = issue
        self._sought[0, link] = np.where(needs, issue, self._sought[0, link])
        self._taken[link] = np.concatenate([self._taken[link, 1:], issue[:, None]], axis=1)

        head_place, first_place = self._place_left(group)
        head = np.maximum(issue, self._tail[link] + 1)
        head = np.maximum(head, head_place)
        # A chunk that needs nothing is read ahead of its turn; one that is whole is read then.
        ahead = read + model.ahead_cycles
        whole = issue + model.whole_cycles
        fetched = np.where(needs, whole, ahead) + model.memory_read_cycles
        last_known = np.full_like(fetched, NEVER)
        if self._cut_through:
            kept = self._taken_from(
                self._first_here[flow, src] + model.forward_cycles, issue - model.found_cycles
            )
            fetched = np.where(needs, kept, fetched)
            final = self._last_here[flow, src] + model.forward_cycles
            last_known = np.where(needs, final, NEVER)
        first = np.maximum(head + 1, fetched)
        first = np.maximum(first, first_place)
        tail = np.maximum(first + size - 1, last_known)
        return head, np.where(group.is_full, first, head), np.where(group.is_full, tail, head)

    def _taken_from(self, known: FloatArray, asked: FloatArray) -> FloatArray:
        """Cycle of a flit known from `known` on: kept in the ring, or else read from memory."""
        model = self._model
        asked = asked + model.found_cycles
        is_kept = asked - known < model.forward_flits - STALE_FLITS
        # What is not kept any more is in memory once the write is acknowledged.
        read = np.maximum(asked, known + model.memory_write_cycles) + model.memory_read_cycles
        return np.where(is_kept, np.maximum(known, asked), read + model.operand_cycles)

    def _in_turn(self, group: Group) -> BoolArray:
        """No rows: siblings are followed flit by flit."""
        return np.zeros_like(group.waits)

    def _receive(
        self,
        group: Group,
        limits: Limits,
        head: FloatArray,
        first: FloatArray,
        tail: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Cycles in which the first and the last payload flit go to the reducer."""
        model, rows, link, way = self._model, group.rows, group.link, group.way
        self._came = first + way, tail + way
        there = np.maximum(head + way, self._start[group.dst] + model.listen_cycles)
        # One head after the other is looked up, while what is before it passes.
        looked = np.maximum(there + model.queue_cycles, self._looked[link]) + self._head_cycles
        self._last_looked[rows] = looked
        checked = np.maximum(looked, self._passed[link] + 1)
        queue = model.queue_cycles
        start, last = super()._receive(group, limits, head, first + queue, tail + queue)
        # What is in the link's buffer meanwhile passes in a row.
        start = np.maximum(start, checked)
        last = np.maximum(last, start + group.rest)
        end = self._written(group, checked, start, last)
        # REPORT of nic/receive/forwarding_header_check.py waits until nothing is under way.
        found = np.where(group.waits | self._before[rows], model.find_cycles, 0)
        idle = np.maximum(checked + model.report_cycles + found, self._drained[link] + 1)
        other = self._arrived[group.sibling] + model.sibling_cycles
        idle = np.maximum(idle, np.where(group.waits, other, NEVER))
        idle = np.where(group.is_full, NEVER, idle)
        return np.maximum(start, idle), np.maximum(end, idle)

    def _put_at(
        self, group: Group, checked: FloatArray, start: FloatArray, last: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Cycles in which the first and the last flit are written into the ring."""
        model, rows, sibling = self._model, group.rows, group.sibling
        waits = group.waits & group.is_full
        self._begun[rows] = checked
        adds = self._adds[rows] & group.is_full
        # What flits are added to: this rank's chunk, or what the sibling has made of it.
        behind = model.forward_cycles + 1
        mine = checked + model.memory_read_cycles + model.operand_cycles
        sought = np.maximum(checked, self._sought[1, group.link] + self._seek[group.dst])
        seeks = waits | self._before[rows]
        begun = np.where(waits, self._begun[sibling], NEVER)
        self._found[rows] = np.where(seeks, np.maximum(sought, begun), NEVER)
        operand = np.where(waits, self._taken_from(self._first_put[sibling] + behind, sought), mine)
        final = np.where(waits, self._last_put[sibling] + behind, NEVER)
        first_put = np.where(adds, np.maximum(start, operand) + model.add_cycles, start)
        last_put = np.where(adds, np.maximum(last, final) + model.add_cycles, last)
        put = np.where(adds, model.added_cycles, model.replaced_cycles)
        # The reducer keeps order: what waits for an operand holds up what is behind it.
        first_put = np.maximum(first_put + put, self._put[group.link] + 1)
        return first_put, np.maximum(last_put + put, first_put + group.rest)

    def _written(
        self, group: Group, checked: FloatArray, start: FloatArray, last: FloatArray
    ) -> FloatArray:
        """Cycle in which the last flit leaves the link's buffer; records when flits are written."""
        rows, sibling, latency = group.rows, group.sibling, self._model.memory_write_cycles
        waits = group.waits & group.is_full
        first_put, last_put = self._put_at(group, checked, start, last)
        # A write waits for the one before it at its address.
        before = self._acked[group.link] + 1 - latency
        before = np.maximum(before, self._found[rows] + self._model.found_cycles)
        first = np.maximum(first_put, np.where(waits, self._first_acked[sibling], before))
        first = np.maximum(first, before)
        final = np.maximum(last_put, np.where(waits, self._last_acked[sibling], NEVER))
        final = np.maximum(final, first + group.rest)
        self._first_put[rows], self._last_put[rows] = first_put, last_put
        self._first_acked[rows], self._last_acked[rows] = first + latency, final + latency
        # Flits that cannot be written yet stay in front once there is no more room for them.
        room = self._room * (final - first) / np.maximum(group.rest, 1)
        return np.where(group.size > self._room, np.maximum(last, final - room), last)
