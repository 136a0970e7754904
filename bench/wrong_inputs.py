"""Wrong inputs, limits, full disks and signals against every command of multitree.

Each case is a process of its own: a command, and what is wrong. Required are an exit status that
the case allows (1, 2 or 128 + a signal, and 0 only where a command may have come to its end), no
traceback, at most one sentence on stderr, every file as it was or new and whole, nothing temporary
next to it, and an end within a time limit. Processes are forked from one that has loaded all
modules, and else are as a shell starts them. Exit status 1 if a case fails; its number then
repeats it.

    python bench/wrong_inputs.py --runs 500
"""

import argparse
import collections
import contextlib
import gc
import io
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from multitree import build, save_schedule, save_topology, torus
from multitree.host.cli.main import COMMANDS, load_command, main
from multitree.topology.files.load_save import load_file

SECONDS = 300.0
DISK_BYTES = 64 * 1024
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FAILED = {1, 2}
SPECS = ["torus", "torus:", "torus:4x", "torus:0x4", "torus:-1", "ring:1", "mesh:9999999x9"]
SPECS += ["x" * 500, "fat_tree:0x4", "dragonfly:1", "hypercube:99", "full:x", "", "ring:4:4"]
SPECS += ["torus:4x"]
SPECS += ["no/such.json", "/dev/null.json", "..", "\udcff.json", "ring:٤", "kary_tree:4", "dgx2:9"]
SIZES = ["0", "-4", "6", "1.5MiB", "64k", "4,", "NaN", "9" * 40, "٤KiB", "1e6", "1XB", ""]
OPTIONS = [["--size", size] for size in SIZES] + [
    *(["--algorithm", name] for name in ("tree", "", "hdrm", "MULTITREE")),
    *(["--collective", name] for name in ("gather", "broadcast", "")),
    *(["--root", number] for number in ("-1", "99", "x", "")),
    *(["--ranks", ranks] for ranks in ("0", "3-1", "0,0", "9-12", "a", "0-99999999999")),
    *([word] for word in ("--forwarding", "--nonsense", "extra", "-qv", "--json=1", "--size")),
]
WORKLOAD = """HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4
2
norm -1 0 BROADCAST 16384 1 NONE 0 1 NONE 0 100
mlp -1 500 ALLREDUCE 4096 400 NONE 0 300 REDUCESCATTER 8192 100
"""
ON_SPECS = [name for name in sorted(COMMANDS) if name not in ("demo", "doctor", "schema")]
QUICK = {
    "simulate": ["--engine", "analytic"],
    "compare": ["--engine", "analytic"],
    "cocotb": ["--only", "after_a_reset"],
    "view": ["--out", "page.html"],
}


@dataclass
class Case:
    """A command, what is wrong around it, and which exit statuses may come of it."""

    kind: str
    arguments: list[str]
    allowed: set[int] = field(default_factory=lambda: set(FAILED))
    file_bytes: int | None = None
    ends_after: tuple[int, float] | None = None
    output: str = "file"
    twice: bool = False
    kept: tuple[str, ...] = ()


def wrong_words(rng: random.Random, folder: Path) -> Case:
    """A spec or an option that no command takes."""
    name = rng.choice(ON_SPECS)
    if rng.random() < 0.3:
        return Case("spec", [name, rng.choice(SPECS), *QUICK.get(name, [])])
    wrong = rng.choice(OPTIONS)
    if name == "verify" or rng.random() < 0.5:
        name = rng.choice(["table", "schedule", "simulate", "explain"])
    # What one command does not know another one does; either way it is refused.
    return Case("option", [name, "torus:2x2", *QUICK.get(name, []), *wrong], {1, 2})


def saving(out: str) -> str:
    """The command that writes a file of such a name."""
    return "topology" if out.endswith(".graphml") else "schedule"


def corrupted(rng: random.Random, folder: Path) -> Case:
    """A file with some bytes changed, lost or repeated; it may still be right."""
    name = rng.choice(["good.json", "good.graphml"])
    data = bytearray((folder / name).read_bytes())
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(data))
        data[at : at + rng.choice([0, 1, 1, 40])] = rng.randbytes(rng.choice([0, 1, 3]))
    if rng.random() < 0.3:
        del data[rng.randrange(len(data)) :]
    (folder / f"bad_{name}").write_bytes(data)
    command = rng.choice(["schedule", "verify", "table", "simulate"])
    return Case("file", [command, f"bad_{name}", *QUICK.get(command, [])], {0, *FAILED})


def corrupted_job(rng: random.Random, folder: Path) -> Case:
    """A workload file with some bytes changed, lost or repeated; it may still be right."""
    data = bytearray(WORKLOAD.encode())
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data))
        data[at : at + rng.choice([0, 1, 1, 8])] = rng.choice(
            [b"", b"0", b"\t", b"\n", b"\xff", b"-9"]
        )
    (folder / "bad_job.txt").write_bytes(data)
    return Case("job", ["job", "bad_job.txt", "ring:4", "--algorithms", "ring"], {0, *FAILED})


def output_path(rng: random.Random, folder: Path) -> Case:
    """A file that cannot be written where it is asked for."""
    (folder / "folder.json").mkdir()
    (folder / "loop.json").symlink_to("loop.json")
    (folder / "full.json").symlink_to("/dev/full")
    places = ["folder.json", "no/such.json", "good.json/x.json", "loop.json", "full.json", "."]
    places += ["x" * 300 + ".json", "/proc/x.json", "rows.txt"]
    if (folder / "readonly").is_dir():
        places += ["readonly/kept.json"] * 4
    place, command = rng.choice(places), rng.choice(["schedule", "topology", "verilog"])
    place = "good.json" if command == "verilog" else place
    if command == "topology" and place == "rows.txt":
        command = "schedule"
    return Case("path", [command, "ring:4", "--out", place], kept=("readonly/kept.json",))


def limited(rng: random.Random, folder: Path) -> Case:
    """Files may not grow beyond a size: the file that is there stays, or the new one fits."""
    command = rng.choices(["schedule", "topology", "verilog"], [60, 40, 1])[0]
    # Rows are of schedules alone, GraphML is of topologies.
    names = ["good.json", "good.csv" if command == "schedule" else "good.graphml"]
    out = "build" if command == "verilog" else rng.choice(names)
    spec = "ring:4" if command == "verilog" else rng.choice(["torus:4x4", "mesh:3x3", "ring:12"])
    limit = rng.choice([0, 1, 100, 1000, 4000, 16000, 10**6])
    return Case("limit", [command, spec, "--out", out], {0, *FAILED}, file_bytes=limit)


def full_disk(rng: random.Random, folder: Path) -> Case:
    """The disk, of 64 KiB, has little room left."""
    disk = folder / "disk"
    if not disk.is_dir():
        return output_path(rng, folder)
    (disk / "filler").write_bytes(b"x" * rng.randrange(DISK_BYTES - 40_000))
    out = rng.choice(["disk/kept.json", "disk/kept.graphml"])
    return Case(
        "disk",
        [saving(out), rng.choice(["torus:4x4", "torus:5x5", "ring:6"]), "--out", out],
        {0, *FAILED},
    )


def outputs(rng: random.Random, folder: Path) -> Case:
    """Standard output is a closed pipe, a full disk, or not there."""
    name = rng.choice(["table", "schedule", "topology", "doctor", "simulate", "explain"])
    arguments = [name, *([] if name == "doctor" else ["torus:4x4"]), *QUICK.get(name, [])]
    arguments += ["--json"] * rng.randint(0, 1)
    output = rng.choice(["pipe", "full", "closed"])
    return Case(f"output {output}", arguments, {0} if output == "pipe" else {2}, output=output)


def signalled(rng: random.Random, folder: Path) -> Case:
    number = rng.choice([*ENDS, signal.SIGPIPE])
    out = rng.choice(["good.json", "good.graphml", "good.csv"])
    arguments = [saving(out), rng.choice(["torus:5x5", "ring:20", "mesh:4x5"]), "--out", out]
    if rng.random() < 0.05:
        arguments = ["verilog", "ring:4", "--out", "made"]
    allowed = {0} if number == signal.SIGPIPE else {0, 128 + number}
    return Case("signal", arguments, allowed, ends_after=(number, rng.uniform(0, 0.6)))


def two_at_once(rng: random.Random, folder: Path) -> Case:
    out = rng.choice(["good.json", "good.graphml"])
    return Case(
        "two", [saving(out), rng.choice(["torus:4x4", "ring:12"]), "--out", out], {0}, twice=True
    )


KINDS: list[tuple[Callable[[random.Random, Path], Case], int]] = [
    (wrong_words, 30), (corrupted, 15), (corrupted_job, 8), (output_path, 12), (limited, 15),
    (full_disk, 8), (outputs, 8), (signalled, 8), (two_at_once, 4),
]  # fmt: skip


def child(case: Case, folder: Path, said: int) -> int:
    """Start the command in a process of its own, as a shell would."""
    pid = os.fork()
    if pid:
        return pid
    status = 99
    # Garbage of the process before is not this one's to collect, nor to warn of.
    gc.freeze()
    try:
        os.setpgid(0, 0)
        os.chdir(folder)
        for each in ENDS:
            signal.signal(each, signal.SIG_DFL)
        os.dup2(said, 2)
        err = io.FileIO(2, "w", closefd=False)
        sys.stderr = io.TextIOWrapper(err, errors="backslashreplace", write_through=True)
        redirect(case.output)
        if case.file_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (case.file_bytes, case.file_bytes))
        status = main(case.arguments)
    except BaseException:
        os.write(2, traceback.format_exc().encode(errors="replace")[:2000])
    os._exit(status)


def redirect(output: str) -> None:
    """Make standard output what a case asks for."""
    if output == "closed":
        os.close(1)
        sys.stdout = None  # type: ignore[assignment]
        return
    if output == "pipe":
        reading, writing = os.pipe()
        os.close(reading)
    else:
        writing = os.open("/dev/full" if output == "full" else os.devnull, os.O_WRONLY)
    os.dup2(writing, 1)
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), "utf-8")


def status_of(pid: int, case: Case) -> int | None:
    """Wait for a process, send it its signal; its exit status, or None if it had to be killed."""
    begin = time.monotonic()
    due = case.ends_after
    while time.monotonic() - begin < SECONDS:
        if due is not None and time.monotonic() - begin >= due[1]:
            os.kill(pid, due[0])
            due = None
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            # A signal that comes before there is a handler ends the process as it always did.
            return 128 - code if code < 0 else code
        time.sleep(0.005)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def snapshot(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and path.name != "filler"
    }


def damage(before: dict[str, bytes], after: dict[str, bytes], folder: Path, out: str) -> str | None:
    """What is neither as it was nor new and whole."""
    if lost := set(before) - set(after):
        return f"lost {sorted(lost)}"
    for name, data in after.items():
        if before.get(name) == data:
            continue
        if ".tmp" in name or not name.startswith(out):
            return f"left {name}"
        if name.endswith((".json", ".graphml")):
            try:
                json.loads(data) if "manifest" in name else load_file(folder / name)
            except ValueError as error:
                return f"broke {name}: {error}"
        elif name.endswith(".csv") and not data.endswith(b"\n"):
            return f"broke {name}"
    changed = [name for name in before if name.startswith("build/") and before[name] != after[name]]
    if changed and len(changed) != sum(name.startswith("build/") for name in before):
        return f"only some files are new: {changed}"
    return None


def problem_of(case: Case, folder: Path) -> str | None:
    """Run a case; what is wrong with what came of it."""
    before = snapshot(folder)
    # A pipe, since limits of files hold for standard error, too; sentences fit into it.
    pipes = [os.pipe() for _ in range(1 + case.twice)]
    pids = [child(case, folder, writing) for _, writing in pipes]
    statuses = [status_of(pid, case) for pid in pids]
    for _, writing in pipes:
        os.close(writing)
    texts = []
    for reading, _ in pipes:
        with open(reading, errors="replace") as pipe:
            texts.append(pipe.read())
    if None in statuses:
        return f"no end within {SECONDS:.0f} s"
    for status, said in zip(statuses, texts, strict=True):
        if "Traceback" in said or "Exception ignored" in said:
            return said.strip()[-600:]
        if status not in case.allowed:
            return f"status {status}, not one of {sorted(case.allowed)}: {said[:200]}"
        if said.count("\n") > 1 or (status in FAILED and not said.startswith("multitree: ")):
            return f"not one sentence: {said[:200]!r}"
    out = (
        case.arguments[case.arguments.index("--out") + 1] if "--out" in case.arguments else "build"
    )
    return damage(before, snapshot(folder), folder, out)


@contextlib.contextmanager
def mounted(place: Path, options: str) -> Iterator[bool]:
    """A small file system of its own, where the system lets us mount one."""
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True, check=False
    )
    if done.returncode:
        place.rmdir()
    try:
        yield not done.returncode
    finally:
        if not done.returncode:
            subprocess.run(["umount", place], check=True)


def prepare(folder: Path, good: dict[str, bytes]) -> None:
    folder.mkdir()
    (folder / "build").mkdir()
    for name, data in good.items():
        (folder / name).write_bytes(data)


def run_case(
    seed: int, room: Path, good: dict[str, bytes], disk: bool, readonly: bool
) -> tuple[Case, str | None]:
    """Make one case from its number, and run it in a folder of its own."""
    rng = random.Random(seed)
    folder = room / f"case{seed}"
    prepare(folder, good)
    for name, there in (("disk", disk), ("readonly", readonly)):
        if there:
            (folder / name).symlink_to(room / name, target_is_directory=True)
    if disk:
        for old in (room / "disk").iterdir():
            old.unlink()
        for name in ("json", "graphml"):
            (room / "disk" / f"kept.{name}").write_bytes(good[f"good.{name}"])
    (make,) = rng.choices([kind for kind, _ in KINDS], [weight for _, weight in KINDS])
    case = make(rng, folder)
    kept = {path: path.read_bytes() for path in (room / "disk").glob("kept.*")} if disk else {}
    problem = problem_of(case, folder)
    for path, data in kept.items():
        if problem is None and path.read_bytes() != data:
            try:
                load_file(path)
            except ValueError as error:
                problem = f"broke {path.name}: {error}"
    if problem is None and disk and list((room / "disk").glob(".multitree-*")):
        problem = "left a temporary file on the full disk"
    shutil.rmtree(folder)
    return case, problem


def good_files(room: Path) -> dict[str, bytes]:
    save_schedule(build(torus(2, 2), "multitree"), room / "good.json")
    save_topology(torus(2, 2), room / "good.graphml")
    good = {name: (room / name).read_bytes() for name in ("good.json", "good.graphml")}
    names = ["multitree_nic.v", "multitree_link_crossing.v", "multitree.h"]
    names += ["multitree_registers.md", "multitree.rdl", "multitree_nic_template.vh"]
    names += ["multitree_nic.core"]
    return good | {"good.csv": b"rows\n"} | {f"build/{name}": b"old\n" for name in names}


def campaign(runs: int, seed: int, only: int | None = None) -> dict[str, Any]:
    """Run cases one after the other: "kinds" with counts, "problems" by number of the case."""
    for name in COMMANDS:  # forked processes find all modules loaded
        load_command(name)
    numbers = [only] if only is not None else [*range(seed, seed + runs)]
    room = Path(tempfile.mkdtemp(prefix="wrong_inputs."))
    kinds: collections.Counter[str] = collections.Counter()
    problems: dict[int, str] = {}
    try:
        with (
            mounted(room / "disk", f"size={DISK_BYTES}") as disk,
            mounted(room / "readonly", "size=64k") as readonly,
        ):
            good = good_files(room)
            if readonly:
                (room / "readonly" / "kept.json").write_bytes(good["good.json"])
                subprocess.run(["mount", "-o", "remount,ro", room / "readonly"], check=True)
            for number in numbers:
                case, problem = run_case(number, room, good, disk, readonly)
                kinds[case.kind] += 1
                if problem is not None:
                    problems[number] = f"{case.kind}: {' '.join(case.arguments)}: {problem}"
                    print(f"--only {number}: {problems[number]!a}", file=sys.stderr)
                elif sys.stderr.isatty():
                    print(f"{sum(kinds.values())} of {len(numbers)}", end="\r", file=sys.stderr)
    finally:
        shutil.rmtree(room)
    return {"kinds": kinds, "problems": problems, "full_disk": disk, "read_only": readonly}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=int(np.random.default_rng().integers(2**31)))
    parser.add_argument("--only", type=int, help="number of one case")
    given = parser.parse_args()
    print(f"seed {given.seed}")
    found = campaign(given.runs, given.seed, given.only)
    for kind, count in sorted(found["kinds"].items()):
        print(f"{kind:<16} {count:>5}")
    for what in ("full_disk", "read_only"):
        if not found[what]:
            print(f"{what}: not tried, since no file system can be mounted here")
    print(f"{sum(found['kinds'].values())} cases, {len(found['problems'])} failed")
    sys.exit(1 if found["problems"] else 0)
