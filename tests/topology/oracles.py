"""Plain, slow definitions that the room's quick code is held against."""

import numpy as np

from multitree import build, execute, verify
from multitree.topology.routing.updown import up_down
from multitree.topology.schedules.execute import flow_ranges
from tests.topology.graphs import rows_of


def grow_naively(
    links, roots, num_ranks, root_order=None, neighbour_order="ascending", slots=None, haste="eager"
):
    """Algorithm 1 word for word: a list of (step, tree, link) as they are added.

    A link that takes several slots is free again, and its chunk there, so many steps later.
    """
    by_rank = sorted(range(len(links)), key=lambda link: (links[link][1], link))
    own = [
        [link for link, ends in enumerate(links) if ends[0] == rank] for rank in range(num_ranks)
    ]
    ways = {
        "ascending": by_rank,
        "descending": by_rank[::-1],
        "link": list(range(len(links))),
        "backwards": list(range(len(links)))[::-1],
        "mirrored": [link for ports in own for link in ports[::2] + ports[1::2][::-1]],
        "diagonal": [
            ports[(place - rank) % len(ports)]
            for rank, ports in enumerate(own)
            for place in range(len(ports))
        ],
    }[neighbour_order]
    slots = slots or [1] * len(links)
    turns = root_order or sorted(range(len(roots)), key=lambda tree: roots[tree])
    members = [[(root, 0)] for root in roots]
    added = []
    step = 0
    while any(len(joined) < num_ranks for joined in members):
        free = set(range(len(links)))
        free -= {link for when, _, link in added if when + slots[link] > step}
        progress = True
        while progress:
            progress = False
            for tree in turns:
                link = _first_link(links, ways, members[tree], free, step, slots, haste)
                if link is not None:
                    free.remove(link)
                    members[tree].append((links[link][1], step + slots[link]))
                    members[tree].sort(key=lambda member: member[1])
                    added.append((step, tree, link))
                    progress = True
        step += 1
    return added


def _first_link(links, ways, members, free, step, slots, haste):
    inside = dict(members)
    out = [
        link
        for rank, joined in members
        for link in ways
        if joined <= step and links[link][0] == rank and links[link][1] not in inside
    ]
    if haste != "eager":
        out.sort(key=lambda link: slots[link])
    for link in out:
        sooner = (
            other
            for other, (src, dst) in enumerate(links)
            if dst == links[link][1]
            and src in inside
            and max(inside[src], step) + slots[other] < step + slots[link]
        )
        if link in free and not (haste == "patient" and any(True for _ in sooner)):
            return link
    return None


def run_on_sets(schedule):
    """Run a schedule on sets of contributions, all reads of a step before its writes.

    Returns what each (flow, rank) holds in the end. An AssertionError says that a step reads
    what it writes, that a contribution is added twice, or that a result replaces a result.
    """
    num_ranks = schedule.topology.num_ranks
    held = {(flow, rank): {rank} for flow in range(schedule.num_flows) for rank in range(num_ranks)}
    rows = rows_of(schedule).tolist()
    for step in sorted({row[0] for row in rows}):
        now = [row for row in rows if row[0] == step]
        reads = {(flow, src) for _, _, flow, src, _ in now}
        writes = {(flow, dst) for _, _, flow, _, dst in now}
        assert not reads & writes
        for _, op, flow, src, dst in now:
            if op == 0:
                assert not held[flow, dst] & held[flow, src]
                held[flow, dst] = held[flow, dst] | held[flow, src]
            else:
                assert sum(row[2] == flow and row[4] == dst for row in now) == 1
                held[flow, dst] = set(held[flow, src])
    return held


def does_its_collective(schedule):
    """Whether a run on sets ends as the schedule's collective should."""
    num_ranks = schedule.topology.num_ranks
    everyone = set(range(num_ranks))
    try:
        held = run_on_sets(schedule)
    except AssertionError:
        return False
    if schedule.collective == "all_reduce":
        return all(contributions == everyone for contributions in held.values())
    if schedule.collective in ("reduce", "reduce_scatter"):
        roots = schedule.flow_roots.tolist()
        return all(held[flow, root] == everyone for flow, root in enumerate(roots))
    roots = schedule.flow_roots.tolist()
    return all(contributions == {roots[flow]} for (flow, _), contributions in held.items())


def rooted(topology, algorithm, root):
    """Broadcast and reduce, both seen to be right, without contention and rooted there alone."""
    schedules = [build(topology, algorithm, each, root) for each in ("broadcast", "reduce")]
    for schedule in schedules:
        assert verify(schedule).contention_free and does_its_collective(schedule)
        assert schedule.root == root and set(schedule.flow_roots.tolist()) == {root}
    return schedules


def sums(schedule, num_elements=77, seed=1):
    """Whether every rank ends with NumPy's sums of int32 values that wrap."""
    shape = schedule.topology.num_ranks, num_elements
    buffers = np.random.default_rng(seed).integers(-(2**31), 2**31, shape, np.int32)
    return (execute(schedule, buffers) == buffers.sum(axis=0, dtype=np.int32)).all()


def sum_in_order(schedule, flow, rank, values):
    """What `rank` holds of `flow` before any GATHER: scalars added as the definition says."""
    total = values[rank]
    rows = np.flatnonzero((schedule.flow == flow) & (schedule.dst == rank) & (schedule.op == 0))
    for row in sorted(rows, key=lambda row: (schedule.step[row], schedule.order[row])):
        with np.errstate(all="ignore"):
            total = total + sum_in_order(schedule, flow, int(schedule.src[row]), values)
    return total


def adds_in_order(schedule, num_elements, seed, dtype=np.float32):
    """Assert that what ranks hold of all chunks in the end are such sums, to the last bit."""
    num_ranks = schedule.topology.num_ranks
    buffers = spread_normals(seed, (num_ranks, num_elements)).astype(dtype)
    result = execute(schedule, buffers)
    ranges = flow_ranges(schedule, num_elements, element_bytes=buffers.itemsize)
    for flow, root in enumerate(schedule.flow_roots.tolist()):
        adders = [root] if schedule.collective == "all_reduce" else range(num_ranks)
        for place in range(ranges[flow], ranges[flow + 1]):
            wanted = [sum_in_order(schedule, flow, rank, buffers[:, place]) for rank in adders]
            wanted = np.broadcast_to(np.array(wanted, dtype), num_ranks)
            assert result[:, place].tobytes() == wanted.tobytes(), (flow, place)


def spread_normals(seed, shape):
    """Normal values with exponents spread over 2^-20 to 2^20: their sums depend on the order."""
    rng = np.random.default_rng(seed)
    exponents = rng.integers(-20, 21, shape)
    return np.ldexp(rng.standard_normal(shape), exponents).astype(np.float32)


def goes_up_then_down(topology, src, offsets, links, classes):
    """Assert that every route of several links does so, in the classes that its group has."""
    legal = up_down(topology)
    for row in np.flatnonzero(np.diff(offsets) > 1).tolist():
        route = slice(offsets[row], offsets[row + 1])
        group = int(legal.group[src[row]])
        up = legal.links_up(topology.links[links[route]], group)
        down = legal.links_down(topology.links[links[route]], group)
        turned = classes[route] == legal.classes[group, 1]
        if legal.classes[group, 0] == legal.classes[group, 1]:
            turned = down
        assert (np.diff(turned.astype(int)) >= 0).all()
        assert (np.where(turned, down, up)).all()
        assert np.isin(classes[route], legal.classes[group]).all()


def check_packing(packing):
    """Every tree spans from its root over links that join; no link carries more than it may."""
    topology = packing.topology
    ranks = np.arange(topology.num_ranks)
    loads, heights = np.zeros(topology.num_links, int), []
    for root, parents, links in zip(packing.roots, packing.parents, packing.links, strict=True):
        others = ranks != root
        assert parents[root] == links[root] == -1
        assert (topology.links[links[others]] == np.stack([ranks, parents], 1)[others]).all()
        at, height = ranks, 0
        while (at != root).any() and height < topology.num_ranks:
            at, height = np.where(at == root, root, parents[at]), height + 1
        heights.append(height)
        np.add.at(loads, links[others], 1)
        np.add.at(loads, topology.reverse[links[others]], 1)
    assert packing.heights.tolist() == heights and max(heights) < topology.num_ranks
    assert (packing.link_loads == loads).all()
    assert (loads * packing.slots <= packing.period).all()
    for field in ("roots", "parents", "links", "slots"):
        assert not getattr(packing, field).flags.writeable
