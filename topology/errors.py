"""What goes wrong with a topology or a schedule, as errors of their own."""


class TopologyError(ValueError):
    """A topology that cannot be: a wrong id, an unreachable node, an unreadable file."""


class TopologyWarning(UserWarning):
    """Something about a topology that was given and is not taken; the message names it."""


class ScheduleError(ValueError):
    """A schedule that cannot be built or is wrong; the message names row, flow and step."""
