"""Runs the tests that PyTorch's source has for any backend of torch.distributed.

They are not in PyTorch's wheel. ``python bench/c10d_tests.py --source DIR`` takes them from
PyTorch's source at DIR, whose folder ``test/distributed`` has to hold the files of `FILES`; those
of the commits named there fit PyTorch 2.15, with which gloo passes 28 and skips 13. With PyTorch
2.13, which has not all that they ask for, gloo fails 3 of the 28: `test_gather_single`,
`test_new_group_rank_normalization` and `test_work_sequence_number`.

The tests run with two ranks on CPU, on gloo with PyTorch's own `BackendConfig` and on the backend
with the same one but for its name: it has to do what gloo has to. ``--claims`` names further
fields, as in ``--claims supports_dropped_p2p_work``, whose tests are then run on the backend, too.

Exit status 1 if the backend fails a test that gloo does not fail, or passes none.
"""

import argparse
import contextlib
import dataclasses
import hashlib
import importlib
import io
import json
import os
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _bench import Row
from _forked_tests import ForkedRanks, Rows
from torch_suite import report

# Commit of github.com/pytorch/pytorch that changed the file last, and the file's SHA-256.
FILES = {
    "c10d_backend_common.py": (
        "0b1037fd4de4b4ab9bbfd27d934a0b4638391977",
        "8080aac433d251a023269a6b33d91fef0de827176fc7cf57d0bdad0dd899d6df",
    ),
    "test_c10d_collectives.py": (
        "02327c9e780d8b2ea2c1a9c8c5af0f3b063dc388",
        "0feb0361f832b03d4d4bd4fd4ee8445569cb6bd5db75cb0f1781a612c287461a",
    ),
    "test_c10d_p2p.py": (
        "2a829b4f61668283345919c2fdcfb43189058659",
        "a85dfe6612e0b4eab1374e0098011f3b7e93f808ac8e6a1da78c8508d8fb2116",
    ),
    "test_c10d_process_group.py": (
        "15cd0d5c7dc4729db2d7a4afe37931b857e8dbe0",
        "df3f2cb1baa2266b19bf2b01e3c3b43bac8fc877d4be6ba60f1664f30ccc1284",
    ),
}
MODULES = ("test_c10d_collectives", "test_c10d_p2p", "test_c10d_process_group")
# Asked by tests of these commits, but not yet set by c10d_backend_common.py of its own.
LATER_FIELDS = {"supports_sequence_numbers": True, "supports_work_result": False}


def other_versions(folder: Path) -> list[str]:
    """Files that are not those of `FILES`, a line each."""
    found = []
    for name, (commit, digest) in FILES.items():
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest:
            found.append(f"{name} is not that of commit {commit}")
    return found


def test_classes(folder: Path, backend: str, claims: list[str]) -> list[type[unittest.TestCase]]:
    """PyTorch's classes of tests for gloo and the backend, as its own files make them."""
    sys.path.insert(0, str(folder))
    common: Any = importlib.import_module("c10d_backend_common")
    gloo = next(config for config in common.C10D_BACKENDS if config.name == "gloo")
    ours = dataclasses.replace(gloo, name=backend, **dict.fromkeys(claims, True))
    common.C10D_BACKENDS = (gloo,) if backend == "gloo" else (gloo, ours)
    classes = []
    for module in map(importlib.import_module, MODULES):
        for case in vars(module).values():
            if isinstance(case, type) and "backend_name" in vars(case):
                missing = {n: v for n, v in LATER_FIELDS.items() if not hasattr(case, n)}
                classes.append(type(case.__name__, (ForkedRanks, case), missing))
    return classes


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    kept = os.dup(1), os.dup(2)
    with open(os.devnull, "w") as nothing:
        for number in (1, 2):
            os.dup2(nothing.fileno(), number)
    try:
        yield
    finally:
        for number, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)


def run(cases: list[type[unittest.TestCase]], limit_s: int) -> dict[str, list[Row]]:
    out = io.StringIO()
    with quiet():
        for case in cases:
            case.longest_s = limit_s  # type: ignore[attr-defined]
            unittest.defaultTestLoader.loadTestsFromTestCase(case).run(Rows(out, limit_s))
    backend_of = {case.__name__: case.backend_name for case in cases}  # type: ignore[attr-defined]
    rows: dict[str, list[Row]] = {backend: [] for backend in backend_of.values()}
    for row in map(json.loads, out.getvalue().splitlines()):
        rows[backend_of[row["class"]]].append(row)
    return rows


def names(rows: list[Row], outcome: str) -> set[str]:
    """Module's part and name of the tests with one outcome: names occur in several modules."""
    found = set()
    for row in rows:
        suite = next(s for s in ("Collectives", "P2P", "ProcessGroup") if s in row["class"])
        if row["outcome"] == outcome:
            found.add(f"{suite}.{row['name']}")
    return found


def problems(results: dict[str, list[Row]], backend: str) -> list[str]:
    gloo, ours = results["gloo"], results[backend]
    worse = names(ours, "failed") - names(gloo, "failed")
    worse |= names(gloo, "passed") - names(ours, "passed")
    found = [f"{backend} does not pass {name}" for name in sorted(worse)]
    return found if names(ours, "passed") else [*found, f"{backend} passes no test"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, required=True, help="folder of PyTorch's source")
    parser.add_argument("--backend", default="multitree", help="run on gloo and this one")
    parser.add_argument("--claims", nargs="*", default=[], metavar="FIELD")
    parser.add_argument("--limit", type=int, default=60, help="seconds that a test may take")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    folder = arguments.source / "test" / "distributed"
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        parser.error(f"{folder} must hold {', '.join(FILES)}; there is no {', '.join(missing)}")
    # Read by PyTorch's module for such tests when it is imported.
    os.environ["DISTRIBUTED_TESTS_DEFAULT_TIMEOUT"] = str(arguments.limit)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    results = run(test_classes(folder, arguments.backend, arguments.claims), arguments.limit)
    found, others = problems(results, arguments.backend), other_versions(folder)
    print(*others, sep="\n", end="\n" * bool(others), file=sys.stderr)
    return report(arguments, results, found, {"problems": found, "other_versions": others})


if __name__ == "__main__":
    sys.exit(main())
