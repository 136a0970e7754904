"""Small chunks: flits per cycle of each port while rows follow each other.

Every rank of a complete network has a tree, whose rows all ports send: a contribution to each other
rank's sum, and its own sum to each. Many trees like these, one behind the other, each with a chunk
of so many bytes, are run in RTL; what twice as many take longer is what messages cost, whatever
begins and ends the collective. Flits are heads and payload. Sums are compared with `execute` bit
for bit: ``python bench/small_chunks.py``. Exit status 1 where they differ, or
where a port sends less than `--least`.
"""

import sys
from dataclasses import replace
from itertools import product

from _bench import Row, ended, options, reported
from _runs import exact_in_rtl

from multitree import LinkModel, build, fully_connected
from multitree.hw.codes import LEAST_STAGES
from multitree.topology.lowering import unrolled

CHUNK_BYTES = (64, 128, 256)
COPIES = 64
NUM_RANKS = 5
COLUMNS = ("forward_flits", "chunk_bytes", "cycles_per_message", "flits_per_cycle")


def run(copies: int, chunk_bytes: int, model: LinkModel) -> int:
    """Cycles of an all-reduce of float32 over so many trees per rank."""
    trees = build(fully_connected(NUM_RANKS), "multitree")
    schedule = unrolled(replace(trees, num_waves=copies, period=1), period=0)
    return exact_in_rtl(schedule, schedule.num_flows * chunk_bytes, model).cycles


def measure(chunk_bytes: int, model: LinkModel) -> Row:
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
    given = options(
        __doc__,
        forward_flits={"type": int, "nargs": "+", "default": [0, 512]},
        adder_stages=LEAST_STAGES,
        dependency={"choices": ("chunk", "submessage"), "default": "submessage"},
        least={"type": float, "default": 0.0, "help": "flits per cycle"},
    )
    model = LinkModel(dependency=given.dependency, add_cycles=given.adder_stages)
    models = [replace(model, forward_flits=flits) for flits in given.forward_flits]
    measured = (measure(chunk, model) for model, chunk in product(models, CHUNK_BYTES))
    rows = reported(given, measured, *COLUMNS, "payload_flits_per_cycle")
    good = min(row["flits_per_cycle"] for row in rows) >= given.least
    return ended(given, good, {"good": good, "rows": rows})


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, ValueError) as error:
        sys.exit(str(error))
