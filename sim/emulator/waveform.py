"""Which cycles of a run to dump as a waveform, and into which kind of file."""

from dataclasses import dataclass
from pathlib import Path

from multitree.sim.emulator.verilator import WAVEFORMS

__all__ = ["Waveform"]


@dataclass(frozen=True)
class Waveform:
    """A file to dump waveforms into; raises ValueError for other endings, or unordered cycles."""

    path: Path  # its ending says which kind: .vcd or .fst
    first_cycle: int = 0  # of a collective
    last_cycle: int | None = None  # the one after the last; None is the end
    ports_only: bool = False  # wires of the top modules only: a thirtieth of the size

    def __post_init__(self) -> None:
        """Check ending and window."""
        if self.kind not in WAVEFORMS:
            endings = " or ".join(f".{kind}" for kind in WAVEFORMS)
            raise ValueError(f"Waveform must end in {endings}, not {str(self.path)!r}")
        last = self.last_cycle
        if self.first_cycle < 0 or (last is not None and last <= self.first_cycle):
            raise ValueError(
                "Waveform window must be A:B with 0 <= A < B, "
                f"not {self.first_cycle}:{'' if last is None else last}"
            )

    @property
    def kind(self) -> str:
        """Ending of the file without the dot."""
        return Path(self.path).suffix[1:]
