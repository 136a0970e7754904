"""Bits of invariant sums over networks, algorithms, lengths and orders, and cost.

One all-reduce of 16 ranks runs in every variant: networks, also without a link, with each algorithm
they have, buffers moved and padded, ranks that hold each other's buffers. Bits that differ from the
first variant are counted for invariant sums and, for contrast, the default's. Cost is bytes and
cycles in RTL, and the host's work against one addition of two tensors, over sizes of one rank:
``PYTHONPATH=src python bench/invariant.py [--size 1MiB] [--json]``. Exit status 1 if one bit of
an invariant sum differs.
"""

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from _bench import ended, least_cpu_seconds, options

if importlib.util.find_spec("torch") is None:
    print("PyTorch is not installed (pip install 'multitree[torch]'), so nothing is measured")
    sys.exit(0)

import torch

from multitree import Communicator, ScheduleError, Topology, parse_topology
from multitree.host.sizes import parse_size
from multitree.host.tensors.invariant import keys_of, limbs_of, sum_of
from multitree.topology.algorithms.registry import ALGORITHMS

SEED = 20260101
NUM_RANKS, NUM_ELEMENTS = 16, 4000
NETWORKS = ("torus:4x4", "mesh:4x4", "mesh:8x2", "ring:16", "hypercube:4", "fat_tree:4x4")
NETWORKS += ("full:16",)
WITHOUT_LINKS = ("torus:4x4", "hypercube:4")
LOST_LINK = 20
PADDINGS = ((0, 0), (0, 1), (3, 61), (1000, 24))  # elements before and behind
FLOATS = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Variant:
    """One way to sum the same buffers: where, how, cut where, and which rank holds which."""

    topology: Topology
    algorithm: str
    padding: tuple[int, int]
    order: tuple[int, ...]


def make_buffers() -> FLOATS:
    """Values whose sums depend on the order: exponents near each other and apart, cancelling."""
    rng = np.random.default_rng(SEED)
    span = np.where(rng.random(NUM_ELEMENTS) < 0.5, 4, 100)
    values = rng.standard_normal((NUM_RANKS, NUM_ELEMENTS)) * 2.0 ** rng.integers(-span, span + 1)
    values *= 2.0 ** rng.integers(-3, 4, values.shape)
    values[8:, ::3] = -values[:8, ::3] * (1 + 2.0**-22)
    buffers = values.astype(np.float32)
    buffers[0, 3], buffers[1, 3] = np.inf, -np.inf
    buffers[:, 5], buffers[:4, 7] = -0.0, np.finfo(np.float32).max
    return buffers


def variants() -> Iterator[Variant]:
    """Every network and algorithm with every padding, each in an order of its own."""
    rng = np.random.default_rng(SEED)
    networks = [parse_topology(spec) for spec in NETWORKS]
    networks += [parse_topology(spec).without(links=[LOST_LINK]) for spec in WITHOUT_LINKS]
    for topology in networks:
        for algorithm in ALGORITHMS:
            for padding in PADDINGS:
                order = rng.permutation(NUM_RANKS).tolist()
                yield Variant(topology, algorithm, padding, tuple(order))


def sums(variant: Variant, buffers: FLOATS, reproducible: str) -> tuple[FLOATS, int]:
    """Sums on every rank without the padding, and the waves of their schedule."""
    given = np.pad(buffers[list(variant.order)], ((0, 0), variant.padding))
    with Communicator(
        variant.topology, algorithm=variant.algorithm, reproducible=reproducible
    ) as comm:
        work = comm.all_reduce(given)
        begin = variant.padding[0]
        result = work.wait()[:, begin : begin + NUM_ELEMENTS]
        last = work.report.stages[-1] if work.report.stages else work.report
        waves = comm.schedule(size_bytes=last.size_bytes).num_waves
    return np.ascontiguousarray(result), waves


def differing_bits(one: FLOATS, other: FLOATS) -> int:
    return int(np.unpackbits((one.view(np.uint32) ^ other.view(np.uint32)).view(np.uint8)).sum())


def compare() -> dict[str, Any]:
    buffers, first = make_buffers(), {}
    counts = {level: {"bits": 0, "variants": 0} for level in ("invariant", "schedule")}
    num, with_waves, without_link, algorithms = 0, 0, 0, set()
    for variant in variants():
        try:
            found = {level: sums(variant, buffers, level) for level in counts}
        except ScheduleError:
            continue  # this algorithm has no schedule there
        num += 1
        with_waves += any(waves > 1 for _, waves in found.values())
        without_link += "without" in variant.topology.name
        algorithms.add(variant.algorithm)
        for level, (image, _) in found.items():
            reference = first.setdefault(level, image[0])
            bits = differing_bits(image, np.broadcast_to(reference, image.shape).copy())
            counts[level]["bits"] += bits
            counts[level]["variants"] += bits > 0
    return {
        "variants": num,
        "variants_with_waves": with_waves,
        "variants_without_a_link": without_link,
        "algorithms": len(algorithms),
        "num_elements": NUM_ELEMENTS,
        "invariant_differing_bits": counts["invariant"]["bits"],
        "invariant_variants_that_differ": counts["invariant"]["variants"],
        "default_differing_bits": counts["schedule"]["bits"],
        "default_variants_that_differ": counts["schedule"]["variants"],
    }


def cost_in_rtl(size_bytes: int) -> dict[str, Any]:
    """Flits on links and cycles over the default's, on a 4x4 torus."""
    buffers = np.random.default_rng(SEED).standard_normal((NUM_RANKS, size_bytes // 4))
    reports = {}
    for level in ("schedule", "invariant"):
        with Communicator(parse_topology("torus:4x4"), engine="rtl", reproducible=level) as comm:
            reports[level] = comm.all_reduce(buffers.astype(np.float32)).report
    default, whole = reports["schedule"], reports["invariant"]
    assert default.totals and whole.totals and default.cycles and whole.cycles
    return {
        "size_bytes": size_bytes,
        "default_flits": default.totals.flits_sent,
        "invariant_flits": whole.totals.flits_sent,
        "ratio_of_bytes": round(whole.totals.flits_sent / default.totals.flits_sent, 4),
        "default_cycles": default.cycles,
        "invariant_cycles": whole.cycles,
        "ratio_of_cycles": round(whole.cycles / default.cycles, 4),
    }


def least_cpu_ms(run: Any) -> float:
    return 1000 * least_cpu_seconds(run, 25)[1]


def cost_on_host(dtype: torch.dtype, num_elements: int = 1 << 20) -> dict[str, Any]:
    """CPU time per MiB of one rank's work, and over an addition of two float32 tensors."""
    generator = torch.Generator().manual_seed(SEED)
    single = torch.randn(num_elements, generator=generator)
    x, out = single.to(dtype), torch.empty_like(single)
    keys = keys_of(x)
    limbs = limbs_of(x, keys)
    mib = x.nbytes / 2**20
    steps = {
        "keys": least_cpu_ms(partial(keys_of, x)),
        "limbs": least_cpu_ms(partial(limbs_of, x, keys)),
        "sums": least_cpu_ms(partial(sum_of, limbs, keys, dtype)),
    }
    addition = least_cpu_ms(partial(torch.add, single, single, out=out))
    whole = sum(steps.values())
    return {
        "dtype": str(dtype).removeprefix("torch."),
        **{f"{name}_cpu_ms_per_mib": round(ms / mib, 3) for name, ms in steps.items()},
        "cpu_ms_per_mib": round(whole / mib, 3),
        "addition_cpu_ms_per_mib": round(addition / (single.nbytes / 2**20), 4),
        "ratio_to_addition": round(whole / addition, 1),
    }


def main() -> int:
    given = options(__doc__, size={"default": "1MiB", "help": "one rank's buffer in RTL"})
    torch.set_num_threads(1)
    compared = compare()
    rtl = cost_in_rtl(parse_size(given.size))
    host = [cost_on_host(dtype) for dtype in (torch.float32, torch.bfloat16)]
    said = [
        "".join(f"{name.replace('_', ' '):34}{value}\n" for name, value in rows.items())
        for rows in (compared, rtl, *host)
    ]
    good = compared["invariant_differing_bits"] == 0
    return ended(given, good, {"seed": SEED, **compared, "rtl": rtl, "host": host}, *said)


if __name__ == "__main__":
    sys.exit(main())
