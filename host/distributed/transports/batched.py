"""Messages of NCCL: those of a step are one batch."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from multitree.host.distributed.rank_program import Action

__all__ = ["BatchedMessages", "Batches", "NcclBatches"]

Addressed = tuple[torch.Tensor, int]
"""Memory, and the rank at the other end."""


class Batches(Protocol):
    """Runs batches one after another; messages between two ranks match in the order given."""

    name: str

    def run(self, receives: Sequence[Addressed], sends: Sequence[Addressed]) -> None:
        """Move all messages of a batch before whatever is done next with their memory."""

    def end(self) -> None:
        """Wait until all batches have run."""

    def close(self) -> None:
        """Give back what it holds."""


class BatchedMessages:
    """One batch for the sends and receives of each step.

    NCCL has no tags, and operations of a communicator wait for each other. A send of step s waits
    only for arrivals of earlier steps, and every rank runs its batches by ascending step: the ranks
    of the least step that has not run have run all before it, so that it runs.
    """

    def __init__(self, batches: Batches) -> None:
        self.name = batches.name
        self._batches = batches
        self._receives: dict[int, list[tuple[Action, torch.Tensor]]] = {}
        self._sends: dict[int, list[tuple[Action, torch.Tensor]]] = {}
        self._steps: deque[int] = deque()

    def post(
        self, receives: Sequence[tuple[Action, torch.Tensor]], sends: Sequence[Action]
    ) -> None:
        """Put the messages of each step together."""
        self._receives, self._sends = {}, {action.step: [] for action in sends}
        for action, memory in receives:
            self._receives.setdefault(action.step, []).append((action, memory))
        self._steps = deque(sorted({*self._receives, *self._sends}))

    def receive(self, action: Action, waits_for: Callable[[Action], None]) -> None:
        """Run all batches up to the one that a message is in."""
        self._run_until(action.step, waits_for)

    def send(self, action: Action, memory: torch.Tensor) -> None:
        """Send a message in the batch of its step."""
        # Sends have ascending steps, and an arrival is asked for before the first send of a later
        # step: the batch has not run yet.
        self._sends[action.step].append((action, memory))

    def end(self, waits_for: Callable[[Action], None]) -> None:
        """Run what is left."""
        if self._steps:
            self._run_until(self._steps[-1], waits_for)
        self._batches.end()

    def close(self) -> None:
        """Give back what runs batches."""
        self._batches.close()

    def _run_until(self, step: int, waits_for: Callable[[Action], None]) -> None:
        while self._steps and self._steps[0] <= step:
            now = self._steps.popleft()
            receives, sends = self._receives.pop(now, []), self._sends.pop(now, [])
            waits_for((receives or sends)[0][0])
            self._batches.run(
                [(memory, action.peer) for action, memory in receives],
                [(memory, action.peer) for action, memory in sends],
            )


class NcclBatches:
    """Batches of NCCL on the current stream of the thread that runs them.

    Nothing waits on the host before `end`. The ranks of a group must be on different GPUs. No GPU
    has run this class; tests run `BatchedMessages` with batches of gloo.
    """

    name = "nccl"

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._device: torch.device | None = None

    def run(self, receives: Sequence[Addressed], sends: Sequence[Addressed]) -> None:
        """Move all messages of a batch; what is queued on the stream later waits for it."""
        device = (receives or sends)[0][0].device
        with torch.cuda.device(device):
            if self._device is None:
                # Not all ranks have messages in the first batch, and NCCL connects all at once.
                self._backend.eager_connect_single_device(device)
                self._device = device
            self._backend._start_coalescing()
            for memory, peer in receives:
                self._backend.recv([memory], peer, 0)
            for memory, peer in sends:
                self._backend.send([memory], peer, 0)
            self._backend._end_coalescing().wait()

    def end(self) -> None:
        """Wait until the stream has run all batches."""
        if self._device is not None:
            torch.cuda.current_stream(self._device).synchronize()

    def close(self) -> None:
        """End the communicator, with what waits on the GPU for a rank that will not come."""
        self._backend.abort()
