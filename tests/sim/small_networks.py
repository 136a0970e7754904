"""Small networks of switches, and schedules by hand on which protections matter."""

from functools import partial

import numpy as np

from multitree.topology.collectives import Op
from tests.topology.graphs import both_ways, by_hand

__all__ = ["UNEVEN", "around", "network"]

REDUCE, GATHER = Op.REDUCE, Op.GATHER


# Links of 8 cycles.
network = partial(both_ways, latency=8.0)


# Ranks 0 and 1 at switch 4, ranks 2 and 3 at switch 5.
TWO_SWITCHES = network("two switches", 4, 2, [(0, 4), (1, 4), (2, 5), (3, 5), (4, 5)])
# Rank 0 has the sum first, tells rank 2 last, and rank 1, which is done early, sends to rank 2.
UNEVEN = by_hand(
    TWO_SWITCHES,
    [
        *((0, REDUCE, 0, 1, 2), (1, REDUCE, 0, 3, 0), (2, REDUCE, 0, 2, 0)),
        *((3, GATHER, 0, 0, 1), (4, GATHER, 0, 0, 3), (5, GATHER, 0, 0, 2)),
    ],
)


def around(num_ranks, *, dateline):
    """A ring algorithm of an odd number of ranks whose messages all go two switches on.

    Rank r is at switch num_ranks + r; link 2 r leads there, and 2 num_ranks + 2 r to the next one.
    """
    n, last = num_ranks, 2 * (num_ranks - 1)
    pairs = [(r, n + r) for r in range(n)] + [(n + r, n + (r + 1) % n) for r in range(n)]
    rows, links, classes = [], [], []
    for flow in range(n):
        for step in range(last):
            src = (flow + 2 * (step + 1)) % n
            rows.append((step, REDUCE if step < n - 1 else GATHER, flow, src, (src + 2) % n))
            between = [2 * n + 2 * src, 2 * n + 2 * ((src + 1) % n)]
            links.append([2 * src, *between, 2 * ((src + 2) % n) + 1])
            # Class 1 behind the link that closes the ring.
            wraps = np.array(links[-1]) == 2 * n + last
            classes.append((np.cumsum(wraps) - wraps) * dateline)
    return by_hand(
        network(f"ring of {n} switches", n, n, pairs),
        rows,
        routes=(4 * np.arange(len(rows) + 1), np.concatenate(links), np.concatenate(classes)),
    )
