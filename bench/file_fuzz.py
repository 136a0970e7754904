"""Mutated files: each is accepted or refused by a named error, at once.

Each file is a valid topology, JSON or GraphML, or a schedule in JSON, with one to four mutations
from its seed. What is accepted is saved and loaded again, and must be the same; an accepted
all-reduce must give every rank the sum. Exit status 1 if a file ends in another
exception, takes longer than the bound, is refused without its name, or is accepted and wrong:
``python bench/file_fuzz.py --files 100000``; a single file again: ``--only SEED``.
"""

import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
from _bench import Row, ended, options, reported
from _file_mutations import MUTATIONS, mutated

from multitree import (
    Schedule,
    ScheduleError,
    Topology,
    TopologyError,
    build,
    execute,
    load_schedule,
    load_topology,
    parse_topology,
    save_schedule,
    save_topology,
)

SUFFIXES = (".json", ".graphml")
ACCEPTED, REFUSED = "accepted", "refused"
BAD = ("TRACEBACK", "SLOW", "UNNAMED", "UNEQUAL", "WRONG")
TOPOLOGIES = ("torus:4x4", "mesh:2x3", "fat_tree:2x2", "dgx2")
SCHEDULES = (
    ("torus:4x4", "multitree", "all_reduce", None),
    ("torus:3x3", "multitree", "all_reduce", None),
    ("ring:4", "bidirectional_ring", "all_reduce", None),
    *(("bigraph:2x2", "hdrm", "all_reduce", None), ("mesh:2x2", "double_tree", "all_reduce", None)),
    ("hypercube:3", "halving_doubling", "reduce_scatter", None),
    *(("fat_tree:2x2", "multitree", "broadcast", 1), ("ring:5", "ring", "reduce", 3)),
)
MEMORY_BYTES = 4 * 1024**3
STUCK_SECONDS = 60.0
MOST_PARTS = 2**40
"""Of flow offsets, so that no chunk's bounds leave 64 bits."""
MOST_SHOWN = 100_000


class Stuck(BaseException):
    """What stops a file that does not end; no loader catches it."""


class Original(NamedTuple):
    """A valid file: what it holds, how its name ends, and its text."""

    kind: str
    suffix: str
    text: str


@dataclass(frozen=True)
class Outcome:
    """What became of a file; the error's text, if there was one."""

    seed: int
    kind: str
    mutation: str
    name: str
    milliseconds: float
    text: str


def originals(folder: Path) -> list[Original]:
    """Valid files of each kind, from small networks with every kind of route."""
    path, found = folder / "file.graphml", []
    left = parse_topology("torus:4x4").without(links=[20, 23])  # by other ports than in order
    for topology in (*map(parse_topology, TOPOLOGIES), left):
        nx.write_graphml(topology.to_networkx(), path)
        found.append(Original("topology", ".graphml", path.read_text()))
        uneven = replace(topology, latency_ns=100 + np.arange(topology.num_links) / 3)
        for suffix in SUFFIXES:
            save_topology(uneven, path.with_suffix(suffix))
            found.append(Original("topology", suffix, path.with_suffix(suffix).read_text()))
    schedules = [build(parse_topology(spec), *which) for spec, *which in SCHEDULES]
    for schedule in (*schedules, build(left, "multitree")):
        save_schedule(schedule, path.with_suffix(".json"))
        found.append(Original("schedule", ".json", path.with_suffix(".json").read_text()))
    return found


def load(kind: str, path: Path) -> Topology | Schedule:
    return load_topology(path) if kind == "topology" else load_schedule(path)


class Fuzz:
    """Mutates, writes and loads one file after the other, each within some CPU milliseconds."""

    def __init__(self, folder: Path, bound_ms: float) -> None:
        self._folder = folder
        self._bound_ms = bound_ms
        self._originals = originals(folder)

    def file_of(self, seed: int) -> tuple[Original, str, bytes]:
        """The original of a seed, its first mutation, and the mutated file."""
        draw = random.Random(seed)
        original = draw.choice(self._originals)
        mutation, data = mutated(draw, original.text, is_xml=original.suffix == ".graphml")
        return original, mutation, data

    def outcome(self, seed: int) -> Outcome:
        """Load the file of a seed, and see whether what came of it is as it has to be."""
        original, mutation, data = self.file_of(seed)
        path = self._folder / f"file{original.suffix}"
        path.write_bytes(data)
        loaded, text = None, ""
        signal.setitimer(signal.ITIMER_REAL, STUCK_SECONDS)
        begin = time.process_time()
        try:
            loaded, name = load(original.kind, path), ACCEPTED
        except (TopologyError, ScheduleError) as error:
            text = str(error)
            name = REFUSED if is_named(error, original.kind, path) else "UNNAMED"
        except (Exception, Stuck):
            name, text = "TRACEBACK", traceback.format_exc()
        finally:
            milliseconds = 1000 * (time.process_time() - begin)
            signal.setitimer(signal.ITIMER_REAL, 0)
        if milliseconds > self._bound_ms:
            name = "SLOW"
        if loaded is not None and name == ACCEPTED:
            name = self._judged(loaded, original, path)
        kind = f"{original.kind} {original.suffix}"
        return Outcome(seed, kind, mutation, name, milliseconds, text)

    def _judged(self, loaded: Topology | Schedule, original: Original, path: Path) -> str:
        """Whether what was accepted survives another file, and does what it says."""
        save_topology(loaded, path) if isinstance(loaded, Topology) else save_schedule(loaded, path)
        if identity(load(original.kind, path)) != identity(loaded):
            return "UNEQUAL"
        return ACCEPTED if isinstance(loaded, Topology) or sums(loaded) else "WRONG"


def is_named(error: ValueError, kind: str, path: Path) -> bool:
    """Whether an error is of the loader's kind, names the file and a rule, and fits on a line."""
    expected = TopologyError if kind == "topology" else ScheduleError
    text = str(error)
    named = text.startswith(f"{path}: ") and " must " in text
    return type(error) is expected and named and text.isprintable()


def identity(loaded: Topology | Schedule) -> Any:
    """What is equal exactly where two topologies or schedules are."""
    if isinstance(loaded, Schedule):
        ports = loaded.topology.link_ports, loaded.topology.num_ports
        return loaded.hash, loaded.algorithm, [column.tobytes() for column in ports]
    names = ("links", "bandwidth_gbytes_per_s", "latency_ns", "link_ports", "num_ports")
    figures = [getattr(loaded, name) for name in names]
    return loaded.num_ranks, loaded.num_switches, [column.tobytes() for column in figures]


def sums(schedule: Schedule) -> bool:
    """Whether an all-reduce leaves the sum everywhere; others are not run."""
    if schedule.collective != "all_reduce" or schedule.flow_offsets[-1] > MOST_PARTS:
        return True
    shape = schedule.topology.num_ranks, 64
    buffers = np.random.default_rng(0).integers(-1000, 1000, shape, np.int32)
    return bool((execute(schedule, buffers) == buffers.sum(axis=0)).all())


def table_of(outcomes: Sequence[Outcome]) -> list[Row]:
    """A row for each kind of file, one for each first mutation, and the sum."""
    groups: dict[str, list[Outcome]] = {kind: [] for kind in sorted({o.kind for o in outcomes})}
    groups |= {name: [] for name in MUTATIONS}
    for outcome in outcomes:
        groups[outcome.kind].append(outcome)
        groups[outcome.mutation].append(outcome)
    groups["all"] = list(outcomes)
    return [
        {
            "files": name,
            "num_files": len(group),
            ACCEPTED: sum(outcome.name == ACCEPTED for outcome in group),
            REFUSED: sum(outcome.name == REFUSED for outcome in group),
            "bad": sum(outcome.name in BAD for outcome in group),
            "slowest_ms": round(max((o.milliseconds for o in group), default=0.0), 1),
        }
        for name, group in groups.items()
    ]


def main() -> int:
    given = options(
        __doc__,
        files=2000,
        seed={"type": int, "default": 1, "help": "the first; files count up from it"},
        only={"type": int, "metavar": "SEED", "help": "one file, and all about it"},
        bound_ms={"type": float, "default": 1000.0, "help": "CPU time of a file"},
    )
    signal.signal(signal.SIGALRM, stop)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    with tempfile.TemporaryDirectory() as folder:
        fuzz = Fuzz(Path(folder), given.bound_ms)
        if given.only is not None:
            outcome = fuzz.outcome(given.only)
            sys.stdout.buffer.write(fuzz.file_of(given.only)[2][:MOST_SHOWN] + b"\n")
            print(outcome)
            return int(outcome.name in BAD)
        outcomes = []
        for seed in range(given.seed, given.seed + given.files):
            outcomes.append(fuzz.outcome(seed))
            if outcomes[-1].name in BAD:
                print(f"--only {seed}: {outcomes[-1]}", file=sys.stderr)
    rows, bad = reported(given, table_of(outcomes)), [asdict(o) for o in outcomes if o.name in BAD]
    slowest = max(outcomes, key=lambda outcome: outcome.milliseconds)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    said = f"slowest file: --only {slowest.seed}, {slowest.kind}, {slowest.mutation}; "
    said += f"{peak_mib:.0f} MiB of memory at most"
    return ended(given, not bad, {"good": not bad, "rows": rows, "bad": bad}, said)


def stop(*_: object) -> None:
    """Stop a file that does not end."""
    raise Stuck


if __name__ == "__main__":
    sys.exit(main())
