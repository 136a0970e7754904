"""Saves a model and its optimizer in shards, loads them, and trains on."""

import sys
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from _client import FOLDER, begin, data_of, network, record, train
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

rank = begin()
mesh = init_device_mesh("cpu", (dist.get_world_size(),))


def made() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    model = network()
    fully_shard(model, mesh=mesh)
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


def state_of(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    weights, moments = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": moments}


model, optimizer = made()
losses = train(model, optimizer, data_of(rank, 5))
path = FOLDER / "checkpoint"
if sys.argv[1] == "async":
    dcp.async_save(state_of(model, optimizer), checkpoint_id=path).result()
else:
    dcp.save(state_of(model, optimizer), checkpoint_id=path)
again, optimizer = made()
state = state_of(again, optimizer)
dcp.load(state, checkpoint_id=path)
set_state_dict(
    again, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
)
losses += train(again, optimizer, data_of(rank, 5))
# All weights at rank 0, and from there to all.
options = StateDictOptions(full_state_dict=True, cpu_offload=True)
full = get_model_state_dict(again, options=options)
other, _ = made()
options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
set_model_state_dict(other, full if rank == 0 else {}, options=options)
sent = {f"sent.{name}": value.full_tensor() for name, value in other.state_dict().items()}
record(rank, losses, full | sent)
dist.destroy_process_group()
