"""Late ranks, no barriers, random memories: right sums, and none stuck.

Each run starts its ranks up to 10 000 cycles apart, does five all-reduces of odd length back to
back without a barrier, and draws the latency of every memory request; types, lengths and
algorithms vary with the seed. Half of the networks are changed: links are of any speed and length,
parallel or lost, ports apart, nodes relabelled, ranks left out. Exit status 1 if a sum differs or a
run faults:
``python bench/skew_campaign.py --runs 102`` (17 on each of 6 networks); one run again:
``--only SEED``.
"""

import sys

import numpy as np
from _campaign import Exactness, exact_campaign
from _draws import Draw, outcome_of
from _networks import random_graph, varied

from multitree import Topology, build, parse_topology
from multitree.sim.rtl.loads import Upcoming
from multitree.sim.timing.link_model import MemoryTiming

SPECS = ("torus:4x4", "mesh:4x3", "ring:5", "hypercube:3", "full:5", "random")
NUM_COLLECTIVES = 5
MAX_SKEW_CYCLES = 10_000
MAX_ELEMENTS = 1500


def random_topology(seed: int) -> Topology:
    """A connected graph of ten ranks with at most four links each."""
    rng = np.random.default_rng(seed)
    return random_graph(lambda: (10, 14, int(rng.integers(2**31))))


def draw(seed: int) -> Draw:
    rng, spec = np.random.default_rng(seed), SPECS[seed % len(SPECS)]
    topology = random_topology(seed) if spec == "random" else parse_topology(spec)
    if seed // len(SPECS) % 2:
        topology = varied(rng, topology)
    # A ring over a graph's ranks may lead through others.
    plain = topology.family != "custom"
    algorithms = ["multitree", "bidirectional_ring"] if plain else ["multitree"]
    schedule = build(topology, str(rng.choice(algorithms)))
    n, dtype = int(rng.integers(1, MAX_ELEMENTS)), str(rng.choice(["float32", "int32"]))
    timing = MemoryTiming(
        extra_cycles=int(rng.integers(1, 60)), stall_percent=int(rng.integers(0, 50)), seed=seed
    )
    skews = rng.integers(0, MAX_SKEW_CYCLES + 1, topology.num_ranks).tolist()
    return Draw(seed, spec, [Upcoming(schedule, n, dtype)] * NUM_COLLECTIVES, timing, skews)


def run_once(seed: int) -> Exactness:
    # One table for all of them, loaded once.
    return outcome_of(draw(seed), Exactness, repeated=True)


CAMPAIGN = exact_campaign(run_once, Exactness, SPECS)

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main(__doc__, runs=102))
