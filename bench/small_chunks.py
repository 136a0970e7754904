"""Small chunks: flits per cycle of each port while rows follow each other.

Every rank of a complete network has a tree, whose rows all ports send: a contribution to each other
rank's sum, and its own sum to each. Many trees like these, one behind the other, each with a chunk
of so many bytes, are run in RTL; what twice as many take longer is what messages cost, whatever
begins and ends the collective. Flits are heads and payload. Sums are compared with `execute` bit
for bit: ``python bench/small_chunks.py``. Exit status 1 where they differ, or
where a port sends less than `--least`.
"""

import argparse
import json
import sys
from dataclasses import replace
from typing import Any

from multitree.host.runner import make_buffers
from multitree.hw.codes import LEAST_STAGES
from multitree.sim.rtl.session import RtlSession
from multitree.sim.timing.link_model import LinkModel
from multitree.sim.timing.sizing import least_sizes
from multitree.topology.algorithms.build import build
from multitree.topology.families.direct import fully_connected
from multitree.topology.lowering import unrolled
from multitree.topology.schedules.execute import execute

CHUNK_BYTES = (64, 128, 256)
COPIES = 64
NUM_RANKS = 5


def run(copies: int, chunk_bytes: int, model: LinkModel) -> int:
    """Cycles of an all-reduce of float32 over so many trees per rank."""
    trees = build(fully_connected(NUM_RANKS), "multitree")
    schedule = unrolled(replace(trees, num_waves=copies, period=1), period=0)
    num_elements = schedule.num_flows * chunk_bytes // 4
    buffers = make_buffers(1, NUM_RANKS, num_elements, "float32")
    sizes = least_sizes(schedule, model.num_flits(num_elements, 4))
    with RtlSession(schedule.topology, link_model=model, **sizes) as session:
        [(memory, trace)] = session.run(schedule, [buffers])
    if memory.tobytes() != execute(schedule, buffers).tobytes():
        raise RuntimeError(f"chunks of {chunk_bytes} bytes: results differ")
    return trace.cycles


def measure(chunk_bytes: int, model: LinkModel) -> dict[str, Any]:
    """Flits per cycle of a port, heads and payload, where rows follow each other."""
    cycles = run(2 * COPIES, chunk_bytes, model) - run(COPIES, chunk_bytes, model)
    # Of each tree a port sends a contribution or the sum, one in each direction.
    messages = 2 * COPIES
    payload = chunk_bytes // model.flit_bytes
    return {
        "forward_flits": model.forward_flits,
        "chunk_bytes": chunk_bytes,
        "cycles_per_message": cycles / messages,
        "flits_per_cycle": messages * (payload + 1) / cycles,
        "payload_flits_per_cycle": messages * payload / cycles,
    }


def main() -> int:
    """Print one line per size of a chunk."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forward-flits", type=int, nargs="+", default=[0, 512])
    parser.add_argument("--adder-stages", type=int, default=LEAST_STAGES)
    parser.add_argument("--dependency", choices=("chunk", "submessage"), default="submessage")
    parser.add_argument("--least", type=float, default=0.0, help="flits per cycle")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    models = [
        LinkModel(
            dependency=arguments.dependency,
            forward_flits=flits,
            add_cycles=arguments.adder_stages,
        )
        for flits in arguments.forward_flits
    ]
    rows = [measure(chunk_bytes, model) for model in models for chunk_bytes in CHUNK_BYTES]
    good = min(row["flits_per_cycle"] for row in rows) >= arguments.least
    if arguments.json:
        print(json.dumps({"good": good, "rows": rows}, indent=2))
        return 0 if good else 1
    for row in rows:
        print(
            f"{row['forward_flits']:>3} flits kept, chunks of {row['chunk_bytes']:>3} bytes: "
            f"{row['flits_per_cycle']:.3f} flits per cycle"
            f" and port, {row['payload_flits_per_cycle']:.3f} of them payload;"
            f" {row['cycles_per_message']:.2f} cycles a message"
        )
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, ValueError) as error:
        sys.exit(str(error))
