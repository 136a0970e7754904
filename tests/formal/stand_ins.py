"""Blocks without an inside: a bench drives their outputs as it likes."""

import warnings

from amaranth import Module
from amaranth.hdl import UnusedElaboratable

__all__ = ["hand_out", "hollow", "stand_in"]


# What a hollow block was to hold is never built.
warnings.filterwarnings("ignore", category=UnusedElaboratable)


def hollow(block_class):
    """A class of the same members that does nothing: its outputs are for the bench to drive."""

    class Hollow(block_class):
        def elaborate(self, platform):
            """Nothing."""
            return Module()

    return Hollow


def hand_out(m, name, *blocks):
    """Put these blocks, one after the other, where a module builds its own of this dotted name.

    What the others do is theirs to prove: the property holds for whatever their outputs are.
    """
    rest = iter(blocks)
    m.replace(name, lambda *_, **__: next(rest))


def stand_in(m, module, block_class, *args, **sizes):
    """A hollow block where a module builds the one that it has of this class."""
    part = hollow(block_class)(*args, **sizes)
    hand_out(m, f"{module}.{block_class.__name__}", part)
    return part
