"""What forwarding saves in RTL: cycles of a hop, and of whole all-reduces.

A hop is what one more rank in a chain adds to a broadcast or a reduce, less the latency of its
link: for messages of one flit, and for long ones, whose last flit counts. Whole all-reduces are run
with forwarding and without. All results are compared with `execute` bit for bit:
``python bench/forwarding.py``. Exit status 1 where they differ.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from _bench import Row, ended, options, reported
from _runs import exact_in_rtl

from multitree import LinkModel, build, mesh, parse_topology
from multitree.host.sizes import parse_size
from multitree.hw.codes import LEAST_STAGES
from multitree.sim.analytic.engine import analytic

MEMORY_CYCLES = (12, 40, 100, 500)
HOPS = ("forward_flits", "memory_cycles", "read_cycles", "gather_first", "gather_last")
HOPS += ("reduce_first", "reduce_last")
OF_NETWORKS = ("topology", "algorithm", "size", "memory_cycles", "cycles", "forwarded_cycles")
OF_NETWORKS += ("ratio", "analytic_cycles")
CHAIN_RANKS = (3, 7)
LONG_FLITS = 600
NETWORKS = (
    *(("torus:8x8", "symmetric", "32KiB", 12), ("torus:8x8", "multitree", "32KiB", 12)),
    *(("torus:4x4", "multitree", "32KiB", 12), ("torus:8x8", "symmetric", "32KiB", 100)),
    *(("torus:8x8", "symmetric", "32KiB", 500), ("torus:8x8", "symmetric", "1MiB", 12)),
    ("mesh:8x8", "forest", "1MiB", 12),
)


def hops(model: LinkModel, memory_cycles: int) -> Row:
    """Cycles of a hop beyond its link."""
    model = model.with_memory(memory_cycles)
    row: Row = {
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
            took.append(exact_in_rtl(schedule, model.flit_bytes * flits, model).cycles)
            latency = int(model.latency_cycles(chain)[0])
        row[name] = (took[1] - took[0]) / (CHAIN_RANKS[1] - CHAIN_RANKS[0]) - latency
    return row


def compare(
    spec: str, algorithm: str, size: str, memory_cycles: int, models: Sequence[LinkModel]
) -> Row:
    """Cycles of an all-reduce by the models without forwarding and with it."""
    schedule, cycles, begin = build(parse_topology(spec), algorithm), [], time.process_time()
    size_bytes, predicted = parse_size(size), []
    for model in (model.with_memory(memory_cycles) for model in models):
        cycles.append(exact_in_rtl(schedule, size_bytes, model).cycles)
        predicted.append(analytic(schedule, model.num_flits(size_bytes, 1), model).cycles)
    row = {"topology": spec, "algorithm": algorithm, "size": size, "memory_cycles": memory_cycles}
    row |= {"cycles": cycles[0], "forwarded_cycles": cycles[1], "ratio": cycles[1] / cycles[0]}
    row |= {"analytic_cycles": predicted[1], "analytic_ratio": predicted[1] / cycles[1]}
    return row | {"cpu_seconds": time.process_time() - begin}


def main() -> int:
    given = options(
        __doc__,
        forward_flits=512,
        adder_stages=LEAST_STAGES,
        only={"choices": ("hops", "networks")},
        most_kib={"type": int, "default": 1024, "help": "of networks, per rank"},
    )
    cut_through = LinkModel(dependency="submessage", add_cycles=given.adder_stages)
    models = [replace(cut_through, forward_flits=kept) for kept in (0, given.forward_flits)]

    def of_hops() -> Iterator[Row]:
        for memory_cycles in MEMORY_CYCLES if given.only != "networks" else ():
            yield from (hops(model, memory_cycles) for model in models)

    def of_networks() -> Iterator[Row]:
        for spec, algorithm, size, memory_cycles in NETWORKS if given.only != "hops" else ():
            if parse_size(size) <= 1024 * given.most_kib:
                yield compare(spec, algorithm, size, memory_cycles, models)

    found = {"forward_flits": given.forward_flits, "adder_stages": given.adder_stages}
    found["hops"] = reported(given, of_hops(), *HOPS)
    found["networks"] = reported(given, of_networks(), *OF_NETWORKS)
    return ended(given, True, found)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as error:
        sys.exit(str(error))
