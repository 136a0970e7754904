"""Execution gives exact sums, in one definite order of siblings."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ml_dtypes import bfloat16

from multitree import ScheduleError, build, fully_connected, mesh, ring, torus
from multitree.topology.algorithms.multitree import build_multitree
from multitree.topology.collectives import ROOTED, Op
from multitree.topology.schedules.execute import execute, flow_ranges, owned_range
from multitree.topology.schedules.schedule import phase_of
from multitree.topology.schedules.trees import LARGE_CHUNKS, SMALL_CHUNKS, Journeys, expected_order
from tests.topology.checks.test_verify import CASES
from tests.topology.graphs import by_hand, over, rows_of, topologies
from tests.topology.oracles import adds_in_order, spread_normals

LENGTHS = [0, 1, 3, 4, 97, 1000]


def bits(array):
    return array.view(np.uint32)


def expected_rows(schedule, buffers, total):
    """For each rank the elements that the collective promises it, as (slice, values)."""
    num_ranks, length = buffers.shape
    ranges = flow_ranges(schedule, length).tolist()
    for rank in range(num_ranks):
        if schedule.collective == "all_reduce":
            yield rank, slice(None), total
        elif schedule.collective == "broadcast":
            yield rank, slice(None), buffers[schedule.root]
        elif schedule.collective == "reduce":
            yield schedule.root, slice(None), total
        elif schedule.collective == "reduce_scatter":
            owned = slice(*owned_range(schedule, rank, length))
            yield rank, owned, total[owned]
        else:
            for flow, root in enumerate(schedule.flow_roots.tolist()):
                chunk = slice(ranges[flow], ranges[flow + 1])
                yield rank, chunk, buffers[root, chunk]


@over("ring:2 ring:5 torus:4x4 mesh:3x4 hypercube:3 full:6")
@pytest.mark.parametrize(("algorithm", "collective"), CASES)
def test_int32_results_are_numpys_for_every_builder_collective_and_length(
    topology, algorithm, collective
):
    root = topology.num_ranks - 1 if collective in ROOTED else None
    schedule = build(topology, algorithm, collective, root)
    for seed, length in enumerate(LENGTHS):
        rng = np.random.default_rng(seed)
        shape = (topology.num_ranks, length)
        buffers = rng.integers(-(2**31), 2**31, shape, dtype=np.int32)
        before = buffers.copy()
        total = buffers.sum(axis=0, dtype=np.int32)
        result = execute(schedule, buffers)
        assert result.dtype == np.int32 and result.shape == shape
        assert (buffers == before).all()
        for rank, where, values in expected_rows(schedule, buffers, total):
            assert (result[rank, where] == values).all(), f"seed {seed}, rank {rank}"


@pytest.mark.slow
@given(topologies(), st.integers(0, 10**6), st.sampled_from(["all_reduce", "reduce_scatter"]))
@settings(deadline=None, print_blob=True, max_examples=40)
def test_every_float_of_every_memory_is_the_sum_in_canonical_order(topology, seed, collective):
    schedule = build(topology, "multitree", collective)
    adds_in_order(schedule, seed % 40, seed)


def test_the_order_of_siblings_changes_bits_and_is_obeyed():
    buffers = spread_normals(1, (4, 4000))
    other = buffers[0] + (buffers[1] + buffers[2]) + buffers[3]
    total = ((buffers[0] + buffers[1]) + buffers[2]) + buffers[3]
    assert (bits(other) != bits(total)).any()
    star = [[0, 0, 0, child, 0] for child in (1, 2, 3)]
    made = by_hand(fully_connected(4), star, "reduce", 0)
    assert (bits(execute(made, buffers)[0]) == bits(total)).all()
    turned = replace(made, order=np.array([2, 1, 0]))
    reverse = ((buffers[0] + buffers[3]) + buffers[2]) + buffers[1]
    assert (bits(reverse) != bits(total)).any()
    assert (bits(execute(turned, buffers)[0]) == bits(reverse)).all()


def test_an_earlier_step_is_added_before_a_later_one_whatever_the_order_says():
    rows = [[0, 0, 0, 3, 0], [1, 0, 0, 2, 0], [1, 0, 0, 1, 0]]
    made = by_hand(fully_connected(4), rows, "reduce", 0)
    buffers = spread_normals(2, (4, 1000))
    total = ((buffers[0] + buffers[3]) + buffers[1]) + buffers[2]
    assert (bits(execute(made, buffers)[0]) == bits(total)).all()


def test_every_sum_that_is_no_number_is_the_canonical_one_and_copies_keep_their_bits():
    odd_nan = np.array([0xFFC12345], np.uint32).view(np.float32)[0]
    buffers = np.zeros((3, 12), np.float32)
    buffers[1] = odd_nan
    total = execute(build_multitree(ring(3)), buffers)
    assert (bits(total) == 0x7FC00000).all()
    signalling = np.full((3, 12), 0xFF812345, np.uint32).view(np.float32)
    gathered = execute(build(ring(3), "multitree", "all_gather"), signalling)
    assert (bits(gathered) == 0xFF812345).all()
    scattered = execute(build(ring(3), "multitree", "reduce_scatter"), signalling)
    assert {0xFF812345, 0x7FC00000} == set(np.unique(bits(scattered)).tolist())
    infinite = np.array([[np.inf], [-np.inf], [1.0]], np.float32)
    assert (bits(execute(build_multitree(ring(3)), infinite)) == 0x7FC00000).all()


def test_corner_values_are_ieee_and_raise_no_warning(recwarn):
    huge = np.finfo(np.float32).max
    tiny = np.finfo(np.float32).smallest_subnormal
    buffers = np.array([[huge, tiny, -0.0, 1.0], [huge, tiny, -0.0, -1.0]], np.float32)
    total = execute(build_multitree(ring(2)), buffers)
    assert (bits(total) == bits(np.array([np.inf, 2 * tiny, -0.0, 0.0], np.float32))).all()
    signalling = np.full((2, 3), 0xFF81, np.uint16).view(bfloat16)
    for op in ("sum", "max"):
        quiet = execute(build_multitree(ring(2)), signalling, op)
        assert (quiet.view(np.uint16) == 0x7FC0).all()
    wrapped = execute(build_multitree(ring(2)), np.full((2, 3), 2**31 - 1, np.int32))
    assert (wrapped == -2).all()
    assert not recwarn.list


@pytest.mark.parametrize("flit_bytes", [4, 16, 64])
def test_ranges_are_whole_flits_of_the_padded_buffer(flit_bytes):
    schedule = build_multitree(torus(3, 3))
    per_flit = flit_bytes // 4
    for length in LENGTHS:
        num_flits = -(-length // per_flit)
        ranges = flow_ranges(schedule, length, flit_bytes=flit_bytes)
        exact = [min(num_flits * flow // 9 * per_flit, length) for flow in range(10)]
        assert ranges.tolist() == exact
        assert owned_range(schedule, 4, length, flit_bytes=flit_bytes) == (exact[4], exact[5])
        buffers = np.arange(9 * length, dtype=np.int32).reshape(9, length)
        result = execute(schedule, buffers, flit_bytes=flit_bytes)
        assert (result == buffers.sum(axis=0)).all()


def test_a_rank_owns_the_chunk_of_the_flow_rooted_at_it_whatever_the_flows_number():
    schedule = phase_of(build_multitree(ring(4), roots=[2, 0, 3, 1]), "reduce_scatter")
    owned = [owned_range(schedule, rank, 16) for rank in range(4)]
    assert owned == [(4, 8), (12, 16), (0, 4), (8, 12)]
    with pytest.raises(ScheduleError, match="Flows rooted at rank 0 must be one, not 2"):
        owned_range(build(ring(4), "bidirectional_ring"), 0, 16)


def test_64_ranks_of_1_mib_all_end_with_the_same_sum():
    schedule = build_multitree(torus(8, 8))
    buffers = np.random.default_rng(0).standard_normal((64, 2**18)).astype(np.float32)
    result = execute(schedule, buffers)
    assert (result == result[0]).all()
    np.testing.assert_allclose(result[0], buffers.sum(axis=0), atol=1e-4)


@pytest.mark.parametrize("length", LENGTHS)
def test_a_bfloat16_partial_sum_is_rounded_where_it_is_written(length):
    schedule = build_multitree(torus(4, 4))
    ranges = flow_ranges(schedule, length, element_bytes=2)
    assert ((ranges % 8 == 0) | (ranges == length)).all()
    adds_in_order(schedule, length, length, bfloat16)


@pytest.mark.parametrize("dtype", [np.int32, np.float32, bfloat16])
def test_a_maximum_is_numpys_whatever_the_schedule(dtype):
    buffers = np.trunc(spread_normals(5, (12, 333)) % 1000).astype(dtype)
    for algorithm in ("multitree", "ring"):
        result = execute(build(mesh(3, 4), algorithm), buffers, "max")
        assert result.dtype == dtype and (result == buffers.max(axis=0)).all()


def test_what_cannot_be_executed_is_refused():
    schedule = build_multitree(ring(4))
    for wrong in (np.float64, np.int64, np.dtype(">f4"), np.uint32):
        with pytest.raises(TypeError, match="Buffers must be int32, float32 or bfloat16, not"):
            execute(schedule, np.zeros((4, 8), wrong))
    with pytest.raises(TypeError, match="Buffers must be a NumPy array, not list"):
        execute(schedule, [[0.0]] * 4)
    for shape in ((8,), (3, 8), (4, 2, 2)):
        with pytest.raises(ValueError, match=r"Buffers must be of shape \(4, n\), not"):
            execute(schedule, np.zeros(shape, np.float32))
    with pytest.raises(ValueError, match="Op must be one of sum, max, not 'min'"):
        execute(schedule, np.zeros((4, 8), np.float32), "min")
    for wrong in (0, 6, -4):
        with pytest.raises(ValueError, match=f"must be a positive multiple of 4, not {wrong}"):
            execute(schedule, np.zeros((4, 8), np.float32), flit_bytes=wrong)
    with pytest.raises(ValueError, match="Number of elements must be at least 0, not -1"):
        flow_ranges(schedule, -1)


def test_buffers_of_any_memory_layout_give_the_same_and_stay_as_they_are():
    schedule = build_multitree(ring(4))
    buffers = spread_normals(3, (4, 30))
    strided = np.asfortranarray(buffers)
    every_other = np.repeat(buffers, 2, axis=1)[:, ::2]
    for same in (strided, every_other):
        same.flags.writeable = False
        assert (bits(execute(schedule, same)) == bits(execute(schedule, buffers))).all()


def arrivals_row_by_row(schedule, times=LARGE_CHUNKS):
    """The same timing as `order`, one row after the other."""
    chunk_time, hop_time = times
    free, ready, arrival = {}, {}, []
    fields = ("step", "flow", "src", "dst", "route_links")
    for step, flow, src, dst, link in rows_of(schedule, *fields).tolist():
        earlier = [time for when, time in ready.get((flow, src), []) if when < step]
        start = max([free.get(link, 0), *earlier])
        free[link] = start + chunk_time
        arrival.append(start + chunk_time + hop_time)
        ready.setdefault((flow, dst), []).append((step, arrival[-1]))
    return arrival


def check_order(schedule):
    """MultiTree's siblings are in the order of small chunks."""
    arrival = arrivals_row_by_row(schedule, SMALL_CHUNKS)
    assert schedule.expected_end(SMALL_CHUNKS) == max(arrival)
    siblings = {}
    for row, (step, op, flow, src, dst) in enumerate(rows_of(schedule).tolist()):
        if op == Op.REDUCE:
            siblings.setdefault((step, flow, dst), []).append((arrival[row], src, row))
        else:
            assert schedule.order[row] == 0
    for group in siblings.values():
        assert [schedule.order[row] for _, _, row in sorted(group)] == list(range(len(group)))
    return siblings


@pytest.mark.slow
@given(topologies())
@settings(deadline=None, print_blob=True, max_examples=60)
def test_order_is_by_arrival_then_by_source(topology):
    check_order(build_multitree(topology))


@over("torus:4x4 torus:8x8 mesh:4x4 full:6")
def test_order_is_by_arrival_then_by_source_on_families(topology):
    siblings = check_order(build_multitree(topology))
    assert max(len(group) for group in siblings.values()) > 1


def test_a_sibling_whose_port_is_busy_comes_after_one_of_a_higher_rank():
    rows = [[1, 0, 0, 1, 0], [1, 0, 0, 2, 0], [0, 0, 1, 1, 0], [1, 0, 1, 3, 2]]
    made = by_hand(fully_connected(4), rows, "reduce", 0)
    assert [made.src[row] for row in range(4)] == [1, 1, 2, 3]
    # Ranks 1 and 2 are siblings in step 1; the port of rank 1 sent another chunk before.
    assert made.order.tolist() == [0, 1, 0, 0]


def test_a_link_with_two_transfers_in_one_step_sends_them_in_row_order():
    rows = [[0, 0, 0, 1, 0], [0, 0, 1, 1, 0], [0, 0, 1, 2, 0]]
    made = by_hand(fully_connected(3), rows, "reduce", 0)
    assert made.max_link_load == 2
    assert made.order.tolist() == [0, 1, 0]
    assert np.array(arrivals_row_by_row(made)).tolist() == [17, 33, 17]


def test_a_sibling_that_comes_a_longer_way_is_expected_later():
    rows = {"step": [0, 0], "op": [0, 0], "flow": [0, 0], "src": [1, 2], "dst": [0, 0]}
    columns = {field: np.array(values, np.int32) for field, values in rows.items()}
    links = np.array([0, 1], np.int32)
    for hops, order in (([1, 1], [0, 1]), ([2, 1], [1, 0]), ([1, 2], [0, 1])):
        journeys = Journeys(columns, links, np.array(hops), 3, 1, 2)
        assert expected_order(journeys).tolist() == order
