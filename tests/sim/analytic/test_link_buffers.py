"""Places of a link's buffer, held against a list of every flit."""

import os

import numpy as np
import pytest

from multitree.sim.analytic.private_links import LinkBuffers

SEED = int(os.environ.get("MULTITREE_SEED", "1"))


@pytest.mark.parametrize("seed", range(SEED, SEED + 40))
def test_a_flit_s_place_is_left_by_the_flit_a_buffer_s_depth_before_it(seed):
    """Asked for head, first flit and the rest of a message, as the engine asks, also for a head
    again after the flit behind it."""
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    depth, num_messages = int(rng.integers(2, 9)), 12
    size = rng.integers(0, 2 * depth + 1, num_messages)
    buffers = LinkBuffers(np.zeros(num_messages, np.int64), size.astype(np.float64), 1, depth)
    left = []  # when each flit of the link, heads included, left its place
    time = 0.0
    for message in range(num_messages):
        row = np.array([message])
        for flit in (0, 1, int(size[message]) % depth):
            wanted = len(left) + flit - depth
            found = float(buffers.earlier(row, flit)[0])
            if 0 <= wanted < len(left):
                assert found == pytest.approx(left[wanted]), (message, flit)
            else:
                assert found < 0
        start = time + float(rng.integers(2, 6))
        end = start + max(size[message] - 1, 0)
        buffers.add(row, np.array([start]), np.array([end]))
        left += [start - 1, *(start + k for k in range(size[message]))]
        time = end
