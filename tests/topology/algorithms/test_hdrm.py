"""HDRM: partners on opposite switches, and no two messages on a link in one step."""

import numpy as np
import pytest

from multitree import ScheduleError, bigraph, fat_tree, torus, verify
from multitree.topology.algorithms.halving_doubling import build_halving_doubling, build_hdrm
from multitree.topology.collectives import Op
from multitree.topology.schedules.schedule import phase_of
from tests.topology.oracles import does_its_collective

ENOUGH_LINKS = [(4, 8), (2, 8), (1, 2), (1, 8), (2, 4), (8, 16)]
SHARED_LINKS = [(8, 4), (4, 4), (4, 2), (16, 8)]


@pytest.mark.parametrize("dims", ENOUGH_LINKS)
def test_with_enough_links_between_switches_n_minus_1_steps_reach_the_bound(dims):
    topology = bigraph(*dims)
    schedule = build_hdrm(topology)
    report = verify(schedule)
    assert report.contention_free
    assert schedule.steps_reduce_scatter == schedule.steps_all_gather == report.bound_steps
    assert report.max_messages_per_rank == 2 * report.bound_steps
    half = dims[1] // 2
    assert ((schedule.src // dims[0] < half) != (schedule.dst // dims[0] < half)).all()
    assert (np.diff(schedule.route_offsets) == 3).all()
    assert topology.num_ranks > 32 or does_its_collective(schedule)


@pytest.mark.parametrize("dims", SHARED_LINKS)
def test_ranks_that_share_a_link_exchange_on_their_switch_first_and_then_take_turns(dims):
    topology = bigraph(*dims)
    schedule = build_hdrm(topology)
    assert verify(schedule).contention_free
    n, sharing = topology.num_ranks, dims[0] // (dims[1] // 2)
    assert schedule.steps_reduce_scatter == n - n // sharing + n - sharing
    on_switch = schedule.src // dims[0] == schedule.dst // dims[0]
    assert (
        on_switch[schedule.op == Op.REDUCE]
        == (schedule.step < n - n // sharing)[schedule.op == Op.REDUCE]
    ).all()
    assert n > 32 or does_its_collective(schedule)


def test_without_the_mapping_messages_meet():
    assert verify(build_halving_doubling(bigraph(4, 8))).max_link_load == 4


def test_every_rank_is_the_root_of_its_own_flow():
    schedule = build_hdrm(bigraph(4, 8))
    assert schedule.flow_roots.tolist() == list(range(32))
    assert does_its_collective(phase_of(build_hdrm(bigraph(2, 8), roots=[5]), "broadcast"))


@pytest.mark.parametrize("topology", [torus(4, 4), fat_tree(4, 4), bigraph(3, 4), bigraph(4, 6)])
def test_other_networks_are_refused_by_name(topology):
    with pytest.raises(ScheduleError, match=f"powers of two of .*, not '{topology.name}'"):
        build_hdrm(topology)
