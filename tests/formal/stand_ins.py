"""Blocks without an inside: a bench drives their outputs as it likes."""

import warnings

from amaranth import Module
from amaranth.hdl import UnusedElaboratable

from tests.formal.bench import plain

__all__ = ["free_outputs", "hand_out", "hollow"]


# What a hollow block was to hold is never built.
warnings.filterwarnings("ignore", category=UnusedElaboratable)


def hollow(block_class):
    """A class of the same members that does nothing: its outputs are for the bench to drive."""

    class Hollow(block_class):
        def elaborate(self, platform):
            """Nothing."""
            return Module()

    return Hollow


def hand_out(bench, name, *blocks):
    """Put these blocks, one after the other, where a module builds its own of this dotted name.

    What the others do is theirs to prove: the property holds for whatever their outputs are.
    """
    rest = iter(blocks)
    bench.replace(name, lambda *_, **__: next(rest))


def free_outputs(bench, prefix, *signals):
    """Give signals, or streams' payloads, any value in every cycle."""
    for number, signal in enumerate(signals):
        value = plain(signal)
        bench.m.d.comb += value.eq(bench.free(f"{prefix}_{number}", len(value)))
