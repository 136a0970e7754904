"""The examples in docstrings print what they say."""

import doctest
import importlib
import pkgutil

import pytest

import multitree

pytestmark = pytest.mark.every_set

# What stands on an optional extra is imported where that is installed, in tests of its own.
NEED_TORCH = tuple(f"multitree.{room}" for room in ("host.tensors.", "host.torch.", "torch"))
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(multitree.__path__, "multitree.")
    if not module.name.startswith(NEED_TORCH)
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_print_what_they_say(name):
    results = doctest.testmod(importlib.import_module(name))
    assert results.failed == 0
