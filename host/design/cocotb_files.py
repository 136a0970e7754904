"""A folder of cocotb benches for a design, which runs as it is written."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from multitree.host.design.manifest import DesignFile
from multitree.host.design.names import DesignNames
from multitree.host.design.network_top import network_verilog, switch_modules
from multitree.hw.export.core_file import CocotbBenches
from multitree.nic.driver.config import Config
from multitree.sim.cocotb.case import CASE_FILE, SCHEDULE_FILE, BenchCase, BenchTop
from multitree.topology.files.json_format import schedule_json
from multitree.topology.lowering import lowered
from multitree.topology.schedules.schedule import Schedule

__all__ = ["BenchPlan", "cocotb_files", "core_benches"]

_TEMPLATES = {
    "bench_interface.py": ("cocotb_interface.py.in", "bench of one interface"),
    "bench_network.py": ("cocotb_network.py.in", "bench of the network"),
    "bench_faults.py": ("cocotb_faults.py.in", "faults at one interface"),
    "run.py": ("cocotb_run.py.in", "runner"),
    "test_benches.py": ("cocotb_pytest.py.in", "benches under pytest"),
    "Makefile": ("cocotb_makefile.in", "make"),
}


@dataclass(frozen=True)
class BenchPlan:
    """What the benches that are written with a design run."""

    schedule: Schedule  # as built; benches run it on the network as wired
    num_elements: int  # of one rank's buffer, at least 1
    rank: int = 0  # whose interface is driven alone
    stalls: str = "light"  # one of `sim.cocotb.case.LEVELS`
    crossings: bool = False  # links and switches have a clock of their own, behind crossings


def cocotb_files(
    plan: BenchPlan,
    config: Config,
    names: DesignNames,
    memory: str,
    sources: Sequence[DesignFile],
) -> list[DesignFile]:
    """The files of ``<prefix>_cocotb``: network, case, schedule, benches, runner, Makefile, a test.

    Of the `sources` the first is the interface's Verilog. Raises TopologyError as
    `network_verilog`, ValueError as `BenchCase`.
    """
    folder, topology = names.cocotb, lowered(plan.schedule).topology
    verilog = "".join(file.text for file in sources)
    network = network_verilog(
        topology, config, names, verilog, memory=memory, crossings=plan.crossings
    )
    interface, *others = [f"../{file.name}" for file in sources]
    alone = BenchTop(names.top(memory), (interface,), 1, ("bench_interface",), ("bench_faults",))
    files = (interface, *others, f"{names.network}.v")
    crossing = [names.crossing] if plan.crossings else []
    switches = [shape.module for shape in switch_modules(topology, config, names.switch)]
    blocks = (names.top(memory), *crossing, *switches)
    whole = BenchTop(names.network, files, topology.num_ranks, ("bench_network",), blocks=blocks)
    case = BenchCase(
        plan.schedule,
        config,
        rank=plan.rank,
        num_elements=plan.num_elements,
        tops=(alone, whole),
        stalls=plan.stalls,
    )
    here = Path(__file__).parent
    return [
        DesignFile(f"{folder}/{names.network}.v", "network", network),
        DesignFile(f"{folder}/{CASE_FILE}", "benches' case", case.text()),
        DesignFile(f"{folder}/{SCHEDULE_FILE}", "schedule", schedule_json(plan.schedule)),
        *(
            DesignFile(f"{folder}/{name}", role, (here / template).read_text(encoding="utf-8"))
            for name, (template, role) in _TEMPLATES.items()
        ),
    ]


def core_benches(names: DesignNames, memory: str) -> CocotbBenches:
    """The same benches as targets of FuseSoC."""
    read = ("bench_interface.py", "bench_network.py", CASE_FILE, SCHEDULE_FILE)
    return CocotbBenches(
        f"{names.cocotb}/{names.network}.v",
        tuple(f"{names.cocotb}/{file}" for file in read),
        (
            ("cocotb", names.top(memory), "bench_interface"),
            ("cocotb_network", names.network, "bench_network"),
        ),
    )
