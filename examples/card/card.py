"""Writes the Verilog of a card with four links around one network interface.

The interface and the control bus run on one core clock; every link has a clock of its own, and a
crossing in between. Memory channels (SRAM-style, or AXI4 managers with `--memory axi`), the
AXI4-Lite bus and the interrupt are ports of the card. Beside
`card.v` stand what `multitree verilog` writes, a FuseSoC core file, timing constraints (XDC) and
a waiver file for Verilator, which leaves only `card.v` to be checked:

    python examples/card/card.py --out build/card
    cd build/card && verilator --lint-only -Wall --top-module card card.vlt card*.v \\
        multitree_nic*.v multitree_link_crossing.v
"""

import argparse
import re
import sys
from pathlib import Path

from multitree.host.design.names import MEMORIES, DesignNames, project_version
from multitree.host.design.verilog_files import write_verilog
from multitree.nic.driver.config import Config

HERE = Path(__file__).resolve().parent
CONFIG = Config(num_ports=4)
NAMES = DesignNames()
COPIED = ("card.vlt", "card.xdc", "card_reset.v")


def ports_of(template):
    """Direction, width and name of every port that an instantiation template has a wire for."""
    found = re.findall(r"^wire (?:\[(\d+):0\] )?(\w+); // (input|output)$", template, re.MULTILINE)
    return [(direction, int(high or 0) + 1, name) for high, name, direction in found]


def declared(kind, width, name):
    """A port or a wire in Verilog."""
    return f"{kind} [{width - 1}:0] {name}" if width > 1 else f"{kind} {name}"


def card_verilog(top, template):
    """Text of `card.v`: its ports, resets, the interface, and a crossing per link."""
    outside, nets, pins, unused, links = [], [], [], [], {}
    for direction, width, name in ports_of(template):
        link = re.fullmatch(r"link_(\d+)_(\w+)", name)
        if link:
            links.setdefault(link[1], []).append((direction, width, link[2]))
            nets.append(declared("wire", width, f"core_{name}"))
            pins.append((name, f"core_{name}"))
        elif name.startswith("monitor_"):
            unused.append((name, ""))
        else:
            outside.append(declared(f"{direction} wire", width, name))
            pins.append((name, name))
    for link, members in links.items():
        outside.append(f"input wire link_{link}_clk")
        outside += [declared(f"{d} wire", width, f"link_{link}_{n}") for d, width, n in members]
        outside += [f"output wire link_{link}_{name}" for name in ("tx_lost", "rx_lost")]
    text = (HERE / "card.v.in").read_text()
    for mark, part in {
        "PORTS": ",\n".join(f"    {port}" for port in outside),
        "NETS": "\n".join(f"    {net};" for net in nets),
        "INTERFACE": top,
        "PINS": connected(pins),
        "UNUSED": connected(unused),
        "CROSSINGS": "\n".join(crossing(link, members) for link, members in links.items()),
    }.items():
        text = text.replace(f"@{mark}@", part)
    return text


def connected(pins):
    """Pins of an instance and what is at them."""
    return ",\n".join(f"        .{pin}({net})" for pin, net in pins)


def crossing(link, members):
    """The instance that carries a link between its own clock and the core clock."""
    pins = [("clk", "core_clk"), ("rst", "core_rst")]
    pins += [("link_clk", f"link_{link}_clk"), ("link_rst", f"link_{link}_rst")]
    pins += [(name, f"core_link_{link}_{name}") for _, _, name in members]
    pins += [(f"link_{name}", f"link_{link}_{name}") for _, _, name in members]
    pins += [("tx_lost", f"link_{link}_tx_lost"), ("link_rx_lost", f"link_{link}_rx_lost")]
    return "\n".join(
        [
            f"    wire link_{link}_rst;",
            f"    card_reset link_{link}_reset (",
            f"        .clk(link_{link}_clk), .rst_n(rst_n), .rst(link_{link}_rst)",
            "    );",
            f"    {NAMES.crossing} link_{link}_crossing (",
            connected(pins),
            "    );",
        ]
    )


def write_card(folder, memory, force):
    """Write the card and everything it consists of into a folder; returns the paths."""
    paths = write_verilog(CONFIG, folder, memory=memory, force=force).paths
    top = NAMES.top(memory)
    template = (folder / f"{top}_template.vh").read_text()
    texts = {"card.v": card_verilog(top, template)}
    core = (HERE / "card.core").read_text().replace("@INTERFACE@", top)
    texts["card.core"] = core.replace("@VERSION@", project_version())
    texts |= {name: (HERE / name).read_text() for name in COPIED}
    for name, text in texts.items():
        (folder / name).write_text(text)
        paths.append(folder / name)
    return paths


def main():
    """Write the card and say what was written."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/card"), metavar="DIR")
    parser.add_argument("--memory", choices=MEMORIES, default="sram")
    parser.add_argument("--force", action="store_true", help="replace files that were edited, too")
    arguments = parser.parse_args()
    try:
        paths = write_card(arguments.out, arguments.memory, arguments.force)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    print("\n".join(map(str, paths)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
