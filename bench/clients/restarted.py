"""Trains with DDP, loses a rank, and begins again from its checkpoint."""

import os
import signal

import torch
import torch.distributed as dist
from _client import FOLDER, begin, data_of, network, record, train
from torch.nn.parallel import DistributedDataParallel

attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
rank = begin()
path = FOLDER / "checkpoint.pt"
model = DistributedDataParallel(network())
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
batches = data_of(rank)
if attempt:
    model.module.load_state_dict(torch.load(path))
    batches = batches[6:]
else:
    train(model, optimizer, batches[:6])
    if rank == 0:
        torch.save(model.module.state_dict(), path)
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    batches = batches[6:]
losses = train(model, optimizer, batches)
record(rank, losses, model.module.state_dict())
dist.destroy_process_group()
