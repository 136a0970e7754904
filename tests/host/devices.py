"""Devices that tests run on: the CPU, and a GPU where there is one."""

from contextlib import nullcontext

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so nothing runs on tensors")

__all__ = ["on_every_device", "own_stream"]

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
on_every_device = pytest.mark.parametrize("device", DEVICES)


def own_stream(device):
    """As the current stream of a GPU, one that is not the default."""
    return torch.cuda.stream(torch.cuda.Stream()) if device == "cuda" else nullcontext()
