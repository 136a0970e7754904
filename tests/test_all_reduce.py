"""Topologies x algorithms x engines: every all-reduce gives the bits of execute."""

import importlib.util

import networkx as nx
import numpy as np
import pytest

from multitree import (
    Communicator,
    ScheduleError,
    Topology,
    fully_connected,
    hypercube,
    mesh,
    ring,
    torus,
)
from multitree.topology.builders import ALGORITHMS, build
from multitree.topology.execute import execute
from tests.host.values import bits, make_buffers, with_odd_values

SEED = 20261120


def _random_graph():
    graph = nx.connected_watts_strogatz_graph(9, 4, 0.4, seed=SEED)
    return Topology.from_networkx(graph, name="random graph")


TOPOLOGIES = [
    ring(2),
    ring(5),
    torus(4, 4),
    torus(2, 3, 2),
    mesh(5, 3),
    mesh(4, 2),
    hypercube(3),
    fully_connected(5),
    _random_graph(),
]
NO_CYCLE = {"mesh:5x3"}
ENGINES = ["numpy", "torch"]
CASES = [
    pytest.param(topology, algorithm, id=f"{topology.name}-{algorithm}")
    for topology in TOPOLOGIES
    for algorithm in ALGORITHMS
]


def skip_without(engine):
    if engine == "torch" and importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed, so its engine is untested")


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda topology: topology.name)
def test_another_order_of_additions_changes_bits(topology):
    """The data below would not tell a wrong order from a right one if this did not hold."""
    buffers = make_buffers(SEED, topology.num_ranks, 4096)
    ascending = np.add.accumulate(buffers, axis=0)[-1]
    descending = np.add.accumulate(buffers[::-1], axis=0)[-1]
    differs = bits(ascending) != bits(descending)
    assert differs.any() == (topology.num_ranks > 2)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("topology", "algorithm"), CASES)
def test_all_reduce_equals_execute_on_every_rank(topology, algorithm, engine):
    skip_without(engine)
    if algorithm != "multitree" and topology.name in NO_CYCLE:
        with pytest.raises(ScheduleError, match=topology.name):
            Communicator(topology, algorithm=algorithm, engine=engine)
        return
    schedule = build(topology, algorithm)
    with Communicator(topology, algorithm=algorithm, engine=engine) as comm:
        for n in (0, 1, 7, 64 * topology.num_ranks, 4097):
            for dtype in ("float32", "int32"):
                buffers = make_buffers(SEED + n, topology.num_ranks, n, dtype)
                if n > 16 and dtype == "float32":
                    buffers = with_odd_values(buffers)
                work = comm.all_reduce(buffers)
                result = work.wait()
                assert (bits(result) == bits(execute(schedule, buffers))).all(), (n, dtype)
                assert (bits(result) == bits(result)[0]).all(), (n, dtype)
                assert work.report.schedule_hash == schedule.hash
                if dtype == "int32":
                    assert (result == buffers.sum(0, dtype=np.int32)).all(), n
