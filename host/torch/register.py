"""Makes the backend known to PyTorch; loaded by `import torch` itself."""

import gc
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
    # Imports leave little garbage, but make so many objects that more than half of their time would
    # go into looking for it among all that PyTorch has made.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        from multitree.host.torch.creation import create_group
    finally:
        if was_enabled:
            gc.enable()
    return create_group(backend_options, options)
