"""Topologies x algorithms x engines: every all-reduce gives the bits of execute."""

import networkx as nx
import numpy as np
import pytest

from multitree import Communicator, Topology, among, build, execute, parse_topology, torus
from multitree.host.engines import why_not
from multitree.topology.algorithms.registry import COMPARED
from tests.host.values import bits, make_buffers, odd_buffers

SEED = 20261120


SPECS = "ring:2 ring:5 torus:4x4 torus:2x3x2 mesh:5x3 mesh:4x2 hypercube:3 full:5"
TOPOLOGIES = [
    *(parse_topology(spec) for spec in f"{SPECS} fat_tree:3x4 bigraph:2x4 dgx2".split()),
    Topology.from_networkx(nx.random_regular_graph(4, 9, seed=SEED), name="random graph"),
    among(torus(4, 4), range(12)),
]
# Rings have routes over ranks here; RTL runs them through switches: tests/sim/rtl/test_switched.py.
NO_CYCLE = {"mesh:5x3"}
OTHERS = {
    "torus:4x4": ("bidirectional_ring_2d",),
    "mesh:5x3": ("ring_2d",),
    "hypercube:3": ("halving_doubling",),
}
SIZES = {"numpy": (0, 1, 7, 640, 4097), "torch": (0, 1, 7, 640, 4097), "rtl": (0, 7, 1001)}


QUICK = {"rtl-torus:4x4-multitree", "rtl-mesh:4x2-multitree", "rtl-mesh:4x2-ring"}
FORWARDING = pytest.param(
    "rtl",
    among(torus(4, 4), [rank for rank in range(16) if rank % 5], forwarding=True),
    "multitree",
    marks=pytest.mark.long,
    id="rtl-torus:4x4-four-forwarding",
)


def _cases():
    """Every combination; in RTL only ranks of 3 or 4 links, which share one compiled interface."""
    for engine in SIZES:
        for topology in TOPOLOGIES:
            direct = not topology.num_switches
            if engine != "rtl" or (direct and topology.degree.max() in (3, 4)):
                through_switches = engine == "rtl" and topology.name in NO_CYCLE
                compared = COMPARED[:1] if through_switches else COMPARED
                for algorithm in (*compared, *OTHERS.get(topology.name, ())):
                    name = f"{engine}-{topology.name}-{algorithm}"
                    slow = engine == "rtl" and name not in QUICK
                    marks = [pytest.mark.slow] * slow
                    yield pytest.param(engine, topology, algorithm, id=name, marks=marks)


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda topology: topology.name)
def test_another_order_of_additions_changes_bits(topology):
    """The data below would not tell a wrong order from a right one if this did not hold."""
    buffers = make_buffers(SEED, topology.num_ranks, 4096)
    ascending = np.add.accumulate(buffers, axis=0)[-1]
    descending = np.add.accumulate(buffers[::-1], axis=0)[-1]
    differs = bits(ascending) != bits(descending)
    assert differs.any() == (topology.num_ranks > 2)


@pytest.mark.dear
@pytest.mark.every_set
@pytest.mark.parametrize(("engine", "topology", "algorithm"), [*_cases(), FORWARDING])
def test_all_reduce_equals_execute_on_every_rank(engine, topology, algorithm):
    reason = why_not(engine)
    if reason is not None:
        pytest.skip(f"engine {engine} is untested here: {reason}")
    schedule = build(topology, algorithm)
    with Communicator(topology, algorithm=algorithm, engine=engine) as comm:
        for n in SIZES[engine]:
            for dtype in ("float32", "int32"):
                buffers = odd_buffers(SEED + n, topology.num_ranks, n, dtype)
                work = comm.all_reduce(buffers)
                result = work.wait()
                assert (bits(result) == bits(execute(schedule, buffers))).all(), (n, dtype)
                assert (bits(result) == bits(result)[0]).all(), (n, dtype)
                assert (work.report.engine, work.report.schedule_hash) == (engine, schedule.hash)
                if dtype == "int32":
                    assert (result == buffers.sum(0, dtype=np.int32)).all(), n
