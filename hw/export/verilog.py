"""Verilog text of a component: plain port names, no traces of the machine."""

import contextlib
import gc
import os
import re
from collections.abc import Iterator, Sequence

from amaranth.back import verilog
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring

from multitree.hw.component import VerilogModules, port_values

__all__ = [
    "NO_INLINE",
    "VerilogError",
    "chosen_yosys",
    "generate",
    "instantiation_template",
    "port_names",
    "written_ports",
]

NO_INLINE = "/*verilator no_inline_module*/"
"""What marks a module that Verilator is to compile once for all its instances."""

_LICENSE = "// SPDX-License-Identifier: Apache-2.0\n"
_CLOCK_PORTS = ("clk", "rst")
# Yosys writes operands of different widths, and cases after a default that was set before.
_HARMLESS = ("CASEINCOMPLETE", "WIDTHEXPAND", "WIDTHTRUNC")
_WAKE = r"""  reg \$wake ;
  // verilator lint_off INITIALDLY
  initial \$wake <= 0;
  // verilator lint_on INITIALDLY
"""


class VerilogError(RuntimeError):
    """The tool that writes Verilog failed; the message is the last line of what it said."""


def _clock_ports(domains: Sequence[str]) -> list[str]:
    """Clocks and resets: those of `sync`, then of the other domains."""
    return [*_CLOCK_PORTS, *(f"{domain}_{port}" for domain in domains for port in _CLOCK_PORTS)]


def _ports(component: wiring.Component, domains: Sequence[str]) -> dict:
    """Value and direction of every port by its flattened name; ports of no width are left out."""
    ports = port_values(component)
    for name in _clock_ports(domains):
        if name in ports:
            raise ValueError(f"Port names must be unique, not {name!r} twice")
    directions = {wiring.In: PortDirection.Input, wiring.Out: PortDirection.Output}
    return {name: (value, directions[flow]) for name, (value, flow) in ports.items()}


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f"Module name must be a Verilog identifier, not {name!r}")


def port_names(component: wiring.Component, *, domains: Sequence[str] = ()) -> list[str]:
    """Names of a component's ports in its Verilog, in order: clocks and resets, then its members.

    Parameters
    ----------
    component : wiring.Component
        The component.
    domains : sequence of str
        Clock domains it needs in addition to `sync`.

    Raises
    ------
    ValueError
        If two members would have the same name.
    """
    return [*_clock_ports(domains), *_ports(component, domains)]


def written_ports(verilog: str, module: str) -> dict[str, tuple[int, bool]]:
    """Width of every port by its name, and whether it is an output; in the order of `port_names`.

    Parameters
    ----------
    verilog : str
        A text that `generate` returned, with the module.
    module : str
        Name of the module.

    Raises
    ------
    ValueError
        If there is no such module.
    """
    found = re.search(
        rf"^module {re.escape(module)}\((.*?)\);$.*?^endmodule$", verilog, re.M | re.S
    )
    if found is None:
        raise ValueError(f"Verilog must have a module {module}")
    declared = re.findall(r"^  (input|output) (?:\[(\d+):0\] )?(\w+);$", found[0], re.M)
    ports = {name: (int(high or 0) + 1, kind == "output") for kind, high, name in declared}
    return {name: ports[name] for name in re.split(r"\s*,\s*", found[1].strip())}


def generate(
    component: wiring.Component,
    *,
    name: str,
    domains: Sequence[str] = (),
    emulated: bool = False,
) -> str:
    """Return the Verilog of a component and all it consists of.

    Ports are called after the members' paths with "_" between the parts, indices included
    (`link_0_tx_valid`), next to `clk` and the synchronous, active-high `rst`. Another clock domain
    has a clock and a reset called after it (`link_clk`, `link_rst`). The text depends on
    nothing but the component, Amaranth and its Yosys: not on the folder, the time or the hash
    seed. The component must not have been elaborated for something else before.

    Parameters
    ----------
    component : wiring.Component
        The component.
    name : str
        Name of the top module; the modules below have it as a prefix.
    domains : sequence of str
        Clock domains it needs in addition to `sync`.
    emulated : bool
        Sums of CRCs are looked up, which is faster to emulate and larger to build.

    Raises
    ------
    ValueError
        If `name` is not an identifier, or two members would have the same name.
    """
    _check_name(name)
    platform = VerilogModules(name, emulated=emulated)
    body = _modules(component, platform, name, domains)
    # What is a module of its own may add further ones to the list.
    for module, part in platform.components:
        text = _modules(part, platform, module, ())
        # Inlined by Verilator, its C++ would grow with the number of instances all the same.
        header = re.compile(rf"^module \\{re.escape(module)} \(.*?\);", re.M | re.S)
        body += "\n" + header.sub(lambda found: f"{found[0]} {NO_INLINE}", text, count=1)
    body = re.sub(
        rf"^module {name}\((.*?)\);$",
        _sorted_header(name, port_names(component, domains=domains)),
        body,
        flags=re.M | re.S,
    )
    off, on = (
        "".join(f"// verilator lint_{state} {warning}\n" for warning in _HARMLESS)
        for state in ("off", "on")
    )
    comment = "// Generated by MultiTree; the license covers this text too.\n"
    return f"{_LICENSE}{comment}{off}\n{body}{on}"


def chosen_yosys() -> str:
    """Which Yosys Amaranth converts with, by AMARANTH_USE_YOSYS.

    The one installed with it, always of the same version, unless the user asks for another.
    """
    return os.environ.setdefault("AMARANTH_USE_YOSYS", "builtin")


def _modules(
    component: wiring.Component, platform: VerilogModules, name: str, domains: Sequence[str]
) -> str:
    """Verilog of a component and what is below it, but of the platform's components."""
    chosen_yosys()
    try:
        with _no_garbage_collection():
            text = verilog.convert(
                component,
                name=name,
                platform=platform,
                ports=_ports(component, domains),
                emit_src=False,
                strip_internal_attrs=True,
            )
    except verilog.YosysError as error:
        raise VerilogError(f"Yosys failed: {str(error).splitlines()[-1]}") from error
    return "\n".join(map(_tidy, re.split(r"^(?=module )", text, flags=re.M)[1:]))


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Collect none meanwhile: of millions of objects all are in use, and looking costs a fifth."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _tidy(module: str) -> str:
    """Make a module's text shorter, and the same for every simulator and on every run."""
    # The order of several clocks and resets in a header follows the addresses of Python's objects.
    module = re.sub(r"(?<=\()[^()]*(?=\);$)", _sorted_ports, module, count=1, flags=re.M)
    module = re.sub(r"^ *\(\* init = .* \*\)\n", "", module, flags=re.M)
    # A signal of no width has no use, but Verilog would read two bits here.
    module = re.sub(r"^ *wire \[-1:0\] .*;\n", "", module, flags=re.M)
    # Yosys wakes every process at time 0 by a register, named after a line of its source; but
    # not those of one statement, which Icarus never runs when nothing in them changes.
    module = re.sub(r"\\\$auto\$verilog_backend\.cc:\d+:dump_module\$\d+", r"\\$wake", module)
    module = re.sub(
        r"^  always @\*\n    (.*;)\n",
        r"  always @* begin\n    if (\\$wake ) begin end\n    \1\n  end\n",
        module,
        flags=re.M,
    )
    if r"\$wake " in module and r"  reg \$wake " not in module:
        module = module.replace(");\n", ");\n  reg \\$wake  = 0;\n", 1)
    # SystemVerilog sets a register before any process waits for it: wake them afterwards.
    module = module.replace("  reg \\$wake  = 0;\n", _WAKE)
    return re.sub(
        r"^  initial begin\n    (\S+) ?\[0\] = (\S+);\n(?:    \1 ?\[\d+\] = \2;\n)*  end\n",
        _initial_loop,
        module,
        flags=re.M,
    )


def _sorted_ports(match: re.Match) -> str:
    """The ports of a header by name."""
    return ", ".join(sorted(re.split(r",\s*", match[0])))


def _initial_loop(match: re.Match) -> str:
    """A loop instead of a line per word of a memory."""
    memory, value = match[1], match[2]
    label = f"\\{memory.lstrip(chr(92))}$start "
    depth = match[0].count("\n") - 2
    return (
        f"  initial begin : {label}\n    integer word;\n"
        f"    for (word = 0; word < {depth}; word = word + 1) {memory} [word] = {value};\n  end\n"
    )


def _sorted_header(name: str, ports: Sequence[str]):
    """Put the ports of the top module into the order of `port_names`."""
    order = {port: place for place, port in enumerate(ports)}

    def replace(match: re.Match) -> str:
        present = sorted(re.split(r"\s*,\s*", match[1].strip()), key=order.__getitem__)
        return f"module {name}(\n  " + ",\n  ".join(present) + "\n);"

    return replace


def instantiation_template(verilog: str, *, name: str, domains: Sequence[str] = ()) -> str:
    """Return Verilog that declares a wire per port and instantiates a module.

    Parameters
    ----------
    verilog : str
        A text that `generate` returned, with the module.
    name : str
        Name of the module.
    domains : sequence of str
        Its clock domains in addition to `sync`.

    Raises
    ------
    ValueError
        If there is no such module.
    """
    clocks, ports = _clock_ports(domains), written_ports(verilog, name)
    wires = [
        f"wire {f'[{width - 1}:0] ' if width > 1 else ''}{port}; // {'output' if out else 'input'}"
        for port, (width, out) in ports.items()
        if port not in clocks
    ]
    return "\n".join(
        [
            _LICENSE
            + "// All inputs are sampled and all outputs change at the rising edge of clk;",
            "// rst is synchronous to clk and active high.",
            "",
            *wires,
            "",
            f"{name} {name}_instance (",
            ",\n".join(f"  .{port}({port})" for port in ports),
            ");",
            "",
        ]
    )
