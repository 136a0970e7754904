"""Compares the bits of the PyTorch backend with `execute` and all engines.

``python bench/torch_bits.py [--cases 200] [--seed 1] [--json]`` draws collectives: topology,
algorithm, collective, type, operator, length and root. Each runs on four processes, by every rank's
own table over shared memory, over gloo's messages, and hosted on the engines numpy (`execute`) and
rtl; all-reduces, broadcasts and reduces are also compared with `execute` and the torch engine of
this process. Exit status 1 if one bit differs.
"""

import random
import sys
from dataclasses import dataclass
from typing import Any

import _ranks
import numpy as np
import torch
import torch.distributed as dist
from _bench import ended, options, refuse

from multitree import Communicator, parse_topology
from multitree.host.engines import why_not
from multitree.host.runner import make_buffers
from multitree.topology.collectives import as_bits
from multitree.torch import Options

NUM_RANKS = 4
NETWORKS = (
    ("full:4", ("multitree", "symmetric", "double_tree")),
    ("torus:2x2", ("multitree", "ring", "halving_doubling")),
    ("ring:4", ("multitree", "bidirectional_ring", "swing")),
    *(("mesh:2x2", ("multitree", "forest")), ("fat_tree:2x2", ("multitree", "double_tree"))),
)
VARIANTS = {
    **{"shared_memory": {}, "gloo": {"transport": "gloo"}, "numpy": {"engine": "numpy"}},
    "rtl": {"engine": "rtl"},
}
OPERATORS = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX, "average": dist.ReduceOp.AVG}


@dataclass(frozen=True)
class Case:
    topology: str
    algorithm: str
    collective: str
    dtype: str
    op: str
    length: int
    root: int
    seed: int


def draw(seed: int, count: int) -> list[Case]:
    """Cases of a seed, those of one network behind each other."""
    drawn = random.Random(seed)
    cases = []
    for index in range(count):
        topology, algorithms = drawn.choice(NETWORKS)
        algorithm = drawn.choice(algorithms)
        collectives = ["all_reduce", "broadcast", "reduce"]
        if algorithm in ("multitree", "ring", "symmetric"):
            collectives += ["reduce_scatter", "all_gather"]
        dtype = drawn.choice(["float32", "int32", "bfloat16"])
        ops = ["sum", "max"] if dtype == "int32" else list(OPERATORS)
        length = min(int(2 ** drawn.uniform(0, 13)), 5000) - 1
        case = (drawn.choice(collectives), dtype, drawn.choice(ops), length)
        cases.append(Case(topology, algorithm, *case, drawn.randrange(NUM_RANKS), seed + index))
    return sorted(cases, key=lambda case: (case.topology, case.algorithm))


def as_tensor(row: np.ndarray) -> torch.Tensor:
    if row.dtype.itemsize == 2:
        return torch.from_numpy(row.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(row.copy())


def bits_of(tensor: torch.Tensor) -> bytes:
    return b"" if not len(tensor) else tensor.view(torch.uint8).numpy().tobytes()


def run(case: Case, group: Any, rank: int) -> bytes:
    """This rank's result."""
    rows = make_buffers(case.seed, NUM_RANKS, case.length, case.dtype)
    mine, op = as_tensor(rows[rank]), OPERATORS[case.op]
    if case.collective == "all_reduce":
        dist.all_reduce(mine, op, group=group)
    elif case.collective == "broadcast":
        dist.broadcast(mine, case.root, group=group)
    elif case.collective == "reduce":
        dist.reduce(mine, case.root, op, group=group)
    elif case.collective == "all_gather":
        parts = [torch.empty_like(mine) for _ in range(NUM_RANKS)]
        dist.all_gather(parts, mine, group=group)
        mine = torch.cat(parts)
    else:
        whole = torch.cat([as_tensor(np.roll(rows[rank], shift)) for shift in range(NUM_RANKS)])
        dist.reduce_scatter(
            mine, list(whole.chunk(NUM_RANKS) or [mine] * NUM_RANKS), op, group=group
        )
    return bits_of(mine)


def results(rank: int, num_ranks: int, cases: list[Case], variants: list[str]) -> list[list[bytes]]:
    """Results of every case by every variant, at one rank."""
    found, groups, key = [], {}, None
    for case in cases:
        if (case.topology, case.algorithm) != key:
            for group in groups.values():
                dist.destroy_process_group(group)
            key = case.topology, case.algorithm
            groups = {
                variant: dist.new_group(
                    backend="multitree",
                    pg_options=Options(topology=key[0], algorithm=key[1], **VARIANTS[variant]),
                )
                for variant in variants
            }
        found.append([run(case, groups[variant], rank) for variant in variants])
    return found


def defined(case: Case) -> list[list[bytes]]:
    """Results by rank of `execute` and of the torch engine, for collectives on whole buffers."""
    rows = make_buffers(case.seed, NUM_RANKS, case.length, case.dtype)
    found = []
    for engine in ("numpy", "torch"):
        with Communicator(
            parse_topology(case.topology), algorithm=case.algorithm, engine=engine
        ) as comm:
            if case.collective == "all_reduce":
                image = comm.all_reduce(rows, case.op).wait()
            elif case.collective == "broadcast":
                image = comm.broadcast(rows, root=case.root).wait()
            else:
                image = rows.copy()
                summed = comm.reduce(rows, root=case.root, op=case.op).wait()
                image[case.root] = summed[case.root]
        found.append([as_bits(np.ascontiguousarray(row)).tobytes() for row in image])
    return found


def main() -> int:
    given = options(__doc__, cases=200, seed=1)
    reason = why_not("rtl")
    if reason is not None:
        refuse(f"the engine rtl cannot run here: {reason}")
    cases, variants = draw(given.seed, given.cases), list(VARIANTS)
    by_rank = _ranks.run_ranks(results, NUM_RANKS, cases, variants, timeout_s=3000)
    differing = 0
    for place, case in enumerate(cases):
        found = [list(of_ranks) for of_ranks in zip(*(r[place] for r in by_rank), strict=True)]
        if case.collective in ("all_reduce", "broadcast", "reduce"):
            found += defined(case)
        if any(each != found[0] for each in found):
            differing += 1
            print(f"differs: {case}", file=sys.stderr)
    data = {"torch": torch.__version__, "seed": given.seed, "cases": len(cases)}
    data["variants"] = [*variants, "execute", "torch engine"]
    data["cases_that_differ"] = differing
    said = f"{len(cases)} cases, seed {given.seed}, by {', '.join(data['variants'])}"
    return ended(given, not differing, data, f"{said}: {differing} differ")


if __name__ == "__main__":
    sys.exit(main())
