"""A memory behind the interface's channels, as slow and as uneven as they allow."""

from collections import deque

import numpy as np
from cocotb.triggers import FallingEdge
from cocotb.types import Logic

__all__ = ["Memory"]

_HIGH = Logic(1)
"""To be compared with: a number would be made a `Logic` each time."""


def _is_high(value):
    """Whether one bit is 1; Verilator shows some ports of one bit as arrays, which equal no bit."""
    return value == (_HIGH if isinstance(value, Logic) else 1)


class _Channel:
    """Ready now and then; every request taken is answered in order, some cycles later."""

    def __init__(self, dut, prefix, rng, *, answer, held, latencies):
        self._request = getattr(dut, f"{prefix}_valid")
        names = {"ready": "ready", "answer": answer, "error": "error"}
        self._outputs = {name: getattr(dut, f"{prefix}_{end}") for name, end in names.items()}
        self._driven = dict.fromkeys(names)
        self.address = getattr(dut, f"{prefix}_address")
        self.data = getattr(dut, f"{prefix}_data")
        self._rng, self._held, self._latencies = rng, held, latencies
        self._waiting = deque()
        self._cycle = 0
        self.taken = 0
        self.reset()

    def reset(self):
        """Forget what is in flight."""
        self._waiting.clear()
        self._drive(ready=0, answer=0, error=0)

    def _drive(self, **values):
        """Set what differs from what is driven: a write costs more than anything else here."""
        for name, value in values.items():
            if value != self._driven[name]:
                self._driven[name] = self._outputs[name].value = value

    def step(self, take, answer):
        """One cycle, in its middle: outputs are settled, inputs are set for its end."""
        self._cycle += 1
        due = bool(self._waiting) and self._waiting[0][0] <= self._cycle
        failed = due and answer(self._waiting.popleft()[1])
        self._drive(answer=int(due), error=int(failed))
        requested = _is_high(self._request.value)
        ready = not self._held(requested)
        self._drive(ready=int(ready))
        if ready and requested:
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
    stalls : list of Stall, optional
        In its place: what holds up requests, for each channel of each port in their order.
    latencies : (int, int)
        Least and most cycles from a request to its answer.
    """

    def __init__(
        self, dut, ports, flits, *, seed, ready_chance=0.8, stalls=None, latencies=(1, 20)
    ):
        self._clock = dut.clk
        self.flits = flits
        self.broken_reads, self.broken_writes = range(0), range(0)
        self._reads, self._writes = [], []
        rng = np.random.default_rng(seed)

        def timing(number):
            held = lambda requested: rng.random() >= ready_chance  # noqa: E731
            if stalls:
                held = lambda requested: requested and stalls[number].held()  # noqa: E731
            return {"held": held, "latencies": latencies}

        for port in ports:
            for name in ("send", "fetch", "write"):
                if not hasattr(dut, f"{port}{name}_valid"):
                    continue
                kind, answer = (
                    (self._writes, "ack") if name == "write" else (self._reads, "data_valid")
                )
                number = len(self._reads) + len(self._writes)
                prefix = f"{port}{name}"
                kind.append(_Channel(dut, prefix, rng, answer=answer, **timing(number)))

    @property
    def accesses(self):
        """Reads and writes taken so far."""
        return sum(channel.taken for channel in self._reads + self._writes)

    async def serve(self):
        """Serve all channels for ever."""
        while True:
            await FallingEdge(self._clock)
            self.step()

    def step(self):
        """One cycle, in its middle."""
        for channel in self._reads:
            channel.step(
                lambda c=channel: self._load(c), lambda data, c=channel: self._give(c, data)
            )
        for channel in self._writes:
            channel.step(lambda c=channel: self._note(c), self._store)

    def reset(self):
        """Forget what is in flight."""
        for channel in self._reads + self._writes:
            channel.reset()

    def _load(self, channel):
        address = int(channel.address.value)
        return address in self.broken_reads, self.flits[address].copy()

    def _give(self, channel, read):
        failed, data = read
        channel.data.value = int.from_bytes(data.tobytes(), "little")
        return failed

    def _note(self, channel):
        data = int(channel.data.value).to_bytes(self.flits.shape[1], "little")
        return int(channel.address.value), np.frombuffer(data, dtype=np.uint8)

    def _store(self, write):
        address, data = write
        if address in self.broken_writes:
            return True
        self.flits[address] = data
        return False
