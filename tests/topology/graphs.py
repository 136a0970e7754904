"""Random connected graphs, from a seed or from Hypothesis."""

import numpy as np
from hypothesis import strategies as st

from multitree.topology.networks.topology import Topology


def random_topology(seed, *, most_ranks=12, both_directions=True):
    """A random strongly connected graph, with parallel links now and then."""
    rng = np.random.default_rng(seed)
    num_ranks = int(rng.integers(2, most_ranks + 1))
    rank = rng.permutation(num_ranks)
    if both_directions:
        pairs = [(rank[i], rank[rng.integers(i)]) for i in range(1, num_ranks)]
    else:
        pairs = [(rank[i - 1], rank[i]) for i in range(num_ranks)]
    for _ in range(int(rng.integers(0, 2 * num_ranks))):
        pairs.append(tuple(rng.choice(num_ranks, 2, replace=False)))
    links = pairs + [(b, a) for a, b in pairs] if both_directions else pairs
    links = np.array(links)[rng.permutation(len(links))]
    return Topology(f"random:{seed}", num_ranks, 0, links, 16.0, 150.0)


def random_switched_topology(seed, *, most_ranks=10, both_directions=True):
    """A random strongly connected graph of ranks and switches, where ranks may be linked too."""
    rng = np.random.default_rng(seed)
    plain = random_topology(seed, most_ranks=most_ranks, both_directions=both_directions)
    num_ranks = int(rng.integers(2, plain.num_ranks + 1))
    node = rng.permutation(plain.num_nodes)
    counts = (num_ranks, plain.num_nodes - num_ranks)
    return Topology(f"switched:{seed}", *counts, node[plain.links], 16.0, 150.0)


def topologies(*, both_directions=None, make=random_topology):
    """Hypothesis strategy: such graphs, both ways or one way as asked, else either."""
    ways = st.booleans() if both_directions is None else st.just(both_directions)
    return st.builds(
        lambda seed, ways: make(seed, both_directions=ways), st.integers(0, 10**6), ways
    )
