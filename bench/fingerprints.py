"""Prints what moved code leaves as it is: Verilog, schedules, cycles, bits.

``python bench/fingerprints.py [--out FILE] [--against FILE|COMMIT] [--only KIND,...]`` prints one
line for each; KIND is the first word of a line, such as verilog or group. ``--out`` writes them to
a file. ``--against`` compares with such a file, or with what this script prints for the code of a
commit, and ends with status 1 where a value differs or is missing. Only the command line and
``import multitree`` are used, which moved code does not change.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import _ranks
import numpy as np

from multitree import Communicator, parse_topology

ROOT = Path(__file__).resolve().parents[1]
VERILOG = (
    *("ring:4", "ring:4 --memory axi", "ring:4 --flit-bytes 8 --dtypes int32", "torus:4x4"),
    *("torus:4x4 --memory axi", "torus:4x4 --algorithm double_tree", "mesh:4x4 --algorithm forest"),
    *("mesh:4x4 --algorithm forest --memory axi", "hypercube:5 --flit-bytes 32", "fat_tree:2x2"),
    *("fat_tree:2x2 --memory axi", "dragonfly:2x1x1", "bigraph:2x4 --algorithm hdrm"),
    "mesh:4x4 --algorithm forest --forward-flits 64",
    *("torus:4x4 --forward-flits 64 --memory axi", "ring:4 --adder-stages 5"),
    *("ring:4 --adder-stages 6 --forward-flits 64", ("ring:4", "--modes", "")),
    "fat_tree:2x2 --buffer-flits 24",
    "fat_tree:2x2 --buffer-flits 24 --memory axi --adder-stages 6",
)
CARD = ("sram", "axi")
ANYWHERE = ("multitree", "ring", "bidirectional_ring", "double_tree", "halving_doubling")
SCHEDULES = tuple(
    f"{spec} --algorithm {algorithm}"
    for spec, algorithms in {
        "torus:4x4": " ".join((*ANYWHERE, "symmetric ring_2d bidirectional_ring_2d swing forest")),
        "mesh:5x3": "multitree ring bidirectional_ring double_tree forest",
        "hypercube:4": "multitree symmetric halving_doubling",
        "bigraph:4x8": "multitree ring hdrm",
        "fat_tree:4x4": "multitree double_tree forest",
        "kary_tree:2x3x2": "multitree ring",
        "dgx_a100:2": "multitree ring",
        "dragonfly:4x2x2": "multitree halving_doubling",
    }.items()
    for algorithm in algorithms.split()
)
SIZED = tuple(
    f"{spec} --size {size} {options}".strip()
    for spec, options in (
        ("ring:4", ""),
        ("torus:4x4", ""),
        ("torus:4x4", "--algorithm symmetric --dependency submessage"),
        ("torus:4x4", "--algorithm ring --flow-control packet"),
        ("torus:4x4", "--algorithm bidirectional_ring --dtype bfloat16"),
        ("torus:4x4", "--algorithm double_tree"),
        ("mesh:4x4", "--lockstep"),
        ("mesh:4x4", "--algorithm forest --dependency submessage"),
        ("fat_tree:2x2", ""),
        ("bigraph:2x4", "--algorithm hdrm"),
    )
    for size in ("4KiB", "64KiB")
)
RUNS = (
    *SIZED,
    "mesh:4x4 --size 64KiB --algorithm forest --dependency submessage --forward-flits 64",
    "ring:4 --size 64KiB --adder-stages 6 --forward-flits 64",
    "fat_tree:2x2 --size 64KiB --buffer-flits 24",
)
TIMED = (
    "torus:4x4 --size 64KiB",
    "torus:4x4 --size 64KiB --algorithm symmetric --dependency submessage",
    "mesh:4x4 --size 64KiB --algorithm forest --dependency submessage --forward-flits 64",
    "mesh:4x4 --size 32KiB --lockstep --flow-control packet",
    *("fat_tree:2x2 --size 64KiB --buffer-flits 24", "bigraph:2x4 --size 64KiB --algorithm hdrm"),
)
MODELS = ("exact", "analytic")
SUMS = tuple(
    (spec, algorithm, dtype)
    for spec, algorithm in (
        ("torus:2x2", "multitree"),
        ("mesh:3x3", "forest"),
        ("fat_tree:2x2", "double_tree"),
    )
    for dtype in ("float32", "int32", "bfloat16")
)
LENGTH = 5001


def multitree(*arguments: str) -> dict[str, object]:
    command = [sys.executable, "-m", "multitree", *arguments, "--json", "--quiet"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, object] = json.loads(ended.stdout)
    return found


def digest(folder: Path) -> str:
    """A hash of all Verilog in a folder, names of files included."""
    found = hashlib.sha256()
    for path in sorted(folder.glob("*.v")):
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


def values(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Values whose sum in another order has other bits: exponents over 2^+-20."""
    generator = np.random.default_rng(48)
    if dtype == "int32":
        return generator.integers(-(2**31), 2**31, shape, dtype=np.int32)
    spread = generator.standard_normal(shape) * 2.0 ** generator.integers(-20, 21, shape)
    return spread.astype(np.float32)


def digest_of_sum(spec: str, algorithm: str, dtype: str, engine: str) -> str:
    import torch

    topology = parse_topology(spec)
    given = torch.from_numpy(values((topology.num_ranks, LENGTH), dtype))
    given = given.to(getattr(torch, dtype))
    with Communicator(topology, algorithm=algorithm, engine=engine) as communicator:
        found: Any = communicator.all_reduce(list(given)).wait()
    return digest_of_tensors(found)


def digest_of_tensors(tensors: Any) -> str:
    import torch

    words = [tensor.contiguous().view(torch.uint8).numpy().tobytes() for tensor in tensors]
    return hashlib.sha256(b"".join(words)).hexdigest()[:16]


def group_sums(rank: int, num_ranks: int) -> dict[str, str]:
    """Hashes of what collectives of a backend's group leave on one rank."""
    import torch
    import torch.distributed as dist

    found = {}
    for dtype in ("float32", "int32", "bfloat16"):
        given = torch.from_numpy(values((num_ranks, LENGTH), dtype))[rank]
        tensor = given.to(getattr(torch, dtype))
        dist.all_reduce(tensor)
        parts = list(tensor.new_zeros(num_ranks, 64).unbind())
        dist.all_gather(parts, tensor[:64].clone() + rank)
        scattered = tensor.new_zeros(1000)
        dist.reduce_scatter_tensor(scattered, tensor[: 1000 * num_ranks].clone())
        found[dtype] = digest_of_tensors([tensor, *parts, scattered])
    return found


def of_torch() -> Iterator[tuple[str, object]]:
    for spec, algorithm, dtype in SUMS:
        found = digest_of_sum(spec, algorithm, dtype, "torch")
        yield f"torch {spec} --algorithm {algorithm} --dtype {dtype}", found


def of_groups() -> Iterator[tuple[str, object]]:
    for spec in ("full:4", "torus:2x2", "fat_tree:2x2"):
        by_rank = _ranks.run_ranks(group_sums, 4, timeout_s=300, MULTITREE_TOPOLOGY=spec)
        for rank, sums in enumerate(by_rank):
            for dtype, found in sums.items():
                yield f"group {spec} --dtype {dtype} rank {rank}", found


def of_schedules() -> Iterator[tuple[str, object]]:
    for case in SCHEDULES:
        yield f"schedule {case}", multitree("schedule", *case.split())["schedule_hash"]


def of_verilog() -> Iterator[tuple[str, object]]:
    """Of all Verilog of a network, and of the example's card."""
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(VERILOG):
            place = Path(folder, str(number))
            words = case.split() if isinstance(case, str) else case
            multitree("verilog", *words, "--out", str(place))
            yield f"verilog {' '.join(words)}", digest(place)
        for memory in CARD:
            place = Path(folder, memory)
            command = [sys.executable, str(ROOT / "examples" / "card" / "card.py"), "--out"]
            command += [str(place), "--memory", memory]
            subprocess.run(command, check=True, capture_output=True)
            yield f"verilog card --memory {memory}", digest(place)


def of_runs() -> Iterator[tuple[str, object]]:
    for case in RUNS:
        found = multitree("simulate", *case.split(), "--engine", "rtl")
        assert found["exact"], case
        yield f"cycles {case}", found["cycles"]


def of_model(engine: str) -> Iterator[tuple[str, object]]:
    for case in TIMED:
        found = multitree("simulate", *case.split(), "--engine", engine)
        yield f"{engine} {case}", found["cycles"]


KINDS: dict[str, Callable[[], Iterator[tuple[str, object]]]] = {
    "schedule": of_schedules,
    "verilog": of_verilog,
    "cycles": of_runs,
    "exact": partial(of_model, "exact"),
    "analytic": partial(of_model, "analytic"),
    "torch": of_torch,
    "group": of_groups,
}


def of_commit(commit: str, kinds: list[str]) -> dict[str, object]:
    """What this script, in its present form, prints for the code of a commit."""
    git = ["git", "-C", str(ROOT)]
    with tempfile.TemporaryDirectory() as folder:
        place, kept = Path(folder, "code"), Path(folder, "kept.json")
        command = [*git, "worktree", "add", "--detach", "--quiet", str(place), commit]
        subprocess.run(command, check=True)
        try:
            for name in ("fingerprints.py", "_ranks.py"):
                (place / "bench" / name).write_bytes((ROOT / "bench" / name).read_bytes())
            command = [sys.executable, str(place / "bench" / "fingerprints.py"), "--out", str(kept)]
            command += ["--only", ",".join(kinds)]
            environment = os.environ | {"PYTHONPATH": str(place / "src")}
            subprocess.run(command, check=True, env=environment, stdout=sys.stderr)
            found: dict[str, object] = json.loads(kept.read_text())
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(place)], check=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write them to a file, as JSON")
    parser.add_argument("--against", help="compare with such a file, or with a commit's code")
    parser.add_argument("--only", default=",".join(KINDS), help="kinds, such as verilog,schedule")
    arguments = parser.parse_args()
    kinds = arguments.only.split(",")
    if not set(kinds) <= set(KINDS):
        parser.error(f"--only must name some of {', '.join(KINDS)}, not {arguments.only!r}")
    before: dict[str, object] = {}
    if arguments.against:
        path = Path(arguments.against)
        is_file = path.is_file()
        before = json.loads(path.read_text()) if is_file else of_commit(arguments.against, kinds)
        before = {name: value for name, value in before.items() if name.split()[0] in kinds}
    found, differ = {}, 0
    for name, value in chain.from_iterable(KINDS[kind]() for kind in kinds):
        found[name] = value
        changed = name in before and before[name] != value
        differ += changed
        print(name, value, f"(was {before[name]})" if changed else "", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=2) + "\n")
    missing = before.keys() - found.keys()
    print(*(f"{name}: missing" for name in sorted(missing)), sep="\n", end="\n" * bool(missing))
    print(f"{len(found)} values" + (f", {differ} differ" if before else ""))
    return int(differ > 0 or bool(missing))


if __name__ == "__main__":
    sys.exit(main())
