"""Implicit schedules: one tree tells of all, and corrupted ones tell the same."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from multitree import ImplicitSchedule, LinkModel, ScheduleError, Topology, verify
from multitree.nic.driver.config import Config
from multitree.nic.driver.table import compile_table
from multitree.sim.analytic.engine import analytic
from multitree.topology.algorithms.symmetric import implicit_symmetric
from multitree.topology.checks.implicit import AnySchedule, verify_any, verify_implicit
from multitree.topology.families.direct import hypercube, torus
from multitree.topology.networks.translations import translations_of
from tests.topology.graphs import named, over, relabelled

# All but the two that say what is held, and the two that write rows out.
ANSWERS = {name for name in vars(AnySchedule) if name[0] != "_"}
ANSWERS -= {"tree", "group", "schedule", "at"}
SMALL = "torus:4x4 torus:3x5 torus:2x3x4 ring:2 ring:9 hypercube:5 full:6"
NUM_CASES = 60
ROWS = ("step", "op", "flow", "src", "dst", "order", "route_links", "route_classes")


@over(SMALL)
def test_an_orbit_says_what_its_schedule_says(topology):
    implicit = implicit_symmetric(topology)
    schedule = implicit.schedule()
    assert verify(schedule) == verify_any(schedule) == verify_any(implicit)
    assert verify_any(implicit) == verify_implicit(implicit)
    for question in ANSWERS:
        assert getattr(implicit, question) == getattr(schedule, question), question
    assert schedule.hash == implicit.hash
    assert schedule.num_transfers == implicit.num_transfers
    roots = schedule.flow_roots
    assert roots.tolist() == list(range(implicit.topology.num_ranks))


@over(SMALL)
def test_a_table_needs_the_rows_at_its_rank_only(topology):
    implicit = implicit_symmetric(topology)
    schedule, ports = implicit.schedule(), int(topology.degree.max())
    config = Config(num_ports=ports, table_depth=256, num_flows=64)
    for rank in range(topology.num_ranks):
        part = implicit.at(rank)
        assert ((part.src == rank) ^ (part.dst == rank)).all()
        own = compile_table(part, rank, 1000, config)
        whole = compile_table(schedule, rank, 1000, config)
        for field in ("op", "flow", "port", "step", "base", "size", "parent", "children"):
            assert (getattr(own, field) == getattr(whole, field)).all()


def test_an_orbit_that_is_none_is_refused():
    implicit = implicit_symmetric(torus(4, 4))
    twice = implicit_symmetric(parallel(torus(3, 3)))
    once = replace(twice.group, links=np.repeat(twice.group.links[:, ::2], 2, axis=1))
    tree = twice.tree
    hops = np.repeat(tree.route_links, 2), np.repeat(tree.route_classes, 2)
    far = replace(
        tree, route_offsets=2 * tree.route_offsets, route_links=hops[0], route_classes=hops[1]
    )
    for message, *parts in (
        ("move links to links", implicit.tree, translations_of(hypercube(4))),
        ("one tree, rooted at rank 0", implicit.schedule([1]), implicit.group),
        ("links must be different ones of 72", tree, once),
        ("one tree, whose rows take one link each", implicit.schedule([0, 1]), implicit.group),
        ("one tree, whose rows take one link each", far, twice.group),
    ):
        with pytest.raises(ScheduleError, match=message):
            verify_implicit(ImplicitSchedule(*parts))


def parallel(topology):
    """The same network, with a second, slower link beside each one."""
    links, speeds = np.repeat(topology.links, 2, axis=0), [16.0, 8.0] * topology.num_links
    return Topology("parallel", topology.num_ranks, 0, links, speeds, 150.0)


CORRUPTED = [
    *named("torus:4x4 torus:2x3x3 ring:2 ring:5 hypercube:3 full:5"),
    *(parallel(torus(3, 3)), relabelled(torus(3, 4), 7)),
]


def with_rows(tree, **columns):
    """A tree of other rows, sorted, one link each."""
    columns = {name: np.array(columns.get(name, getattr(tree, name))) for name in ROWS}
    by_step = np.lexsort([columns[name] for name in ("dst", "src", "flow", "step")])
    columns = {name: column[by_step] for name, column in columns.items()}
    return replace(tree, route_offsets=np.arange(len(by_step) + 1), **columns)


def corrupt_links(rng, topology, group):
    """A network in which some links, their reverses, too, or a direction, have another number."""
    some = rng.integers(topology.num_links, size=rng.integers(1, 4))
    some = [some, np.r_[some, topology.reverse[some]], group.links.T[some % group.num_directions]]
    name = str(rng.choice(["bandwidth_gbytes_per_s", "latency_ns"]))
    numbers = getattr(topology, name).copy()
    numbers[some[rng.integers(3)]] *= rng.choice([0.25, 0.5, 2.0, 3.0])
    return replace(topology, **{name: numbers})


def corrupt_rows(rng, tree):
    """A tree one of whose rows is another one, is there twice, or not at all."""
    row, what = rng.integers(tree.num_transfers), str(rng.choice([*ROWS, "drop", "twice"]))
    rows = np.arange(tree.num_transfers)
    if what in ("drop", "twice"):
        kept = np.delete(rows, row) if what == "drop" else np.r_[rows, row]
        return with_rows(tree, **{name: getattr(tree, name)[kept] for name in ROWS})
    most = {
        "step": tree.num_steps + 3,
        "op": 2,
        "flow": 1,
        "order": 3,
        "route_links": tree.topology.num_links,
        "route_classes": 2,
    }
    column = getattr(tree, what).copy()
    column[row] = rng.integers(most.get(what, tree.topology.num_ranks))
    if what == "route_links" and rng.integers(2):
        ends = tree.src[row], tree.dst[row]
        column[row] = rng.choice(np.flatnonzero((tree.topology.links == ends).all(axis=1)))
    return with_rows(tree, **{what: column})


def corrupt_schedule(rng, tree):
    """A tree of other waves, steps, or another collective."""
    what, op = rng.integers(4), int(rng.integers(2))
    if what == 0:
        waves = {"num_waves": int(rng.integers(2, 5)), "period": int(rng.integers(1, 12))}
        return replace(tree, **waves)
    if what == 1:
        return with_rows(tree, step=tree.step * rng.integers(1, 4))
    names = [("reduce_scatter", "all_gather"), ("reduce", "broadcast")][what - 2]
    kept = np.flatnonzero(tree.op == op)
    columns = {name: getattr(tree, name)[kept] for name in ROWS}
    offsets = {"route_offsets": np.arange(len(kept) + 1)}
    root = int(tree.flow_roots[0]) if what == 3 else None
    columns["step"] = columns["step"] - columns["step"][0]
    return replace(tree, collective=names[op], root=root, **offsets, **columns)


def corrupt_group(rng, group):
    """Translations of which a number is another one, or two have changed places."""
    name = str(rng.choice(["element", "links", "moves"]))
    numbers = getattr(group, name).copy()
    first, second = rng.integers(numbers.size, size=2)
    if rng.integers(2):
        numbers.flat[[first, second]] = numbers.flat[[second, first]]
    else:
        numbers.flat[first] = numbers.flat[second]
    return replace(group, **{name: numbers})


def corrupted(rng):
    """A tree and translations that belonged together before one of them was changed, or both."""
    implicit = implicit_symmetric(CORRUPTED[rng.integers(len(CORRUPTED))])
    tree, group = implicit.tree, implicit.group
    if rng.integers(2):
        tree = replace(tree, topology=corrupt_links(rng, tree.topology, group))
    if not rng.integers(4):
        return tree, corrupt_group(rng, group)
    while True:
        # What is no Schedule at all is drawn again.
        with suppress(ScheduleError):
            return CHANGES[rng.integers(len(CHANGES))](rng, tree), group


CHANGES = (corrupt_rows, corrupt_schedule, lambda rng, tree: tree)


def written_out(tree, group):
    """Every row of every flow, each moved by its root's element along with its link."""

    def moved(rank, by):
        places = (np.unravel_index(element, group.sizes) for element in (group.element[rank], by))
        return int(np.ravel_multi_index(np.add(*map(np.array, places)), group.sizes, mode="wrap"))

    rank_at = {int(element): rank for rank, element in enumerate(group.element)}
    direction = {int(link): way for (_, way), link in np.ndenumerate(group.links)}
    rows = []
    for root, by in enumerate(group.element):
        for row in range(tree.num_transfers):
            before = int(tree.route_links[row])
            ends = tree.src[row], tree.dst[row], tree.topology.links[before, 0]
            src, dst, tail = (moved(rank, by) for rank in ends)
            link = group.links[tail, direction[before]]
            ends = rank_at[src], rank_at[dst], tree.order[row], link, tree.route_classes[row]
            rows.append((tree.step[row], tree.op[row], root, *ends))
    columns = dict(
        zip(ROWS, np.array(sorted(rows, key=lambda row: row[:1] + row[2:5])).T, strict=True)
    )
    offsets = {"flow_offsets": np.arange(group.element.size + 1)}
    return replace(tree, **columns, **offsets, route_offsets=np.arange(len(rows) + 1))


def proved(tree, group):
    """What is proved of an implicit schedule; None where it is refused."""
    try:
        return verify_implicit(ImplicitSchedule(tree, group))
    except ScheduleError:
        return None


def proved_of_all(whole):
    """What is proved of a schedule with a flow for each rank; None where it is refused."""
    try:
        report = verify(whole)
    except ScheduleError:
        return None
    return report if whole.flow_roots.tolist() == list(range(whole.num_flows)) else None


@pytest.mark.parametrize("seed", range(8))
def test_a_corrupted_one_is_proved_to_be_what_it_is_written_out(seed):
    print(f"seed {seed}")
    rng, accepted = np.random.default_rng(seed), 0
    for case in range(NUM_CASES):
        tree, group = corrupted(rng)
        report = proved(tree, group)
        if group.problem_on(tree.topology) is not None:
            assert report is None, case
            continue
        whole = written_out(tree, group)
        assert report == proved_of_all(whole), case
        if report is not None:
            accepted += 1
            answers_alike(ImplicitSchedule(tree, group), whole)
    assert accepted > NUM_CASES // 4


def answers_alike(implicit, whole):
    """All that is asked of an implicit schedule is as of all its rows, or refused."""
    for question in ANSWERS:
        assert getattr(implicit, question) == getattr(whole, question), question
    for rank in (0, implicit.topology.num_ranks - 1):
        here, part = (whole.src == rank) | (whole.dst == rank), implicit.at(rank)
        for name in ROWS:
            assert (getattr(part, name) == getattr(whole, name)[here]).all(), name
    num_flits = 100 * implicit.topology.num_ranks
    try:
        found = analytic(implicit, num_flits).cycles
    except ScheduleError as error:
        assert "must be" in str(error)
        assert implicit.num_waves > 1 or not implicit.group.are_alike_on(implicit.topology)
    else:
        # Ranks read the rows of a step in orders of their own, which one tree does not show.
        read = LinkModel().row_cycles * int(np.bincount(implicit.tree.step).max())
        assert abs(found - analytic(whole, num_flits).cycles) <= read
