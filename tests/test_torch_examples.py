"""The examples that train with torch.distributed."""

import re
import subprocess
import sys
import threading

import pytest

from tests.repository import ROOT

pytest.importorskip("torch")
# Each starts four processes.
pytestmark = pytest.mark.slow

# Not gloo, whose threads end some processes by a signal when these exit.
BACKENDS = ("multitree",)


def train(example, *options, backend):
    """Standard output of four ranks that train."""
    command = [sys.executable, str(ROOT / "examples" / example), "--nproc", "4"]
    with subprocess.Popen(
        [*command, "--backend", backend, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        # At a SIGTERM, and not when it is killed, it ends its ranks, too.
        timer = threading.Timer(300, process.terminate)
        timer.start()
        printed, errors = process.communicate()
        timer.cancel()
    assert process.returncode == 0, errors
    return printed


def losses(printed):
    return [float.fromhex(text) for text in re.findall(r"loss (0x\S+)", printed)]


def digests(printed):
    """SHA-256 of each rank's weights."""
    return re.findall(r"^rank \d: weights' SHA-256 ([0-9a-f]{64})$", printed, re.MULTILINE)


@pytest.mark.long
@pytest.mark.parametrize("backend", BACKENDS)
def test_digits_are_learned_in_five_epochs_and_all_ranks_have_the_same_weights(backend):
    printed = train("ddp_digits.py", backend=backend)
    assert float(re.findall(r"accuracy ([\d.]+)$", printed, re.MULTILINE)[-1]) >= 0.93
    assert len(losses(printed)) == 5
    assert len(digests(printed)) == 4 and len(set(digests(printed))) == 1


@pytest.mark.long
@pytest.mark.parametrize(
    "parallel", ["ddp", *(pytest.param(name, marks=pytest.mark.long) for name in ("fsdp2", "hsdp"))]
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_transformer_learns_and_all_ranks_have_the_same_weights(backend, parallel):
    printed = train("transformer.py", "--parallel", parallel, backend=backend)
    steps = losses(printed)
    assert len(steps) == 20 and steps[-1] < 0.75 * steps[0]
    assert len(digests(printed)) == 4 and len(set(digests(printed))) == 1


@pytest.mark.long
@pytest.mark.parametrize("backend", BACKENDS)
def test_two_trainings_have_the_same_bits(backend):
    once, again = (train("transformer.py", "--steps", "3", backend=backend) for _ in range(2))
    assert once == again


@pytest.mark.long
def test_a_hook_communicates_the_gradients():
    hook = "torch.distributed.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_hook"
    printed = train("transformer.py", "--steps", "2", "--hook", hook, backend="gloo")
    # That hook rounds gradients to float16.
    without = train("transformer.py", "--steps", "2", backend="gloo")
    assert losses(printed)[0] == losses(without)[0] and losses(printed)[1] != losses(without)[1]
