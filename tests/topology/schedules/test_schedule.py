"""A schedule keeps its columns in order, knows its phases and has one hash."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multitree import ScheduleError, Topology, build, fully_connected, mesh, ring, torus
from multitree.topology.algorithms.multitree import build_multitree
from multitree.topology.collectives import COLLECTIVES, Op
from multitree.topology.schedules.schedule import phase_of
from multitree.topology.schedules.trees import SMALL_CHUNKS
from tests.refusals import refuses
from tests.topology.graphs import by_hand, rows_of, topologies

ARRAYS = ["flow_offsets", "step", "op", "flow", "src", "dst", "order"]
ARRAYS += ["route_offsets", "route_links", "route_classes"]
ENDS = "Route offsets must run from 0 to 24, not "
TREES = "d26578deb2ace6813b8fd3e8a00852644061d5872b043be37ca5a88dc45da86c"
RINGS = "aae046a8278cc441bf6ad9a0613249161e5429d6c9a6bad878ab8a9e7ee18c61"


def made_of(rows, **changes):
    return by_hand(fully_connected(3), rows, **({"flow_offsets": [0, 1, 2]} | changes))


@given(topologies(), st.randoms(use_true_random=False))
@settings(deadline=None, print_blob=True, max_examples=40)
def test_from_rows_sorts_by_step_flow_src_dst_and_keeps_each_rows_link(topology, random):
    schedule = build_multitree(topology)
    rows, links = rows_of(schedule).tolist(), schedule.route_links.tolist()
    assert [[row[0], *row[2:]] for row in rows] == sorted([row[0], *row[2:]] for row in rows)
    shuffled = list(zip(rows, links, strict=True))
    random.shuffle(shuffled)
    again = by_hand(
        topology,
        [row for row, _ in shuffled],
        flow_offsets=schedule.flow_offsets,
        links=[link for _, link in shuffled],
        times=SMALL_CHUNKS,
    )
    assert again.hash == schedule.hash


def test_a_route_that_is_not_given_takes_the_link_of_lowest_id_or_else_goes_over_several():
    links = [[1, 0], [0, 1], [0, 1], [1, 2], [2, 1], [0, 2]]
    topology = Topology("x", 3, 0, links, 16.0, 150.0)
    made = by_hand(topology, [[0, 1, 0, 0, 1], [2, 1, 0, 2, 0], [1, 1, 0, 0, 2]])
    assert made.route_links.tolist() == [1, 5, 4, 0]
    assert made.route_offsets.tolist() == [0, 1, 2, 4]
    assert made.tree_height_hops == 3 and made.max_link_load == 1
    for row, message in (
        ([0, 1, 0, 1, 1], "different ranks, not 1 twice"),
        ([0] * 4 + [3], "0..2"),
    ):
        with pytest.raises(ScheduleError, match=f"Row 1: src and dst must be .*{message}"):
            by_hand(topology, [[0, 0, 0, 0, 1], row])


def test_routes_that_are_given_go_with_their_rows():
    rows = [[1, 1, 0, 0, 2], [0, 0, 0, 2, 0], [0, 0, 0, 1, 0]]
    routes = ([0, 2, 3, 4], [1, 2, 4, 3], [0, 1, 2, 3])
    made = by_hand(ring(3), rows, routes=routes)
    assert made.route_offsets.tolist() == [0, 1, 2, 4]
    assert made.route_links.tolist() == [3, 4, 1, 2]
    assert made.route_classes.tolist() == [3, 2, 0, 1]
    gather = phase_of(made, "broadcast")
    assert (gather.route_links.tolist(), gather.route_offsets.tolist()) == ([1, 2], [0, 2])
    for wrong in (
        ([0, 2, 3], [1, 2, 4], [0, 1, 2]),
        ([0, 2, 3, 5], [1, 2, 4, 3], [0, 1, 2, 3]),
        ([0, 2, 1, 4], [1, 2, 4, 3], [0, 1, 2, 3]),
        ([0, 2, 3, 4], [1, 2, 4, 3], [0, 1, 2]),
    ):
        with pytest.raises(ScheduleError, match="Routes must be 3 parts of as many links as"):
            by_hand(ring(3), rows, routes=wrong)


@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=20).map(np.cumsum),
    st.integers(0, 10**9),
)
@settings(print_blob=True)
def test_chunk_f_begins_at_floor_of_flits_times_offset_over_the_whole(offsets, num_flits):
    whole = int(offsets[-1]) + 1
    made = made_of(np.zeros((0, 5), int), flow_offsets=[0, *offsets.tolist(), whole])
    exact = [num_flits * offset // whole for offset in [0, *offsets.tolist(), whole]]
    assert made.chunks(num_flits).tolist() == exact
    assert made.chunks(num_flits)[-1] == num_flits


def test_chunks_refuse_what_64_bits_cannot_divide():
    made = build_multitree(ring(4))
    for wrong in (-1, 2**61):
        refuses(ValueError, f"Number of flits must be within .*, not {wrong}", made.chunks, wrong)
    assert made.chunks(2**61 - 1)[-1] == 2**61 - 1


@pytest.mark.parametrize("collective", ["reduce_scatter", "all_gather"])
def test_a_phase_is_the_rows_of_one_op_with_steps_from_0(collective):
    whole = build_multitree(torus(3, 4))
    half = phase_of(whole, collective)
    op = Op.REDUCE if collective == "reduce_scatter" else Op.GATHER
    kept = whole.op == op
    rows = rows_of(whole)[kept]
    rows[:, 0] -= rows[0, 0]
    assert (rows_of(half) == rows).all()
    assert (half.order == whole.order[kept]).all()
    assert (half.route_links == whole.route_links[kept]).all()
    assert (half.flow_roots == whole.flow_roots).all()
    assert half.num_steps == whole.num_steps // 2
    steps = (half.steps_reduce_scatter, half.steps_all_gather)
    assert steps == ((half.num_steps, 0) if op == Op.REDUCE else (0, half.num_steps))
    assert phase_of(half, collective).hash == half.hash


def test_a_phase_keeps_routes_of_several_links_together():
    whole = build_multitree(ring(3))
    lengths = np.where(whole.op == Op.GATHER, 2, 1)
    routes = {"route_offsets": np.r_[0, np.cumsum(lengths)]}
    routes["route_links"] = np.repeat(whole.route_links, lengths)
    routes["route_classes"] = np.zeros(lengths.sum(), int)
    long = replace(whole, **routes)
    gather = phase_of(long, "all_gather")
    assert np.diff(gather.route_offsets).tolist() == [2] * gather.num_transfers
    links = whole.route_links[whole.op == Op.GATHER]
    assert gather.route_links.tolist() == np.repeat(links, 2).tolist()
    assert long.tree_height_hops == 2


def test_phases_without_the_trees_they_need_are_refused():
    with pytest.raises(ScheduleError, match="must have one flow rooted at each rank, not 8 flows"):
        build(ring(4), "bidirectional_ring", "reduce_scatter")
    with pytest.raises(ScheduleError, match="must have one flow rooted at each rank, not 1 flow"):
        phase_of(build_multitree(ring(4), roots=[1]), "all_gather")
    with pytest.raises(ScheduleError, match="Flow 1: reduce must have every flow rooted at rank 0"):
        phase_of(build_multitree(ring(4)), "reduce")
    with pytest.raises(ScheduleError, match="all_gather must have GATHER rows, not only others"):
        phase_of(phase_of(build_multitree(ring(4)), "reduce_scatter"), "all_gather")
    for wrong in ("all_reduce", "scan"):
        with pytest.raises(ScheduleError, match=f"Phase must be one of reduce_scatter.*'{wrong}'"):
            phase_of(build_multitree(ring(4)), wrong)


def test_tree_height_is_that_of_the_tallest_tree():
    heights = {"multitree": 4, "ring": 15, "bidirectional_ring": 15, "ring_2d": 6, "swing": 4}
    for algorithm, height in heights.items():
        assert build(torus(4, 4), algorithm).tree_height_hops == height
    sums = [[0, 0, 0, 2, 1], [1, 0, 0, 1, 0]]
    assert made_of([*sums, [2, 1, 0, 0, 1], [2, 1, 0, 0, 2]]).tree_height_hops == 2


@pytest.mark.parametrize(
    ("topology", "algorithm", "wanted"),
    [(torus(4, 4), "multitree", TREES), (mesh(2, 3), "bidirectional_ring", RINGS)],
)
def test_the_hash_is_the_same_in_every_run_and_on_every_platform(topology, algorithm, wanted):
    assert build(topology, algorithm).hash == wanted


def test_the_hash_depends_on_everything_but_names():
    made = build_multitree(torus(2, 3))
    hashes = {made.hash}
    for field in ARRAYS:
        changed = getattr(made, field).copy()
        changed[-1] += 1 if field in ("flow_offsets", "step", "order", "route_classes") else 0
        if field in ("op", "flow", "src", "dst", "route_links"):
            changed[-1] = 0 if changed[-1] else 1
        if field != "route_offsets":
            hashes.add(replace(made, **{field: changed}).hash)
    fast, turned = np.full(made.topology.num_links, 17.0), made.topology.links[:, ::-1]
    networks = ({"bandwidth_gbytes_per_s": fast}, {"latency_ns": fast}, {"links": turned})
    changes = [{"topology": replace(made.topology, **change)} for change in networks]
    changes += [{"collective": "reduce_scatter"}]
    changes += [{"collective": "reduce", "root": root} for root in (0, 1)]
    changes += [{"num_waves": 2}, {"num_waves": 3}, {"num_waves": 3, "period": 2}]
    hashes |= {replace(made, **change).hash for change in changes}
    assert len(hashes) == 19
    renamed = replace(made.topology, name="other", family="custom", dims=())
    assert replace(made, algorithm="other", topology=renamed).hash == made.hash


def test_columns_are_read_only_copies():
    made = build_multitree(ring(4))
    assert {field.name for field in fields(made)} >= set(ARRAYS)
    for field in ARRAYS:
        with pytest.raises(ValueError, match="read-only"):
            getattr(made, field)[0] = 0
    src = made.src.copy()
    other = replace(made, src=src)
    src[0] = 3 - src[0]
    assert (other.src == made.src).all()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("step", -1, r"Row 5 \(.*\): step must be within 0..2147483646, not -1"),
        ("op", 2, r"Row 5 \(step 1, flow 0, 2 3 -> 0\): op must be within 0..1, not 2"),
        ("flow", 4, r"Row 5 \(.*\): flow must be within 0..3, not 4"),
        ("src", 4, r"Row 5 \(.*\): src must be within 0..3, not 4"),
        ("dst", -1, r"Row 5 \(.*\): dst must be within 0..3, not -1"),
        ("order", 4, r"Row 5 \(.*\): order must be within 0..3, not 4"),
        ("route_links", 8, r"Row 5 \(.*\): route link must be within 0..7, not 8"),
        ("route_classes", 256, r"Row 5 \(.*\): route class must be within 0..255, not 256"),
        ("route_offsets", 6, r"Row 5 \(.*\): route must have at least one link, not 0"),
        ("route_offsets", 7, r"Row 5 \(.*\): route must have at least one link, not -1"),
    ],
)
def test_an_entry_out_of_range_is_refused_with_its_row(field, value, message):
    made = build_multitree(ring(4))
    changed = getattr(made, field).copy()
    changed[5] = value
    refuses(ScheduleError, message, replace, made, **{field: changed})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"flow_offsets": [0]}, r"Flow offsets must be at least two numbers, not of shape \(1,\)"),
        ({"flow_offsets": 3}, "Flow offsets must be at least two numbers"),
        ({"step": [0, 1]}, r"op must be of shape \(2,\), not \(24,\)"),
        ({"dst": [0, 1]}, r"dst must be of shape \(24,\), not \(2,\)"),
        ({"step": np.zeros((4, 6), int)}, r"step must be of shape \(24,\), not \(4, 6\)"),
        ({"route_offsets": [0, 1]}, r"Route offsets must be of shape \(25,\), not \(2,\)"),
        ({"route_links": [0, 1]}, "Route links and classes must be as many"),
        ({"route_offsets": np.arange(1, 26)}, ENDS + "from 1 to 25"),
        ({"route_offsets": np.r_[0:24, 25]}, ENDS + "from 0 to 25"),
        ({"route_offsets": np.r_[-1, 1:25]}, ENDS + "from -1 to 24"),
        ({"collective": "scan"}, "Collective must be one of all_reduce.*, not 'scan'"),
        ({"root": 0}, "Root of all_reduce must be None, not 0"),
        ({"collective": "reduce"}, r"Root must be a rank 0..3, not None"),
        ({"collective": "broadcast", "root": 4}, r"Root must be a rank 0..3, not 4"),
        ({"num_waves": 0}, r"Waves must be a whole number from 1 to 2\^16 - 1, not 0"),
        ({"num_waves": True}, "Waves must be a whole number .* not True"),
        ({"num_waves": 1 << 16}, "Waves must be .* not 65536"),
        ({"num_waves": 2, "period": 0}, "Period must be .* not 0"),
        ({"period": 2}, "Period of a single wave must be 1, not 2"),
    ],
)
def test_columns_that_do_not_belong_together_are_refused(change, message):
    refuses(ScheduleError, message, replace, build_multitree(ring(4)), **change)


def test_from_rows_refuses_what_is_no_table_of_rows():
    refuses(ScheduleError, r"Rows must be of shape \(n, 5\), not \(1, 4\)", made_of, [[0, 0, 0, 1]])
    refuses(TypeError, r"Rows must be integers, not float64", made_of, [[0.5, 0, 0, 1, 0]])
    with pytest.raises(ScheduleError, match=r"Links must be one per row, not of shape \(2,\)"):
        made_of([[0, 0, 0, 1, 0]], links=[0, 1])
    with pytest.raises(ScheduleError, match=r"Row 0 .*: route link must be within"):
        made_of([[0, 0, 0, 1, 0]], links=[99])
    refuses(ScheduleError, r"Row 0 .*: flow must be within", made_of, [[0, 0, 7, 1, 0]])


def test_a_schedule_without_rows_has_no_steps_and_no_load():
    empty = made_of(np.zeros((0, 5), int))
    assert (empty.num_steps, empty.steps_all_gather, empty.max_link_load) == (0, 0, 0)
    assert (empty.num_transfers, empty.tree_height_hops) == (0, 0)
    with pytest.raises(ScheduleError, match="REDUCE rows of flow 0 must have one root, not none"):
        empty.flow_roots  # noqa: B018


def test_a_flow_of_two_roots_has_no_root_to_tell():
    rows = [[0, 0, 0, 1, 0], [0, 0, 1, 0, 1], [1, 0, 1, 2, 1], [1, 0, 0, 1, 2]]
    with pytest.raises(ScheduleError, match=r"flow 0 must have one root, not \[0, 2\]"):
        made_of(rows, collective="reduce", root=0).flow_roots  # noqa: B018


@pytest.mark.parametrize("length", [2, 3, 4, 5, 6])
def test_the_height_of_a_chain_is_its_length(length):
    chain = [[rank, Op.GATHER, 0, rank, rank + 1] for rank in range(length)]
    assert by_hand(ring(9), chain, "broadcast", 0).tree_height_hops == length
    backwards = [[length - rank, Op.REDUCE, 0, rank + 1, rank] for rank in range(length)]
    assert by_hand(ring(9), backwards, "reduce", 0).tree_height_hops == length


def test_builders_refuse_unknown_names_and_roots():
    with pytest.raises(ScheduleError, match=r"Algorithm must be one of multitree, ring, .*'tree'"):
        build(ring(4), "tree")
    refuses(ScheduleError, "Collective must be one of all_reduce", build, ring(4), "ring", "scan")
    for collective in COLLECTIVES[:3]:
        with pytest.raises(ScheduleError, match=f"Root of {collective} must be None, not 1"):
            build(ring(4), "multitree", collective, root=1)
    for root in (None, 4, -1, True, 0.0):
        with pytest.raises(ScheduleError, match=r"Root must be a rank 0..3, not"):
            build(ring(4), "multitree", "reduce", root=root)
