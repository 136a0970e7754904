"""A network in RTL that can do without one of its protections against deadlock."""

import ctypes
import tempfile
from functools import cache
from pathlib import Path

from multitree.nic.driver.config import MODULE_NAME, SWITCH_MODULE_NAME, Config
from multitree.sim.emulator.library import harness_sources
from multitree.sim.emulator.verilator import build_library
from multitree.sim.native_build import cached, content_key
from tests.formal.mutants import ROOT, patched
from tests.programs import python

__all__ = ["CONFIG", "NOTHING", "NUM_SWITCH_PORTS", "library", "remove"]

CONFIG = Config(
    num_ports=1,
    table_depth=32,
    num_flows=8,
    buffer_flits=8,
    submessage_flits=4,
    memory_queue_flits=32,
    address_width=12,
    dtypes=("int32",),
    num_classes=2,
    max_children=4,
)
NUM_SWITCH_PORTS = 3
NOTHING = "nothing"
_PROTECTIONS = (NOTHING, "staging", "parity", "hold")

_BEFORE = "\n__all__ ="
_IMPORT = "from multitree.hw.removed import removed\n\n__all__ ="
_HEADER_LOOKUP, _OUTPUT = "nic/receive/header_lookup.py", "hw/switch/output.py"
_EDITS = (
    *(
        (path, _BEFORE, _IMPORT)
        for path in (_HEADER_LOOKUP, "nic/reduce/sequencer.py", "nic/send/sender.py", _OUTPUT)
    ),
    # A contribution that is not next claims nothing, and its head stays where it is.
    (
        "nic/reduce/sequencer.py",
        "m.d.comb += after.locked.eq(held.locked | place)\n",
        'waits = removed(m, "staging") & ~is_next\n'
        "                m.d.comb += after.locked.eq(held.locked | Mux(waits, 0, place))\n",
    ),
    (
        _HEADER_LOOKUP,
        "self.heads).eq(1 << chosen.grant)",
        'self.heads).eq(Mux(removed(m, "staging"), 0, 1 << chosen.grant))',
    ),
    (
        _HEADER_LOOKUP,
        "with m.If(self.reservation.answered):\n",
        "with m.If(self.reservation.answered):\n"
        '                    with m.If(removed(m, "staging")):\n'
        "                        stays = self.reservation.verdict == Verdict.STAGED\n"
        "                        m.d.comb += Cat(flits.ready for flits in self.heads).eq(\n"
        "                            Mux(stays, 0, 1 << vc)\n"
        "                        )\n",
    ),
    (
        _HEADER_LOOKUP,
        "self.opened.eq(Mux(single, 0, 1 << vc))",
        "self.opened.eq(Mux(single | (removed(m, 'staging') & "
        "(self.reservation.verdict == Verdict.STAGED)), 0, 1 << vc))",
    ),
    # All collectives use the even channels.
    (
        "nic/send/sender.py",
        "self.vc.eq(Cat(self.run.sequence[0],",
        'self.vc.eq(Cat(self.run.sequence[0] & ~removed(m, "parity"),',
    ),
    (
        _HEADER_LOOKUP,
        "(self.run.sequence[0] == vc % 2)",
        'Mux(removed(m, "parity"), '
        "data.View(self._head, flits.payload.payload).sequence == self.run.sequence, "
        "self.run.sequence[0] == vc % 2)",
    ),
    # Who has sent a head on a link has the link until the tail.
    (
        _OUTPUT,
        "goes, ends = Signal(self.num_vcs), Signal()",
        "goes, ends = Signal(self.num_vcs), Signal()\n"
        "        self.held, self.holder = Signal(), Signal(range(self.num_vcs))\n"
        "        with m.If(link.valid):\n"
        "            m.d.sync += [self.held.eq(~ends), self.holder.eq(link.grant)]",
    ),
    (
        _OUTPUT,
        "& self.may_send[vc]",
        '& self.may_send[vc] & (~removed(m, "hold") | ~self.held | (self.holder == vc))',
    ),
)
_REMOVED = '''"""Which protection is removed: the emulation knows."""

from amaranth import Instance, Signal


def removed(m, name):
    """A signal that is high where this one is."""
    signal = Signal(name=f"without_{name}")
    m.submodules += Instance("removed", **{f"o_{name}": signal})
    return signal
'''
_OUTPUTS = ", ".join(f"output {name}" for name in _PROTECTIONS[1:])
_MODULE = f"""
module removed({_OUTPUTS});
  import "DPI-C" function int removed_protection();
  int which;
  initial which = removed_protection();
  {" ".join(f"assign {name} = which == {k};" for k, name in enumerate(_PROTECTIONS) if k)}
endmodule
"""
_SOURCE = """
#pragma GCC visibility push(default)
extern "C" {
int which_protection = 0;
int removed_protection() { return which_protection; }
}
#pragma GCC visibility pop
"""
_GENERATE = """
import sys
from pathlib import Path
from multitree.hw.export.verilog import generate
from multitree.nic.driver.config import MODULE_NAME, SWITCH_MODULE_NAME, Config
from multitree.nic.interface import Interface, switch_for
config, num_ports, folder = eval(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
(folder / "nic.v").write_text(generate(Interface(config), name=MODULE_NAME))
switch = switch_for(config, num_ports)
(folder / "switch.v").write_text(generate(switch, name=SWITCH_MODULE_NAME))
"""


@cache
def library() -> Path:
    """The network, compiled once for all that can be removed from it."""
    nic, switch = (text + _MODULE for text in _verilog())
    return build_library(
        nic,
        harness_sources(CONFIG, NUM_SWITCH_PORTS) | {"removed.cpp": _SOURCE},
        top=MODULE_NAME,
        more={"Vswitch": (switch, SWITCH_MODULE_NAME)},
    )


def remove(protection: str) -> None:
    """Let the networks that are made from now on do without a protection, or `NOTHING`."""
    number = ctypes.c_int.in_dll(ctypes.CDLL(str(library())), "which_protection")
    number.value = _PROTECTIONS.index(protection)


def _verilog() -> tuple[str, str]:
    """Verilog of interface and switch, from a copy of the rooms with the changes in it."""
    with tempfile.TemporaryDirectory() as folder:
        package = patched(folder, _EDITS)
        (package / "hw" / "removed.py").write_text(_REMOVED)
        hardware = [path for room in ("hw", "nic") for path in (package / room).rglob("*.py")]

        def make(place: Path) -> None:
            program = ("-W", "ignore", "-c", _GENERATE, repr(CONFIG), NUM_SWITCH_PORTS, place)
            python(*program, folder=ROOT, PYTHONPATH=folder)

        key = content_key(repr(CONFIG), *(path.read_bytes() for path in sorted(hardware)))
        place = cached("verilog", key, make)
        return (place / "nic.v").read_text(), (place / "switch.v").read_text()
