"""A network of interfaces in RTL: wired, clocked, one script per rank."""

import contextlib
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.hw.codes import PERIOD_CYCLES
from multitree.nic.driver.commands import HostOp
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import DeviceError
from multitree.sim.emulator.native import OP, RESULT, Crossings, Native, Status
from multitree.sim.timing.link_model import LinkModel, MemoryTiming
from multitree.topology.errors import TopologyError
from multitree.topology.file_io import replacing
from multitree.topology.networks.topology import Topology

__all__ = ["MemoryTiming", "Network"]


# Signals are handled, and `progress` is called, between slices only.
_RESET_CYCLES, _SLICE_CYCLES = 8, 3000


class Network(AbstractContextManager["Network"]):
    """N interfaces in RTL, joined by the links of a topology, each with a memory and a host.

    Every rank's host runs a script of its own, all at the same time; `run` clocks the network until
    all are over. Links and memories live in the harness, in C++. The result does not depend on
    `num_threads` nor on `sleeps`, by which interfaces whose state repeats are not evaluated.
    """

    def __init__(
        self,
        topology: Topology,
        config: Config,
        library: Path,
        *,
        link_model: LinkModel | None = None,
        memory_timing: MemoryTiming | None = None,
        num_threads: int | None = None,
        sleeps: bool = True,
        backdoor: bool = False,
    ) -> None:
        model = link_model or LinkModel()
        _check_topology(topology, config)
        self.topology = topology
        self.config = config
        self._native = Native(library)
        counts = topology.num_ranks, topology.num_switches
        self._handle = self._native.create(*counts, num_threads or os.cpu_count() or 1)
        self._native.set_sleeps(self._handle, sleeps)
        self._native.set_backdoor(self._handle, backdoor)
        self._connect(model)
        timing = memory_timing or MemoryTiming()
        more = (timing.extra_cycles, timing.stall_percent)
        read, write = (model.memory_read_cycles, *more), (model.memory_write_cycles, *more)
        self._native.set_timing(self._handle, read, write, timing.seed)
        # What the harness points into must live as long as it does.
        self._memory: npt.NDArray[np.uint8] | None = None
        self._waveform: contextlib.ExitStack | None = None
        self._scripts = [(np.zeros(0, OP), np.zeros(0, RESULT))] * topology.num_ranks
        self.reset(_RESET_CYCLES)
        # Both ends send in turn, and a slow link delays control flits. At full speed this is more
        # than the four round trips and three periods of links.md.
        latency = model.latency_cycles(topology).max()
        slow = 2 + model.cycles_per_flit(topology).max() / PERIOD_CYCLES
        self.link_up_cycles = int((latency + 4 * PERIOD_CYCLES) * slow**3)

    def _connect(self, model: LinkModel) -> None:
        latencies = model.latency_cycles(self.topology).tolist()
        intervals = (model.cycles_per_flit(self.topology) * 65536).round().astype(int).tolist()
        for link, (src, dst) in enumerate(self.topology.links.tolist()):
            back = int(self.topology.reverse[link])
            near = src, self.topology.port_of_link(link)
            far = dst, self.topology.port_of_link(back)
            # A credit must not come later than a flit that its sender sent after it (links.md).
            timing = (latencies[link], min(latencies[link], latencies[back]), intervals[link])
            self._native.connect(self._handle, *near, *far, *timing)

    def close(self) -> None:
        """Give back the models and finish a waveform. Raises OSError if that could not be written:
        a file that had its name is as it was.
        """
        if self._handle is None:
            return
        waveform, self._waveform = self._waveform, None
        with waveform or contextlib.nullcontext():
            try:
                number = self._native.close_trace(self._handle)
            finally:
                self._native.destroy(self._handle)
                self._handle = None
            # It is raised within the `with`, so that the new file is dropped and the old one stays.
            if waveform is not None and number:
                raise OSError(number, os.strerror(number))

    def __exit__(self, *error: object) -> None:
        """Close it; an error goes on."""
        self.close()

    @property
    def cycle(self) -> int:
        """Cycles since the network was made."""
        return self._native.cycle(self._handle)

    @property
    def links_idle_from(self) -> int:
        """Cycle from which on all links are free, and all that they have taken has come out."""
        return self._native.links_idle_from(self._handle)

    @property
    def cycles_asleep(self) -> int:
        """Cycles of all interfaces that were not evaluated, since their state repeats."""
        return self._native.asleep(self._handle)

    def set_memory(self, memory: npt.NDArray[np.uint8]) -> None:
        """Give every rank its memory, read and written in place: contiguous uint8 of shape
        (num_ranks, num_flits, flit_bytes).
        """
        shape = (self.topology.num_ranks, memory.shape[1], self.config.flit_bytes)
        if memory.dtype != np.uint8 or memory.shape != shape or not memory.flags.c_contiguous:
            raise ValueError(f"Memory must be a contiguous uint8 array of shape {shape}")
        # The harness keeps bare addresses, so that this reference is what keeps the memory alive.
        self._memory = memory
        for rank in range(self.topology.num_ranks):
            self._native.set_memory(self._handle, rank, memory[rank].ctypes.data, shape[1])

    def set_script(self, rank: int, ops: Sequence[HostOp]) -> None:
        """Give a rank's host operations, done in order from the next cycle on, in place of the last
        ones.
        """
        script = np.array([(op.kind, op.address, op.value) for op in ops], dtype=OP)
        results = np.zeros(len(ops), dtype=RESULT)
        while not self._native.set_script(
            self._handle, rank, script.ctypes.data, len(ops), results.ctypes.data
        ):
            self._native.run(self._handle, 1)  # a register access in flight ends in some cycles
        # The harness reads and writes these arrays in place until the next script is set.
        self._scripts[rank] = (script, results)

    def results(self, rank: int) -> npt.NDArray[Any]:
        """Per operation of a rank's script begin and end in cycles, value and AXI response; end is
        0 where an operation is not over.
        """
        return self._scripts[rank][1]

    def script(self, rank: int) -> npt.NDArray[Any]:
        """Operations of a rank's script, fields kind, address, value."""
        return self._scripts[rank][0]

    def irq_cycles(self) -> npt.NDArray[np.int64]:
        """Cycle in which each rank's interrupt last went up, 0 if never; int64 (num_ranks,)."""
        return self._native.irq_cycles(self._handle, self.topology.num_ranks)

    def run(
        self,
        max_cycles: int,
        *,
        slice_cycles: int = _SLICE_CYCLES,
        progress: Callable[[int], None] | None = None,
    ) -> bool:
        """Clock the network until all scripts are over, or for `max_cycles`; True if all are over.

        It may go on for `slice_cycles` after the last script, at most for as long as the shortest
        link is. Raises DeviceError if an interface asks for memory it does not have, or sends
        without a link.
        """
        first, status = self.cycle, Status.RUNNING
        while status == Status.RUNNING and self.cycle - first < max_cycles:
            left = first + max_cycles - self.cycle
            status = self._native.run(self._handle, min(slice_cycles, left))
            if progress is not None:
                progress(self.cycle - first)
        if status in (Status.BAD_ADDRESS, Status.NO_LINK):
            rank, port, address = self._native.culprit(self._handle)
            what = (
                f"memory has no address {address:#x}"
                if status == Status.BAD_ADDRESS
                else f"port {port} sent, and has no link"
            )
            raise DeviceError(f"Rank {rank}: {what}, in cycle {self.cycle}")
        return status == Status.FINISHED

    def reset(self, cycles: int) -> None:
        """Hold the reset pin of all interfaces for some cycles; what is on links stays there."""
        self._native.reset(self._handle, cycles)

    def hold_switches(self, level: bool) -> None:
        """Hold the reset pin of all switches, or release it; nothing is clocked here."""
        self._native.hold_switches(self._handle, level)

    def switches_down(self) -> list[int]:
        """Per switch its ports that have a link which is not up at both ends, bit by bit."""
        numbers = range(self.topology.num_switches)
        return [self._native.switch_down(self._handle, number) for number in numbers]

    def access(self, rank: int, op: HostOp, max_cycles: int) -> int | None:
        """Let one host do one thing alone: what was read, else 0; None after `max_cycles`."""
        for other in range(self.topology.num_ranks):
            self.set_script(other, [op] if other == rank else [])
        return int(self.results(rank)["value"][0]) if self.run(max_cycles) else None

    def inject(self, fault: tuple[int, ...]) -> bool:
        """Let a fault strike, see `injection`; False if the library cannot inject it."""
        return self._native.inject(self._handle, fault)

    def heal(self) -> None:
        """Let nothing go wrong from now on: faults that have not struck never will."""
        self._native.heal(self._handle)

    def num_faults_pending(self) -> int:
        """How many faults have found no flit to strike yet."""
        return self._native.pending(self._handle)

    def forget_messages(self) -> None:
        """Forget all messages seen; none may be in flight."""
        self._native.forget(self._handle)

    def sent(self) -> npt.NDArray[Any]:
        """Messages whose head flit left since `forget_messages`, in order of time: fields of
        `native.EVENT`.
        """
        return self._native.events(self._handle, self.topology.num_ranks, 0)

    def arrived(self) -> npt.NDArray[Any]:
        """Messages complete in memory, in order of time: fields cycle, flow, rank, port, op."""
        return self._native.events(self._handle, self.topology.num_ranks, 1)

    def crossings(self) -> tuple[int | None, list[Crossings]]:
        """Cycle of the first fault sent on shared links since `forget_messages` (None if there was
        none), and per link the messages that went onto it until then, fields of `native.CROSSING`,
        and the flits that its far end has taken, by channel.
        """
        links = range(self.topology.num_links)
        crossings = [self._native.crossings(self._handle, link) for link in links]
        return self._native.stopped(self._handle), crossings

    def trace_to(self, path: Path, first_cycle: int = 0, last_cycle: int | None = None) -> None:
        """Write a waveform of all interfaces, which has its name from `close` on; the library must
        have been built for its kind.

        First cycle, and the one after the last, are counted from now, which is time 0; a cycle
        takes a nanosecond. Raises OSError or DeviceError if the file cannot be written.
        """
        last = 2**63 if last_cycle is None else last_cycle
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(replacing(path))
            if not self._native.trace(self._handle, str(file), first_cycle, last):
                raise DeviceError(f"Waveform {path} must be writable")
            # The file is written under a temporary name until `close` leaves the stack.
            self._waveform = stack.pop_all()


def _check_topology(topology: Topology, config: Config) -> None:
    """Raise unless the harness can wire the topology."""
    if not topology.is_symmetric:
        link = int(np.flatnonzero(topology.reverse < 0)[0])
        raise TopologyError(f"{topology.name}: link {link} has no reverse link")
    if topology.num_switches and not config.shared:
        raise TopologyError(
            f"{topology.name}: interfaces must be built for shared links, since there are switches"
        )
    most = int(topology.num_ports[: topology.num_ranks].max())
    if most > config.num_ports:
        raise TopologyError(
            f"{topology.name}: a rank has {most} links, the interface {config.num_ports} ports"
        )
