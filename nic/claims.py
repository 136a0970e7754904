"""Signatures of shared links: a message asks for its place, its turn comes."""

from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from multitree.nic.message import ORDER_WIDTH

__all__ = ["ClaimSignature", "TurnSignature", "Verdict"]


class Verdict(enum.Enum, shape=2):
    """What becomes of a message that comes in."""

    DIRECT = 0
    STAGED = 1
    TWICE = 2
    WAITS = 3


class ClaimSignature(wiring.Signature):
    """A message that comes in asks where it may go.

    Members
    -------
    valid, op, flow, order : Out
        The question, held until answered.
    empty : Out(1)
        It has no payload: it is in with the answer.
    last : Out
        The place of the flow's last contribution.
    answered : In(1)
        Strobe.
    verdict : In(Verdict)
        The answer: add it to memory or write it over memory, stage it, refuse it because it came
        before in this collective, or let it wait for its turn, since all before it have begun to
        come in. Without payload anything but that it came before means it is in.
    """

    def __init__(self):
        super().__init__(
            {
                "valid": Out(1),
                "op": Out(1),
                "flow": Out(16),
                "order": Out(ORDER_WIDTH),
                "empty": Out(1),
                "last": Out(ORDER_WIDTH),
                "answered": In(1),
                "verdict": In(Verdict),
            }
        )


class TurnSignature(wiring.Signature):
    """The turn of a contribution has come: it may be added now.

    Members
    -------
    valid : Out(1)
        There is one.
    flow, order : Out
        Which one.
    """

    def __init__(self):
        super().__init__({"valid": Out(1), "flow": Out(16), "order": Out(ORDER_WIDTH)})
