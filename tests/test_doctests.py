"""The examples in docstrings print what they say."""

import doctest
import importlib
import pkgutil

import pytest

import multitree

pytestmark = pytest.mark.every_set

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(multitree.__path__, "multitree.")
    if not module.name.endswith(".torch_engine")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_print_what_they_say(name):
    results = doctest.testmod(importlib.import_module(name))
    assert results.failed == 0
