"""When places in link buffers come free, so that senders get their credits back."""

import numpy as np
import numpy.typing as npt

from multitree.topology.arrays import positions_in_group

__all__ = ["LinkBuffers"]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

# It is finite, since NumPy also computes differences of two such times, which are then masked.
_NEVER = -1e18


class LinkBuffers:
    """Per link the messages that went through its buffer, head flits included.

    A flit needs the place of the one that went `buffer_flits` earlier over the same link.
    Messages are added in the order in which their link carries them. Between a message's first
    and last payload flit those in between are taken to leave evenly.

    Parameters
    ----------
    link : int64 array, shape (num_transfers,)
        The link of each message.
    size : float64 array, shape (num_transfers,)
        Its payload flits.
    num_links : int
    buffer_flits : int
        Places of each buffer.
    """

    def __init__(self, link: IntArray, size: FloatArray, num_links: int, buffer_flits: int) -> None:
        self._link = link
        self._size = size
        self._depth = buffer_flits
        turn = positions_in_group(self._link)
        # Message t of link l is number `offset[l] + t` here, and `before` counts flits ahead of
        # its head.
        self._offset = np.concatenate([[0], np.bincount(self._link, minlength=num_links)]).cumsum()
        self._number = self._offset[self._link] + turn
        flits = np.zeros(len(size))
        flits[self._number] = size + 1
        total = np.concatenate([[0.0], flits.cumsum()])
        self._before = total[self._number] - total[self._offset[self._link]]
        self._end = np.zeros(len(size))
        self._end[self._number] = self._before + size + 1
        self._start_pass = np.full(len(size), _NEVER)
        self._end_pass = np.full(len(size), _NEVER)
        self._payload = np.zeros(len(size))
        self._payload[self._number] = size
        self._oldest = self._offset[:-1].copy()

    def earlier(self, rows: IntArray, flit: int | FloatArray) -> FloatArray:
        """When the place for a message's flit is left by a flit of an earlier message.

        Parameters
        ----------
        rows : int64 array
            Messages that come next on their links, one per link.
        flit : int or float64 array
            0 for the head, 1 for the first payload flit.

        Returns
        -------
        float64 array
            Cycles; far in the past where no place is needed, or one of the message itself.
        """
        wanted = self._before[rows] + flit - self._depth
        mine = self._number[rows]
        link = self._link[rows]
        needed = (wanted >= 0) & (wanted < self._before[rows])
        # Later messages of a link want later flits, so that the search goes on where it ended.
        number = self._oldest[link]
        # But for one: the head's place may be asked for again after that of the flit behind it.
        begin = self._end[number] - self._payload[number] - 1
        number = np.where(needed & (wanted < begin), number - 1, number)
        while True:
            behind = needed & (self._end[np.minimum(number, mine)] <= wanted) & (number < mine)
            if not behind.any():
                break
            number = np.where(behind, number + 1, number)
        self._oldest[link] = np.where(needed, number, self._oldest[link])
        number = np.minimum(number, mine)
        place = wanted - (self._end[number] - self._payload[number])
        return np.where(needed, self._between(number, place), _NEVER)

    def add(self, rows: IntArray, start: FloatArray, end: FloatArray) -> None:
        """Note when the first and the last payload flit of messages left the buffer."""
        number = self._number[rows]
        self._start_pass[number], self._end_pass[number] = start, end

    def _between(self, number: IntArray, place: FloatArray) -> FloatArray:
        """When a payload flit of a message left; the head just before the first."""
        share = np.clip(place, 0, None) / np.maximum(self._payload[number] - 1, 1)
        span = self._end_pass[number] - self._start_pass[number]
        return np.where(
            place < 0, self._start_pass[number] - 1, self._start_pass[number] + share * span
        )
