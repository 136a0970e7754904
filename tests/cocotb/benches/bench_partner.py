"""One interface of a network, the rest of which is played in Python."""

import json
from pathlib import Path

import cocotb

from multitree import build, parse_topology
from multitree.nic.driver.config import Config
from multitree.sim.cocotb.bench import InterfaceBench
from multitree.sim.cocotb.case import with_tuples
from multitree.sim.cocotb.reference import draw_buffers
from multitree.sim.rtl.loads import Upcoming
from tests.cocotb.models.driving import drawn_seed

CASE_FILE = "case.json"
"""Where it runs: topology, algorithm, rank and configuration."""


@cocotb.test()
@cocotb.parametrize(dtype=["int32", "float32"], stalls=["none", "heavy"])
async def every_message_and_the_memory_are_as_defined(dut, dtype, stalls):
    case = json.loads(Path(CASE_FILE).read_text())
    schedule = build(parse_topology(case["topology"]), case["algorithm"])
    settings = {"seed": drawn_seed(dut), "stalls": stalls}
    config = Config(**with_tuples(case["config"]))
    bench = InterfaceBench(dut, schedule, case["rank"], config, **settings)
    await bench.start()
    for num_elements in (203, 5, 0, 203):
        shape = schedule.topology.num_ranks, num_elements
        buffers = draw_buffers(shape, dtype, bench.data_rng)
        await bench.run(Upcoming(schedule, num_elements, dtype), buffers)
