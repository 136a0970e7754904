"""What the random benches have to reach: every bin, by name."""

from multitree.nic.driver.commands import DEPENDENCIES, FLOW_CONTROLS, REDUCTIONS
from multitree.nic.driver.config import LANE_TYPES
from multitree.nic.driver.faults import Awaited, FaultCode
from multitree.nic.driver.formats import NO_PORT
from multitree.sim.cocotb.case import STALLS
from multitree.sim.cocotb.coverage import Coverage, Group

__all__ = ["OPS", "WRAPS", "bins", "collective_bins", "plan_ops"]

OPS = ("REDUCE", "GATHER", "empty REDUCE", "empty GATHER")
"""Messages by what they do; an empty one is a single flit."""
NUM_SIBLINGS = (0, 1, 2, 3)
WAVES = ("one", "several", "several, with stages")
BOUNDARIES = ("link credits", "link data", "memory reads", "memory writes", "AXI4-Lite")
WRAPS = (
    *("sequence of collectives", "numbers of flits sent", "numbers of flits taken"),
    *("credits sent back", "link buffer", "memory queue", "job queue", "banks of tables"),
)
"""What counts modulo something, or goes round in a memory."""
MEETINGS = (
    "a message came while nothing ran",
    "a message came for a later collective",
    "a table was loaded while one ran",
    "a start waited for the collective before",
    "siblings came in at once: 2",
    "siblings came in at once: 3",
)
"""What happened at the same time."""
FAULTS_OF_MESSAGES = (
    FaultCode.FRAMING,
    FaultCode.UNEXPECTED_MESSAGE,
    FaultCode.STALE_SEQUENCE,
    FaultCode.DUPLICATE_MESSAGE,
    FaultCode.LENGTH,
)


def _moves(plan):
    """(op's name, siblings) of each flow's messages."""
    for flow in plan.flows:
        empty = "" if flow.size else "empty "
        if flow.children or flow.reduce_to != NO_PORT:
            yield f"{empty}REDUCE", len(flow.children)
        if flow.gather_to or flow.gather_from != NO_PORT:
            yield f"{empty}GATHER", len(flow.gather_to)


def plan_ops(plan):
    """Names in `OPS` of a table's messages."""
    return {op for op, _ in _moves(plan)}


def collective_bins(plan, settings):
    """(group, values) of what a collective covers by its table and its settings alone."""
    types = {"dtype": settings.dtype, "reduction": settings.reduction}
    mode = {"dependency": settings.dependency, "flow control": settings.flow_control}
    mode["cost_model"] = "lockstep" if settings.lockstep else "free"
    waves = WAVES[0 if plan.num_waves == 1 else 1 + bool(plan.table.stage.any())]
    for op, siblings in _moves(plan):
        yield "waves x op", {"waves": waves, "op": op}
        yield "op x type x siblings", {"op": op, "siblings": siblings, **types}
        yield "mode x op", {"op": op, **mode}


def bins():
    """All groups, nothing hit yet."""
    modes = {"dependency": DEPENDENCIES, "flow control": FLOW_CONTROLS}
    # The last one is a switch's alone.
    codes = tuple(code.name for code in FaultCode if FaultCode.NONE < code < FaultCode.ROUTE)
    awaited = tuple(what.name for what in Awaited)
    return Coverage(
        [
            Group(
                "op x type x siblings",
                {
                    "op": OPS,
                    "dtype": tuple(LANE_TYPES),
                    "reduction": REDUCTIONS,
                    "siblings": NUM_SIBLINGS,
                },
            ),
            Group("boundary x op x stall", {"boundary": BOUNDARIES, "op": OPS, "stall": STALLS}),
            Group("mode x op", {"op": OPS, "cost_model": ("free", "lockstep"), **modes}),
            Group("waves x op", {"waves": WAVES, "op": OPS}),
            Group("wrap x op", {"wrap": WRAPS, "op": OPS}),
            Group("meeting", {"meeting": MEETINGS}),
            Group("fault", {"code": codes}),
            Group(
                "fault of a message x op",
                {"code": tuple(code.name for code in FAULTS_OF_MESSAGES), "op": OPS[:2]},
            ),
            Group(
                "what a stopped collective waited for",
                {"awaited": awaited},
                without=lambda awaited: awaited == Awaited.NOTHING.name,
            ),
        ]
    )
