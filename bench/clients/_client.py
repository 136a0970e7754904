"""What clients share: the default group, a model, data, and numbers found."""

import faulthandler
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

__all__ = ["BACKEND", "FOLDER", "begin", "data_of", "network", "record", "train"]

BACKEND = os.environ["CLIENT_BACKEND"]
FOLDER = Path(os.environ["CLIENT_FOLDER"])


def begin() -> int:
    """Make the default group; this process's rank in it."""
    # Where each process stands before it is ended, which loading libraries brings nearer.
    faulthandler.dump_traceback_later(0.6 * float(os.environ["CLIENT_SECONDS"]))
    dist.init_process_group(BACKEND)
    return dist.get_rank()


def network(width: int = 64) -> torch.nn.Sequential:
    """A network whose weights are the same in every process."""
    torch.manual_seed(0)
    layers: list[torch.nn.Module] = [torch.nn.Linear(20, width), torch.nn.Tanh()]
    layers += [torch.nn.Linear(width, width), torch.nn.Tanh(), torch.nn.Linear(width, 1)]
    return torch.nn.Sequential(*layers)


def data_of(rank: int, num_steps: int = 12) -> list[torch.Tensor]:
    """Inputs of one rank, a tensor for each step."""
    generator = torch.Generator().manual_seed(rank)
    return [torch.randn(16, 20, generator=generator) for _ in range(num_steps)]


def train(
    model: torch.nn.Module, optimizer: Any, batches: Iterable[torch.Tensor], after: Any = None
) -> list[float]:
    """Losses of a step for each batch; `after` is called behind each."""
    losses = []
    for inputs in batches:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if after is not None:
            after()
    return losses


def record(rank: int, losses: Iterable[float], tensors: Mapping[str, Any]) -> None:
    """Keep this rank's numbers, and its own part of cut tensors, to be compared with others'."""
    kept = {"losses": torch.tensor(list(losses), dtype=torch.float64)}
    for name, tensor in tensors.items():
        own = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        kept[name] = own.detach().clone()
    torch.save(kept, FOLDER / f"rank{rank}.pt")
