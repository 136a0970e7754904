"""Which properties each block has, by seeded faults in its lines; else why none."""

import ast
from dataclasses import dataclass
from functools import cache

from tests.components import COMPONENTS
from tests.formal.mutants import ROOT
from tests.formal.seeded.all import MUTANTS

__all__ = [
    "ARITHMETIC",
    "CLOCKS",
    "REASONS",
    "REGISTERED",
    "WIRING",
    "Reason",
    "class_of",
    "covered",
]

WIRING = "wiring only"
REGISTERED = "wiring with registers, no state machine"
ARITHMETIC = "arithmetic"
CLOCKS = "two clocks"


@dataclass(frozen=True)
class Reason:
    """Why a block has no property of its own: of which kind it is, made of what, tested where."""

    kind: str
    text: str
    test: str


REASONS = {
    "hw.link.crossing.LinkCrossing": Reason(
        CLOCKS,
        "a netlist that is proved has one clock; Amaranth's asynchronous queue and registers",
        "tests/hw/link/test_crossing.py",
    ),
    "hw.float_add.FloatAdder": Reason(
        ARITHMETIC,
        "a pipeline without control; sums held against a model in whole numbers",
        "tests/hw/test_float_add.py",
    ),
    "hw.lanes.LaneUnit": Reason(
        ARITHMETIC,
        "adders side by side and a choice; sums held against NumPy",
        "tests/hw/test_lanes.py",
    ),
    "hw.switch.switch.Switch": Reason(
        REGISTERED,
        "`LinkPort`, `SwitchFabric` and `SwitchFaults`; a bit per port that its link was up",
        "tests/hw/switch/test_switch.py",
    ),
    "hw.link.port.LinkPort": Reason(
        WIRING,
        "`LinkTransmitter`, `LinkReceiver` and `LinkSession`",
        "tests/hw/link/test_link_port.py",
    ),
    "nic.interface.AxiInterface": Reason(
        WIRING,
        "`Interface` and an `AxiReader` or `AxiWriter` per channel",
        "tests/nic/top/test_axi_interface.py",
    ),
    "nic.top.core.Core": Reason(
        REGISTERED,
        "the blocks that `CONTROL.reset` resets; a register of the count that the bus asks for",
        "tests/nic/top/test_interface.py",
    ),
    "nic.receive.receiver.ForwardingReceiver": Reason(
        WIRING,
        "`Receiver` with `ForwardingHeaderCheck` and `ForwardingReducer`",
        "tests/nic/receive/test_forwarding_receiver.py",
    ),
    "nic.send.sender.ForwardingSender": Reason(
        WIRING,
        "`ChunkSource`, `Framer` and a queue of messages between them",
        "tests/nic/send/test_forwarding_sender_states.py",
    ),
    "nic.interface.Interface": Reason(
        REGISTERED,
        "bus, registers, drain and core; a register of what observers receive",
        "tests/nic/top/test_interface.py",
    ),
    "nic.control.memories.TableMemory": Reason(
        WIRING,
        "`BankedMemory` under other names",
        "tests/nic/control/test_memories.py",
    ),
    "nic.top.shared_core.SharedCore": Reason(
        REGISTERED,
        "`Core` with `ReductionSequencer` and `ReorderBuffer`; a count of staged contributions",
        "tests/nic/top/test_shared_interface.py",
    ),
    "nic.control.memories.Tables": Reason(
        WIRING,
        "`TableMemory`, `FlowMemory`, `Checker` and `Snapshot`",
        "tests/nic/top/test_interface.py",
    ),
}
"""Blocks without a property; a block with a state machine is none of them."""


@cache
def _parsed(path: str) -> tuple[str, ast.Module]:
    text = (ROOT / path).read_text()
    return text, ast.parse(text)


def class_of(component: str) -> ast.ClassDef:
    """The class of a component, which has a dotted name as in `tests.components`."""
    *module, name = component.split(".")
    _, tree = _parsed("/".join(module) + ".py")
    return next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name)


def _changed(mutant) -> str | None:
    """The component whose lines a seeded fault changes; None if they are of no component."""
    text, tree = _parsed(mutant.path)
    begin = text.index(mutant.old)
    # Not the context in front of what is replaced.
    pairs = enumerate(zip(mutant.old, mutant.new, strict=False))
    same = next((place for place, (old, new) in pairs if old != new), 0)
    line = text.count("\n", 0, begin + same) + 1
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.lineno <= line <= node.end_lineno:
            return ".".join((*mutant.path.removesuffix(".py").split("/"), node.name))
    return None


def covered() -> dict[str, list[str]]:
    """Per component the properties that catch a fault in its own lines, in their order."""
    found: dict[str, list[str]] = {component: [] for component in COMPONENTS}
    for mutant in MUTANTS:
        component = _changed(mutant)
        if component in found and mutant.property_name not in found[component]:
            found[component].append(mutant.property_name)
    return found
