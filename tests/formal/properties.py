"""All properties by name."""

import importlib
import pkgutil

from tests.formal import control, hw, path
from tests.formal.bench import HELD

__all__ = ["PROPERTIES"]

for package in (control, hw, path):
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
PROPERTIES = dict(sorted(HELD.items()))
