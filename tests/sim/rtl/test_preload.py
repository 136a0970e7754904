"""The next schedule is loaded while one runs: no cycle goes by for its table."""

from dataclasses import replace

import numpy as np
import pytest

from multitree import DeviceError, build, execute, torus
from multitree.nic.driver.commands import (
    ACKNOWLEDGE,
    COMMIT,
    START,
    HostOp,
    RunSettings,
    run_writes,
)
from multitree.nic.driver.table import compile_table, table_writes
from multitree.sim.faults.diagnosis import check_responses
from multitree.sim.rtl.loads import Upcoming
from multitree.sim.rtl.session import RtlSession
from multitree.sim.timing.trace import turns_of
from tests.emulation import needs_rtl
from tests.sim.emulated import checked, checked_each, same_bits

pytestmark = needs_rtl
TORUS = torus(4, 4)
TREES, RING = build(TORUS, "multitree"), build(TORUS, "bidirectional_ring")


@pytest.fixture(scope="module")
def session():
    with RtlSession(TORUS) as opened:
        yield opened


def buffers_of(seed, n, dtype=np.float32):
    print(f"seed {seed}")
    return np.random.default_rng(seed).standard_normal((16, n)).astype(dtype)


@pytest.mark.slow
def test_a_schedule_queued_behind_another_starts_two_cycles_after_it_is_done(session):
    """Everything is written, committed and started in the first one's time, without a barrier."""
    network, sizes, flits = session.network, (40_000, 1000), (10_000, 250)
    buffers = [buffers_of(seed, size) for seed, size in enumerate(sizes)]
    memory = np.concatenate(buffers, axis=1).view(np.uint8).reshape(16, -1, 16).copy()
    network.set_memory(memory)
    network.forget_messages()
    commit_and_start, write = (COMMIT[0], COMMIT[1] | START[1]), HostOp.write
    for rank in range(16):
        script = []
        for schedule, base, length in zip((TREES, RING), (0, flits[0]), flits, strict=True):
            table = compile_table(schedule, rank, length, session.config)
            settings = RunSettings("float32", base, length, 50_000, 50_000)
            writes = [*table_writes(table), *run_writes(settings), commit_and_start]
            # The first one's check is over before the second one is written.
            script += [*(write(*each) for each in writes), HostOp.wait(2000)]
        script += [HostOp.wait_irq(), write(*ACKNOWLEDGE)] * 2
        network.set_script(rank, script)
    assert network.run(80_000)
    check_responses(network)
    for k, (schedule, size) in enumerate(zip((TREES, RING), sizes, strict=True)):
        found = memory.reshape(16, -1).view(np.float32)[:, k * sizes[0] :][:, :size]
        assert same_bits(np.ascontiguousarray(found), execute(schedule, buffers[k]))
    gaps, loaded = [], []
    for rank in range(16):
        script, result = network.script(rank), network.results(rank)
        done = int(result["end"][-4])
        starts = np.flatnonzero(script["address"] == commit_and_start[0])
        loaded.append(int(result["end"][starts[1]]) - done)
        sent = network.sent()
        heads = sent["cycle"][(sent["rank"] == rank) & (sent["sequence"] % 2 == 1)]
        gaps.append(int(heads.min()) - done)
    print(f"from done to the next schedule's first head: {min(gaps)} to {max(gaps)} cycles")
    print(f"its start was written {-max(loaded)} to {-min(loaded)} cycles before that done")
    assert max(loaded) < 0
    # The interrupt is a cycle behind done; swap, launch, a row's four cycles, queue, head, link.
    assert max(gaps) <= 20


@pytest.mark.slow
def test_a_session_loads_ahead_and_then_only_starts(session):
    trees, ring = buffers_of(3, 30_000), buffers_of(4, 700)
    (trace,) = checked(session, TREES, [trees])
    (ahead,) = checked(session, TREES, [trees], then=Upcoming(RING, 700, "float32"))
    assert (ahead.arrived == trace.arrived).all() and ahead.cycles == trace.cycles
    waited = []
    for last in (False, True):
        before = session.network.cycle
        checked(session, RING, [ring])
        waited.append(int(session.network.sent()["cycle"].min()) - before)
        if not last:
            session.run(TREES, [trees])
    print(f"cycles to the first head, loaded ahead and not: {waited[0]} and {waited[1]}")
    assert waited[0] < 300 and waited[1] > 1000


@pytest.mark.slow
def test_loading_lasts_until_all_tables_are_checked_and_no_longer(session):
    """Every write of the longest table, and what the checks take, which hosts poll for."""
    values, counted = buffers_of(8, 500), []
    ahead = Upcoming(RING, 500, "float32")
    for schedule, then in ((RING, None), (TREES, None), (TREES, ahead), (RING, None)):
        session.run(schedule, [values], then=then)
        counted.append(session.loading_cycles)
    print(f"loading took {counted} cycles")
    tables = [compile_table(TREES, rank, 125, session.config) for rank in range(16)]
    writes = max(len([*table_writes(table)]) for table in tables)
    entries = 2 * session.config.num_flows + max(t.num_rows + t.num_flows for t in tables)
    assert writes < counted[1] < 9 * entries
    assert counted[2:] == [0, 0] and counted[0] > 0


@pytest.mark.slow
def test_tables_loaded_ahead_and_not_run_do_no_harm(session):
    trees = buffers_of(5, 100)
    for n, dtype in ((100, "float32"), (20, "int32"), (5000, "float32")):
        checked(session, TREES, [trees], then=Upcoming(RING, n, dtype))
    checked(session, TREES, [trees], then=Upcoming(TREES, 100, "int32"))
    integers = buffers_of(6, 100, np.int32)
    checked(session, TREES, [integers] * 3, then=Upcoming(RING, 64, "float32"))
    checked(session, RING, [buffers_of(7, 64)])


@pytest.mark.slow
def test_collectives_of_any_kind_are_queued_one_behind_the_other(session):
    kinds = [(TREES, 8000), (RING, 700), (RING, 700), (TREES, 9), (RING, 900)]
    queue = [Upcoming(schedule, n, "float32") for schedule, n in kinds]
    buffers = [buffers_of(20 + k, n) for k, (_, n) in enumerate(kinds)]
    buffers[4] = buffers[4].view(np.int32)
    queue[4] = replace(queue[4], dtype="int32", op="max")
    checked_each(session, queue, buffers, start_skew_cycles=[500] * 8 + [0] * 8)
    (_, arrived), (sent, _), *_ = turns_of(
        [schedule for schedule, _ in kinds], session.network.sent(), session.network.arrived()
    )
    for rank in range(16):
        over = arrived["cycle"][arrived["rank"] == rank].max()
        assert 0 < sent["cycle"][sent["rank"] == rank].min() - over < 40


@pytest.mark.slow
def test_a_collective_that_is_shorter_than_the_load_is_timed_as_ever(session):
    empty = np.zeros((16, 0), np.float32)
    (alone,) = checked(session, TREES, [empty])
    (ahead,) = checked(session, TREES, [empty], then=Upcoming(RING, 9, "float32"))
    assert (ahead.done == alone.done).all()
    checked(session, RING, [buffers_of(8, 9)])


@pytest.mark.slow
def test_a_table_that_is_refused_is_named_when_the_collective_before_it_is_done():
    with RtlSession(TORUS) as session:
        trees = buffers_of(9, 400)
        session.run(TREES, [trees])
        tables = [compile_table(RING, rank, 25, session.config) for rank in range(16)]
        for rank, table in enumerate(tables):
            writes = table_writes(table)
            if rank == 6:
                writes[0] = (writes[0][0], writes[0][1] ^ 1)
            ops = HostOp.writes((START, *writes, COMMIT))
            session.network.set_script(rank, [*ops, HostOp.wait_irq(), HostOp.wait(2000)])
        session.network.run(20_000)
        with pytest.raises(DeviceError, match=r"^Rank 6: .*\(TABLE_CRC\)"):
            session.run(TREES, [trees])
