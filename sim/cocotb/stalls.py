"""Stalls of a boundary: drawn by their class, measured by what was really held up."""

import random
from collections.abc import Iterable

__all__ = ["LEVELS", "LONG_CYCLES", "STALLS", "Stall", "worst"]

STALLS = ("0 %", "1-49 %", "50-99 %", "100 % for a while")
"""Classes of stalls, by the share of the cycles in which something could have moved."""
LEVELS = {"none": STALLS[:1], "light": STALLS[:2], "heavy": STALLS}
"""Classes that are drawn from, by a name for people."""
LONG_CYCLES = 32
"""As many cycles on end without a move are a while."""
_CHANCES = {STALLS[0]: (0.0, 0.0), STALLS[1]: (0.1, 0.4), STALLS[2]: (0.55, 0.85)}
_PAUSE_CHANCE = 0.005


class Stall:
    """Random stalls of a boundary, cycle by cycle, and their measured class.

    Examples
    --------
    >>> stall = Stall(random.Random(1))
    >>> stall.choose("50-99 %")
    >>> sum(stall.held() for _ in range(1000)) > 500, stall.measured
    (True, '50-99 %')
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.choose(STALLS[0])

    def choose(self, kind: str) -> None:
        """Begin anew with one of the classes in `STALLS`."""
        self._chance = self._rng.uniform(*_CHANCES.get(kind, (0.0, 0.5)))
        self._pauses = kind == STALLS[3]
        self._pause = 0
        self._asked = self._held = self._run = self._longest = 0

    def stop(self) -> None:
        """Hold everything up from now on."""
        self._chance, self._pauses = 1.0, False

    def held(self) -> bool:
        """True if what could move in this cycle is held up."""
        if self._pause:
            self._pause -= 1
            held = True
        # The first question begins a pause, so that short runs have one, too.
        elif self._pauses and (not self._asked or self._rng.random() < _PAUSE_CHANCE):
            self._pause = self._rng.randrange(LONG_CYCLES, 3 * LONG_CYCLES)
            held = True
        else:
            held = self._rng.random() < self._chance
        self._asked += 1
        self._held += held
        self._run = self._run + 1 if held else 0
        self._longest = max(self._longest, self._run)
        return held

    @property
    def asked(self) -> int:
        """Cycles in which something could have moved."""
        return self._asked

    @property
    def measured(self) -> str:
        """Class of the stalls since `choose`."""
        if self._longest >= LONG_CYCLES:
            return STALLS[3]
        if not self._held:
            return STALLS[0]
        return STALLS[1] if 2 * self._held < self._asked else STALLS[2]


def worst(stalls: Iterable[Stall]) -> str | None:
    """Worst class of those stalls that were asked at all, or None."""
    classes = [STALLS.index(stall.measured) for stall in stalls if stall.asked]
    return STALLS[max(classes)] if classes else None
