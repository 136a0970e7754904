"""Trains a small network on handwritten digits with DistributedDataParallel.

An ordinary PyTorch script: nothing in it but the backend's name is particular to MultiTree. Both
lines run it on four ranks:

    torchrun --nproc-per-node 4 examples/ddp_digits.py
    python examples/ddp_digits.py --nproc 4

Rank 0 prints the loss of every epoch as a hexadecimal float, so that runs can be compared bit for
bit, the accuracy on the test images, and the SHA-256 of every rank's weights. Exit status 1 if
ranks' weights differ.
"""

import argparse
import hashlib
import sys

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

SEED = 2026
HIDDEN = 128
SAMPLES_PER_RANK = 16


def load():
    """Digits in 0..1 and their labels, for training and for the test."""
    digits = load_digits()
    images = torch.tensor(digits.data / 16, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(SEED))
    training, test = order[: int(0.8 * len(order))], order[int(0.8 * len(order)) :]
    return TensorDataset(images[training], labels[training]), (images[test], labels[test])


def digest(model):
    """SHA-256 of all weights' bytes."""
    sha = hashlib.sha256()
    for weights in model.parameters():
        sha.update(weights.detach().numpy().tobytes())
    return sha.hexdigest()


def train(model, epochs):
    """Train; rank 0 prints a line per epoch."""
    training, (images, labels) = load()
    sampler = DistributedSampler(training, seed=SEED, drop_last=True)
    batches = DataLoader(training, SAMPLES_PER_RANK, sampler=sampler, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        total = torch.zeros(())
        for inputs, wanted in batches:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), wanted)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        loss = (total / (len(batches) * dist.get_world_size())).item()
        with torch.no_grad():
            accuracy = (model.module(images).argmax(1) == labels).double().mean().item()
        if dist.get_rank() == 0:
            print(f"epoch {epoch + 1}: loss {loss.hex()} ({loss:.4f}), accuracy {accuracy:.4f}")


def run(arguments):
    """Train on this rank; return the exit status."""
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    dist.init_process_group(arguments.backend)
    network = nn.Sequential(nn.Linear(64, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10))
    model = DistributedDataParallel(network)
    train(model, arguments.epochs)
    digests = [None] * dist.get_world_size()
    dist.all_gather_object(digests, digest(model))
    if dist.get_rank() == 0:
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
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--nproc", type=int, help="start this many ranks here, without torchrun")
    arguments = parser.parse_args()
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
