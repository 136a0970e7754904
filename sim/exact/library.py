"""The compiled model: one shared library for all interfaces and networks."""

import ctypes
import functools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.nic.driver.faults import DeviceError
from multitree.sim.exact.structs import HEADER, header
from multitree.sim.exact.tables import NetworkTables
from multitree.sim.native_build import (
    Tools,
    cached,
    compiler_path,
    compiler_version,
    content_key,
    loaded_library,
    say_on_stderr,
    why_no_compiler,
)

__all__ = ["run_model"]

_LIBRARY = "exact.so"
_SLICE_CYCLES = 2048
_FLAGS = ["-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-DNDEBUG"]

IntArray = npt.NDArray[np.int64]


class _Inputs(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_void_p)
        for name in (
            *("parameters", "row_offsets", "rows", "transfers", "links", "hops"),
            *("start", "expected"),
        )
    ]


class _Outputs(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("sent", "arrived", "done")]


@functools.cache
def _library() -> Any:
    """Library, compiled once per version of the model and of the compiler."""
    reason = why_no_compiler()
    if reason is not None:
        raise DeviceError(
            f"Engine 'exact' cannot run here: {reason}; without it engine 'analytic' predicts the "
            "cycles"
        )
    sources = {
        path.name: path.read_text()
        for path in sorted(Path(__file__).parent.iterdir())
        if path.suffix in (".cpp", ".h")
    } | {HEADER: header()}
    named = [text for item in sources.items() for text in item]

    def make(folder: Path) -> None:
        say_on_stderr("Compiling the exact engine (once; some seconds) ...")
        build = folder / "build"
        build.mkdir()
        for name, text in sources.items():
            (build / name).write_text(text)
        command = [
            str(compiler_path()),
            *_FLAGS,
            "-o",
            str(folder / _LIBRARY),
            str(build / "exact.cpp"),
        ]
        Tools(build).run(command)
        shutil.rmtree(build)

    path = cached("library", content_key(*_FLAGS, compiler_version(), *named), make) / _LIBRARY
    library = loaded_library(path)
    library.mt_create.argtypes = [ctypes.POINTER(_Inputs), ctypes.POINTER(_Outputs)]
    library.mt_create.restype = ctypes.c_void_p
    library.mt_run.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    library.mt_run.restype = ctypes.c_int
    library.mt_destroy.argtypes = [ctypes.c_void_p]
    library.mt_destroy.restype = None
    return library


def run_model(
    parameters: npt.NDArray[Any],
    tables: NetworkTables,
    links: npt.NDArray[Any],
    start: IntArray,
    *,
    max_cycles: int,
    progress: Callable[[int], None] | None = None,
) -> tuple[IntArray, IntArray, IntArray]:
    """Cycles of all messages sent and arrived, shape (num_waves, num_transfers), and of ranks done.

    `parameters` has all of `PARAMETERS`; `progress` is called with the cycles run, every some
    thousand. DeviceError if the model cannot be compiled, or not all ranks are done within
    `max_cycles`.
    """
    shape = int(parameters["num_waves"]), int(parameters["num_transfers"])
    sent, arrived = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    done = np.zeros(int(parameters["num_ranks"]), np.int64)
    given = (parameters, tables.row_offsets, tables.rows, tables.transfers, links, tables.hops)
    inputs = _Inputs(*(array.ctypes.data for array in (*given, start, tables.expected)))
    outputs = _Outputs(*(array.ctypes.data for array in (sent, arrived, done)))
    library, now = _library(), 0
    network = library.mt_create(ctypes.byref(inputs), ctypes.byref(outputs))
    try:
        # Signals are handled, and `progress` is called, between slices only.
        while not library.mt_run(network, _SLICE_CYCLES):
            now += _SLICE_CYCLES
            if progress is not None:
                progress(now)
            if now >= max_cycles:
                late = int(np.flatnonzero(done == 0)[0])
                raise DeviceError(
                    f"Rank {late} must be done within {max_cycles} cycles, but is not"
                )
    finally:
        library.mt_destroy(network)
    return sent, arrived, done
