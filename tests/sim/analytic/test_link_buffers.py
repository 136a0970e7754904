"""Places of links' buffers, held against lists of every flit."""

import os

import numpy as np
import pytest

from multitree.sim.analytic.link_buffers import LinkBuffers

SEED = int(os.environ.get("MULTITREE_SEED", "1"))


@pytest.mark.parametrize("seed", range(SEED, SEED + 40))
def test_a_flit_s_place_is_left_by_the_flit_a_buffer_s_depth_before_it(seed):
    """Asked for head, first flit and the rest of a message, as the engine asks, on three links."""
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    depth, num_links, num_messages = int(rng.integers(2, 9)), 3, 36
    size = rng.integers(0, 2 * depth + 1, num_messages)
    link = rng.integers(0, num_links, num_messages)
    buffers = LinkBuffers(link, size.astype(np.float64), num_links, depth)
    asked = [np.zeros(num_messages), np.ones(num_messages), size % depth]
    places = [buffers.places(flit) for flit in (0, 1, (size % depth).astype(np.float64))]
    # When each flit of a link, heads included, left its place.
    left, time = [[] for _ in range(num_links)], [0.0] * num_links
    for message in range(num_messages):
        row, mine = np.array([message]), left[link[message]]
        for flit, needed in zip(asked, places, strict=True):
            wanted = len(mine) + int(flit[message]) - depth
            found = float(buffers.left(row, needed)[0])
            if 0 <= wanted < len(mine):
                assert found == pytest.approx(mine[wanted]), (message, flit[message])
            else:
                assert found < 0
        start = time[link[message]] + float(rng.integers(2, 6))
        end = start + max(size[message] - 1, 0)
        buffers.add(row, np.array([start]), np.array([end]))
        mine += [start - 1, *(start + k for k in range(size[message]))]
        time[link[message]] = end
