"""What users of PyTorch import: options of the backend, the DDP hook, failures."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multitree.host.torch.collective import CollectiveReport
    from multitree.host.torch.creation import ddp_hook, group_of
    from multitree.host.torch.dump import dump
    from multitree.host.torch.options import Options
    from multitree.host.torch.peers.failures import CollectiveError, FailureRecord
    from multitree.host.torch.register import register

__all__ = [
    "CollectiveError",
    "CollectiveReport",
    "FailureRecord",
    "Options",
    "ddp_hook",
    "dump",
    "group_of",
    "register",
]

_HOME_OF = {
    "CollectiveError": "multitree.host.torch.peers.failures",
    "CollectiveReport": "multitree.host.torch.collective",
    "FailureRecord": "multitree.host.torch.peers.failures",
    "Options": "multitree.host.torch.options",
    "ddp_hook": "multitree.host.torch.creation",
    "dump": "multitree.host.torch.dump",
    "group_of": "multitree.host.torch.creation",
    "register": "multitree.host.torch.register",
}


def __getattr__(name: str) -> Any:
    """Import a name from its room at first use: `import torch` itself calls `register`."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    """Names behind the door."""
    return __all__
