"""Cycles that the pipelines of interfaces and switches take, which are constant."""

from typing import ClassVar

from multitree.nic.driver.config import JOB_QUEUE_DEPTH

__all__ = ["Pipelines"]


class Pipelines:
    """Cycles of the generated Verilog apart from links, memory and adder.

    Each follows from the states and queues of the named blocks, and is counted on waveforms;
    `sim/exact` goes through them one by one. They are no settings.
    """

    # From the host's start to the first head flit on a link.
    start_cycles: ClassVar[int] = 15
    # From the host's start to that of the fetcher.
    launch_cycles: ClassVar[int] = 4
    # From the host's start to the first head taken, which may have waited at its link's end.
    listen_cycles: ClassVar[int] = 6
    # Between two rows of one table: states READ_ROW to PUSH of nic/send/fetcher.py.
    row_cycles: ClassVar[int] = 6
    # Of a row that sends nothing: READ_ROW, AWAIT_ROW, ASK_ROW and PUSH.
    idle_row_cycles: ClassVar[int] = 4
    # Rows that wait at a port before the table has to wait for it.
    port_queue_rows: ClassVar[int] = JOB_QUEUE_DEPTH
    # From the earliest head of a row that leaves a full port queue to that of the next row.
    refill_cycles: ClassVar[int] = 3
    # Of a message at its sender, for builders, beyond one cycle per payload flit.
    issue_cycles: ClassVar[int] = 5
    # From a head flit to its payload, beyond the memory's read latency.
    payload_cycles: ClassVar[int] = 1
    # From an arrival to the head flit that waited for it.
    dependency_cycles: ClassVar[int] = 2
    # From an arrival to the contribution that waited for it.
    sibling_cycles: ClassVar[int] = 2
    # From the end of a link to the reducer.
    receive_cycles: ClassVar[int] = 4
    # Of a head at its receiver: AWAIT_HEAD to CHECK of nic/receive/header_check.py; MOVE for waves.
    head_cycles: ClassVar[int] = 4
    # From the reducer to the adder, beyond the memory's read latency.
    fetch_cycles: ClassVar[int] = 1
    # From a write to its acknowledgement, at least: `Acknowledger` of nic/reduce/reducer.py.
    least_write_cycles: ClassVar[int] = 2
    # From the reducer to the arrival, beyond memory and, for sums, the adder.
    complete_cycles: ClassVar[int] = 3
    # From a head to the arrival of an empty message, beyond `receive_cycles` and `head_cycles`.
    empty_cycles: ClassVar[int] = 1
    # From a flit that leaves a link buffer to the flit sent for its credit, beyond the link's
    # latency; with `receive_cycles` the six cycles of a credit in hw/link/receiver.py.
    credit_cycles: ClassVar[int] = 2
    # From the last arrival to the interrupt.
    done_cycles: ClassVar[int] = 2

    # Where flits are forwarded:
    # As `row_cycles` and `refill_cycles`, by the rows of nic/send/pipelined_fetcher.py.
    piped_row_cycles: ClassVar[int] = 1
    piped_refill_cycles: ClassVar[int] = 5
    # From the host's start to the first head flit, beyond `start_cycles`.
    piped_cycles: ClassVar[int] = 1
    # Of the look-up of heads ahead, beyond `head_cycles`, and of each flit.
    queue_cycles: ClassVar[int] = 1
    # Rows that wait at a sender, behind `port_queue_rows`.
    source_queue_rows: ClassVar[int] = 5
    # From a checked head to the head that waited for it.
    follow_cycles: ClassVar[int] = 2
    # From a flit that is put to the same one on the next link.
    forward_cycles: ClassVar[int] = 2
    # From a queued row to its first flit, beyond a read of memory, where it waits for no message.
    ahead_cycles: ClassVar[int] = -1
    # From a checked head to the operand of its first flit, beyond a read of memory.
    operand_cycles: ClassVar[int] = 2
    # From a message's query for another one's begin to the earliest flit of that.
    found_cycles: ClassVar[int] = 6
    # From a checked head without payload to its report: two queues of nic/forward/chunk_source.py.
    report_cycles: ClassVar[int] = 2
    # More of these where a replaced or counted message has to be found: a tracker's answer.
    find_cycles: ClassVar[int] = 4
    # From a head that waited for a whole chunk to its first flit, beyond a read of memory.
    whole_cycles: ClassVar[int] = 2
    # From the reducer to the flit that is put, of a GATHER.
    replaced_cycles: ClassVar[int] = 3
    # The same of a REDUCE, beyond the adder.
    added_cycles: ClassVar[int] = 2
    # From a write's acknowledgement to the arrival.
    acknowledged_cycles: ClassVar[int] = 1

    # On shared links:
    # Through a switch, from link to link: hw/switch/switch.py without contention.
    switch_cycles: ClassVar[int] = 5
    # From a tail that leaves a channel of a switch's input to the next head.
    gap_cycles: ClassVar[int] = 2
    # From the last read of a message to the first one of the next.
    take_cycles: ClassVar[int] = 1
    # More of these where the next one has a dependency: the tracker takes two cycles to read a
    # count (`answering` in nic/control/tracker.py).
    ask_cycles: ClassVar[int] = 2
    # From a head's look-up to its claim: LOOK_UP to CHECK of nic/receive/header_lookup.py.
    reservation_cycles: ClassVar[int] = 3
    # Of a claim or an arrived message: PICK to JUDGE of nic/reduce/sequencer.py.
    judge_cycles: ClassVar[int] = 4
    # From a place, or a turn, to the first payload flit at the reducer.
    open_cycles: ClassVar[int] = 1
    # From an arrival to the sequencer.
    note_cycles: ClassVar[int] = 2
    # From the sequencer to a staged contribution's first flit at the reducer, beyond a read of
    # memory: LOOK_UP to MOVE of nic/reduce/reorder_buffer.py.
    drain_cycles: ClassVar[int] = 5
