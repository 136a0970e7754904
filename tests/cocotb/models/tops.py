"""Verilog of small designs around the interface's blocks, for benches to drive."""

import re

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from multitree.hw.axi.bursts import AxiReader, AxiWriter, byte_address_width
from multitree.hw.axi.channels import AxiSignature
from multitree.nic.driver.config import SWITCH_MODULE_NAME
from tests.hw.link.one_channel import StreamReceiver, StreamTransmitter
from tests.hw.link.wires import FORWARD, join

__all__ = ["AxiManagers", "LinkPair", "module_ports", "network_top"]

_DELAY = """
module delay_line #(parameter WIDTH = 1, parameter CYCLES = 2) (
  input clk, input rst, input [WIDTH-1:0] i, output [WIDTH-1:0] o
);
  reg [WIDTH*CYCLES-1:0] line;
  always @(posedge clk) line <= rst ? 0 : {line[WIDTH*(CYCLES-1)-1:0], i};
  assign o = line[WIDTH*CYCLES-1 -: WIDTH];
endmodule
"""


class LinkPair(wiring.Component):
    """A transmitter, `latency_cycles` registers each way, and a receiver of `depth` places.

    The link between them is up.
    """

    def __init__(self, *, latency_cycles, depth, flit_bytes):
        self._latency_cycles = latency_cycles
        sizes = {"flit_bytes": flit_bytes, "submessage_flits": 4}
        self._transmitter = StreamTransmitter(credits=depth, **sizes)
        self._receiver = StreamReceiver(depth=depth, **sizes)
        ends = {"i": self._transmitter, "o": self._receiver}
        members = {name: end.signature.members[name] for name, end in ends.items()}
        super().__init__({**members, "error": Out(5)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.transmitter = near = self._transmitter
        m.submodules.receiver = far = self._receiver
        wiring.connect(m, wiring.flipped(self.i), near.i)
        wiring.connect(m, far.o, wiring.flipped(self.o))
        join(m, near.link, far.link, self._latency_cycles)
        m.d.comb += [near.open.eq(1), far.up.eq(1)]
        faults = (near.fault_credit, far.sequence_error, far.overflow)
        faults += (far.check_error, far.epoch_error)
        for bit, fault in enumerate(faults):
            with m.If(fault):
                m.d.sync += self.error[bit].eq(1)
        return m


class AxiManagers(wiring.Component):
    """A reader and a writer on the two halves of one bus."""

    def __init__(self, *, depth, **sizes):
        self._reader, self._writer = (
            AxiReader(depth=depth, **sizes),
            AxiWriter(depth=depth, **sizes),
        )
        bus = AxiSignature(
            address_width=byte_address_width(**sizes), data_bytes=sizes["flit_bytes"]
        )
        channels = (each.signature.members["channel"] for each in (self._reader, self._writer))
        super().__init__({**dict(zip(("read", "write"), channels, strict=True)), "m_axi": Out(bus)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.reader, m.submodules.writer = self._reader, self._writer
        wiring.connect(m, wiring.flipped(self.read), self._reader.channel)
        wiring.connect(m, wiring.flipped(self.write), self._writer.channel)
        for manager in (self._reader, self._writer):
            for label, member in manager.bus.signature.members.items():
                ends = getattr(self.m_axi, label), getattr(manager.bus, label)
                target, source = ends if member.flow == Out else ends[::-1]
                m.d.comb += target.eq(source)
        return m


def network_top(interface, wires, *, num_ranks, latency_cycles, design="multitree_nic", switch=""):
    """Verilog of a network of interfaces, the modules `design`, perhaps over switches.

    Wires are (node, port, node, port), one direction each, of at least 2 `latency_cycles`; nodes
    from `num_ranks` on are switches, each with a reset of its own. The module `network` has every
    port that is no link's, `rank_<r>_<port>` or `switch_<n>_<port>`.
    """
    outside, body, ports = ["input clk", "input rst"], [], {}
    for node in sorted({wire[0] for wire in wires}):
        text, module = (interface, design) if node < num_ranks else (switch, SWITCH_MODULE_NAME)
        ports[node] = module_ports(text, module)
        pins = [".clk(clk)", *([".rst(rst)"] if node < num_ranks else [])]
        for name, (kind, width) in ports[node].items():
            if name == "clk" or f".{name}({name})" in pins:
                continue
            wire = f"{_label(node, num_ranks)}_{name}"
            if name.startswith("link_"):
                body.append(f"wire [{width - 1}:0] {wire};")
            else:
                outside.append(f"{kind} [{width - 1}:0] {wire}")
            pins.append(f".{name}({wire})")
        body.append(f"{module} {_label(node, num_ranks)} ({', '.join(pins)});")
    for number, (src, out, dst, back) in enumerate(wires):
        near, far = (
            f"{_label(node, num_ranks)}_link_{port}" for node, port in ((src, out), (dst, back))
        )
        lines = [(f"{near}_tx_{name}", f"{far}_rx_{name}", name) for name in FORWARD]
        lines.append((f"{far}_rx_credit", f"{near}_tx_credit", "credit"))
        for source, target, name in lines:
            width = ports[src][f"link_{out}_tx_{name}"][1]
            body.append(
                f"delay_line #(.WIDTH({width}), .CYCLES({latency_cycles})) link_{number}_{name} "
                f"(.clk(clk), .rst(rst), .i({source}), .o({target}));"
            )
    top = f"module network({', '.join(outside)});\n  " + "\n  ".join(body) + "\nendmodule\n"
    return interface + switch + _DELAY + top


def module_ports(text, module):
    """Direction and width of every port of a module in Verilog."""
    declarations = text[text.index(f"module {module}(") :].split("endmodule")[0]
    line = r"^\s*(input|output) (?:\[(\d+):0\] )?(\w+);"
    found = re.findall(line, declarations, re.MULTILINE)
    return {name: (kind, int(high or 0) + 1) for kind, high, name in found}


def _label(node, num_ranks):
    """What a node is called in the network."""
    return f"{'rank' if node < num_ranks else 'switch'}_{node}"
