"""The measurements of bench/, as modules that tests import."""

import importlib
import sys
from pathlib import Path

import pytest

__all__ = ["BENCH", "bench_module", "ran"]

BENCH = Path(__file__).parents[1] / "bench"


def bench_module(name):
    """Load bench/NAME.py, which imports others of its folder as it does when it is run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCH))
        return importlib.import_module(name)


def ran(module, monkeypatch, capsys, *arguments):
    """Exit status of a measurement, and what it prints."""
    monkeypatch.setattr(sys, "argv", [module.__name__, *arguments])
    return module.main(), capsys.readouterr().out
