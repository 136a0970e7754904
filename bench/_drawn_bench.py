"""A run of a campaign under cocotb, every rank with a host of its own."""

import os

import cocotb
from cocotb_replay import CAMPAIGN, CAMPAIGNS, SEED

from multitree.cocotb import NetworkBench

DRAWN = CAMPAIGNS[os.environ[CAMPAIGN]](int(os.environ[SEED]))


@cocotb.test()
async def collectives_without_a_barrier_are_exact(dut):
    config = DRAWN.config
    options = {"stalls": "light", "memory_flits": 1 << min(config.address_width, 17)}
    bench = NetworkBench(dut, DRAWN.queue[0].schedule, config, seed=DRAWN.seed, **options)
    await bench.start()
    starts = [cycles + 1 for cycles in DRAWN.skews]
    await bench.run_each(DRAWN.queue, DRAWN.buffers, starts)
