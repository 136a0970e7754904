"""Interfaces to be synthesised, and the blocks that names in a netlist belong to."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from amaranth.hdl import Fragment

from multitree.hw.codes import LEAST_STAGES
from multitree.nic.driver.config import MODES, MODULE_NAME, Config
from multitree.nic.interface import Interface
from multitree.sim.emulator.library import cached_verilog

SPEC = "ports:flit_bytes:lanes:wave_width[:forward_flits[:adder_stages[:modes]]]"
TOP_CLASS = "nic.interface.Interface"
PACKAGE = "multitree."


@dataclass(frozen=True)
class Case:
    """What of an interface is varied here; the rest is as by default.

    Modes are joined by "+", or "none".
    """

    ports: int
    flit_bytes: int = 16
    lanes: str = "float32"
    wave_width: int = 0
    forward_flits: int = 0
    adder_stages: int = LEAST_STAGES
    modes: str = "+".join(MODES)

    @classmethod
    def parse(cls, text: str) -> "Case":
        """A case from the text that `--only` takes; a ValueError where there is none."""
        ports, *rest = parts = text.split(":")
        if len(parts) not in (4, 5, 6, 7):
            raise ValueError(f"An interface must be {SPEC}, not {text!r}")
        flit_bytes, lanes, *more = rest
        sizes, modes = more[:3], more[3:]
        try:
            numbers = [int(part) for part in (ports, flit_bytes, *sizes)]
        except ValueError:
            raise ValueError(f"An interface must be {SPEC}, not {text!r}") from None
        case = cls(numbers[0], numbers[1], lanes, *numbers[2:], *modes)
        case.config()
        return case

    def config(self) -> Config:
        """The interface's sizes; a ValueError where there is no such interface."""
        return Config(
            num_ports=self.ports,
            flit_bytes=self.flit_bytes,
            dtypes=(self.lanes,),
            wave_width=self.wave_width,
            forward_flits=self.forward_flits,
            adder_stages=self.adder_stages,
            modes=() if self.modes == "none" else tuple(self.modes.split("+")),
        )

    def columns(self) -> dict[str, int | str]:
        return {
            "ports": self.ports,
            "flit_bits": 8 * self.flit_bytes,
            "lanes": self.lanes,
            "wave_width": self.wave_width,
            "forward_flits": self.forward_flits,
            "adder_stages": self.adder_stages,
            "modes": self.modes,
        }

    def write_verilog(self, folder: Path) -> Path:
        sizes = map(str, self.columns().values())
        path = folder / f"{MODULE_NAME}_{'_'.join(sizes).replace('+', '_')}.v"
        path.write_text(cached_verilog(Interface, self.config(), name=MODULE_NAME))
        return path

    def blocks(self) -> dict[str, str]:
        """Class of every block by its path below the top, as in `core.port_0.sender`."""
        blocks: dict[str, str] = {}
        _walk(Fragment.get(Interface(self.config()), None), (), blocks)
        return blocks


def _walk(fragment: Fragment, path: tuple[str, ...], blocks: dict[str, str]) -> None:
    """Add a fragment that comes from a class of the project, and those below it."""
    for origin in fragment.origins or ():
        module, name = type(origin).__module__, type(origin).__qualname__
        if module.startswith(PACKAGE):
            blocks[".".join(path)] = f"{module.removeprefix(PACKAGE)}.{name}"
    for part, name, *_ in fragment.subfragments:
        _walk(part, (*path, str(name)), blocks)


def block_of(name: str, blocks: Mapping[str, str]) -> str:
    """The block that a name in a flattened netlist belongs to, with its class behind it."""
    parts = name.lstrip("\\").split(".")
    for length in range(len(parts), 0, -1):
        path = ".".join(parts[:length])
        if path in blocks:
            return f"{path} [{blocks[path]}]"
    return f"top [{TOP_CLASS}]"
