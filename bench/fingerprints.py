"""What must not change when code moves: Verilog, schedules' hashes, cycles in RTL.

Prints one line for each; ``--out FILE`` keeps them, and ``--against FILE`` compares with what was
kept, exit status 1 where something differs. Only the command line is used, so that the same script
runs before and after a change of the code's layout: ``python bench/fingerprints.py``.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERILOG = (
    "ring:4",
    "ring:4 --memory axi",
    "ring:4 --flit-bytes 8 --dtypes int32",
    "torus:4x4",
    "torus:4x4 --memory axi",
    "torus:4x4 --algorithm double_tree",
    "mesh:4x4 --algorithm forest",
    "mesh:4x4 --algorithm forest --memory axi",
    "hypercube:5 --flit-bytes 32",
    "fat_tree:2x2",
    "fat_tree:2x2 --memory axi",
    "dragonfly:2x1x1",
    "bigraph:2x4 --algorithm hdrm",
)
CARD = ("sram", "axi")
ANYWHERE = ("multitree", "ring", "bidirectional_ring", "double_tree", "halving_doubling")
SCHEDULES = tuple(
    f"{spec} --algorithm {algorithm}"
    for spec, algorithms in {
        "torus:4x4": (
            *ANYWHERE,
            "symmetric",
            "ring_2d",
            "bidirectional_ring_2d",
            "swing",
            "forest",
        ),
        "mesh:5x3": ("multitree", "ring", "bidirectional_ring", "double_tree", "forest"),
        "hypercube:4": ("multitree", "symmetric", "halving_doubling"),
        "bigraph:4x8": ("multitree", "ring", "hdrm"),
        "fat_tree:4x4": ("multitree", "double_tree", "forest"),
        "kary_tree:2x3x2": ("multitree", "ring"),
        "dgx_a100:2": ("multitree", "ring"),
        "dragonfly:4x2x2": ("multitree", "halving_doubling"),
    }.items()
    for algorithm in algorithms
)
RUNS = tuple(
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


def multitree(*arguments: str) -> dict[str, object]:
    """What a command prints as JSON."""
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


def fingerprints() -> Iterator[tuple[str, object]]:
    """Each by its name."""
    for case in SCHEDULES:
        yield f"schedule {case}", multitree("schedule", *case.split())["schedule_hash"]
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(VERILOG):
            place = Path(folder, str(number))
            multitree("verilog", *case.split(), "--out", str(place))
            yield f"verilog {case}", digest(place)
        for memory in CARD:
            place = Path(folder, memory)
            command = [sys.executable, str(ROOT / "examples" / "card" / "card.py"), "--out"]
            command += [str(place), "--memory", memory]
            subprocess.run(command, check=True, capture_output=True)
            yield f"verilog card --memory {memory}", digest(place)
    for case in RUNS:
        found = multitree("simulate", *case.split(), "--engine", "rtl")
        assert found["exact"], case
        yield f"cycles {case}", found["cycles"]


def main() -> int:
    """Print all; exit status 1 where one differs from what was kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write them to a file, as JSON")
    parser.add_argument("--against", type=Path, help="compare with such a file")
    arguments = parser.parse_args()
    before = json.loads(arguments.against.read_text()) if arguments.against else {}
    found, differ = {}, 0
    for name, value in fingerprints():
        found[name] = value
        changed = name in before and before[name] != value
        differ += changed
        print(name, value, f"(was {before[name]})" if changed else "", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=2) + "\n")
    missing = before.keys() - found.keys()
    print(f"{len(found)} values" + (f", {differ} differ" if before else ""))
    return int(differ > 0 or bool(missing))


if __name__ == "__main__":
    sys.exit(main())
