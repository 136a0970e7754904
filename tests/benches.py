"""The measurements of bench/, as modules that tests import."""

import importlib
from pathlib import Path

import pytest

__all__ = ["BENCH", "bench_module"]

BENCH = Path(__file__).parents[1] / "bench"


def bench_module(name):
    """Load bench/NAME.py, which imports others of its folder as it does when it is run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCH))
        return importlib.import_module(name)
