"""Kills or stops a rank, many times: others go on, or the job begins again.

``python bench/torch_failures.py [--runs 100] [--seed 1] [--kinds lost,restart,...] [--json]``. Exit
status 1 if a run was not as it should be. A run, of the kinds in turn, is one of

- lost: four processes with a store that is in none of them, of which one is killed (SIGKILL) or
  stopped (SIGSTOP) after a drawn time while all do all-reduces. Every other rank has to raise
  within the timeout and the time that ranks have to answer, name that rank, say dead or slow, and
  then do an all-reduce in a group of those that are left;
- restart: `torchrun --max-restarts 1` of two or four processes, with its static or its standalone
  rendezvous, of which one is killed after a drawn time while groups are made or all-reduces run.
  The second attempt has to end well;
- callbacks: as lost, while callbacks of all ranks wait for collectives of their own group;
- leaving: a rank submits collectives and sends, and destroys its group before the others have come:
  all of it has to arrive, and a receive for more has to fail at once;
- untaken: a message is not taken in time. A long one has to fail alone and be withdrawn.
"""

import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch
from _bench import Row, ended, listed, options, refuse
from _torch_endings import callbacks, leaving, lost, untaken

# Of a job that begins again: ranks and rendezvous.
JOBS = ((2, "static"), (2, "standalone"), (4, "static"), (4, "standalone"))
MOMENTS = {"making": 1.0, "made": 0.3}  # longest delay from there on, in seconds
RESTARTED_S = 120.0


def restart(seed: int, turn: int) -> Row:
    drawn = random.Random(seed)
    num_ranks, how = JOBS[turn % len(JOBS)]
    victim, moment = drawn.randrange(num_ranks), drawn.choice([*MOMENTS])
    delay_s = drawn.uniform(0, MOMENTS[moment])
    transport = drawn.choice(["auto", "gloo"])
    rendezvous = ["--standalone"]
    if how == "static":
        with socket.create_server(("127.0.0.1", 0)) as unused:
            port = unused.getsockname()[1]
        rendezvous = ["--master-addr=127.0.0.1", f"--master-port={port}"]
    script = Path(__file__).with_name("_torch_restart_run.py")
    launcher = ["-m", "torch.distributed.run", *rendezvous, "--max-restarts=1"]
    command = [sys.executable, *launcher, f"--nproc-per-node={num_ranks}", str(script)]
    problems, begin = [], time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        given = {"VICTIM": victim, "MOMENT": moment, "DELAY_S": delay_s}
        given |= {"FOLDER": folder, "MULTITREE_TRANSPORT": transport, "OMP_NUM_THREADS": 1}
        environment = os.environ | {name: str(value) for name, value in given.items()}
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as job:
            try:
                _, said = job.communicate(timeout=RESTARTED_S)
            except subprocess.TimeoutExpired:
                job.terminate()  # it ends its workers, too
                _, said = job.communicate()
                problems.append(f"job did not end within {RESTARTED_S} s")
        if job.returncode:
            problems.append(f"job ended with {job.returncode}: {said[-4000:]}")
        sums = {path.name: path.read_text() for path in Path(folder).iterdir()}
    expected = num_ranks // 2 * num_ranks // 2 + num_ranks - num_ranks // 2
    if sums != {str(rank): str(float(expected)) for rank in range(num_ranks)}:
        problems.append(f"ranks have {sums}, not {expected}")
    return {
        "kind": "restart",
        "seed": seed,
        "how": f"{how}, {num_ranks} ranks",
        "rank": victim,
        "moment": moment,
        "delay_s": delay_s,
        "transport": transport,
        "seconds": time.monotonic() - begin,
        "problems": problems,
    }


KINDS = {
    "lost": lost,
    "restart": restart,
    "callbacks": callbacks,
    "leaving": leaving,
    "untaken": untaken,
}


def main() -> int:
    given = options(__doc__, runs=100, seed=1, kinds=listed(",".join(KINDS)))
    if unknown := {*given.kinds} - {*KINDS}:
        refuse(f"kind must be one of {', '.join(KINDS)}, not {min(unknown)!r}")
    rows = []
    for number in range(given.runs):
        kind = given.kinds[number % len(given.kinds)]
        rows.append(KINDS[kind](given.seed + number, number // len(given.kinds)))
        for problem in rows[-1]["problems"]:
            print(f"{rows[-1]}: {problem}", file=sys.stderr)
    failed = sum(bool(row["problems"]) for row in rows)
    counts = Counter(f"{row['kind']}: {row['how']}, {row['transport']}" for row in rows)
    data = {"runs": len(rows), "runs_that_failed": failed, "counts": dict(sorted(counts.items()))}
    said = f"{len(rows)} runs ({data['counts']}): {failed} not as they should be"
    return ended(given, not failed, data | {"torch": torch.__version__, "rows": rows}, said)


if __name__ == "__main__":
    sys.exit(main())
