"""What goes wrong with a sweep as a whole, not with one of its points."""

__all__ = ["SweepError"]


class SweepError(ValueError):
    """A sweep that cannot be defined, started or gone on with; the text says what must be."""
