"""Verilog of a network: its switches, and the module that joins all by links."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from multitree.host.design.names import DesignNames
from multitree.hw.export.verilog import written_ports
from multitree.nic.driver.config import SWITCH_MODULE_NAME, Config
from multitree.nic.interface import switch_for
from multitree.sim.emulator.library import cached_verilog
from multitree.topology.errors import TopologyError
from multitree.topology.networks.topology import Topology

__all__ = ["SwitchModule", "network_verilog", "switch_modules", "switch_verilog"]

_LEAST_PORTS = 2


@dataclass(frozen=True)
class SwitchModule:
    """Switches of a network that have one shape, so one Verilog module."""

    module: str  # with its ports and virtual channels in the name
    num_ports: int  # up to the last one by which a link leaves any of them, and at least 2
    nodes: tuple[int, ...]


def switch_modules(
    topology: Topology, config: Config, stem: str = SWITCH_MODULE_NAME
) -> list[SwitchModule]:
    """The shapes of a network's switches, by number of ports; none without switches.

    TopologyError if a link has no reverse, or the interfaces are for private links.
    """
    if not topology.num_switches:
        return []
    if not topology.is_symmetric:
        link = topology.reverse.tolist().index(-1)
        raise TopologyError(f"{topology.name}: link {link} has no reverse link")
    if not config.shared:
        raise TopologyError(
            f"{topology.name}: interfaces must be built for shared links, since there are switches"
        )
    shapes: dict[int, list[int]] = {}
    for node in range(topology.num_ranks, topology.num_nodes):
        shapes.setdefault(max(_LEAST_PORTS, int(topology.num_ports[node])), []).append(node)
    return [
        SwitchModule(f"{stem}_{ports}x{config.num_vcs}", ports, tuple(nodes))
        for ports, nodes in sorted(shapes.items())
    ]


def switch_verilog(topology: Topology, config: Config, stem: str = SWITCH_MODULE_NAME) -> str:
    """Verilog of a module per shape, behind a comment that says what each port is joined with."""
    shapes = switch_modules(topology, config, stem)
    modules = {node: shape.module for shape in shapes for node in shape.nodes}
    texts = [cached_verilog(switch_for, config, s.num_ports, name=s.module) for s in shapes]
    first, rest = "\n".join(texts).split("\n", 1)
    wiring = "".join(f"// {line}".rstrip() + "\n" for line in _wiring(topology, modules))
    return f"{first}\n{wiring}{rest}"


def _wiring(topology: Topology, modules: dict[int, str]) -> list[str]:
    """Lines that say of each node's ports which port of which node they are joined with."""
    lines = ["", "What each link port is joined with: tx of either end with rx of the other.", ""]
    for node in range(topology.num_nodes):
        module = f" is a {modules[node]}" if node in modules else ""
        lines.append(f"{_called(topology, node)}{module}:")
        for link in topology.ports(node).tolist():
            port = topology.port_of_link(link)
            far = _called(topology, int(topology.links[link, 1]))
            back = topology.port_of_link(int(topology.reverse[link]))
            lines.append(f"  link_{port} with link_{back} of {far}")
    return [*lines, ""]


def _called(topology: Topology, node: int) -> str:
    return f"{'rank' if node < topology.num_ranks else 'switch'} {node}"


_LEAST_LATENCY_CYCLES = 2
_DELAY = """module @NAME@ #(parameter WIDTH = 1, parameter CYCLES = 2) (
  input wire clk, input wire rst, input wire [WIDTH-1:0] i, output wire [WIDTH-1:0] o
);
  reg [WIDTH*CYCLES-1:0] line;
  always @(posedge clk) line <= rst ? 0 : {line[WIDTH*(CYCLES-1)-1:0], i};
  assign o = line[WIDTH*CYCLES-1 -: WIDTH];
endmodule
"""
_FORWARD = ("valid", "kind", "vc", "sequence", "epoch", "check", "payload")
Ports = Mapping[str, tuple[int, bool]]


def network_verilog(
    topology: Topology,
    config: Config,
    names: DesignNames,
    verilog: str,
    *,
    memory: str = "sram",
    latency_cycles: int = _LEAST_LATENCY_CYCLES,
    crossings: bool = False,
) -> str:
    """Verilog of ``<prefix>_network``, which joins the modules of `verilog` by their links.

    Ports that are no link's are ``rank_<r>_<port>`` and ``switch_<n>_<port>``. A link has
    `latency_cycles` registers each way, at least 2; with `crossings` links and switches run on
    ``link_clk``. Raises TopologyError if a link has no reverse.
    """
    if latency_cycles < _LEAST_LATENCY_CYCLES:
        raise ValueError(
            f"Latency of links must be at least {_LEAST_LATENCY_CYCLES} cycles, "
            f"not {latency_cycles}"
        )
    if not topology.is_symmetric:
        link = topology.reverse.tolist().index(-1)
        raise TopologyError(f"{topology.name}: link {link} has no reverse link")
    build = _Network(topology, config, names, verilog, memory, crossings)
    clocks = ["clk", "rst", *(["link_clk", "link_rst"] if crossings else [])]
    listed = ",\n  ".join([*(f"input wire {name}" for name in clocks), *build.outside])
    text = "\n  ".join([*build.body, *build.joined(latency_cycles)])
    delay = _DELAY.replace("@NAME@", build.delay)
    return (
        "// SPDX-License-Identifier: Apache-2.0\n`timescale 1ns/1ps\n"
        f"module {names.network}(\n  {listed}\n);\n  {text}\nendmodule\n\n{delay}"
    )


class _Network:
    """Ports and text of the module, filled instance by instance.

    The wires of a link's end are called ``<node>_link_<port>_tx_valid`` and so on, where the end is
    on the clock of the link.
    """

    def __init__(
        self,
        topology: Topology,
        config: Config,
        names: DesignNames,
        verilog: str,
        memory: str,
        crossings: bool,
    ) -> None:
        self._topology, self._crossings = topology, crossings
        self._wires: dict[str, int] = {}
        self.outside: list[str] = []
        self.body: list[str] = []
        self.delay = f"{names.network}_delay"
        interface = written_ports(verilog, names.top(memory))
        crossing = written_ports(verilog, names.crossing)
        for rank in range(topology.num_ranks):
            self._add(f"rank_{rank}", names.top(memory), interface, "", {})
            for port in range(config.num_ports) if crossings else ():
                self._add_crossing(f"rank_{rank}", port, names.crossing, crossing)
        for shape in switch_modules(topology, config, names.switch):
            ports = written_ports(verilog, shape.module)
            for node in shape.nodes:
                domain = "link_" if crossings else ""
                tied = {"number": f"16'd{node}"}
                self._add(f"switch_{node}", shape.module, ports, domain, tied)

    def _add(
        self, node: str, module: str, ports: Ports, domain: str, tied: Mapping[str, str]
    ) -> None:
        """An interface or a switch."""
        core = "core_" if self._crossings and node.startswith("rank") else ""
        pins = {"clk": f"{domain}clk", "rst": f"{domain}rst"} | dict(tied)
        for name, (width, is_output) in ports.items():
            if name in pins or name.startswith("monitor_"):
                continue
            if name.startswith("link_"):
                pins[name] = self._wire(f"{node}_{core}{name}", width)
            else:
                pins[name] = self._port(f"{node}_{name}", width, is_output)
        self.body.append(_instance(module, node, pins))

    def _add_crossing(self, node: str, port: int, module: str, ports: Ports) -> None:
        """A crossing between an interface's clock and the links'."""
        pins = {"clk": "clk", "rst": "rst", "link_clk": "link_clk", "link_rst": "link_rst"}
        for name, (width, is_output) in ports.items():
            if name in pins:
                continue
            if name.endswith("lost"):
                pins[name] = self._port(f"{node}_link_{port}_{name}", width, is_output)
            elif name.startswith("link_"):
                pins[name] = self._wire(f"{node}_link_{port}_{name.removeprefix('link_')}", width)
            else:
                pins[name] = self._wire(f"{node}_core_link_{port}_{name}", width)
        self.body.append(_instance(module, f"{node}_crossing_{port}", pins))

    def joined(self, latency_cycles: int) -> Iterator[str]:
        """What joins the ends of every link, and keeps ends without a link still."""
        topology, driven = self._topology, set()
        clock = "link_" if self._crossings else ""
        for link, (src, dst) in enumerate(topology.links.tolist()):
            back = int(topology.reverse[link])
            near = f"{self._called(src)}_link_{topology.port_of_link(link)}"
            far = f"{self._called(dst)}_link_{topology.port_of_link(back)}"
            pairs = [(f"{near}_tx_{name}", f"{far}_rx_{name}") for name in _FORWARD]
            for source, target in [*pairs, (f"{far}_rx_credit", f"{near}_tx_credit")]:
                driven.add(target)
                yield (
                    f"{self.delay} #(.WIDTH({self._wires[source]}), .CYCLES({latency_cycles})) "
                    f"{target}_line (.clk({clock}clk), .rst({clock}rst), .i({source}), "
                    f".o({target}));"
                )
        for wire in self._wires:
            if "_core_" not in wire and wire not in driven and _is_input(wire):
                yield f"assign {wire} = 0;"

    def _called(self, node: int) -> str:
        return f"{'rank' if node < self._topology.num_ranks else 'switch'}_{node}"

    def _wire(self, name: str, width: int) -> str:
        if name not in self._wires:
            self._wires[name] = width
            self.body.append(f"wire {_range(width)}{name};")
        return name

    def _port(self, name: str, width: int, is_output: bool) -> str:
        self.outside.append(f"{'output' if is_output else 'input'} wire {_range(width)}{name}")
        return name


def _is_input(wire: str) -> bool:
    """Whether a wire of a link's end is driven by the other end."""
    return wire.endswith("_credit") == ("_tx_" in wire)


def _range(width: int) -> str:
    return f"[{width - 1}:0] " if width > 1 else ""


def _instance(module: str, name: str, pins: Mapping[str, str]) -> str:
    return f"{module} {name} ({', '.join(f'.{pin}({net})' for pin, net in pins.items())});"
