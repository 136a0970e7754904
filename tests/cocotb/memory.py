"""A memory behind the interface's channels, as slow and as uneven as they allow."""

from collections import deque

import numpy as np
from cocotb.triggers import FallingEdge

__all__ = ["Memory"]


class _Channel:
    """Ready now and then; every request taken is answered in order, some cycles later."""

    def __init__(self, dut, prefix, rng, *, answer, ready_chance, latencies):
        self._request = getattr(dut, f"{prefix}_valid")
        self._ready = getattr(dut, f"{prefix}_ready")
        self._answer = getattr(dut, f"{prefix}_{answer}")
        getattr(dut, f"{prefix}_error").value = 0
        self.address = getattr(dut, f"{prefix}_address")
        self.data = getattr(dut, f"{prefix}_data")
        self._rng, self._chance, self._latencies = rng, ready_chance, latencies
        self._waiting = deque()
        self._cycle = 0
        self.taken = 0

    def step(self, take, answer):
        """One cycle, in its middle: outputs are settled, inputs are set for its end."""
        self._cycle += 1
        due = bool(self._waiting) and self._waiting[0][0] <= self._cycle
        self._answer.value = int(due)
        if due:
            answer(self._waiting.popleft()[1])
        ready = self._rng.random() < self._chance
        self._ready.value = int(ready)
        if ready and self._request.value == 1:
            least, most = self._latencies
            after = self._cycle + int(self._rng.integers(least, most + 1))
            if self._waiting:
                after = max(after, self._waiting[-1][0] + 1)
            self._waiting.append((after, take()))
            self.taken += 1


class Memory:
    """Flits of one rank, read and written through the channels of its ports.

    A read returns what was acknowledged when it was taken, and not more: a write reaches the
    memory in the very cycle of its acknowledgement, as late as the contract allows.

    Parameters
    ----------
    dut : handle
        The design.
    ports : list of str
        Prefixes of the ports' channels, e.g. "rank_0_memory_1_"; each has `fetch`, `write` and,
        where there is a sender, `send`.
    flits : uint8 array, shape (num_flits, flit_bytes)
        Contents, changed in place.
    seed : int
        Of the latencies and of `ready`.
    ready_chance : float
        Share of the cycles in which a channel is ready.
    latencies : (int, int)
        Least and most cycles from a request to its answer.
    """

    def __init__(self, dut, ports, flits, *, seed, ready_chance=0.8, latencies=(1, 20)):
        self._clock = dut.clk
        self.flits = flits
        self._reads, self._writes = [], []
        rng = np.random.default_rng(seed)
        timing = {"ready_chance": ready_chance, "latencies": latencies}
        for port in ports:
            for name in ("send", "fetch"):
                if hasattr(dut, f"{port}{name}_valid"):
                    channel = _Channel(dut, f"{port}{name}", rng, answer="data_valid", **timing)
                    self._reads.append(channel)
            self._writes.append(_Channel(dut, f"{port}write", rng, answer="ack", **timing))

    @property
    def accesses(self):
        """Reads and writes taken so far."""
        return sum(channel.taken for channel in self._reads + self._writes)

    async def serve(self):
        """Serve all channels for ever."""
        while True:
            await FallingEdge(self._clock)
            for channel in self._reads:
                channel.step(
                    lambda c=channel: self._load(c), lambda data, c=channel: self._give(c, data)
                )
            for channel in self._writes:
                channel.step(lambda c=channel: self._note(c), self._store)

    def _load(self, channel):
        return self.flits[int(channel.address.value)].copy()

    def _give(self, channel, data):
        channel.data.value = int.from_bytes(data.tobytes(), "little")

    def _note(self, channel):
        data = int(channel.data.value).to_bytes(self.flits.shape[1], "little")
        return int(channel.address.value), np.frombuffer(data, dtype=np.uint8)

    def _store(self, write):
        address, data = write
        self.flits[address] = data
