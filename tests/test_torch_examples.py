"""Examples that train with torch.distributed, with the same bits on every engine."""

import os
import re
import subprocess
import sys
import threading

import pytest

from tests.repository import ROOT

pytest.importorskip("torch", reason="PyTorch is not installed, so there is no backend")
# Each starts four processes.
pytestmark = pytest.mark.slow


def train(example, *options, status=0, **variables):
    """Standard output of four ranks that train."""
    command = [sys.executable, str(ROOT / "examples" / example), "--nproc", "4", *options]
    outputs = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=os.environ | variables, **outputs) as process:
        # At a SIGTERM, and not when it is killed, it ends its ranks, too.
        timer = threading.Timer(300, process.terminate)
        timer.start()
        printed, errors = process.communicate()
        timer.cancel()
    assert status in (None, process.returncode), errors[-3000:]
    return printed


def losses(printed):
    return [float.fromhex(text) for text in re.findall(r"loss (0x\S+)", printed)]


def digest(printed):
    """The one SHA-256 that the weights of all ranks have."""
    found = re.findall(r"^rank \d: weights' SHA-256 ([0-9a-f]{64})$", printed, re.MULTILINE)
    assert len(found) == 4 and len({*found}) == 1
    return found[0]


def accuracy(printed):
    return float(re.findall(r"accuracy ([\d.]+)$", printed, re.MULTILINE)[-1])


@pytest.mark.long
def test_digits_are_learned_in_five_epochs_and_all_ranks_have_the_same_weights():
    printed = train("ddp_digits.py")
    assert accuracy(printed) >= 0.93
    assert len(losses(printed)) == 5 and digest(printed)


@pytest.mark.long
@pytest.mark.parametrize("parallel", ["ddp", "fsdp2", "hsdp"])
def test_the_transformer_learns_and_all_ranks_have_the_same_weights(parallel):
    printed = train("transformer.py", "--parallel", parallel)
    steps = losses(printed)
    assert len(steps) == 20 and steps[-1] < 0.75 * steps[0] and digest(printed)


@pytest.mark.long
def test_two_trainings_have_the_same_bits():
    once, again = (train("transformer.py", "--steps", "3") for _ in range(2))
    assert once == again


@pytest.mark.long
def test_a_hook_communicates_the_gradients():
    hook = "torch.distributed.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_hook"
    options = ("--steps", "2", "--backend", "gloo")
    printed = train("transformer.py", "--hook", hook, *options)
    # That hook rounds gradients to float16.
    without = train("transformer.py", *options)
    assert losses(printed)[0] == losses(without)[0] and losses(printed)[1] != losses(without)[1]


def trained(example, *options, **variables):
    """Losses, and the digest of weights that all ranks have."""
    printed = train(example, *options, MULTITREE_TOPOLOGY="torus:2x2", **variables)
    assert losses(printed)
    return losses(printed), digest(printed)


@pytest.fixture(scope="module")
def by_torch():
    return trained("ddp_digits.py", "--epochs", "2")


# The tutorial compares the engines numpy and torch.
@pytest.mark.dear
@pytest.mark.parametrize("engine", [pytest.param("numpy", marks=pytest.mark.long), "rtl"])
def test_an_unmodified_ddp_script_has_the_same_bits_on_every_engine(engine, by_torch, tmp_path):
    log = tmp_path / "log.jsonl"
    chosen = {"MULTITREE_ENGINE": engine, "MULTITREE_LOG": str(log)}
    assert trained("ddp_digits.py", "--epochs", "2", **chosen) == by_torch
    ran = [line for line in log.read_text().splitlines() if f'"engine": "{engine}"' in line]
    assert len(ran) > 100
    with_cycles = [line for line in ran if '"cycles": null' not in line]
    # The rank that hosts the emulation knows the cycles of each.
    assert len(with_cycles) == (len(ran) // 4 if engine == "rtl" else 0)


@pytest.mark.long
def test_accuracy_is_as_with_gloo():
    # Threads of gloo end some processes by a signal when these exit.
    ours, theirs = (
        accuracy(train("ddp_digits.py", "--epochs", "2", "--backend", backend, status=None))
        for backend in ("multitree", "gloo")
    )
    assert abs(ours - theirs) < 0.01


@pytest.mark.long
def test_a_transformer_has_the_same_bits_by_backend_hook_and_sharded():
    plain = trained("transformer.py", "--steps", "3")
    hook = ("--parallel", "ddp", "--hook", "multitree.torch.ddp_hook")
    for options in (hook, ("--parallel", "fsdp2"), ("--parallel", "hsdp")):
        assert trained("transformer.py", "--steps", "3", *options) == plain


@pytest.mark.long
@pytest.mark.parametrize("parallel", ["ddp", "fsdp2"])
def test_a_compiled_transformer_trains(parallel):
    first, *_ = trained("transformer.py", "--steps", "2", "--parallel", parallel, "--compile")
    assert len(first) == 2
