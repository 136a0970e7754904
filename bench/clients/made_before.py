"""Makes the default group, then runs a module as `python -m` does."""

import runpy
import sys

from _client import begin

begin()
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
