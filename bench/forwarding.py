"""What forwarding saves in RTL: cycles of a hop, and of whole all-reduces.

A hop is what one more rank in a chain adds to a broadcast or a reduce, less the latency of its
link: for messages of one flit, and for long ones, whose last flit counts. Whole all-reduces are run
with forwarding and without. All results are compared with `execute` bit for bit:
``python bench/forwarding.py``. Exit status 1 where they differ.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from multitree.host.runner import make_buffers
from multitree.host.sizes import parse_size
from multitree.hw.codes import LEAST_STAGES
from multitree.sim.analytic.engine import analytic
from multitree.sim.rtl.session import RtlSession
from multitree.sim.timing.link_model import LinkModel
from multitree.sim.timing.sizing import least_sizes
from multitree.topology.algorithms.build import build
from multitree.topology.families.direct import mesh
from multitree.topology.schedules.execute import execute
from multitree.topology.schedules.schedule import Schedule
from multitree.topology.specs import parse_topology

MEMORY_CYCLES = (12, 40, 100, 500)
CHAIN_RANKS = (3, 7)
LONG_FLITS = 600
NETWORKS = (
    ("torus:8x8", "symmetric", "32KiB", 12),
    ("torus:8x8", "multitree", "32KiB", 12),
    ("torus:4x4", "multitree", "32KiB", 12),
    ("torus:8x8", "symmetric", "32KiB", 100),
    ("torus:8x8", "symmetric", "32KiB", 500),
    ("torus:8x8", "symmetric", "1MiB", 12),
    ("mesh:8x8", "forest", "1MiB", 12),
)


def run(schedule: Schedule, num_elements: int, model: LinkModel) -> int:
    """Cycles of a collective of float32, which is exact or a RuntimeError."""
    buffers = make_buffers(1, schedule.topology.num_ranks, num_elements, "float32")
    sizes = least_sizes(schedule, model.num_flits(num_elements, 4))
    with RtlSession(schedule.topology, link_model=model, **sizes) as session:
        [(memory, trace)] = session.run(schedule, [buffers])
    if memory.tobytes() != execute(schedule, buffers).tobytes():
        raise RuntimeError(f"{schedule.topology.name}: results differ")
    return trace.cycles


def hops(model: LinkModel, memory_cycles: int) -> dict[str, Any]:
    """Cycles of a hop beyond its link."""
    model = model.with_memory(memory_cycles)
    row: dict[str, Any] = {
        "forward_flits": model.forward_flits,
        "memory_cycles": memory_cycles,
        "read_cycles": model.memory_read_cycles,
        "write_cycles": model.memory_write_cycles,
    }
    for collective, flits, name in (
        ("broadcast", 1, "gather_first"),
        ("broadcast", LONG_FLITS, "gather_last"),
        ("reduce", 1, "reduce_first"),
        ("reduce", LONG_FLITS, "reduce_last"),
    ):
        took = []
        for ranks in CHAIN_RANKS:
            chain = mesh(ranks)
            schedule = build(chain, "multitree", collective, root=0)
            took.append(run(schedule, 4 * flits, model))
            latency = int(model.latency_cycles(chain)[0])
        row[name] = (took[1] - took[0]) / (CHAIN_RANKS[1] - CHAIN_RANKS[0]) - latency
    return row


def compare(
    spec: str, algorithm: str, size: str, memory_cycles: int, models: Sequence[LinkModel]
) -> dict[str, Any]:
    """Cycles of an all-reduce by the models without forwarding and with it."""
    schedule, cycles, begin = build(parse_topology(spec), algorithm), [], time.process_time()
    num_elements, predicted = parse_size(size) // 4, []
    for model in (model.with_memory(memory_cycles) for model in models):
        cycles.append(run(schedule, num_elements, model))
        predicted.append(analytic(schedule, model.num_flits(num_elements, 4), model).cycles)
    row = {"topology": spec, "algorithm": algorithm, "size": size, "memory_cycles": memory_cycles}
    row |= {"cycles": cycles[0], "forwarded_cycles": cycles[1], "ratio": cycles[1] / cycles[0]}
    row |= {"analytic_cycles": predicted[1], "analytic_ratio": predicted[1] / cycles[1]}
    return row | {"cpu_seconds": time.process_time() - begin}


def report(text: str, quiet: bool) -> None:
    """Say what was measured, to a human."""
    if not quiet:
        print(text, flush=True)


def main() -> int:
    """Print one line per memory latency, and one per network."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forward-flits", type=int, default=512)
    parser.add_argument("--adder-stages", type=int, default=LEAST_STAGES)
    parser.add_argument("--only", choices=("hops", "networks"))
    parser.add_argument("--most-kib", type=int, default=1024, help="of networks, per rank")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    flits, stages, quiet = arguments.forward_flits, arguments.adder_stages, arguments.json
    found: dict[str, Any] = {"forward_flits": flits, "adder_stages": stages}
    found |= {"hops": [], "networks": []}
    cut_through = LinkModel(dependency="submessage", add_cycles=stages)
    models = [replace(cut_through, forward_flits=kept) for kept in (0, flits)]
    columns = ("gather_first", "gather_last", "reduce_first", "reduce_last")
    for memory_cycles in MEMORY_CYCLES if arguments.only != "networks" else ():
        for model in models:
            row = hops(model, memory_cycles)
            found["hops"].append(row)
            text = "  ".join(f"{name} {row[name]:.1f}" for name in columns)
            named = f"memory {memory_cycles} (read {row['read_cycles']})"
            report(f"{named}, {model.forward_flits} flits kept: {text} cycles a hop", quiet)
    for spec, algorithm, size, memory_cycles in NETWORKS if arguments.only != "hops" else ():
        if parse_size(size) > 1024 * arguments.most_kib:
            continue
        row = compare(spec, algorithm, size, memory_cycles, models)
        found["networks"].append(row)
        took = f"{row['cycles']} cycles, forwarded {row['forwarded_cycles']}"
        took += f", by the analytic engine {row['analytic_cycles']}"
        report(f"{spec} {algorithm} {size} at memory {memory_cycles}: {took}", quiet)
    if arguments.json:
        print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as error:
        sys.exit(str(error))
