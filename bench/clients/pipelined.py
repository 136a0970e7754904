"""Trains a model whose layers are on different ranks, by one of the schedules."""

import sys
from typing import Any

import torch
import torch.distributed as dist
from _client import begin, data_of, record
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
)

SCHEDULES: dict[str, tuple[Any, int]] = {
    "gpipe": (ScheduleGPipe, 1),
    "1f1b": (Schedule1F1B, 1),
    "interleaved": (ScheduleInterleaved1F1B, 2),
    "zero_bubble": (ScheduleInterleavedZeroBubble, 2),
}

rank = begin()
num_ranks = dist.get_world_size()
kind, stages_per_rank = SCHEDULES[sys.argv[1]]
num_stages = num_ranks * stages_per_rank
torch.manual_seed(0)
layers = [torch.nn.Sequential(torch.nn.Linear(20, 20), torch.nn.Tanh()) for _ in range(num_stages)]
own = range(rank, num_stages, num_ranks)
stages = [PipelineStage(layers[n], n, num_stages, torch.device("cpu")) for n in own]
loss_of = torch.nn.functional.mse_loss
schedule = kind(stages if stages_per_rank > 1 else stages[0], 4, loss_fn=loss_of)
optimizer = torch.optim.SGD([p for n in own for p in layers[n].parameters()], lr=0.1)
found: list[torch.Tensor] = []
for inputs in data_of(0, 6):
    optimizer.zero_grad()
    arguments = [inputs] if rank == 0 else []
    if rank == num_ranks - 1:
        schedule.step(*arguments, target=inputs.flip(1), losses=found)
    else:
        schedule.step(*arguments)
    optimizer.step()
weights = {f"{n}.{name}": p for n in own for name, p in layers[n].named_parameters()}
record(rank, [loss.item() for loss in found], weights)
dist.destroy_process_group()
