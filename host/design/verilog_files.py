"""The files a hardware project takes: Verilog, register map, bench, core file."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from multitree.host.design.cocotb_files import BenchPlan, cocotb_files, core_benches
from multitree.host.design.manifest import DesignFile, listed_before, replace_design
from multitree.host.design.names import PREFIX, DesignNames, project_version
from multitree.host.design.network_top import SwitchModule, switch_modules, switch_verilog
from multitree.host.design.sim_bench import bench_files, why_no_bench
from multitree.hw.export.core_file import Bench, CocotbBenches, core_file
from multitree.hw.export.register_formats import markdown, system_rdl
from multitree.hw.export.register_map import c_header
from multitree.hw.export.verilog import instantiation_template
from multitree.hw.link.crossing import LINK_DOMAIN, LinkCrossing, crossing_depth
from multitree.nic.driver.config import Config
from multitree.nic.driver.registers import REGISTERS, VERSION
from multitree.nic.interface import AxiInterface, Interface
from multitree.sim.emulator.library import cached_verilog
from multitree.topology.networks.topology import Topology

__all__ = ["Delivery", "write_verilog"]

_INTERFACES = {"sram": Interface, "axi": AxiInterface}


@dataclass(frozen=True)
class Delivery:
    """What `write_verilog` wrote."""

    folder: Path
    files: tuple[DesignFile, ...]  # the interface's Verilog first, the core file last
    manifest: str
    removed: tuple[str, ...]  # of the design before
    no_bench: str | None  # why there is no test bench

    @property
    def paths(self) -> list[Path]:
        """All files, the manifest last."""
        return [self.folder / name for name in (*(f.name for f in self.files), self.manifest)]


def write_verilog(
    config: Config,
    folder: Path,
    *,
    memory: str = "sram",
    topology: Topology | None = None,
    prefix: str = PREFIX,
    built_for: Mapping[str, Any] | None = None,
    benches: BenchPlan | None = None,
    force: bool = False,
) -> Delivery:
    """Write an interface's Verilog and what goes with it, in place of the design that is there.

    Equal arguments give equal bytes on every machine; `built_for` goes into the manifest. Raises
    ValueError for a kind of memory, a prefix or a switch that cannot be, and unless forced for a
    file that was edited; TopologyError as `switch_modules`.
    """
    names = DesignNames(prefix)
    before = listed_before(folder, names.manifest, force=force)
    top, no_bench = names.top(memory), why_no_bench(config)
    interface = cached_verilog(_INTERFACES[memory], config, name=top)
    shapes = [] if topology is None else switch_modules(topology, config, names.switch)
    sources = _sources(config, names, top, interface, topology if shapes else None)
    documents = _documents(names.registers, top, interface)
    bench = [] if no_bench else bench_files(config, names, memory, interface)
    cocotb = core_benches(names, memory) if benches else None
    core = _core(top, names.bench, sources, documents, bench, cocotb)
    written = cocotb_files(benches, config, names, memory, sources) if benches else ()
    files = (*sources, *documents, *bench, *written, core)
    facts = {
        "multitree_version": project_version(),
        "register_map_version": VERSION,
        "name": prefix,
        "built_for": dict(built_for) if built_for else None,
        "memory": memory,
        "top_module": top,
        "config": asdict(config),
        "modules": _modules(sources, shapes, bench, names),
    }
    removed = replace_design(folder, names.manifest, files, facts, before=before, force=force)
    return Delivery(folder, files, names.manifest, tuple(removed), no_bench)


def _sources(
    config: Config,
    names: DesignNames,
    top: str,
    interface: str,
    switched: Topology | None,
) -> list[DesignFile]:
    """Verilog of the interface, of the crossing and of a network's switches."""
    sources = [
        DesignFile(f"{top}.v", "Verilog", interface),
        DesignFile(f"{names.crossing}.v", "link crossing", _crossing(config, names.crossing)),
    ]
    if switched is not None:
        text = switch_verilog(switched, config, names.switch)
        sources.append(DesignFile(f"{names.switch}.v", "switches", text))
    return sources


def _crossing(config: Config, name: str) -> str:
    """Verilog of a crossing that never overflows."""
    depth = crossing_depth(buffer_flits=config.buffer_flits, num_vcs=config.num_vcs)
    return cached_verilog(
        LinkCrossing,
        flit_bytes=config.flit_bytes,
        num_vcs=config.num_vcs,
        depth=depth,
        name=name,
        domains=[LINK_DOMAIN],
    )


def _documents(name: str, top: str, interface: str) -> list[DesignFile]:
    """The register map under a name, in three formats, and the template of an instance."""
    registers = replace(REGISTERS, name=name)
    template = instantiation_template(interface, name=top)
    return [
        DesignFile(f"{name}.h", "C header", c_header(registers)),
        DesignFile(f"{name}_registers.md", "register map", markdown(registers)),
        DesignFile(f"{name}.rdl", "SystemRDL", system_rdl(registers)),
        DesignFile(f"{top}_template.vh", "template", template),
    ]


def _core(
    top: str,
    bench_top: str,
    sources: Sequence[DesignFile],
    documents: Sequence[DesignFile],
    bench: Sequence[DesignFile],
    cocotb: CocotbBenches | None,
) -> DesignFile:
    verilog, *data = [file.name for file in bench] or [""]
    text = core_file(
        name=top,
        version=project_version(),
        description="MultiTree network interface: all-reduce by a schedule table.",
        top=top,
        sources=[file.name for file in sources],
        documents=[file.name for file in documents],
        bench=Bench(bench_top, (verilog,), tuple(data)) if bench else None,
        cocotb=cocotb,
    )
    return DesignFile(f"{top}.core", "FuseSoC core", text)


def _modules(
    sources: Sequence[DesignFile],
    shapes: Sequence[SwitchModule],
    bench: Sequence[DesignFile],
    names: DesignNames,
) -> list[dict[str, Any]]:
    """The modules that are meant to be instantiated, and the bench: names, files, which nodes."""
    interface, crossing, *switches = sources
    modules: list[dict[str, Any]] = [
        {"module": file.name.removesuffix(".v"), "file": file.name}
        for file in (interface, crossing)
    ]
    for shape in shapes:
        nodes = list(shape.nodes)
        modules.append({"module": shape.module, "file": switches[0].name, "nodes": nodes})
    return modules + [{"module": names.bench, "file": file.name} for file in bench[:1]]
