"""Transfers of a wave as they go outwards from the roots."""

from typing import NamedTuple

__all__ = ["OutwardPlan"]


class OutwardPlan(NamedTuple):
    """What a search for slots has to know of each transfer, all times counted from the roots' turn.

    The GATHER of a wave goes outwards from the root; its REDUCE does, too, with time turned around.
    So each transfer waits for one before it only.

    Parameters
    ----------
    period : int
    num_links : int
    is_reduce : list of bool (num_transfers,)
    before : list of int (num_transfers,)
        The transfer that each one follows outwards; -1 next to the root.
    lag : list of int (num_transfers,)
        Slots from the one before, or from the root's turn, to the earliest slot.
    link, slots : list of int (num_transfers,)
        The link of each, and how many slots it is held.

    Examples
    --------
    >>> plan = OutwardPlan(4, 2, [False, False, True], [-1, 0, -1], [0, 1, 1], [0, 1, 1], [1] * 3)
    >>> plan.outwards(), plan.followers(), plan.start(2, 1), plan.time(2, 3)
    ([0, 2, 1], [1, 0, 0], 3, 1)
    """

    period: int
    num_links: int
    is_reduce: list[bool]
    before: list[int]
    lag: list[int]
    link: list[int]
    slots: list[int]

    def after(self) -> list[list[int]]:
        """The transfers that follow each one."""
        after: list[list[int]] = [[] for _ in self.before]
        for transfer, before in enumerate(self.before):
            if before >= 0:
                after[before].append(transfer)
        return after

    def outwards(self) -> list[int]:
        """All transfers, each behind the one that it follows."""
        after = self.after()
        order = [transfer for transfer, before in enumerate(self.before) if before < 0]
        for transfer in order:
            order += after[transfer]
        return order

    def followers(self) -> list[int]:
        """How many transfers follow each one on its longest way outwards."""
        longest = [0] * len(self.before)
        for transfer in reversed(self.outwards()):
            before = self.before[transfer]
            if before >= 0:
                longest[before] = max(longest[before], longest[transfer] + 1)
        return longest

    def start(self, transfer: int, time: int) -> int:
        """The slot of the period in which a transfer begins that has an outward time."""
        first = 1 - self.slots[transfer] - time if self.is_reduce[transfer] else time
        return first % self.period

    def time(self, transfer: int, start: int) -> int:
        """The outward time, modulo the period, of a transfer that begins in a slot."""
        first = 1 - self.slots[transfer] - start if self.is_reduce[transfer] else start
        return first % self.period
