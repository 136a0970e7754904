"""The end of a `with`."""

import pytest

from multitree.sim.context import ContextManager


class _Door(ContextManager):
    closed = 0

    def close(self):
        self.closed += 1


def test_the_end_of_a_with_closes_once_and_an_error_goes_on():
    with _Door() as door:
        assert door.closed == 0
    assert door.closed == 1
    with pytest.raises(KeyError), door:
        raise KeyError
    assert door.closed == 2


def test_what_does_not_say_how_it_is_closed_cannot_be_made():
    with pytest.raises(TypeError):
        type("Wall", (ContextManager,), {})()
