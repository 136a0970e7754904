"""Late ranks, no barriers, random memories: right sums, and none stuck.

Each run starts its ranks up to 10 000 cycles apart, does five all-reduces of odd length back to
back without a barrier, and draws the latency of every memory request; types, lengths and
algorithms vary with the seed. Exit status 1 if a sum differs or a run faults:
``python bench/skew_campaign.py --runs 17`` (17 on each of 6 topologies, 102 in all).
"""

import argparse
import json
import sys
import time
from typing import Any

import networkx
import numpy as np

from multitree.host.simulator import make_buffers
from multitree.nic.faults import DeviceError
from multitree.sim.memory_timing import MemoryTiming
from multitree.sim.rtl import RtlSession
from multitree.topology.builders import build
from multitree.topology.execute import execute
from multitree.topology.families import parse_topology
from multitree.topology.topology import Topology

SPECS = ("torus:4x4", "mesh:4x3", "ring:5", "hypercube:3", "full:5", "random")
NUM_COLLECTIVES = 5
MAX_SKEW_CYCLES = 10_000
MAX_ELEMENTS = 1500
ROW = "{:<12} {:>5} {:>7} {:>6} {:>6} {:>13} {:>10}"


def random_topology(seed: int) -> Topology:
    """A connected graph of ten ranks with at most four links each."""
    rng = np.random.default_rng(seed)
    while True:
        graph = networkx.gnm_random_graph(10, 14, seed=int(rng.integers(2**31)))
        if networkx.is_connected(graph) and max(dict(graph.degree).values()) <= 4:
            return Topology.from_networkx(graph, name="random")


def run_once(spec: str, seed: int) -> tuple[bool, int]:
    """Run one seed on one topology: whether all sums are right, and the cycles in all."""
    rng = np.random.default_rng(seed)
    topology = random_topology(seed) if spec == "random" else parse_topology(spec)
    algorithms = ["multitree"] if spec == "random" else ["multitree", "bidirectional_ring"]
    schedule = build(topology, str(rng.choice(algorithms)))
    n, dtype = int(rng.integers(1, MAX_ELEMENTS)), str(rng.choice(["float32", "int32"]))
    buffers = [
        make_buffers(seed * NUM_COLLECTIVES + k, topology.num_ranks, n, dtype)
        for k in range(NUM_COLLECTIVES)
    ]
    timing = MemoryTiming(
        extra_cycles=int(rng.integers(1, 60)), stall_percent=int(rng.integers(0, 50)), seed=seed
    )
    skews = rng.integers(0, MAX_SKEW_CYCLES + 1, topology.num_ranks).tolist()
    with RtlSession(topology, memory_timing=timing) as session:
        results = session.run(schedule, buffers, start_skew_cycles=skews)
        cycles = session.network.cycle
    return all(
        np.array_equal(memory.view(np.uint32), execute(schedule, buffer).view(np.uint32))
        for buffer, (memory, _) in zip(buffers, results, strict=True)
    ), cycles


def campaign(spec: str, first_seed: int, runs: int) -> dict[str, Any]:
    """All runs on one topology; faults are counted and told."""
    row: dict[str, Any] = {"topology": spec, "runs": runs, "right": 0, "wrong": 0, "faults": 0}
    begin, cycles = time.process_time(), 0
    for seed in range(first_seed, first_seed + runs):
        try:
            right, took = run_once(spec, seed)
        except DeviceError as error:
            row["faults"] += 1
            print(f"{spec} seed {seed}: {error}", file=sys.stderr)
            continue
        row["right" if right else "wrong"] += 1
        cycles += took
        if not right:
            print(f"{spec} seed {seed}: wrong sums", file=sys.stderr)
    return {**row, "emulated_cycles": cycles, "cpu_seconds": time.process_time() - begin}


def main() -> int:
    """Run all seeds; exit status 1 unless every sum is right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=17, help="on each topology")
    parser.add_argument("--seed", type=int, default=1, help="the first; runs count up from it")
    parser.add_argument("--topologies", default=",".join(SPECS))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    if not arguments.json:
        print(ROW.format("topology", "runs", "right", "wrong", "stuck", "cycles", "cpu s"))
    for spec in arguments.topologies.split(","):
        row = campaign(spec, arguments.seed, arguments.runs)
        rows.append(row)
        if not arguments.json:
            cells = [row[name] for name in ("topology", "runs", "right", "wrong", "faults")]
            seconds = f"{row['cpu_seconds']:.1f}"
            print(ROW.format(*cells, f"{row['emulated_cycles']:,}", seconds), flush=True)
    good = all(row["right"] == row["runs"] for row in rows)
    if arguments.json:
        print(json.dumps({"good": good, "rows": rows}, indent=2))
    else:
        right, runs = (sum(row[name] for row in rows) for name in ("right", "runs"))
        print(f"{right} of {runs} runs right, {NUM_COLLECTIVES} all-reduces each")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
