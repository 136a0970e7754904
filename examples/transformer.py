"""Trains a small transformer on characters of English text, data-parallel.

The text is Python's own documentation of its language, which every Python brings. Weights are

- ``--parallel ddp``: whole on every rank (DistributedDataParallel),
- ``--parallel fsdp2``: sharded over all ranks (fully_shard),
- ``--parallel hsdp``: sharded over half of the ranks and replicated on the other half.

Both lines run it on four ranks:

    torchrun --nproc-per-node 4 examples/transformer.py
    python examples/transformer.py --nproc 4 --parallel hsdp

Rank 0 prints the loss of every step as a hexadecimal float, so that runs can be compared bit for
bit, the SHA-256 of the losses and that of the weights. Texts of two versions of Python differ.
"""

import argparse
import hashlib
import importlib
import sys
from pydoc_data.topics import topics

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.distributed.tensor import DTensor
from torch.nn import functional as F  # noqa: N812 (PyTorch's own convention)
from torch.nn.parallel import DistributedDataParallel

SEED = 2026
CONTEXT, WIDTH, HEADS, LAYERS = 64, 64, 4, 2
SEQUENCES_PER_RANK = 4


class Block(nn.Module):
    """Causal attention and a perceptron, each added to what came in."""

    def __init__(self):
        super().__init__()
        self.first_norm, self.second_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query_key_value = nn.Linear(WIDTH, 3 * WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.perceptron = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, states):
        """States of (sequences, characters, WIDTH)."""
        count, length, _ = states.shape
        split = self.query_key_value(self.first_norm(states))
        split = split.view(count, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(*split, is_causal=True)
        states = states + self.mix(seen.transpose(1, 2).reshape(count, length, WIDTH))
        return states + self.perceptron(self.second_norm(states))


class Transformer(nn.Module):
    """Scores of the next character, for each of some characters in a row."""

    def __init__(self, num_characters):
        super().__init__()
        self.characters = nn.Embedding(num_characters, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.scores = nn.Linear(WIDTH, num_characters)

    def forward(self, text):
        """Text of (sequences, characters) as numbers of characters."""
        states = self.characters(text) + self.places(torch.arange(text.shape[1]))
        return self.scores(self.norm(self.blocks(states)))


def distribute(model, parallel, hook):
    """The model as it trains on many ranks."""
    if parallel == "ddp":
        model = DistributedDataParallel(model)
        if hook:
            module, name = hook.rsplit(".", 1)
            model.register_comm_hook(None, getattr(importlib.import_module(module), name))
        return model
    num_ranks = dist.get_world_size()
    if parallel == "hsdp":
        mesh = init_device_mesh("cpu", (2, num_ranks // 2), mesh_dim_names=("replicate", "shard"))
    else:
        mesh = init_device_mesh("cpu", (num_ranks,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def digest(model):
    """SHA-256 of all weights' bytes, gathered where they are sharded."""
    sha = hashlib.sha256()
    for weights in model.parameters():
        whole = weights.full_tensor() if isinstance(weights, DTensor) else weights
        sha.update(whole.detach().numpy().tobytes())
    return sha.hexdigest()


def train(model, numbers, steps):
    """Train; rank 0 prints a line per step. Return the losses, the mean over ranks, in hex."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    # Every rank draws every rank's places and takes its own, so that no two are the same.
    places = torch.Generator().manual_seed(SEED)
    losses = []
    for step in range(steps):
        shape = (dist.get_world_size(), SEQUENCES_PER_RANK)
        starts = torch.randint(len(numbers) - CONTEXT, shape, generator=places)[dist.get_rank()]
        text = torch.stack([numbers[start : start + CONTEXT + 1] for start in starts])
        optimizer.zero_grad()
        scores = model(text[:, :-1])
        loss = F.cross_entropy(scores.flatten(0, 1), text[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        mean = loss.detach() / dist.get_world_size()
        dist.all_reduce(mean)
        losses.append(mean.item().hex())
        if dist.get_rank() == 0:
            print(f"step {step + 1}: loss {losses[-1]} ({mean.item():.4f})", flush=True)
    return losses


def run(arguments):
    """Train on this rank; return the exit status."""
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    dist.init_process_group(arguments.backend)
    text = "\n".join(topics[topic] for topic in sorted(topics))
    number_of = {character: number for number, character in enumerate(sorted(set(text)))}
    numbers = torch.tensor([number_of[character] for character in text])
    model = distribute(Transformer(len(number_of)), arguments.parallel, arguments.hook)
    losses = train(torch.compile(model) if arguments.compile else model, numbers, arguments.steps)
    digests = [None] * dist.get_world_size()
    dist.all_gather_object(digests, digest(model))
    if dist.get_rank() == 0:
        print(f"losses' SHA-256 {hashlib.sha256(' '.join(losses).encode()).hexdigest()}")
        for rank, each in enumerate(digests):
            print(f"rank {rank}: weights' SHA-256 {each}")
    # Else the model would be the last to hold the group and end it without releasing Python's lock,
    # which gloo's threads may be waiting for.
    del model
    dist.destroy_process_group()
    return int(len(set(digests)) > 1)


def main():
    """Train on the ranks that torchrun started, or start them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="multitree", help="of torch.distributed")
    parser.add_argument("--parallel", choices=["ddp", "fsdp2", "hsdp"], default="ddp")
    parser.add_argument("--compile", action="store_true", help="compile the model")
    parser.add_argument("--hook", help="module.name of a hook that communicates for ddp")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--nproc", type=int, help="start this many ranks here, without torchrun")
    arguments = parser.parse_args()
    if arguments.hook and arguments.parallel != "ddp":
        parser.error(f"--hook needs --parallel ddp, not {arguments.parallel}")
    if not arguments.nproc:
        return run(arguments)
    launch = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=arguments.nproc,
        run_id="local",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
    )
    # Of two --nproc the last counts, and 0 starts none: each of these processes is one rank.
    elastic_launch(launch, sys.executable)(__file__, *sys.argv[1:], "--nproc", "0")
    return 0


if __name__ == "__main__":
    sys.exit(main())
