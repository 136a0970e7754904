"""Random memory latencies and stalls, reproducible by their seed."""

from dataclasses import dataclass

__all__ = ["MemoryTiming"]


@dataclass(frozen=True)
class MemoryTiming:
    """How memory strays from its fixed latency.

    Parameters
    ----------
    extra_cycles : int
        Each request takes up to so many cycles more, drawn per channel and request.
    stall_percent : int
        Cycles out of a hundred in which a channel takes no request.
    seed : int
        Of the random numbers; equal seeds give equal runs.

    Raises
    ------
    ValueError
        If a number is out of range.
    """

    extra_cycles: int = 0
    stall_percent: int = 0
    seed: int = 1

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name, most in (("extra_cycles", 2**20), ("stall_percent", 99), ("seed", 2**63 - 1)):
            value = getattr(self, name)
            if not 0 <= value <= most:
                raise ValueError(f"MemoryTiming {name} must be in 0..{most}, not {value!r}")
