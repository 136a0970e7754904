"""State of a model whose bits can be flipped: memories, and registers of queues."""

import re
from dataclasses import dataclass

__all__ = ["State", "expose", "poke_macro"]

_MODULE = re.compile(r"^module \\?([^\s(]+)")
_MEMORY = re.compile(r"^  reg \[(\d+):0\] (\w+) \[(\d+):0\];$")
_REGISTER = re.compile(r"^  reg \[(\d+):0\] (o__payload|spare)( = .*)?;$")
_QUEUE = ".queue"
"""Where `hw.checked_queue.Checked` holds its queue, whose registers are entries."""
_PUBLIC = "/*verilator public_flat_rw*/"


@dataclass(frozen=True)
class State:
    """A memory, or a register that holds an entry of a queue.

    Parameters
    ----------
    name : str
        Its place below the top module, with dots between the parts.
    width, depth : int
        Bits of an entry, and entries; a register has one.
    """

    name: str
    width: int
    depth: int


def expose(verilog: str) -> tuple[str, list[State]]:
    """Mark all state such that a Verilated model lets it be written.

    Parameters
    ----------
    verilog : str
        As `hw.export.verilog.generate` writes it; modules are called after their places.

    Returns
    -------
    (str, list of State)
        The same text with marks that only Verilator reads, and what is marked, in order.
    """
    lines, states, module = verilog.split("\n"), [], ""
    for number, line in enumerate(lines):
        if found := _MODULE.match(line):
            module = found.group(1)
            continue
        memory = _MEMORY.match(line)
        register = _REGISTER.match(line) if module.endswith(_QUEUE) else None
        if memory:
            lines[number] = f"{line[:-1]} {_PUBLIC};"
            depth = int(memory.group(3)) + 1
        elif register:
            name, init = register.group(2), register.group(3) or ""
            lines[number] = f"  reg [{register.group(1)}:0] {name} {_PUBLIC}{init};"
            depth = 1
        else:
            continue
        kind = memory or register
        assert kind is not None
        below = [*module.split(".")[1:], kind.group(2)]
        states.append(State(".".join(below), int(kind.group(1)) + 1, depth))
    return "\n".join(lines), states


def poke_macro(macro: str, top: str, states: list[State]) -> str:
    """Definition of a macro that the harness applies to number, bits and C++ name of each state.

    Parameters
    ----------
    macro : str
        Its name.
    top : str
        Name of the top module.
    states : list of State
        As `expose` found them.

    Returns
    -------
    str
    """
    places = (
        f"X({number}, {state.width}, {_member(top, state.name)})"
        for number, state in enumerate(states)
    )
    return f"#define {macro}(X) {' '.join(places)}\n"


def _member(top: str, name: str) -> str:
    """What Verilator calls a signal: two underscores in a row are written otherwise."""
    return "__DOT__".join(part.replace("__", "___05F") for part in (top, *name.split(".")))
