"""Makes the backend known to PyTorch; loaded by `import torch` itself."""

import logging
from typing import Any

from multitree.host.torch import BACKEND

__all__ = ["register"]


def register() -> None:
    """Register the backend, so that `init_process_group("multitree")` needs no import.

    PyTorch calls it through an entry point when it is imported, unless
    ``TORCH_DEVICE_BACKEND_AUTOLOAD=0`` is in the environment. It imports nothing but
    `torch.distributed`, and raises nothing: an exception would make `import torch` fail.
    """
    try:
        import torch.distributed as dist

        if dist.is_available():
            dist.Backend.register_backend(
                BACKEND, _create, extended_api=True, devices=["cpu", "cuda"]
            )
    except Exception:
        logging.getLogger("multitree.torch").exception("Backend multitree was not registered")


def _create(backend_options: Any, options: Any) -> Any:
    """Make a group; all that is needed for it is imported only now."""
    from multitree.host.torch.creation import create_group

    return create_group(backend_options, options)
