"""What users of PyTorch import: options of the backend, the DDP hook, failures."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOME_OF = {
    "CollectiveError": "multitree.host.peers.failures",
    "CollectiveReport": "multitree.host.distributed.collective",
    "FailureRecord": "multitree.host.peers.failures",
    "Options": "multitree.host.distributed.options",
    "ddp_hook": "multitree.host.distributed.creation",
    "group_of": "multitree.host.distributed.creation",
    "register": "multitree.host.distributed.register",
}


def __getattr__(name: str) -> Any:
    """Import a name from its room at first use: `import torch` itself calls `register`."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    """Names behind the door."""
    return __all__
