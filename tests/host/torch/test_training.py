"""Training loses the same bits on every engine, by hook and sharded, too."""

import re

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed, so there is no backend")

from tests.programs import python
from tests.repository import ROOT

pytestmark = pytest.mark.slow


def trained(script, *options, **environment):
    """Losses as hexadecimal floats, and the one SHA-256 that all ranks' weights have."""
    variables = {"MULTITREE_TOPOLOGY": "torus:2x2", **environment}
    ran = python(ROOT / "examples" / script, "--nproc", "4", *options, **variables)
    losses = re.findall(r"loss (0x\S+)", ran.stdout)
    digests = re.findall(r"weights' SHA-256 (\w{64})", ran.stdout)
    assert losses and len(digests) == 4 and len(set(digests)) == 1
    return losses, digests[0]


@pytest.fixture(scope="module")
def by_torch():
    return trained("ddp_digits.py", "--epochs", "2")


# The tutorial compares the engines numpy and torch.
@pytest.mark.dear
@pytest.mark.parametrize("engine", [pytest.param("numpy", marks=pytest.mark.long), "rtl"])
def test_an_unmodified_ddp_script_has_the_same_bits_on_every_engine(engine, by_torch, tmp_path):
    log = tmp_path / "log.jsonl"
    chosen = {"MULTITREE_ENGINE": engine, "MULTITREE_LOG": str(log)}
    found = trained("ddp_digits.py", "--epochs", "2", **chosen)
    assert found == by_torch
    lines = log.read_text().splitlines()
    ran = [line for line in lines if f'"engine": "{engine}"' in line]
    assert len(ran) > 100
    with_cycles = [line for line in ran if '"cycles": null' not in line]
    # The rank that hosts the emulation knows the cycles of each.
    assert len(with_cycles) == (len(ran) // 4 if engine == "rtl" else 0)


@pytest.mark.long
def test_accuracy_is_as_with_gloo(by_torch):
    def accuracy(*options):
        command = (ROOT / "examples" / "ddp_digits.py", "--nproc", "4", "--epochs", "2")
        ran = python(*command, *options, status=None)
        return float(re.findall(r"accuracy ([\d.]+)", ran.stdout)[-1])

    assert abs(accuracy() - accuracy("--backend", "gloo")) < 0.01


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
