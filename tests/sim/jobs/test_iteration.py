"""An iteration: collectives as the engine times them, overlapped where they may."""

import numpy as np
import pytest

from multitree import LinkModel, ScheduleError, build, load_job, ring, torus
from multitree.sim.analytic.engine import analytic
from multitree.sim.jobs.collective_times import CollectiveTimes
from multitree.sim.jobs.groups import Placement
from multitree.sim.jobs.iteration import iteration, time_job
from multitree.sim.jobs.job import Collective, Job, JobError, Layer, Stage
from multitree.sim.jobs.systolic_arrays import SystolicArrays
from tests.refusals import refuses
from tests.topology.graphs import copy_of, star

MODEL = LinkModel()


def cycles_of(topology, size_bytes, kind="all_reduce", algorithm="multitree", model=MODEL):
    """What the engine gives a collective, without anything of sim/jobs."""
    root = 0 if kind == "broadcast" else None
    schedule = build(topology, algorithm, kind, root)
    return analytic(schedule, model.num_flits(size_bytes, 1), model).cycles


@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_gather", "broadcast"])
def test_a_collective_takes_what_the_engine_says_of_it(kind):
    times = CollectiveTimes(Placement(torus(4, 4)), "multitree", MODEL)
    for size_bytes in (4, 100_001, 13 << 30):
        collective = Collective(kind, size_bytes)
        assert times.cycles(collective) == cycles_of(torus(4, 4), size_bytes, kind)
    assert (
        times.schedule(collective).hash
        == build(torus(4, 4), "multitree", kind, 0 if kind == "broadcast" else None).hash
    )


def test_an_algorithm_that_suits_its_schedule_to_a_size_is_built_for_each():
    times = CollectiveTimes(Placement(ring(4)), "forest", MODEL)
    for size_bytes in (4096, 1 << 20):
        num_flits = MODEL.num_flits(size_bytes, 1)
        cost_model = MODEL.cost_model(ring(4), num_flits)
        schedule = build(ring(4), "forest", cost_model=cost_model)
        found = times.cycles(Collective("all_reduce", size_bytes))
        assert found == analytic(schedule, num_flits, MODEL).cycles


def test_the_slowest_of_unequal_groups_counts():
    whole = torus(4, 4)
    slow = copy_of(whole, np.where(whole.links.max(axis=1) < 4, 4.0, 16.0))
    collective = Collective("all_reduce", 1 << 16, "tensor")
    even, uneven = (
        CollectiveTimes(Placement(each, 4), "ring", MODEL).cycles(collective)
        for each in (whole, slow)
    )
    assert uneven > 3 * even


def test_a_buffer_beyond_what_an_interface_addresses_is_refused():
    times = CollectiveTimes(Placement(ring(4)), "ring", MODEL)
    assert times.cycles(Collective("all_reduce", (2**32 - 1) * 16)) > 2**32
    with pytest.raises(ScheduleError, match="must be at most 68719476720 bytes"):
        times.cycles(Collective("all_reduce", (2**32 - 1) * 16 + 1))


def layers_of(rng, count):
    """Layers with collectives of both kinds of groups here and there."""

    def stage(kind, group):
        given = (
            Collective(kind, int(rng.integers(1, 500_000)), group) if rng.random() < 0.6 else None
        )
        return Stage(float(rng.integers(0, 20_000)), given)

    return tuple(
        Layer(
            str(number),
            stage("all_gather", "tensor"),
            stage("all_reduce", "tensor"),
            stage("reduce_scatter", "data"),
            update_ns=float(rng.integers(0, 100)),
        )
        for number in range(count)
    )


def replayed(layers, cycles, *, overlap, one_network):
    """The end of an iteration, by events: computation and networks as lists of what they do."""
    networks, now, last = {"tensor": 0, "data": 0}, 0, 0
    forward = [(layer.forward, True) for layer in layers]
    backward = [
        (stage, waits)
        for layer in reversed(layers)
        for stage, waits in ((layer.input_gradient, True), (layer.weight_gradient, not overlap))
    ]
    for stage, waits in forward + backward:
        now += int(stage.compute_ns)
        if stage.collective is None:
            continue
        users = ("tensor", "data") if one_network else (stage.collective.group,)
        end = max([now, *(networks[user] for user in users)]) + cycles(stage.collective)
        networks |= dict.fromkeys(users, end)
        last = max(last, end)
        now = end if waits else now
    return max(now, last) + sum(int(layer.update_ns) for layer in layers)


@pytest.mark.parametrize("overlap", ["none", "layers"])
def test_a_file_s_collectives_are_on_the_time_line_where_they_are_ready(overlap):
    network, rng = torus(4, 4), np.random.default_rng(5)
    rows = ring(4)
    for _ in range(5):
        job = Job("drawn", layers_of(rng, 6), tensor_parallel=4)
        found = time_job(job, network, "ring", overlap=overlap)
        times = {
            each: cycles_of(rows, each.size_bytes, each.kind, "ring") for each in job.collectives
        }
        expected = replayed(job.layers, times.get, overlap=overlap == "layers", one_network=False)
        assert found.total_cycles == expected
        assert found.communication_cycles == sum(times[each] for each in job.collectives)
        assert found.num_collectives == len(job.collectives)
        assert found.size_bytes == sum(each.size_bytes for each in job.collectives)
        assert not found.groups_share_links


def test_kinds_of_groups_that_share_links_take_turns():
    """Around one switch both kinds of groups use the one link of each rank."""
    job = Job("drawn", layers_of(np.random.default_rng(6), 8), tensor_parallel=2)
    times = {each: cycles_of(star(2), each.size_bytes, each.kind) for each in job.collectives}
    ends = [replayed(job.layers, times.get, overlap=True, one_network=one) for one in (True, False)]
    found = time_job(job, star(4), overlap="layers")
    assert found.groups_share_links and found.total_cycles == ends[0] > ends[1]


def test_a_network_s_gradients_are_sent_when_their_layer_is_through():
    job, network = load_job("ncf"), torus(4, 4)
    arrays = job.arrays
    compute = {"forward": sum(layer.forward.compute_ns for layer in job.layers)}
    now, free, aggregation = compute["forward"], 0, 0
    for layer in reversed(job.layers):
        added = arrays.aggregation_cycles(layer.num_parameters)
        now += layer.input_gradient.compute_ns + layer.weight_gradient.compute_ns + added
        free = max(now, free) + cycles_of(network, 4 * layer.num_parameters)
        aggregation += added
    found = time_job(job, network, overlap="layers")
    assert found.total_cycles == max(now, free)
    assert (found.aggregation_cycles, found.num_collectives) == (aggregation, len(job.layers))
    assert found.compute_cycles == now


@pytest.mark.parametrize("overlap", ["none", "layers", "buckets"])
@pytest.mark.parametrize("algorithm", ["ring", "multitree"])
def test_a_total_is_no_less_than_either_part_and_no_more_than_both(algorithm, overlap):
    found = time_job(load_job("alphagozero"), torus(4, 4), algorithm, overlap=overlap)
    parts = found.compute_cycles, found.communication_cycles
    assert max(parts) <= found.total_cycles <= sum(parts)
    assert found.exposed_cycles == found.total_cycles - found.compute_cycles
    if overlap == "none":
        assert found.total_cycles == sum(parts)
        (only,) = found.collectives
        assert only.collective.size_bytes == 4 * load_job("alphagozero").num_parameters
    assert found.total_us == found.total_cycles / 1000


def test_clocks_of_arrays_and_interfaces_are_their_own():
    slow = load_job("alphagozero", arrays=SystolicArrays(clock_ghz=0.5))
    fast = LinkModel(clock_ghz=2.0)
    usual = time_job(load_job("alphagozero"), torus(4, 4))
    found = time_job(slow, torus(4, 4), link_model=fast)
    assert found.compute_cycles == 4 * usual.compute_cycles
    assert found.total_us == found.total_cycles / 2000
    thirds = Job("thirds", (Layer("a", Stage(10 / 3, Collective("all_reduce", 4))),))
    assert time_job(thirds, ring(2), link_model=LinkModel(clock_ghz=0.3)).compute_cycles == 1
    assert time_job(thirds, ring(2)).compute_cycles == 4


def test_groups_of_one_rank_need_no_collective():
    stages = Stage(5.0, Collective("all_reduce", 64, "data")), Stage(), Stage()
    job = Job("alone", (Layer("a", *stages),), tensor_parallel=4)
    found = time_job(job, ring(4), "ring")
    assert (found.total_cycles, found.num_collectives, found.communication_cycles) == (5, 0, 0)


def test_the_setup_is_timed_apart():
    layer = Layer("a", forward=Stage(0.0, Collective("all_reduce", 64)))
    setup = (Collective("broadcast", 4096), Collective("broadcast", 64))
    job = Job("with setup", (layer,), has_compute=False, setup=setup)
    found = time_job(job, ring(4), "ring")
    assert found.total_cycles == cycles_of(ring(4), 64, algorithm="ring")
    broadcasts = [cycles_of(ring(4), size, "broadcast", "ring") for size in (4096, 64)]
    assert found.setup_cycles == sum(broadcasts)


def test_jobs_that_cannot_be_are_refused():
    refuses(JobError, "none: layers must be at least one, not none", Job, "none", ())
    with pytest.raises(JobError, match="idle: collectives must be at least one, but there is none"):
        Job("idle", (Layer("a", forward=Stage(3.0)),))
    given = Stage(0.0, Collective("all_reduce", 4))
    with pytest.raises(
        JobError, match="both: layers must have parameters or collectives, not both"
    ):
        Job("both", (Layer("a", forward=given, num_parameters=3),))
    with pytest.raises(JobError, match="small: tensor_parallel must be at least 1, not 0"):
        Job("small", (Layer("a", forward=given),), tensor_parallel=0)
    refuses(JobError, r"Collective kind must be .*, not 'all_to_all'", Collective, "all_to_all", 4)
    with pytest.raises(JobError, match="Collective group must be tensor or data, not 'all'"):
        Collective("all_reduce", 4, "all")
    refuses(JobError, "Collective size must be at least 1 byte, not 0", Collective, "all_reduce", 0)
    with pytest.raises(JobError, match=r"Collective size must be at least 1 byte, not 4\.5"):
        Collective("all_reduce", 4.5)
    for wrong in (-1.0, float("nan"), float("inf")):
        refuses(JobError, "Stage time must be at least 0 ns and finite", Stage, wrong)
    times = CollectiveTimes(Placement(ring(4), 2), "ring", MODEL)
    with pytest.raises(JobError, match="ncf: tensor-parallel groups must be of 1 ranks, not 2"):
        iteration(load_job("ncf"), times)
    refuses(ScheduleError, "Algorithm must be one of", time_job, load_job("ncf"), ring(4), "tree")
