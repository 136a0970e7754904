"""Recursive exchanges: halving and doubling, also mapped to BiGraph, and Swing."""

from collections.abc import Sequence

import numpy as np

from multitree.topology.arrays import Int32Array, Int64Array, int32s, int64s, positions_in_group
from multitree.topology.collectives import Op, chosen_roots
from multitree.topology.errors import ScheduleError
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule


def exchange_rows(
    partners: Int64Array, roots: Int64Array, turns: Int64Array | None = None
) -> Int32Array:
    """REDUCE rows of a reduce-scatter by recursive exchanges, int32 (flows * (ranks - 1), 5).

    A rank begins with every flow. In each exchange it gives its partner the flows whose roots
    only the partner can still reach, and adds what it gets of its own; after the last one a
    rank has the flows that are rooted at it. `partners`, int64 (exchanges, ranks), says with whom a
    rank swaps, `turns` which turn it has where not all may send at once. A step carries one chunk
    from a rank to its partner, so with one flow per rank exchange e is ranks / 2^(e+1) steps. A
    ScheduleError says if the exchanges do not take every rank to every root by exactly one path.
    """
    sends = _roots_given(partners)
    by_root = np.argsort(roots, kind="stable")
    copies = np.bincount(roots, minlength=partners.shape[1])
    first_copy = np.cumsum(copies) - copies
    first_step, blocks = 0, []
    for exchange, given in enumerate(sends):
        targets = given.ravel()
        times = copies[targets]
        src = np.repeat(np.repeat(np.arange(len(given)), given.shape[1]), times)
        copy = np.arange(len(src)) - np.repeat(np.cumsum(times) - times, times)
        flow = by_root[np.repeat(first_copy[targets], times) + copy]
        turn = np.zeros(len(given), np.int64) if turns is None else turns[exchange]
        num_turns = int(turn.max()) + 1
        # Flows are in the order of sending, so a rank's position among its own is its step.
        step = first_step + positions_in_group(src) * num_turns + turn[src]
        columns = (step, np.full(len(src), Op.REDUCE), flow, src, partners[exchange, src])
        blocks.append(np.stack(columns, axis=1))
        first_step = int(step.max(initial=first_step - 1)) + 1
    return int32s("Rows", np.concatenate(blocks))


def _roots_given(partners: Int64Array) -> list[Int64Array]:
    """Per exchange the roots whose flows a rank gives away, in the order of sending.

    What a partner passes on next comes first, what it keeps comes last.
    """
    num_exchanges, num_ranks = partners.shape
    ranks = np.arange(num_ranks)[:, None]
    sends: list[Int64Array] = []
    # From the last exchange backwards: given away is what the partner passes on later or keeps.
    for exchange in range(num_exchanges - 1, -1, -1):
        passed_on = np.concatenate([*sends, ranks], axis=1)
        sends.insert(0, passed_on[partners[exchange]])
    everything = np.sort(np.concatenate([*sends, ranks], axis=1), axis=1)
    # The roots for which a rank gives flows away, and itself, must be all ranks, each once.
    if everything.shape != (num_ranks, num_ranks) or (everything != ranks.T).any():
        raise ScheduleError(
            f"Exchanges must take each of {num_ranks} ranks to every root on one path, "
            f"not {num_exchanges} exchanges that do not"
        )
    return sends


def with_gather(sums: Int32Array) -> Int32Array:
    """Rows of an all-reduce: a reduce-scatter, then the same backwards as its all-gather."""
    results = sums[:, [0, 1, 2, 4, 3]].copy()
    # Time is reversed: the last exchange of the sums is the first one of the results.
    results[:, 0] = 2 * int(sums[:, 0].max()) + 1 - sums[:, 0]
    results[:, 1] = Op.GATHER
    return int32s("Rows", np.concatenate([sums, results]))


def build_halving_doubling(topology: Topology, *, roots: Sequence[int] | None = None) -> Schedule:
    """Build the all-reduce of recursive halving and doubling.

    In exchange e a rank swaps with the one whose number differs in bit e: it gives away half of
    what it still has to sum, so that after log2(N) exchanges it has one chunk; all-gather is the
    same backwards. Where N is no power of two, the first ranks fold in pairs, in N-1 steps more.

    R. Rabenseifner, "Optimization of Collective Reduction Operations", ICCS 2004; R. Thakur,
    R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH",
    International Journal of High Performance Computing Applications 19 (1), 2005.
    """
    chosen = chosen_roots(roots, topology.num_ranks)
    return Schedule.from_rows(
        topology,
        algorithm="halving_doubling",
        collective="all_reduce",
        flow_offsets=np.arange(len(chosen) + 1),
        rows=with_gather(_sums(topology.num_ranks, np.array(chosen))),
    )


def doubling_partners(num_exchanges: int) -> Int64Array:
    """Partners whose numbers differ in bit 0, then 1, and so on, int64 (exchanges, ranks)."""
    return np.arange(1 << num_exchanges) ^ (1 << np.arange(num_exchanges))[:, None]


def _sums(num_ranks: int, roots: Int64Array) -> Int32Array:
    """REDUCE rows; pairs of ranks first fold into one each, if they must."""
    num_exchanges = num_ranks.bit_length() - 1
    num_pairs = num_ranks - (1 << num_exchanges)
    if not num_pairs:
        return exchange_rows(doubling_partners(num_exchanges), roots)
    # Ranks 2i and 2i+1 are place i for i < num_pairs, the others a place each.
    ranks = np.arange(num_ranks)
    place_of = np.where(ranks < 2 * num_pairs, ranks // 2, ranks - num_pairs)
    # Places ascend with ranks, so this is the lowest rank of each place.
    speaker = np.searchsorted(place_of, np.arange(1 << num_exchanges))
    rows = exchange_rows(doubling_partners(num_exchanges), place_of[roots]).astype(np.int64)
    folds = _folds(rows, place_of[roots], roots, num_pairs)
    for end in (3, 4):
        # The flow's root speaks for its place, elsewhere the lower rank does.
        at_root = rows[:, end] == place_of[roots[rows[:, 2]]]
        rows[:, end] = np.where(at_root, roots[rows[:, 2]], speaker[rows[:, end]])
    rows[:, 0] += int(folds[:, 0].max()) + 1
    return np.concatenate([folds, rows]).astype(np.int32)


def _folds(
    rows: Int64Array, root_places: Int64Array, roots: Int64Array, num_pairs: int
) -> Int64Array:
    """What the silent rank of each pair sends the one that speaks, soonest needed first."""
    num_flows = len(roots)
    # A pair that sends nothing on is the place of the root, whose sum is needed last.
    needed = np.full((num_flows, num_pairs), int(rows[:, 0].max()) + 1)
    of_pairs = rows[rows[:, 3] < num_pairs]
    needed[of_pairs[:, 2], of_pairs[:, 3]] = of_pairs[:, 0]
    flow, pair = (index.ravel() for index in np.indices(needed.shape))
    speaks = np.where(root_places[flow] == pair, roots[flow], 2 * pair)
    # Ranks 2p and 2p + 1 of a pair add up to 4p + 1, so this is the other one.
    idle = 4 * pair + 1 - speaks
    soonest = np.lexsort((flow, needed.ravel()))
    flow, speaks, idle = flow[soonest], speaks[soonest], idle[soonest]
    step = positions_in_group(idle)
    return np.stack([step, np.full(len(step), Op.REDUCE), flow, idle, speaks], axis=1)


def build_hdrm(topology: Topology, *, roots: Sequence[int] | None = None) -> Schedule:
    """Build the all-reduce of halving and doubling with rank mapping, for BiGraph of powers of two.

    Ranks have places such that partners are always on switches of different halves, and those on
    one switch have all their partners on different switches: every link between switches carries
    one message at a time, in N-1 steps per phase. Where a switch has A times as many ranks as links
    to the other half, groups of A ranks on one switch exchange first, and then take turns:
    N - N/A + N - A steps. The mapping is our own, see `_places`.

    J. Dong et al., "EFLOPS: Algorithm and System Co-Design ...", HPCA 2020.
    """
    if topology.family != "bigraph" or any(size & (size - 1) for size in topology.dims):
        raise ScheduleError(
            "hdrm must have a BiGraph with powers of two of switches and of ranks on each, "
            f"not {topology.name!r}"
        )
    chosen = chosen_roots(roots, topology.num_ranks)
    rank_at, turn = _places(*topology.dims)
    place_of = np.argsort(rank_at)
    partners = doubling_partners(topology.num_ranks.bit_length() - 1)
    # Partners on one switch share no link between switches, so they need no turns.
    turns = np.where(rank_at[partners] // topology.dims[0] == rank_at // topology.dims[0], 0, turn)
    rows = exchange_rows(partners, place_of[np.array(chosen)], turns).copy()
    rows[:, 3:] = rank_at[rows[:, 3:]]
    return Schedule.from_rows(
        topology,
        algorithm="hdrm",
        collective="all_reduce",
        flow_offsets=np.arange(len(chosen) + 1),
        rows=with_gather(rows),
    )


# The mapping is our own. With places in binary and H <= S/2, parity tells the half, the low bits
# the switch of the one half, high bits that of the other: one bit changed moves a place to the
# other half, and two that agree in parity and in both switches are the same.
def _places(hosts: int, num_switches: int) -> tuple[Int64Array, Int64Array]:
    """The rank at each place, and its turn among those that share a link between switches."""
    half = num_switches // 2
    sharing = max(hosts // half, 1)
    apart = hosts // sharing  # ranks of a switch whose partners are on as many switches
    place = np.arange(hosts * num_switches)
    turn, core = place % sharing, place // sharing
    # An exchange between switches flips one bit of `core`, so partners are in different halves.
    upper = np.array([int(number).bit_count() % 2 for number in core])
    bits = core % (half * apart)
    switch = np.where(upper, half + bits // apart, bits % half)
    port = np.where(upper, bits % apart, bits // half)
    rank = switch * hosts + port * sharing + turn
    return int64s("Ranks", rank), int64s("Turns", turn)


def build_swing(topology: Topology, *, roots: Sequence[int] | None = None) -> Schedule:
    """Build the all-reduce of Swing, its variant for large buffers, on sides of powers of two.

    As recursive halving and doubling, but in exchange s of a ring a rank's partner is
    rho(s) = (1 - (-2)^(s+1)) / 3 places away, 1, -1, 3, -5 and so on, even ranks in one direction
    and odd ones in the other: a third less far than 2^s. On a torus of D dimensions exchanges go
    around the dimensions. There are 2D such all-reduces at once, one that begins in each dimension
    and a mirrored one of each, so that all links of a rank are busy: N-1 steps of 1/(2DN).

    D. De Sensi, T. Bonato, D. Saam, T. Hoefler, "Swing: Short-cutting Rings ...", NSDI 2024.
    """
    dims = topology.dims
    if topology.family not in ("ring", "torus") or any(side & (side - 1) for side in dims):
        raise ScheduleError(
            f"swing must have a ring or torus whose sides are powers of two, not {topology.name!r}"
        )
    chosen = chosen_roots(roots, topology.num_ranks)
    kinds = [(first, way) for way in (1, -1) for first in range(len(dims))]
    rows = []
    for kind, (first, way) in enumerate(kinds):
        partners = swing_partners(dims, first_dimension=first, way=way)
        both = with_gather(exchange_rows(partners, np.array(chosen))).copy()
        both[:, 2] = len(kinds) * both[:, 2] + kind
        rows.append(both)
    return Schedule.from_rows(
        topology,
        algorithm="swing",
        collective="all_reduce",
        flow_offsets=np.arange(len(kinds) * len(chosen) + 1),
        rows=np.concatenate(rows),
    )


def swing_partners(dims: Sequence[int], *, first_dimension: int, way: int) -> Int64Array:
    """Partners in one of the all-reduces that Swing does at once, int64 (log2(ranks), ranks).

    The first exchange is in `first_dimension`; the others follow in turn, those that are done left
    out. `way` is 1, or -1 for the mirrored one.
    """
    places = np.indices(tuple(dims)).reshape(len(dims), -1)
    left = [side.bit_length() - 1 for side in dims]
    done = [0] * len(dims)
    axis, partners = first_dimension, []
    while any(left):
        if left[axis]:
            # 1 - (-2)^k is a multiple of 3, so the division is exact for either sign.
            distance = way * (1 - (-2) ** (done[axis] + 1)) // 3
            moved = places.copy()
            moved[axis] += np.where(places[axis] % 2 == 0, distance, -distance)
            moved[axis] %= dims[axis]
            partners.append(np.ravel_multi_index(tuple(moved), tuple(dims)))
            left[axis] -= 1
            done[axis] += 1
        axis = (axis + 1) % len(dims)
    return np.array(partners, np.int64)
