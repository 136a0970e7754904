"""The page of results: what is claimed, what was found, which faults were caught."""

from tests.formal.inventory import REASONS, covered

__all__ = ["blocks", "claimed", "markdown", "sizes_of"]

_INTRODUCTION = """# Formal properties

Written by `python -m tests.formal.run --markdown docs/formal.md`; `make formal` and
`make formal-mutants` run the same, with two solvers side by side.

Amaranth writes the netlist of a block, its environment and the property; Yosys makes it an
and-inverter graph; ABC decides. *proved*: for any number of cycles from reset, by property-directed
reachability (Een, Mishchenko, Brayton, FMCAD 2011), whose invariant ABC checks. *bounded n*: no
counterexample within n cycles from reset. Each line includes its covers: the situations that the
property speaks of were reached, so that no assumption makes it empty. Data are followed one
arbitrary payload at a time; `bit` is the bit of it that is compared, since blocks carry all bits
alike. Inputs of a block are free each on its own: no two share a bit, but for the higher 15 bits of
the steps in `switch.channels`. Addresses, flows, counts and data are free in the low bits that a
parameter set has room for, and 0 above. Seconds are of the processor, Yosys and covers included.
"""


def _table(header, rows):
    lines = [header, tuple("---" for _ in header), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def blocks():
    """Table of all components of `hw/` and `nic/`: their properties, or why they have none."""
    rows = []
    for component, names in covered().items():
        reason = REASONS.get(component)
        why = "" if reason is None else f"{reason.kind}: {reason.text} (`{reason.test}`)"
        rows.append((component, ", ".join(names) or why))
    return _table(("block", "properties that catch a fault in it, or why none"), rows)


def claimed(claims):
    """Table of properties: what holds by each."""
    return _table(("property", "what holds"), [(claim.name, claim.claim) for claim in claims])


def sizes_of(claim, index):
    """A parameter set in words."""
    return ", ".join(f"{size} {value}" for size, value in claim.sizes[index].items())


def markdown(claims, rows, mutants):
    """Tables of claims, results and seeded faults, with the command that finds them again."""
    return (
        f"{_INTRODUCTION}\n## What is claimed\n\n"
        + claimed(claims)
        + "\n## Blocks\n\n"
        + "A block has a property if that catches a fault seeded in the block's own lines.\n\n"
        + blocks()
        + "\n## Results\n\n"
        + _table(("property", "parameters", "result", "seconds"), rows)
        + "\n## Seeded faults\n\n"
        + "Each is one line of a block, changed in a copy; the property has to refute it.\n\n"
        + _table(("property", "fault in the block", "result"), mutants)
    )
