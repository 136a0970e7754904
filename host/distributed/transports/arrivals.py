"""What has been said of a collective's chunks, whichever transport moves them."""

from collections import defaultdict

import torch

from multitree.host.distributed.execution import Run, Slices
from multitree.host.distributed.rank_program import Action
from multitree.host.peers.frames import Frame

__all__ = ["Arrivals", "split_like"]


def split_like(chunk: torch.Tensor, template: Slices) -> Slices:
    """A chunk in one piece as slices of a template's sizes."""
    if len(template) == 1:
        return [chunk]
    return list(chunk.split([len(part) for part in template]))


class Arrivals:
    """READY frames, by collective; those of later ones are kept until these begin."""

    def __init__(self) -> None:
        self._frames: dict[int, dict[tuple[int, int, int], Frame]] = defaultdict(dict)

    def begin(self, sequence: int) -> None:
        """Start a collective: frames of older ones are forgotten."""
        for old in [number for number in self._frames if number < sequence]:
            del self._frames[old]

    def add(self, peer: int, frame: Frame) -> None:
        """Keep a frame."""
        self._frames[frame.sequence][peer, frame.channel, frame.index] = frame

    def find(self, run: Run, action: Action) -> Frame | None:
        """The frame that an action waits for, if it is there."""
        return self._frames[run.sequence].get((action.peer, action.op, action.flow))
