"""Runs PyTorch's own tests of torch.distributed on the backend and on gloo.

``python bench/torch_suite.py`` runs all 285 tests that PyTorch 2.13 and 2.15 have for any backend,
with four ranks on CPU, first on gloo and then on multitree, and prints for each how many passed,
failed and were skipped, every skip with its reason, every failure, and what gloo passes and the
backend does not. How tests that are gated on a backend's name are opened, and which, is in
``_torch_suite_run.py``. Backends take their options from the environment, as anywhere else
(MULTITREE_TOPOLOGY, MULTITREE_ENGINE).

Rows go to standard error as they come, a JSON object each.

Exit status 1 if a test fails on either backend or if the backend passes less than gloo, except
for the tests of `ASK_FOR_GLOO`; and, in a run of all tests, if it passes less than 91.

Needs the extras ``torch`` and ``test``. A run takes three minutes on two cores.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from _bench import Row, ended

RUNNER = Path(__file__).parent / "_torch_suite_run.py"
NEEDED = ("torch", "expecttest", "numpy")
# torch.distributed.monitored_barrier refuses any process group whose backend is not named gloo.
ASK_FOR_GLOO = ("test_monitored_barrier_gloo", "test_monitored_barrier_gloo_subgroup")
LEAST_PASSED = 91
# Collectives, point to point, object collectives, subgroups and DDP, some seconds each backend.
SUBSET = (
    *("test_all_reduce_sum", "test_all_reduce_max", "test_all_reduce_coalesced_sum"),
    *("test_all_reduce_sum_complex", "test_reduce_sum", "test_broadcast", "test_all_gather"),
    *("test_gather", "test_scatter", "test_barrier", "test_send_recv", "test_isend"),
    *("test_batch_isend_irecv_gloo", "test_all_gather_object_subgroup"),
    *("test_scatter_object_list", "test_new_subgroups_with_group_param", "test_get_backend"),
    *("test_DistributedDataParallelCPU", "test_accumulate_gradients_no_sync"),
    "test_get_future",
)
OUTCOMES = ("passed", "failed", "skipped")


def run(backend: str, limit_s: int, selection: list[str]) -> list[Row]:
    """Run the tests on one backend, in a process of its own; return a row for each."""
    command = [sys.executable, str(RUNNER), backend, "--limit", str(limit_s), *selection]
    rows: list[Row] = []
    with (
        tempfile.TemporaryFile("w+") as noise,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=noise, text=True, start_new_session=True
        ) as process,
    ):
        try:
            for line in process.stdout or ():
                row = json.loads(line)
                if "end" in row:
                    return rows
                rows.append(row)
                # As they come, so that a run that is cut off has shown what it has found.
                print(json.dumps({"backend": backend, **row}), file=sys.stderr, flush=True)
        finally:
            # Its ranks, too, whatever state they are in.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        noise.seek(0)
        sys.exit(f"tests on {backend} ended after {len(rows)} of them:\n{noise.read()[-4000:]}")


def names(rows: list[Row], outcome: str) -> set[str]:
    return {row["name"] for row in rows if row["outcome"] == outcome}


def problems(results: dict[str, list[Row]], is_whole: bool) -> list[str]:
    """What makes the exit status 1, a line each."""
    found, least = [], LEAST_PASSED if is_whole else 1
    for backend, rows in results.items():
        excepted = set() if backend == "gloo" else set(ASK_FOR_GLOO)
        passed, failed = names(rows, "passed"), names(rows, "failed")
        lost = names(results["gloo"], "passed") - passed - failed
        found += [f"{backend} fails {name}" for name in sorted(failed - excepted)]
        found += [f"{backend} skips {name}, gloo does not" for name in sorted(lost - excepted)]
        if len(passed) < least:
            found.append(f"{backend} passes {len(passed)} tests, fewer than {least}")
    return found


def report(
    given: argparse.Namespace, results: dict[str, list[Row]], found: list[str], more: Row
) -> int:
    """Print outcomes and problems; exit status 1 where there is one."""
    counts = {b: Counter(row["outcome"] for row in rows) for b, rows in results.items()}
    said = []
    for backend, rows in results.items():
        numbers = ", ".join(f"{counts[backend][name]} {name}" for name in OUTCOMES)
        said.append(f"{backend}: {numbers}, {sum(row['seconds'] for row in rows):.0f} s")
        for outcome in OUTCOMES[:0:-1]:
            listed = [row for row in rows if row["outcome"] == outcome]
            said += [f"  {outcome} {row['name']}: {row['reason'].strip()}" for row in listed]
    said += [f"gloo alone passes {name}" for name in more.get("gloo_only", ())]
    return ended(given, not found, {"counts": counts, **more, "tests": results}, *said, *found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="multitree", help="run on gloo and this one")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--only", metavar="TEXT", help="tests with this text in their names")
    chosen.add_argument("--subset", action="store_true", help=f"{len(SUBSET)} tests of all kinds")
    parser.add_argument("--limit", type=int, default=60, help="seconds that a test may take")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        parser.error(
            f"PyTorch's tests need {', '.join(missing)} (pip install 'multitree[torch,test]')"
        )
    selection = ["--text", arguments.only] if arguments.only else []
    selection += ["--names", *SUBSET] if arguments.subset else []
    # Ends the run as an interrupt does, so that no rank outlives it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    backends = dict.fromkeys(["gloo", arguments.backend])
    results = {backend: run(backend, arguments.limit, selection) for backend in backends}
    found = problems(results, not selection)
    lost = names(results["gloo"], "passed") - names(results[arguments.backend], "passed")
    more = {"gloo_only": sorted(lost), "problems": found, "num_problems": len(found)}
    return report(arguments, results, found, more)


if __name__ == "__main__":
    sys.exit(main())
