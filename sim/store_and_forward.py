"""On shared links messages go whole: what dependency and flow control must be."""

from multitree.nic.program import DEPENDENCIES, FLOW_CONTROLS
from multitree.sim.link_model import LinkModel
from multitree.topology.errors import ScheduleError
from multitree.topology.mapping.attached_routers import lowered
from multitree.topology.schedules.schedule import Schedule

__all__ = ["check_store_and_forward", "shares_links"]

_WHOLE = {"dependency": DEPENDENCIES[0], "flow_control": FLOW_CONTROLS[0]}


def shares_links(schedule: Schedule) -> bool:
    """Whether it runs through switches, of the network or beside ranks, where messages meet."""
    return lowered(schedule).topology.num_switches > 0


def check_store_and_forward(schedule: Schedule, link_model: LinkModel) -> None:
    """Raise unless messages wait for nothing once they have begun, and have one head.

    Parameters
    ----------
    schedule : Schedule
        One that is run on shared links.
    link_model : LinkModel
        Its `dependency` and `flow_control`.

    Raises
    ------
    ScheduleError
        If these are not "chunk" and "message".
    """
    for what, whole in _WHOLE.items():
        found = getattr(link_model, what)
        if found != whole:
            raise ScheduleError(
                f"{schedule.topology.name}: {what} must be {whole} where links are shared, "
                f"not {found!r}"
            )
