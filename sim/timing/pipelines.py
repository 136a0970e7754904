"""Cycles that the pipelines of interfaces and switches take, which are constant."""

from typing import ClassVar

from multitree.nic.driver.config import JOB_QUEUE_DEPTH

__all__ = ["Pipelines"]


class Pipelines:
    """What the generated Verilog takes apart from links, memory and adder.

    Each figure follows from the states and queues of the blocks that are named, and is counted on
    waveforms; `sim/exact` goes through them one by one. They are no settings.

    Attributes
    ----------
    start_cycles : int
        From the host's start to the first head flit on a link.
    launch_cycles, listen_cycles : int
        From the host's start to that of the fetcher, and to the first head that is taken, which
        may have waited at the end of its link.
    row_cycles, idle_row_cycles : int
        Between two rows that one table gives to its ports, and what one takes that sends nothing.
    port_queue_rows : int
        Rows that wait at a port before the table has to wait for it.
    refill_cycles : int
        From the earliest head flit of a row that leaves a full port queue to that of the row that
        takes its place.
    issue_cycles : int
        What builders count for a message at its sender beyond one cycle per payload flit.
    payload_cycles : int
        From a head flit to its payload, beyond the memory's read latency.
    dependency_cycles : int
        From an arrival to the head flit that waited for it.
    sibling_cycles : int
        From an arrival to the contribution that waited for it.
    receive_cycles : int
        From the end of a link to the reducer.
    head_cycles : int
        What a head takes of its receiver, on private links; one more where there are waves.
    fetch_cycles : int
        From the reducer to the adder, beyond the memory's read latency.
    least_write_cycles : int
        From a write to its acknowledgement at the soonest, however fast memory is.
    complete_cycles : int
        From the reducer to the arrival, beyond memory and, for what is added, the adder.
    empty_cycles : int
        From a head flit at the end of a link to the arrival of a message without payload, beyond
        `receive_cycles` and `head_cycles`.
    credit_cycles : int
        From a flit that leaves a link buffer to the flit that goes out for its credit, beyond
        the latency of the link.
    done_cycles : int
        From the last arrival to the interrupt.
    piped_row_cycles, piped_refill_cycles : int
        As `row_cycles` and `refill_cycles`, where flits are forwarded, as in all down to
        `acknowledged_cycles`.
    piped_cycles : int
        From the host's start to the first head flit, beyond `start_cycles`.
    queue_cycles : int
        What the look-up of heads ahead adds to `head_cycles`, and to each flit's way.
    source_queue_rows : int
        Rows that wait at a sender, behind `port_queue_rows`.
    follow_cycles : int
        From a head that is checked to the head that waited for it.
    forward_cycles : int
        From a flit that is put to the same one on the next link.
    ahead_cycles : int
        From a row that is queued to its first flit, beyond the memory's read latency, where the
        chunk needs no message.
    operand_cycles : int
        From a head that is checked to what its first flit is added to, as far.
    found_cycles : int
        From a message that asks where another one began to the earliest flit of that.
    report_cycles, find_cycles : int
        From a head without payload that is checked to its report, and what it takes more where
        something is to be found that it replaces, or is counted behind.
    whole_cycles : int
        From a head that waited for a whole chunk to its first flit, beyond the memory's latency.
    replaced_cycles, added_cycles : int
        From the reducer to the flit that is put, of a GATHER, and beyond the adder of a REDUCE.
    acknowledged_cycles : int
        From a write's acknowledgement to the arrival.
    switch_cycles : int
        Through a switch, from link to link.
    gap_cycles : int
        From a tail that leaves a channel of a switch's input to the head behind it.
    take_cycles : int
        From the last read of a message to the first one of the next.
    ask_cycles : int
        More of these where the next one has a dependency, whole long since.
    reservation_cycles : int
        On shared links from a head that is looked up to the claim of its place.
    judge_cycles : int
        What a claim, or a message that is in, takes of the sequencer.
    open_cycles : int
        From a place, or a turn, to the first payload flit that goes to the reducer.
    note_cycles : int
        From an arrival to the sequencer.
    drain_cycles : int
        From the sequencer to the first flit of a staged contribution at the reducer, beyond the
        memory's read latency.
    """

    # These are the rows of nic/send/pipelined_fetcher.py.
    piped_row_cycles: ClassVar[int] = 1
    piped_refill_cycles: ClassVar[int] = 5
    piped_cycles: ClassVar[int] = 1
    queue_cycles: ClassVar[int] = 1
    source_queue_rows: ClassVar[int] = 5
    follow_cycles: ClassVar[int] = 2
    ahead_cycles: ClassVar[int] = -1
    operand_cycles: ClassVar[int] = 2
    forward_cycles: ClassVar[int] = 2
    found_cycles: ClassVar[int] = 6
    # These are two queues of nic/forward/chunk_source.py, and a tracker's answer.
    report_cycles: ClassVar[int] = 2
    find_cycles: ClassVar[int] = 4
    whole_cycles: ClassVar[int] = 2
    replaced_cycles: ClassVar[int] = 3
    added_cycles: ClassVar[int] = 2
    acknowledged_cycles: ClassVar[int] = 1
    start_cycles: ClassVar[int] = 15
    launch_cycles: ClassVar[int] = 4
    listen_cycles: ClassVar[int] = 6
    # These are the states READ_ROW to PUSH of nic/send/fetcher.py.
    row_cycles: ClassVar[int] = 6
    # These are READ_ROW, AWAIT_ROW, ASK_ROW and PUSH of a row that sends nothing.
    idle_row_cycles: ClassVar[int] = 4
    port_queue_rows: ClassVar[int] = JOB_QUEUE_DEPTH
    refill_cycles: ClassVar[int] = 3
    issue_cycles: ClassVar[int] = 5
    payload_cycles: ClassVar[int] = 1
    dependency_cycles: ClassVar[int] = 2
    sibling_cycles: ClassVar[int] = 2
    receive_cycles: ClassVar[int] = 4
    # These are the states AWAIT_HEAD to CHECK of nic/receive/header_check.py; waves add MOVE.
    head_cycles: ClassVar[int] = 4
    fetch_cycles: ClassVar[int] = 1
    # This is the queue of the Acknowledger in nic/reduce/reducer.py.
    least_write_cycles: ClassVar[int] = 2
    complete_cycles: ClassVar[int] = 3
    empty_cycles: ClassVar[int] = 1
    # Together with `receive_cycles` these are the six cycles of a credit in hw/link/receiver.py.
    credit_cycles: ClassVar[int] = 2
    done_cycles: ClassVar[int] = 2
    # This is the latency of hw/switch/switch.py without contention.
    switch_cycles: ClassVar[int] = 5
    gap_cycles: ClassVar[int] = 2
    take_cycles: ClassVar[int] = 1
    # The tracker takes two cycles to read a count (`answering` in nic/control/tracker.py).
    ask_cycles: ClassVar[int] = 2
    # These are the states LOOK_UP to CHECK of nic/receive/header_lookup.py.
    reservation_cycles: ClassVar[int] = 3
    # These are the states PICK to JUDGE of nic/reduce/sequencer.py.
    judge_cycles: ClassVar[int] = 4
    open_cycles: ClassVar[int] = 1
    note_cycles: ClassVar[int] = 2
    # These are the states LOOK_UP to MOVE of nic/reduce/reorder_buffer.py.
    drain_cycles: ClassVar[int] = 5
