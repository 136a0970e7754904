"""The examples run as their users run them, and learn what they promise."""

import re

import pytest

from multitree.host.engines import why_not
from tests.programs import python
from tests.repository import ROOT

TRAIN_DIGITS = ROOT / "examples" / "train_digits.py"


def train(*options):
    return python(TRAIN_DIGITS, *options).stdout


def digest(printed):
    return re.search(r"SHA-256.*: ([0-9a-f]{64})$", printed, re.MULTILINE).group(1)


@pytest.mark.slow
def test_digits_are_learned_in_five_epochs():
    printed = train("--engine", "numpy", "--epochs", "5")
    assert float(re.search(r"^test accuracy ([\d.]+)$", printed, re.M).group(1)) >= 0.93


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("engine", ["torch", "rtl"])
def test_every_engine_learns_the_same_weights(engine):
    reason = why_not(engine)
    if reason is not None:
        pytest.skip(f"engine {engine} is untested here: {reason}")
    printed = train("--engine", engine, "--epochs", "1")
    assert digest(printed) == digest(train("--engine", "numpy", "--epochs", "1"))
    assert ("cycles spent in all-reduce: unknown" in printed) == (engine == "torch")


@pytest.mark.slow
def test_another_algorithm_learns_other_bits():
    ring = train("--engine", "numpy", "--epochs", "1", "--algorithm", "ring")
    assert digest(ring) != digest(train("--engine", "numpy", "--epochs", "1"))


@pytest.mark.slow
def test_wrong_options_are_refused_in_a_sentence():
    says = python(TRAIN_DIGITS, "--engine", "numpy", "--algorithm", "tree", status=2).stderr
    assert "not 'tree'" in says and "Traceback" not in says
