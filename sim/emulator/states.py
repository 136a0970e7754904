"""State of a model whose bits can be flipped: memories, and registers of queues."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from multitree.hw.export.verilog import NO_INLINE

__all__ = ["State", "expose", "poke_macro"]

_MODULE = re.compile(r"^module \\?([^\s(]+)")
_MEMORY = re.compile(r"^  reg \[(\d+):0\] (\w+) \[(\d+):0\];$")
_REGISTER = re.compile(r"^  reg \[(\d+):0\] (o__payload|spare)( = .*)?;$")
_INSTANCE = re.compile(r"^  \\(\S+)  ?\\?(\S+) +\($")
_QUEUES = ("queue", "queue.register")
"""End the names of queues that hold words with check bits, and of a queue's own `Register`."""
_PUBLIC = "/*verilator public_flat_rw*/"


@dataclass(frozen=True)
class State:
    """A memory, or a register that holds an entry of a queue, with its bits per entry and its
    entries, of which a register has one; `name` is its place below the top module.
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
    for number, line in enumerate(lines):
        if header := _MODULE.match(line):
            module = header.group(1)
            found[module], instances[module] = [], []
        elif instance := _INSTANCE.match(line):
            instances[module].append((instance.group(2), instance.group(1)))
        elif memory := _MEMORY.match(line):
            lines[number] = f"{line[:-1]} {_PUBLIC};"
            width, name, depth = memory.groups()
            found[module].append(State(name, int(width) + 1, int(depth) + 1))
        elif module.endswith(_QUEUES) and (register := _REGISTER.match(line)):
            width, name, init = register.groups()
            lines[number] = f"  reg [{width}:0] {name} {_PUBLIC}{init or ''};"
            found[module].append(State(name, int(width) + 1, 1))
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
    """What Verilator calls a signal: two underscores in a row are written otherwise."""
    return "__DOT__".join(part.replace("__", "___05F") for part in (top, *name.split(".")))
