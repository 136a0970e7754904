"""When places in link buffers are left, which later flits of the link need."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["NEVER", "LinkBuffers", "Places"]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

NEVER = -1e18
"""Before all cycles: finite, since NumPy also computes differences of two such times."""


@dataclass(frozen=True)
class Places:
    """Place in the buffer that one flit of each message needs; arrays of shape (num_transfers,).

    `message` has the place now, or is `num_transfers` for none; `share` is how far its flit is from
    the first payload flit, 0, to the last, 1; heads leave a cycle before the first payload flit.
    """

    message: IntArray
    share: FloatArray
    is_head: npt.NDArray[np.bool_]


class LinkBuffers:
    """Messages in the buffer of each link, head flits included, in the order of the links.

    A flit needs the place of the one that went `buffer_flits` earlier over the same link. Payload
    flits of a message are taken to leave evenly.
    """

    def __init__(self, link: IntArray, size: FloatArray, num_links: int, buffer_flits: int) -> None:
        self._size, self._depth = size, buffer_flits
        # Messages and flits are numbered link by link; `begin` counts flits up to its head.
        self._by_link = np.argsort(link, kind="stable")
        self._number = np.empty_like(self._by_link)
        self._number[self._by_link] = np.arange(len(link))
        self._ends = (size[self._by_link] + 1).cumsum()
        self._begin = self._ends - size[self._by_link] - 1
        count = np.bincount(link, minlength=num_links)
        first = np.concatenate([[0.0], self._ends])[np.cumsum(count) - count]
        self._link_begin = np.repeat(first, count)
        # The last entry is of places that nothing has to leave.
        self._start_pass, self._end_pass = np.full((2, len(size) + 1), NEVER)

    def places(self, flit: int | FloatArray) -> Places:
        """Places that a flit of each message needs, 0 for the head, 1 for the first payload flit.

        There is none where the buffer has room, or the place is one of the message itself.
        """
        # All of it goes link by link, since a search for sorted values is several times as fast.
        by_link, size = self._by_link, self._size[self._by_link]
        flits = flit if isinstance(flit, int) else flit[by_link]
        wanted = self._begin + flits - self._depth
        needed = (wanted >= self._link_begin) & (wanted < self._begin)
        number = np.searchsorted(self._ends, wanted, side="right")
        number = np.where(needed, number, 0)
        payload = wanted - self._begin[number] - 1
        share = np.clip(payload, 0, None) / np.maximum(size[number] - 1, 1)
        return Places(
            message=np.where(needed, by_link[number], len(size))[self._number],
            share=np.where(needed, share, 0.0)[self._number],
            is_head=(needed & (payload < 0))[self._number],
        )

    def left(self, rows: IntArray, places: Places) -> FloatArray:
        """Cycles in which the places of messages that come next on their links are free."""
        message = places.message[rows]
        start = self._start_pass[message]
        span = self._end_pass[message] - start
        left: FloatArray = start + places.share[rows] * span - places.is_head[rows]
        return left

    def add(self, rows: IntArray, start: FloatArray, end: FloatArray) -> None:
        """Record when the first and the last payload flit of messages leave the buffer."""
        self._start_pass[rows], self._end_pass[rows] = start, end
