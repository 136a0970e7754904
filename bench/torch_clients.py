"""Runs libraries that train over torch.distributed, on gloo and on multitree.

``python bench/torch_clients.py [--only NAME,NAME] [--list] [--limit 240] [--json]``. A client is a
program of ``bench/clients``, or a module of an installed library that runs as it is, in two or four
processes, first on gloo and then on multitree. For each it prints whether it passed, failed or was
refused, and whether the numbers, losses and weights of every rank, are gloo's: the same bits, or
within a share of the largest number, where four ranks add in another order. A client without
numbers checks itself. Reasons stand below the table.

Exit status 1 if a client ends on multitree in another way than it should, or with other numbers.

Needs the extra ``clients``: ``make clients`` installs it into an environment of its own.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from _bench import Row, ended, listed, options, refuse, reported

FOLDER = Path(__file__).parent / "clients"
BACKENDS = ("gloo", "multitree")
COLUMNS = ("client", "ranks", "gloo", "multitree", "numbers", "gloo_seconds", "seconds")
# What ends a process that does not end: torchrun passes it to its workers, and waits for them.
ENDING_S = 40
# A line of a traceback that names an exception.
ERROR = re.compile(r"^(?:\[rank\d+\]: *)?((?:\w+\.)*\w*(?:Error|Exception|Interrupt|Warning): .*)$")
NOT_A_CAUSE = re.compile(r"ChildFailedError|SignalException|ProcessRaisedException")


@dataclass(frozen=True)
class Client:
    """A program, and what is to come of it."""

    command: str  # a program of the folder, with arguments
    about: str
    num_ranks: int = 2
    tolerance: float = 0.0  # of the largest number of a tensor; 0 for the same bits
    starts_itself: bool = False  # else torchrun starts it
    restarts: int = 0
    limit_s: float = float("inf")
    # What it is refused with, or what it fails with on multitree: a part of what is printed.
    refused: str = ""
    fails: str = ""


def accelerate(name: str, about: str, **more: Any) -> Client:
    return Client(f"made_before.py accelerate.test_utils.scripts.{name}", about, **more)


def hook(name: str, about: str, **more: Any) -> Client:
    return Client(f"comm_hooks.py {name}", about, **more)


def sharded(name: str, about: str, **more: Any) -> Client:
    return Client(f"sharded.py {name}", about, **more)


FOUR = {"num_ranks": 4, "tolerance": 1e-5}
CLIENTS: dict[str, Client] = {
    "accelerate_script": accelerate("test_script", "accelerate's test_script"),
    "accelerate_sync": accelerate("test_sync", "accelerate's test_sync"),
    "accelerate_ops": accelerate("test_ops", "accelerate's test_ops"),
    # On CPU it lets ranks call different collectives: gloo waits for ever, we name them.
    "accelerate_data_loop": accelerate(
        "test_distributed_data_loop",
        "accelerate's test_distributed_data_loop, whose ranks part on CPU",
        limit_s=40,
        fails="runs another collective",
    ),
    "lightning_popen": Client("lightning_ddp.py popen", "Lightning, ddp", starts_itself=True),
    "lightning_spawn": Client("lightning_ddp.py spawn", "Lightning, ddp_spawn", starts_itself=True),
    "lightning_fork": Client("lightning_ddp.py fork", "Lightning, ddp_fork", starts_itself=True),
    "trainer": Client("trainer.py", "transformers' Trainer on a tiny GPT-2"),
    "trainer_by_name": Client(
        "trainer.py by_name",
        "the same with ddp_backend, which takes no other backend than gloo on CPU",
        refused="Your assigned backend multitree is not available",
    ),
    "ddp": hook("none", "DDP without a hook"),
    "ddp_4": hook("none", "DDP of 4 ranks", **FOUR),
    "builtin_allreduce": hook("builtin_allreduce", "built-in hook ALLREDUCE"),
    "builtin_fp16": hook("builtin_fp16", "built-in hook FP16_COMPRESS"),
    "fp16": hook("fp16", "fp16_compress_hook"),
    "bf16": hook(
        "bf16",
        "bf16_compress_hook, which PyTorch keeps to GPUs",
        refused="BF16 all reduce communication hook required CUDA",
    ),
    "power_sgd": hook("power_sgd", "powerSGD_hook"),
    "power_sgd_fp16": hook("power_sgd_fp16", "the same in fp16_compress_wrapper"),
    "power_sgd_4": hook("power_sgd", "powerSGD_hook of 4 ranks", num_ranks=4, tolerance=1e-3),
    "post_local_sgd": hook("post_local_sgd", "post-local SGD"),
    "post_local_sgd_4": hook("post_local_sgd_hierarchical", "the same in a hierarchy", **FOUR),
    "zero": sharded("zero", "ZeroRedundancyOptimizer"),
    "zero_overlapped": hook("zero_overlapped", "the same in hooks of DDP"),
    "zero_interleaved": hook(
        "zero_interleaved", "the same, bucket by bucket in callbacks of callbacks"
    ),
    "fsdp1": sharded("fsdp1", "FSDP1, FULL_SHARD"),
    "fsdp1_grad_op": sharded("fsdp1_grad_op", "FSDP1, SHARD_GRAD_OP"),
    "fsdp1_bf16": sharded("fsdp1_bf16", "FSDP1 in bfloat16"),
    "fsdp1_hybrid": sharded("fsdp1_hybrid", "FSDP1, HYBRID_SHARD", **FOUR),
    "fsdp2": sharded("fsdp2", "FSDP2"),
    "hsdp2": sharded("hsdp2", "FSDP2 on a mesh of 2 x 2", **FOUR),
    "dtensor": sharded("dtensor", "DTensor: changes of layout, partial sums"),
    "dtensor_4": sharded("dtensor", "the same on 4 ranks", **FOUR),
    "tensor_parallel": sharded("tensor_parallel", "tensor parallel"),
    "sequence_parallel": sharded("sequence_parallel", "sequence parallel"),
    "fsdp2_and_tp": sharded("fsdp2_and_tensor_parallel", "FSDP2 and tensor parallel", **FOUR),
    "gpipe": Client("pipelined.py gpipe", "pipeline, GPipe"),
    "1f1b": Client("pipelined.py 1f1b", "pipeline, 1F1B"),
    "interleaved": Client("pipelined.py interleaved", "pipeline, interleaved 1F1B"),
    "zero_bubble": Client("pipelined.py zero_bubble", "pipeline, zero bubble"),
    "checkpoint": Client("checkpoints.py sync", "DCP: save, load, broadcast of a state"),
    "checkpoint_async": Client("checkpoints.py async", "DCP: the same, saved asynchronously"),
    "restart": Client(
        "restarted.py",
        "torchrun --max-restarts after a rank died, which gloo may not survive",
        restarts=3,
    ),
}


@dataclass(frozen=True)
class Run:
    """What came of a client on one backend."""

    outcome: str  # pass, fail or refused
    reason: str
    seconds: float
    numbers: list[dict[str, torch.Tensor]]


def run(client: Client, backend: str, limit_s: float) -> Run:
    """Run a client in a folder of its own; none of its processes is left."""
    limit_s = min(limit_s, client.limit_s)
    program, *arguments = client.command.split()
    command = [sys.executable]
    if not client.starts_itself:
        command += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
        command += [str(client.num_ranks), "--max-restarts", str(client.restarts)]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as output:
        environment = os.environ | {
            "CLIENT_BACKEND": backend,
            "CLIENT_FOLDER": folder,
            "CLIENT_SECONDS": str(limit_s),
            "ACCELERATE_USE_CPU": "true",
            "CUDA_VISIBLE_DEVICES": "",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
        }
        begun = time.monotonic()
        process = subprocess.Popen(
            [*command, str(FOLDER / program), *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        status = _wait(process, limit_s)
        seconds = time.monotonic() - begun
        output.seek(0)
        said = output.read()
        numbers = [
            torch.load(path, weights_only=True) for path in sorted(Path(folder).glob("rank*.pt"))
        ]
    if status == 0:
        return Run("pass", "", seconds, numbers)
    reason = reason_of(said, status, limit_s)
    is_refused = bool(client.refused) and client.refused in said
    return Run("refused" if is_refused else "fail", reason, seconds, [])


def _wait(process: subprocess.Popen[bytes], limit_s: float) -> int | None:
    """The exit status; None if it had to be ended."""
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(ENDING_S)
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def reason_of(output: str, status: int | None, limit_s: float) -> str:
    """The sentence that says why a client did not pass: the first exception that is a cause."""
    lines = output.splitlines()
    found = [match[1] for match in map(ERROR.match, lines) if match]
    causes = [text for text in found if not NOT_A_CAUSE.search(text) and "Warning" not in text]
    if status is None:
        # The last call of each thread, as faulthandler writes it.
        threads = [n for n, line in enumerate(lines[:-1]) if line.startswith("Thread 0x")]
        where = list(dict.fromkeys(lines[n + 1].strip() for n in threads))[:6]
        return "; ".join([f"did not end within {limit_s:g} s", *causes[:1], *where])
    return causes[0] if causes else "\n".join(lines[-3:])


def compared(ours: Run, gloo: Run, tolerance: float) -> tuple[bool, str]:
    """Whether the numbers of two runs agree, and how."""
    if gloo.outcome != "pass" or ours.outcome != "pass":
        return True, "-"
    if not gloo.numbers and not ours.numbers:
        return True, "own checks"
    if [set(each) for each in ours.numbers] != [set(each) for each in gloo.numbers]:
        return False, "OTHER NAMES"
    worst, where = 0.0, ""
    for rank, (a, b) in enumerate(zip(ours.numbers, gloo.numbers, strict=True)):
        for name in a:
            off = difference(a[name], b[name])
            if off > worst:
                worst, where = off, f"{name} of rank {rank}"
    if not worst:
        return True, "same bits"
    if worst <= tolerance:
        return True, f"within {worst:.0e}"
    return False, f"OFF BY {worst:.0e}: {where}"


def difference(a: torch.Tensor, b: torch.Tensor) -> float:
    """How far two tensors are apart, by the largest number of the second; 0 for the same bits."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return float("inf")
    if torch.equal(a, b):
        return 0.0
    a, b = a.double(), b.double()
    largest = b.abs().max().item()
    off = (a - b).abs().max().item()
    return off / largest if largest and off == off else float("inf")


def is_expected(client: Client, ran: Run) -> bool:
    """Whether a client ended on multitree as it should."""
    if client.fails:
        return ran.outcome == "fail" and client.fails in ran.reason
    return ran.outcome == ("refused" if client.refused else "pass")


def rows_of(names: list[str], limit_s: float) -> Iterator[Row]:
    for name in names:
        client = CLIENTS[name]
        gloo, ours = (run(client, backend, limit_s) for backend in BACKENDS)
        agree, numbers = compared(ours, gloo, client.tolerance)
        yield {
            "client": name,
            "ranks": client.num_ranks,
            "gloo": gloo.outcome,
            "multitree": ours.outcome,
            "numbers": numbers,
            "gloo_seconds": gloo.seconds,
            "seconds": ours.seconds,
            "reasons": {"gloo": gloo.reason, "multitree": ours.reason},
            "as_expected": is_expected(client, ours) and agree,
        }


def main() -> int:
    given = options(
        __doc__,
        only=listed(",".join(CLIENTS), about="clients, commas between"),
        list={"action": "store_true", "help": "name the clients"},
        limit={"type": float, "default": 240.0, "help": "seconds that a client may take"},
    )
    if given.list:
        about = {name: client.about for name, client in CLIENTS.items()}
        return ended(given, True, about, *(f"{name:20}  {text}" for name, text in about.items()))
    if unknown := set(given.only) - set(CLIENTS):
        refuse(f"client must be one of {', '.join(CLIENTS)}, not {min(unknown)!r}")
    rows = reported(given, rows_of(given.only, given.limit), *COLUMNS)
    wrong = [row["client"] for row in rows if not row["as_expected"]]
    said = [
        f"{row['client']} on {backend}: {reason}"
        for row in rows
        for backend, reason in row["reasons"].items()
        if reason
    ]
    said.append(f"{len(rows)} clients, not as expected: {', '.join(wrong) or 'none'}")
    data = {"torch": torch.__version__, "not_as_expected": wrong, "rows": rows}
    return ended(given, not wrong, data, *said)


if __name__ == "__main__":
    sys.exit(main())
