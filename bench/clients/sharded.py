"""Trains models and optimizers that are cut among ranks: ZeRO, FSDP, DTensor."""

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from _client import begin, data_of, network, record, train
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecision,
    ShardingStrategy,
    StateDictType,
    fully_shard,
)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

Numbers = tuple[list[float], dict[str, Any]]


def adam(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.01)


def whole(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Weights, put together where they are cut."""
    found = model.state_dict()
    return {n: v.full_tensor() if isinstance(v, DTensor) else v for n, v in found.items()}


def zero(rank: int) -> Numbers:
    model = DistributedDataParallel(network())
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), torch.optim.Adam, lr=0.01, parameters_as_bucket_view=True
    )
    losses = train(model, optimizer, data_of(rank))
    optimizer.consolidate_state_dict(to=0)
    moments = optimizer.state_dict()["state"] if rank == 0 else {}
    found = {f"moment{n}": state["exp_avg"] for n, state in moments.items()}
    return losses, model.module.state_dict() | found


def fsdp1(strategy: ShardingStrategy, **options: Any) -> Callable[[int], Numbers]:
    def run(rank: int) -> Numbers:
        hybrid = strategy == ShardingStrategy.HYBRID_SHARD
        model = FullyShardedDataParallel(
            network(),
            device_id=torch.device("cpu"),
            sharding_strategy=strategy,
            auto_wrap_policy=ModuleWrapPolicy({torch.nn.Linear}),
            device_mesh=_two_by_two() if hybrid else None,
            **options,
        )
        losses = train(model, adam(model), data_of(rank))
        with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT):
            return losses, model.state_dict()

    return run


def _two_by_two(*names: str) -> DeviceMesh:
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=names or ("replicate", "shard"))


def fsdp2(rank: int, mesh: DeviceMesh | None = None) -> Numbers:
    mesh = mesh or init_device_mesh("cpu", (dist.get_world_size(),))
    model = network()
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return train(model, adam(model), data_of(rank)), whole(model)


def hsdp2(rank: int) -> Numbers:
    return fsdp2(rank, _two_by_two())


def tensor_parallel(rank: int) -> Numbers:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = parallelize_module(network(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return train(model, adam(model), data_of(0)), whole(model)


def sequence_parallel(rank: int) -> Numbers:
    """Activations are cut between the layers, along the rows."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    layers = torch.nn.Linear(20, 32), torch.nn.Linear(32, 32)
    layers += torch.nn.LayerNorm(32), torch.nn.Linear(32, 1)
    plan = {
        "0": ColwiseParallel(),
        "1": RowwiseParallel(output_layouts=Shard(0)),
        "2": SequenceParallel(sequence_dim=0),
        "3": RowwiseParallel(input_layouts=Shard(0), output_layouts=Replicate()),
    }
    model = parallelize_module(torch.nn.Sequential(*layers), mesh, plan)
    return train(model, adam(model), data_of(0)), whole(model)


def fsdp2_and_tensor_parallel(rank: int) -> Numbers:
    mesh = _two_by_two("dp", "tp")
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    model = parallelize_module(network(), mesh["tp"], plan)
    fully_shard(model, mesh=mesh["dp"])
    return train(model, adam(model), data_of(mesh["dp"].get_local_rank())), whole(model)


def dtensor(rank: int) -> Numbers:
    """Every change of layout, and a product of two tensors that are cut."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    a, b = torch.randn(12, 10), torch.randn(10, 7)
    layouts = Replicate(), Shard(0), Shard(1)
    found = {}
    for source in layouts:
        cut = distribute_tensor(a, mesh, [source])
        for target in layouts:
            found[f"{source}-{target}"] = cut.redistribute(mesh, [target]).to_local()
    left, right = distribute_tensor(a, mesh, [Shard(1)]), distribute_tensor(b, mesh, [Shard(0)])
    product = left @ right
    found["partial"] = product.redistribute(mesh, [Shard(0)]).to_local()
    found["product"] = product.full_tensor()
    found["mean"] = left.mean().full_tensor()
    found["softmax"] = left.softmax(1).full_tensor()
    return [], found


CASES: dict[str, Callable[[int], Numbers]] = {
    "zero": zero,
    "fsdp1": fsdp1(ShardingStrategy.FULL_SHARD),
    "fsdp1_grad_op": fsdp1(ShardingStrategy.SHARD_GRAD_OP),
    "fsdp1_bf16": fsdp1(
        ShardingStrategy.FULL_SHARD,
        mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16),
    ),
    "fsdp1_hybrid": fsdp1(ShardingStrategy.HYBRID_SHARD),
    "fsdp2": fsdp2,
    "hsdp2": hsdp2,
    "tensor_parallel": tensor_parallel,
    "sequence_parallel": sequence_parallel,
    "fsdp2_and_tensor_parallel": fsdp2_and_tensor_parallel,
    "dtensor": dtensor,
}

rank = begin()
record(rank, *CASES[sys.argv[1]](rank))
dist.destroy_process_group()
