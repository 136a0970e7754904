"""Switches of a network in Verilog, a module per shape, and how they are joined."""

from dataclasses import dataclass

from multitree.nic.driver.config import SWITCH_MODULE_NAME, Config
from multitree.nic.interface import switch_for
from multitree.sim.emulator.cached_verilog import cached_verilog
from multitree.topology.errors import TopologyError
from multitree.topology.networks.topology import Topology

__all__ = ["SwitchModule", "switch_modules", "switch_verilog"]

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
