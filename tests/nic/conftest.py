"""Fixtures of the tests of blocks, ports and interfaces."""

import pytest
from amaranth import Signal

from multitree.hw.check_bits import Checked


@pytest.fixture
def flips(monkeypatch):
    """A wire for each queue that is elaborated from now on: what left it had flipped bits."""
    wires, elaborate = [], Checked.elaborate

    def with_wire(self, platform):
        m = elaborate(self, platform)
        wires.append(Signal(name=f"flip_{len(wires)}"))
        with m.If(wires[-1]):
            m.d.comb += self.state_error.eq(1)
        return m

    monkeypatch.setattr(Checked, "elaborate", with_wire)
    return wires
