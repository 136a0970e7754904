"""Messages of gloo: every receive is posted before the first send."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from multitree.host.distributed.rank_program import Action
from multitree.host.peers.frames import LARGEST_TAG

__all__ = ["PointToPoint", "PostedMessages"]


class PointToPoint(Protocol):
    """What is used of PyTorch's gloo: its sends and receives."""

    def send(self, tensors: list[torch.Tensor], peer: int, tag: int) -> torch.distributed.Work:
        """Begin to send."""

    def recv(self, tensors: list[torch.Tensor], peer: int, tag: int) -> torch.distributed.Work:
        """Begin to receive."""


class PostedMessages:
    """Messages with tags, each on its way as soon as both ends are there.

    The gloo backend has a context of the group's own, used for nothing else.
    """

    name = "gloo"

    def __init__(self, backend: PointToPoint) -> None:
        self._backend = backend
        self._tags: dict[tuple[str, int], int] = defaultdict(int)
        self._tag_of: dict[Action, int] = {}
        self._receives: dict[Action, torch.distributed.Work] = {}
        self._sends: list[tuple[Action, torch.Tensor, torch.distributed.Work]] = []

    def post(
        self, receives: Sequence[tuple[Action, torch.Tensor]], sends: Sequence[Action]
    ) -> None:
        """Post every receive, and number the sends."""
        self._sends = []
        self._receives = {
            action: self._backend.recv([memory], action.peer, self._next_tag("recv", action.peer))
            for action, memory in receives
        }
        self._tag_of = {action: self._next_tag("send", action.peer) for action in sends}

    def _next_tag(self, direction: str, peer: int) -> int:
        """Number of a message between two ranks, back at 0 after the largest tag."""
        tag = self._tags[direction, peer]
        self._tags[direction, peer] = (tag + 1) % (LARGEST_TAG + 1)
        return tag

    def receive(self, action: Action, waits_for: Callable[[Action], None]) -> None:
        """Wait for a message."""
        waits_for(action)
        self._receives.pop(action).wait()

    def send(self, action: Action, memory: torch.Tensor) -> None:
        """Begin to send a message."""
        work = self._backend.send([memory], action.peer, self._tag_of[action])
        self._sends.append((action, memory, work))

    def end(self, waits_for: Callable[[Action], None]) -> None:
        """Wait until all was sent."""
        for action, _, work in self._sends:
            waits_for(action)
            work.wait()
        self._sends = []

    def close(self) -> None:
        """Nothing: gloo ends with its last reference."""
