"""What is refused, and what is said of it."""

import pytest

__all__ = ["refuses"]


def refuses(error, says, call, /, *given, **named):
    """Hold that a call raises an error whose text matches."""
    with pytest.raises(error, match=says):
        call(*given, **named)
