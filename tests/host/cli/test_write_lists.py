"""Register writes as text: of one source in every format, and right in hardware."""

import re
import shlex
import shutil
import zlib

import numpy as np
import pytest

from multitree import LinkModel, build, execute, parse_topology
from multitree.host.engines import needs_of
from multitree.nic.driver.commands import COMMIT, START
from multitree.nic.driver.registers import (
    ADDRESS,
    FLOW_WINDOW,
    ROUTE_WINDOW,
    TABLE_WINDOW,
    register_field,
)
from multitree.sim.emulator.accesses import EmulatedBus
from multitree.sim.emulator.library import network_library
from multitree.sim.emulator.network import Network
from multitree.sim.timing.sizing import config_for, emulated_dtypes
from tests.emulation import needs_rtl
from tests.programs import start
from tests.repository import ROOT

INTEGRATION = ROOT / "docs" / "integration.md"
WINDOWS = (TABLE_WINDOW, ROUTE_WINDOW, FLOW_WINDOW)
SPECS = ["ring:2", "torus:4x4", "fat_tree:2x2", "bigraph:2x4"]


def printed(run, line):
    status, out, error = run(f"table {line}")
    assert (status, error) == (0, "")
    return out


def as_words(lines):
    """Pairs of address and value, as a script reads them."""
    pairs = [line.split() for line in lines if not line.startswith("#")]
    return [(int(address, 16), int(value, 16)) for address, value in pairs]


def words(run, line):
    return as_words(printed(run, f"{line} --format words").splitlines())


def of_table(writes):
    """Values of rows, routes and flows."""
    return [v for a, v in writes if any(w.base <= a < w.end for w in WINDOWS)]


@pytest.mark.parametrize("spec", SPECS)
def test_table_crc_is_the_crc_32_of_the_words_before_it_least_significant_byte_first(run, spec):
    writes = words(run, f"{spec} --rank 1 --size 1KiB")
    content = b"".join(value.to_bytes(4, "little") for value in of_table(writes))
    assert dict(writes)[ADDRESS["TABLE_CRC"]] == zlib.crc32(content)
    assert dict(writes)[ADDRESS["RANK"]] == 1
    assert writes[-1] == COMMIT and COMMIT not in writes[:-1]
    assert len(of_table(writes)) == len(writes) - 12


def crc_32_bit_by_bit(content):
    register = 0xFFFFFFFF
    for byte in content:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0xEDB88320 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


def test_the_worked_example_of_the_documentation_is_what_is_printed_and_its_crc_right(run):
    text = INTEGRATION.read_text()
    command = r"^    \$ multitree table (.*words)\n((?:    .*\n)+)"
    line, shown = re.search(command, text, re.M).groups()
    listed = [line.strip() for line in shown.splitlines()]
    assert printed(run, line).splitlines() == listed
    content = b"".join(value.to_bytes(4, "little") for value in of_table(as_words(listed)))
    said = r"(\d+) bytes that begin with `((?:[0-9a-f]{2} )+[0-9a-f]{2})`.*?`0x([0-9a-f]{8})`"
    (length, first, crc) = re.search(said, text, re.S).groups()
    assert (len(content), content[:12].hex(" ")) == (int(length), first)
    wanted = zlib.crc32(content)
    assert int(crc, 16) == wanted == crc_32_bit_by_bit(content)
    assert f"0x00080 0x{wanted:08x}" in listed


@pytest.mark.parametrize("spec", SPECS)
def test_all_formats_say_the_same(run, spec):
    line = f"{spec} --rank 1 --size 1KiB"
    writes = words(run, line)
    image = printed(run, f"{line} --format readmemh")
    entries = [line.partition(" //")[0].split("_") for line in image.splitlines()]
    assert [(int(e[0], 16), int(e[1], 16)) for e in entries if not e[0].startswith("//")] == writes
    assert f"// For $readmemh: {len(writes)} words of 64 bits" in image
    array = printed(run, f"{line} --format c")
    found = re.findall(r"^    \{0x(\w+)u, 0x(\w+)u\}, /\* .* \*/$", array, re.M)
    assert [(int(a, 16), int(v, 16)) for a, v in found] == writes


def test_arrays_of_two_ranks_are_one_program_in_c(run, tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    wanted = []
    for rank in (0, 3):
        line = f"torus:2x2 --rank {rank} --size 1KiB"
        wanted += words(run, line)
        assert printed(run, f"{line} --format c --name T --out rank_{rank}.h") == ""
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "rank_0.h"\n#include "rank_3.h"\n'
        "static void show(const uint32_t (*writes)[2], uint32_t count)\n"
        '{ for (uint32_t k = 0; k < count; ++k) printf("%u %u\\n", writes[k][0], writes[k][1]); }\n'
        "int main(void)\n"
        "{ show(T_writes_0, T_NUM_WRITES_0); show(T_writes_3, T_NUM_WRITES_3); return 0; }\n"
    )
    flags = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    start(compiler, *flags, "-o", "show", "main.c")
    reported = start("./show").stdout
    assert [tuple(map(int, line.split())) for line in reported.splitlines()] == wanted


def test_a_file_name_ends_no_comment(run, tmp_path):
    run.printed("schedule ring:2 --out a.json")
    evil = "x */ #error \n 0x00018 0x00000008 \n.json"
    (tmp_path / "x *").mkdir()
    for path in (evil.replace("/", "-"), "x */y.json"):
        shutil.copy("a.json", path)
        for form, code in (("words", r"0x\w+ 0x\w+|#.*"), ("readmemh", r"\w+ // .*|//.*")):
            lines = printed(run, f"{shlex.quote(path)} --format {form}").splitlines()
            assert all(re.fullmatch(code, line) for line in lines)
        array = printed(run, f"{shlex.quote(path)} --format c")
        assert "#error" not in re.sub(r"/\*.*?\*/", "", array, flags=re.S)


def test_options_are_what_the_registers_get(run):
    line = "ring:4 --size 1KiB"
    options = "--dtype bfloat16 --op max --dependency submessage"
    options += " --window-base 77 --watchdog-cycles 5 --first-arrival-cycles 6"
    writes = dict(words(run, f"{line} {options}"))
    mode = writes[ADDRESS["MODE"]]
    fields = ("dtype", "lockstep", "cut_through", "packets", "maximum", "header_only")
    assert [register_field("MODE", name, mode) for name in fields] == [2, 0, 1, 0, 1, 0]
    names = ("WINDOW_BASE", "WINDOW_FLITS", "WATCHDOG_CYCLES", "FIRST_ARRIVAL_CYCLES")
    assert [writes[ADDRESS[name]] for name in names] == [77, 64, 5, 6]
    other = dict(words(run, line))
    assert other[ADDRESS["FIRST_ARRIVAL_CYCLES"]] == 2**32 - 1
    assert 0 < other[ADDRESS["WATCHDOG_CYCLES"]] < 100_000
    header_only = dict(words(run, "fat_tree:2x2 --collective broadcast --root 0"))
    assert register_field("MODE", "header_only", header_only[ADDRESS["MODE"]]) == 1
    waves = dict(words(run, "torus:2x2 --algorithm forest --size 1MiB"))
    assert waves[ADDRESS["ITERATIONS"]] > 0


@pytest.mark.slow
@pytest.mark.dear
@needs_rtl
@pytest.mark.parametrize(
    ("spec", "options", "base"),
    [
        ("ring:4", "--dependency submessage", 0),
        ("fat_tree:2x2", "--dtype int32 --op max --window-base 5", 5),
    ],
)
def test_a_bus_master_that_plays_the_words_all_reduces_bit_for_bit(run, spec, options, base):
    topology, size = parse_topology(spec), 1000
    schedule, model = build(topology, "multitree"), LinkModel()
    needs = needs_of(schedule, model, size)
    config = config_for(topology, model, **needs, dtypes=emulated_dtypes("float32"))
    rng = np.random.default_rng(5)
    dtype = np.int32 if "int32" in options else np.float32
    buffers = rng.integers(-(2**31), 2**31, (4, size // 4)).astype(dtype)
    memory = np.zeros((4, base + 2 * size // config.flit_bytes, config.flit_bytes), np.uint8)
    place = slice(base * config.flit_bytes, base * config.flit_bytes + size)
    memory.reshape(4, -1)[:, place] = buffers.view(np.uint8)
    before = memory.copy()
    line = f"{spec} --size {size} {options}"
    writes = [words(run, f"{line} --rank {rank}") for rank in range(4)]
    switches = {"num_switch_ports": int(topology.num_ports[4:].max(initial=0))}
    library = network_library(config, **(switches if topology.num_switches else {}))
    with Network(topology, config, library, link_model=model) as network:
        network.set_memory(memory)
        buses = [EmulatedBus(network, rank) for rank in range(4)]
        for rank, bus in enumerate(buses):
            for address, value in writes[rank]:
                bus.write(address, value)
        for bus in buses:
            while register_field("STATUS", "busy", bus.read(ADDRESS["STATUS"])):
                pass
            while not bus.read(ADDRESS["LINKS"]) & 1:
                pass
        for bus in buses:
            bus.write(*START)
        for bus in buses:
            assert bus.wait_interrupt(20_000)
            status = bus.read(ADDRESS["STATUS"])
            assert [register_field("STATUS", n, status) for n in ("done", "fault")] == [1, 0]
    right = execute(schedule, buffers, "max" if "max" in options else "sum")
    flat = memory.reshape(4, -1)
    assert (flat[:, place].view(np.uint32) == right.view(np.uint32)).all()
    assert (flat[:, : place.start] == before.reshape(4, -1)[:, : place.start]).all()
