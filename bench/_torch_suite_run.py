"""Runs PyTorch's own tests of one backend; prints a JSON object per test.

Started by ``torch_suite.py`` in a process of its own, since PyTorch's module of tests reads the
backend's name once, when it is imported. What tests print goes to standard error.

The tests are `TestDistBackend` with `DistributedTest._DistTestBase`, as in PyTorch's
``test_distributed_fork.py``: four ranks, each a process forked for each test.

Tests are gated on the backend's name. For any backend but gloo

- the module is imported with BACKEND=gloo, so that decorators of tests (`BACKEND != "gloo"`,
  `require_backend_is_available`, all sets of `DistTestCases.backend_feature`, "plugin" included)
  admit what they admit for gloo;
- from then on BACKEND is the backend's own name, which is what process groups are made with, in
  the environment and in the module; in the latter it also compares equal to "gloo", so that
  bodies of tests (`if BACKEND == "gloo"`) do what they do for gloo;
- the module's lists of backends that are profiled hold the backend: its collectives and sends
  have to appear in the profile as asynchronous events, named as ``gloo:all_reduce`` is for gloo.

No file of PyTorch is changed. Nothing is opened that is closed to gloo.
"""

import argparse
import importlib
import json
import os
import sys
import unittest
from types import ModuleType

import torch
from _forked_tests import ForkedRanks, Rows

MODULE = "torch.testing._internal.distributed.distributed_test"
RANKS = 4
# Lists in that module of backends whose operations are looked for in profiles.
PROFILED = (
    "PROFILING_SUPPORTED_BACKENDS",
    "CUDA_PROFILING_SUPPORTED_BACKENDS",
    "SEND_RECV_PROFILING_SUPPORTED_BACKENDS",
)


class AdmittedAsGloo(str):
    """Name of a backend that compares equal to "gloo", too.

    Not in sets and dicts: those are asked while the module is imported.
    """

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return other == "gloo" or str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other


def import_tests(backend: str, limit_s: int) -> ModuleType:
    """Import PyTorch's tests; what is opened for gloo is opened for `backend`."""
    os.environ |= {
        "BACKEND": "gloo",
        "WORLD_SIZE": str(RANKS),
        "INIT_METHOD": "env://",
        "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": str(limit_s),
        # On a machine with fewer GPUs than ranks PyTorch would skip every test.
        "CUDA_VISIBLE_DEVICES": "",
        # Its commands are those of PyTorch's source, which is not here.
        "PYTORCH_PRINT_REPRO_ON_FAILURE": "0",
    }
    tests = importlib.import_module(MODULE)
    if backend != "gloo":
        os.environ["BACKEND"] = backend
        tests.BACKEND = AdmittedAsGloo(backend)  # type: ignore[attr-defined]
        for name in PROFILED:
            getattr(tests, name).append(backend)
    return tests


def test_class(tests: ModuleType, limit_s: int) -> type[unittest.TestCase]:

    class Forked(ForkedRanks, tests.TestDistBackend, tests.DistributedTest._DistTestBase):  # type: ignore
        longest_s = limit_s

        def setUp(self) -> None:
            super().setUp()
            self._spawn_processes()

    return Forked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("backend")
    parser.add_argument("--limit", type=int, required=True, help="seconds that a test may take")
    parser.add_argument("--text", default="", help="run tests with this text in their names only")
    parser.add_argument("--names", nargs="*", help="run the tests of these names only")
    arguments = parser.parse_args()
    # Only rows go to standard output, whatever tests and their ranks print.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    cases = test_class(import_tests(arguments.backend, arguments.limit), arguments.limit)
    names = unittest.defaultTestLoader.getTestCaseNames(cases)
    if arguments.names is not None:
        unknown = set(arguments.names) - set(names)
        if unknown:
            parser.error(f"PyTorch {torch.__version__} has no tests {sorted(unknown)}")
        names = arguments.names
    tests = [cases(name) for name in names if arguments.text in name]
    unittest.TestSuite(tests).run(Rows(out, arguments.limit))
    print(json.dumps({"end": True}), file=out, flush=True)


if __name__ == "__main__":
    main()
