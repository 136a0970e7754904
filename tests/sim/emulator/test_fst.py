"""Waveforms: FST files, compressed by code of ours, tell the same as VCD files."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

from multitree import LinkModel, ring, sim
from multitree.nic.driver.commands import HostOp
from multitree.sim.emulator.verilator import Waveform
from tests.emulation import needs_rtl
from tests.programs import python, start
from tests.sim.emulator import probe
from tests.sim.emulator.probe import do, probe_network
from tests.topology.test_file_io import contents, file_limit

pytestmark = needs_rtl

SEED = 11
HEADER = Path(sim.__path__[0]) / "emulator" / "fst_compression.h"
PROGRAM = """
#include "fst_compression.h"
extern "C" int compress(const char* from, char* to, int size) {
    return LZ4_compress_default(from, to, size, LZ4_compressBound(size));
}
extern "C" int bound(int size) { return LZ4_compressBound(size); }
extern "C" int copy(const unsigned char* from, unsigned char* to, unsigned long size) {
    unsigned long written = compressBound(size);
    return compress2(to, &written, from, size, 9) == Z_OK && written == size;
}
"""


def lz4_expand(data):
    """Expand one lz4 block, as its format is documented, and check how it ends."""
    out, at, last_match = bytearray(), 0, None

    def length(nibble):
        nonlocal at
        total, more = nibble, nibble == 15
        while more:
            total, more, at = total + data[at], data[at] == 255, at + 1
        return total

    while at < len(data):
        token = data[at]
        at += 1
        literals = length(token >> 4)
        out += data[at : at + literals]
        at += literals
        if at == len(data):
            assert last_match is None or (literals >= 5 and last_match <= len(out) - 12)
            return bytes(out)
        last_match = len(out)
        offset = int.from_bytes(data[at : at + 2], "little")
        at += 2
        for _ in range(length(token & 15) + 4):
            out.append(out[-offset])
    return bytes(out)


@pytest.fixture(scope="module")
def compression(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lz4")
    (folder / "program.cpp").write_text(PROGRAM)
    command = ["g++", "-std=c++17", "-shared", "-fPIC", f"-I{HEADER.parent}", "program.cpp"]
    start(*command, "-o", "program.so", folder=folder)
    return ctypes.CDLL(str(folder / "program.so"))


def inputs():
    rng = np.random.default_rng(SEED)
    yield from (b"", b"a", b"abcd" * 2, bytes(12), bytes(13), bytes(100_000))
    far = rng.bytes(70_000)
    yield far + far[:100]
    for size in (5, 12, 13, 20, 255, 300, 70_000):
        yield rng.bytes(size)
        yield rng.integers(0, 2, size, dtype=np.uint8).tobytes()
        yield (rng.bytes(40) * size)[:size]


INPUTS = list(inputs())


@pytest.mark.parametrize("number", range(len(INPUTS)))
def test_expand_of_compress_is_the_identity(compression, number):
    data = INPUTS[number]
    room = ctypes.create_string_buffer(compression.bound(len(data)))
    written = compression.compress(data, room, len(data))
    assert 0 < written <= compression.bound(len(data))
    assert lz4_expand(room.raw[:written]) == data
    if len(set(data)) == 1 and len(data) > 50:
        assert written < len(data) / 50 + 20


def test_what_stands_for_zlib_never_makes_anything_smaller(compression):
    target = ctypes.create_string_buffer(4)
    assert compression.copy(b"flit", target, 4) and target.raw == b"flit"


def dump(tmp_path, kind):
    with probe_network(ring(2), waveform=kind, link_model=MODEL) as network:
        do(network, 0, HostOp.wait(5))
        network.trace_to(tmp_path / f"wave.{kind}", 10, 300)
        do(network, 0, HostOp.write(probe.SEND, 0x1234), HostOp.wait(200))
    return (tmp_path / f"wave.{kind}").read_bytes()


MODEL = LinkModel(flit_bytes=8, buffer_flits=16, clock_ghz=2.0)


def fst_blocks(data):
    """Type and content of each block of an FST file."""
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at + 1 : at + 9], "big")
        yield data[at], data[at + 9 : at + 1 + size]
        at += 1 + size


@pytest.mark.long
def test_vcd_and_fst_dump_every_rank_and_exactly_the_window(tmp_path):
    text = dump(tmp_path, "vcd").decode()
    times = [int(line[1:]) for line in text.splitlines() if line.startswith("#")]
    assert times[0] == 10_000 and times[-1] == 10_000 + 500 * (len(times) - 1) < 300_000
    assert "$scope module rank_0 $end" in text and "$scope module rank_1 $end" in text
    blocks = dict(fst_blocks(dump(tmp_path, "fst")))
    header, hierarchy = blocks[0], blocks[6]
    assert [int.from_bytes(header[i : i + 8], "big") for i in (0, 8)] == [times[0], times[-1]]
    names = lz4_expand(hierarchy[8:])
    assert int.from_bytes(hierarchy[:8], "big") == len(names)
    assert b"rank_1" in names and b"link_0_tx_valid" in names


TWO_DUMPS = """
import sys
from pathlib import Path
from tests.sim.emulator.test_fst import dump
dump(Path(sys.argv[1]), sys.argv[2]) and dump(Path(sys.argv[1]), sys.argv[2])
"""
# Under it glibc gives every large block that is freed back at once: a later access is SIGSEGV.
UNMAPPED_AT_ONCE = "glibc.malloc.tcache_count=0:glibc.malloc.mmap_threshold=512"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["vcd", "fst"])
def test_a_second_waveform_of_a_process_needs_nothing_of_the_first(tmp_path, kind):
    dump(tmp_path, kind)  # compiled under another allocator, g++ would be slow
    run = python("-c", TWO_DUMPS, tmp_path, kind, GLIBC_TUNABLES=UNMAPPED_AT_ONCE)
    assert run.stderr == ""


@pytest.mark.slow
def test_a_waveform_that_cannot_be_written_is_an_error(tmp_path):
    with (
        probe_network(ring(2), waveform="vcd", link_model=MODEL) as network,
        pytest.raises(FileNotFoundError, match=r"'.*/missing/wave.vcd'"),
    ):
        network.trace_to(tmp_path / "missing" / "wave.vcd")


def test_the_ending_of_a_waveform_says_its_kind_and_its_window_must_make_sense():
    assert Waveform(Path("a.fst")).kind == "fst" and Waveform(Path("b.vcd"), 5, 6).kind == "vcd"
    with pytest.raises(ValueError, match=r"must end in \.vcd or \.fst, not 'a.txt'"):
        Waveform(Path("a.txt"))
    for first, last in ((-1, 5), (5, 5), (6, 5)):
        with pytest.raises(ValueError, match="window must be A:B with 0 <= A < B, not"):
            Waveform(Path("a.vcd"), first, last)


@pytest.mark.slow
def test_a_vcd_file_that_does_not_fit_leaves_the_one_that_was_there(tmp_path):
    before = dump(tmp_path, "vcd")
    with pytest.raises(OSError, match="File too large") as raised, file_limit(len(before) // 2):
        dump(tmp_path, "vcd")
    assert raised.value.filename == str(tmp_path / "wave.vcd")
    assert contents(tmp_path) == {"wave.vcd": before}
