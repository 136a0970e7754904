"""What users of PyTorch import: options of the backend, the DDP hook, failures."""

from multitree.host.distributed.collective import CollectiveReport
from multitree.host.distributed.creation import ddp_hook, group_of
from multitree.host.distributed.options import Options
from multitree.host.distributed.register import register
from multitree.host.peers.failures import CollectiveError, FailureRecord

__all__ = [
    "CollectiveError",
    "CollectiveReport",
    "FailureRecord",
    "Options",
    "ddp_hook",
    "group_of",
    "register",
]
