"""The shared library of one interface configuration: Verilog and harness."""

from pathlib import Path

from multitree.hw.check_bits import check_columns, check_width
from multitree.nic.driver.config import MODULE_NAME, SWITCH_MODULE_NAME, Config
from multitree.nic.driver.formats import head_format
from multitree.nic.driver.registers import ADDRESS, FLOW_WINDOW, ROUTE_WINDOW, TABLE_WINDOW
from multitree.nic.interface import Interface, switch_for
from multitree.sim.emulator.cached_verilog import cached_verilog
from multitree.sim.emulator.states import expose, poke_macro
from multitree.sim.emulator.verilator import build_library
from multitree.sim.native_build import Say

__all__ = [
    "harness_sources",
    "interface_verilog",
    "network_library",
    "switch_verilog",
]

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
    return cached_verilog(Interface, config, name=MODULE_NAME, emulated=True)


def switch_verilog(config: Config, num_ports: int) -> str:
    """Verilog of a switch between such interfaces, generated once as theirs is."""
    return cached_verilog(switch_for, config, num_ports, name=SWITCH_MODULE_NAME, emulated=True)


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
