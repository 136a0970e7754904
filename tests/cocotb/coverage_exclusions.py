"""Points that cannot be reached: those a table names, and what follows."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

__all__ = ["TABLE", "Exclusion", "Settled", "read_exclusions", "settle"]

TABLE = Path(__file__).with_name("coverage_exclusions.toml")


@dataclass(frozen=True)
class Exclusion:
    """Points that the table names, and in one sentence why they cannot be reached."""

    # Regular expressions of all of a point's `module` and `what`.
    module: str
    what: str
    reason: str
    # The highest and the lowest one of the signal.
    bits: tuple[int, int] | None = None

    def __str__(self):
        """Short, for a message."""
        high_low = f"[{self.bits[0]}:{self.bits[1]}]" if self.bits else ""
        return f"{self.what}{high_low} in {self.module}"

    def matches(self, point):
        """Whether a point is one of these."""
        high, low = self.bits or (point.bit, point.bit)
        right = re.fullmatch(self.what, point.what) and re.fullmatch(self.module, point.module)
        return bool(right) and low <= point.bit <= high


@dataclass(frozen=True)
class Settled:
    """What is left of the points: `counted`, and how many are excluded and why."""

    counted: list
    # How many points each exclusion names.
    named: list
    # Bits that stand still in the netlist as it is, each way, and because named ones do.
    num_constant: int
    num_following: int
    # Exclusions that name nothing that was missed, or points that were reached.
    errors: list


def read_exclusions(path=TABLE):
    """The table of exclusions."""
    found = []
    for entry in tomllib.loads(Path(path).read_text())["exclusion"]:
        bits = entry.pop("bits", None)
        high_low = tuple(map(int, bits.split(":"))) if bits else None
        found.append(Exclusion(**entry, bits=high_low))
    return found


def settle(points, exclusions, netlist):
    """Take out what cannot be reached, and hold it against what was reached.

    A signal that is named is taken to stay at 0, with all that then stands still in the netlist:
    its other names, and what is computed of it. So a wrong entry shows: something that follows was
    reached.
    """
    named = {e: [point for point in points if e.matches(point)] for e in exclusions}
    errors = [
        f"Exclusion {e} names nothing that was missed"
        for e, those in named.items()
        if all(point.count for point in those)
    ]
    direct = {id(point) for those in named.values() for point in those}
    toggles = [point for those in named.values() for point in those if point.kind == "toggle"]
    ties = {(name, point.bit) for point in toggles for name in netlist.places(point)}
    as_built = tied = _still(points, netlist, ())
    if ties:
        tied = _still(points, netlist, ties)
    counted, num_following = [], 0
    for point in points:
        if id(point) not in direct and id(point) not in tied:
            counted.append(point)
        elif _reached(point, tied.get(id(point))):
            errors.append(f"Excluded, but reached: {point}")
        num_following += id(point) in tied and id(point) not in {*direct, *as_built}
    return Settled(counted, list(map(len, named.values())), len(as_built), num_following, errors)


def _still(points, netlist, ties):
    """What the bit of a toggle stays at, by the id of the point, where it stands still."""
    bits, still = netlist.bits(ties), {}
    for point in points:
        names = netlist.places(point) if point.kind == "toggle" else []
        values = {bits[name][point.bit] for name in names}
        # One that is not defined may be anything in a simulator.
        if values and values <= {"0", "1", "x"} and not ("x" in values and point.count):
            still[id(point)] = "1" if "1" in values else "0"
    return still


def _reached(point, value):
    """Whether a point was reached, other than by a 1 that comes up at the start."""
    return point.count > 0 and not (value == "1" and point.edge == "0->1")
