"""How fast networks of the generated Verilog run on this machine.

Prints cycles per CPU second without the build, for each topology, and CPU seconds over those of a
run in which no interface sleeps, in the same process; `--json` also has those with tables through
the backdoor. Every run loads its tables. The target of the project is an 8x8 torus, 1 MiB, in at
most 60 CPU seconds: ``python bench/emulation_speed.py --limit 60``.

Where the time goes (8x8 torus, profiled with perf): two thirds in the clocked logic of the
models, a fifth in their logic that follows inputs, a tenth in links, memories and hosts of the
harness. What was tried, in CPU seconds: all ranks cycle by cycle 7.7; each rank for a window of
150 cycles, so that its model stays in the cache, 6.7 (kept; it also lets threads share the
ranks, 4.2 s on the clock with two processors); -O1 8.0, -O3 7.5, -Os 9.4, -march=native 7.6
against -O2 7.7, all within noise but -Os. Kept is -O1: g++ takes 13 CPU s with it, 28 with -O2,
for four ports. Verilator's lookup tables take a tenth more to compile and make no model faster; one
C++ class for all ports, instead of its text for each, compiles in half the time and runs as fast.
Without an evaluation of the falling edge it takes 0.86 of the time (kept).
"""

import os
import sys
import time
from contextlib import ExitStack
from typing import Any

import numpy as np
from _bench import Row, all_exact, ended, listed, options, reported

from multitree import LinkModel, build, execute, parse_topology
from multitree.host.runner import make_buffers
from multitree.host.sizes import parse_size
from multitree.sim.rtl.session import RtlSession
from multitree.sim.timing.sizing import least_sizes

COLUMNS = ("topology", "num_ranks", "cycles", "cpu_seconds", "wall_seconds", "ratio_to_awake")
COLUMNS += ("cycles_per_cpu_second", "rank_cycles_per_cpu_second", "build_seconds", "exact")
MODES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "awake": {"sleeps": False},
    "backdoor": {"backdoor": True},
}


def measure(spec: str, algorithm: str, size_bytes: int, repeat: int) -> Row:
    """Best of several runs of one network: as it is, without sleep, with the backdoor."""
    topology = parse_topology(spec)
    schedule = build(topology, algorithm)
    buffers = make_buffers(1, topology.num_ranks, size_bytes // 4, "float32")
    sizes = least_sizes(schedule, LinkModel().num_flits(size_bytes // 4, 4))
    seconds, asleep = {}, 0.0
    with ExitStack() as stack:
        begin = time.perf_counter()
        sessions = {
            mode: stack.enter_context(RtlSession(topology, **options, **sizes))
            for mode, options in MODES.items()
        }
        build_seconds = time.perf_counter() - begin
        for _ in range(repeat):
            # Backwards, so that what is left over is of the first mode.
            for mode, session in reversed(sessions.items()):
                network = session.network
                # Else only the first run would load tables.
                session.reset()
                first, slept = network.cycle, network.cycles_asleep
                cpu, wall = time.process_time(), time.perf_counter()
                memory, trace = session.run(schedule, [buffers])[0]
                taken = time.process_time() - cpu, time.perf_counter() - wall
                seconds[mode] = min(seconds.get(mode, taken), taken)
                emulated = network.cycle - first
                asleep = (network.cycles_asleep - slept) / (emulated * topology.num_ranks)
    cpu_seconds, wall_seconds = seconds["as it is"]
    exact = np.array_equal(memory.view(np.uint32), execute(schedule, buffers).view(np.uint32))
    return {
        "topology": spec,
        "num_ranks": topology.num_ranks,
        "cycles": trace.cycles,
        "cpu_seconds": cpu_seconds,
        "wall_seconds": wall_seconds,
        "cycles_per_cpu_second": emulated / cpu_seconds,
        "rank_cycles_per_cpu_second": emulated * topology.num_ranks / cpu_seconds,
        "asleep_share": asleep,
        "ratio_to_awake": cpu_seconds / seconds["awake"][0],
        "backdoor_ratio_to_awake": seconds["backdoor"][0] / seconds["awake"][0],
        "build_seconds": build_seconds,
        "exact": exact,
    }


def main() -> int:
    given = options(
        __doc__,
        topologies=listed("torus:2x2,torus:4x4,mesh:8x8,torus:8x8"),
        algorithm="multitree",
        size={"type": parse_size, "default": "1MiB"},
        repeat={"type": int, "default": 2, "help": "runs of each, the best counts"},
        limit={"type": float, "default": 60.0, "help": "CPU seconds of the last one"},
    )
    measured = (
        measure(spec, given.algorithm, given.size, given.repeat) for spec in given.topologies
    )
    rows = reported(given, measured, *COLUMNS)
    good = rows[-1]["cpu_seconds"] <= given.limit and all_exact(rows)
    return ended(given, good, {"processors": os.cpu_count(), "good": good, "rows": rows})


if __name__ == "__main__":
    sys.exit(main())
