"""A network of written files, whose switches are behind crossings."""

from pathlib import Path

from multitree.host.design.names import DesignNames
from multitree.host.design.network_top import switch_modules
from multitree.nic.driver.config import MODULE_NAME, Config
from multitree.topology.families.switched import bigraph, fat_tree
from tests.cocotb.models.network import wires
from tests.cocotb.models.tops import module_ports

__all__ = ["CROSSED", "RESET", "crossed_top"]

_SIZES = {
    "num_ports": 1,
    "table_depth": 32,
    "num_flows": 8,
    "buffer_flits": 16,
    "submessage_flits": 4,
    "memory_queue_flits": 16,
    "address_width": 12,
    "max_children": 4,
    "dtypes": ("int32",),
}
CROSSED = {
    "fat_tree": (fat_tree(2, 2), Config(**_SIZES, num_classes=1)),
    "bigraph": (bigraph(2, 2), Config(**_SIZES, num_classes=2)),
}
"""Two shapes of switches; two classes of virtual channels."""
RESET = Path(__file__).parents[3] / "examples" / "card" / "card_reset.v"
"""An asynchronous reset, released with a clock."""
_CROSSING = DesignNames().crossing
_HEADER = """`default_nettype none
// Interfaces take rst at clock edges, the queues of crossings at once: both are meant.
// verilator lint_off SYNCASYNCNET
"""


def crossed_top(verilog, topology, config):
    """Verilog of a network around the modules that are written for it.

    Interfaces, of one port each, are on `clk`, switches on `switch_clk`, and near each interface is
    a crossing. The module `network` has every port that is no link's, `rank_<r>_<port>` and
    `switch_<n>_<port>`, and `rank_<r>_tx_lost` and `rank_<r>_link_rx_lost` of the crossings. Its
    resets come from `rst_n` as in `RESET`, which is not in it.
    """
    modules = dict.fromkeys(range(topology.num_ranks), MODULE_NAME)
    modules |= {node: s.module for s in switch_modules(topology, config) for node in s.nodes}
    outside = [f"input wire {name}" for name in ("clk", "switch_clk", "rst_n")]
    outside += ["output wire rst", "output wire switch_rst"]
    body = [
        f"card_reset {prefix}reset (.clk({prefix}clk), .rst_n(rst_n), .rst({prefix}rst));"
        for prefix in ("", "switch_")
    ]
    for node, module in modules.items():
        is_rank = node < topology.num_ranks
        label, prefix = (f"rank_{node}", "") if is_rank else (f"switch_{node}", "switch_")
        pins = {"clk": f"{prefix}clk", "rst": f"{prefix}rst"}
        for name, (kind, width) in module_ports(verilog, module).items():
            if name in pins:
                continue
            pins[name] = f"{label}_{'core_' if is_rank and name.startswith('link_') else ''}{name}"
            if name == "number":
                pins[name] = f"16'd{node}"
            elif name.startswith("link_"):
                body.append(_wire(width, pins[name]))
            else:
                outside.append(f"{kind} {_wire(width, pins[name])}".rstrip(";"))
        body.append(_instance(module, label, pins))
        if is_rank:
            lines, ports = _crossing(verilog, label)
            body += lines
            outside += ports
    labels = {n: f"{'rank' if n < topology.num_ranks else 'switch'}_{n}" for n in modules}
    for src, out, dst, back in wires(topology):
        near, far = f"{labels[src]}_link_{out}", f"{labels[dst]}_link_{back}"
        for name in _flit_names(verilog):
            body.append(f"assign {far}_rx_{name} = {near}_tx_{name};")
        body.append(f"assign {near}_tx_credit = {far}_rx_credit;")
    listed = ",\n  ".join(outside)
    text = "\n  ".join(body)
    return f"{_HEADER}module network(\n  {listed}\n);\n  {text}\nendmodule\n"


def _flit_names(verilog):
    """Everything that travels with a flit, as the crossing has it."""
    ports = module_ports(verilog, _CROSSING)
    return [
        name.removeprefix("tx_")
        for name, (kind, _) in ports.items()
        if name.startswith("tx_") and kind == "input"
    ]


def _crossing(verilog, label):
    """A rank's crossing from its interface's clock to the switches', and the ports it adds."""
    domains = ("clk", "rst")
    pins = {name: name for name in domains} | {f"link_{d}": f"switch_{d}" for d in domains}
    body, outside = [], []
    for name, (kind, width) in module_ports(verilog, _CROSSING).items():
        if name in pins:
            continue
        side, _, member = name.removeprefix("link_").partition("_")
        if member == "lost":
            pins[name] = f"{label}_{name}"
            outside.append(f"{kind} {_wire(width, pins[name])}".rstrip(";"))
        elif name.startswith("link_"):
            pins[name] = f"{label}_link_0_{side}_{member}"
            body.append(_wire(width, pins[name]))
        else:
            pins[name] = f"{label}_core_link_0_{name}"
    return [*body, _instance(_CROSSING, f"{label}_crossing", pins)], outside


def _wire(width, name):
    return f"wire {f'[{width - 1}:0] ' if width > 1 else ''}{name};"


def _instance(module, name, pins):
    return f"{module} {name} ({', '.join(f'.{pin}({net})' for pin, net in pins.items())});"
