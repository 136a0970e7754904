"""Trains with DDP and one of PyTorch's own communication hooks."""

import sys
from collections.abc import Callable

import torch
import torch.distributed as dist
from _client import begin, data_of, network, record, train
from torch.distributed.algorithms.ddp_comm_hooks import (
    ddp_zero_hook,
    default_hooks,
    post_localSGD_hook,
    powerSGD_hook,
)
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.algorithms.model_averaging.hierarchical_model_averager import (
    HierarchicalModelAverager,
)
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

Made = tuple[DistributedDataParallel, torch.optim.Optimizer]


def sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05)


def built_in(kind: dist.BuiltinCommHookType) -> Callable[[], Made]:
    """A hook in C++."""

    def make() -> Made:
        model = DistributedDataParallel(network())
        model._register_builtin_comm_hook(kind)
        return model, sgd(model)

    return make


def hooked(hook: Callable, **options: bool) -> Callable[[], Made]:
    """A hook in Python, whose state is a process group."""

    def make() -> Made:
        model = DistributedDataParallel(network(), **options)
        model.register_comm_hook(None, hook)
        return model, sgd(model)

    return make


def power_sgd(hook: Callable) -> Callable[[], Made]:
    """A hook that waits for collectives of its own in callbacks of others."""

    def make() -> Made:
        model = DistributedDataParallel(network())
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=2, start_powerSGD_iter=3, min_compression_rate=1
        )
        model.register_comm_hook(state, hook)
        return model, sgd(model)

    return make


def post_local_sgd(hierarchical: bool) -> Made:
    """Gradients of a subgroup, and models that are averaged now and then."""
    model = DistributedDataParallel(network())
    subgroup, _ = dist.new_subgroups(1)
    state = post_localSGD_hook.PostLocalSGDState(None, subgroup, start_localSGD_iter=4)
    model.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
    if hierarchical:
        periods = {2: 2, dist.get_world_size(): 4}
        averager = HierarchicalModelAverager(periods, warmup_steps=4)
    else:
        averager = PeriodicModelAverager(period=3, warmup_steps=4)
    return model, PostLocalSGDOptimizer(sgd(model), averager)


def zero_overlapped(hook_of: Callable) -> Callable[[], Made]:
    """Steps of shards of the optimizer in callbacks of the gradients' all-reduces."""

    def make() -> Made:
        model = DistributedDataParallel(network(), static_graph=True)
        zero = ZeroRedundancyOptimizer(
            model.parameters(), torch.optim.SGD, lr=0.05, overlap_with_ddp=True
        )
        model.register_comm_hook(None, hook_of(default_hooks.allreduce_hook, model, zero))
        return model, zero

    return make


WRAPPED = default_hooks.fp16_compress_wrapper(powerSGD_hook.powerSGD_hook)
CASES: dict[str, Callable[[], Made]] = {
    "none": lambda: (lambda model: (model, sgd(model)))(DistributedDataParallel(network())),
    "builtin_allreduce": built_in(dist.BuiltinCommHookType.ALLREDUCE),
    "builtin_fp16": built_in(dist.BuiltinCommHookType.FP16_COMPRESS),
    "fp16": hooked(default_hooks.fp16_compress_hook),
    "bf16": hooked(default_hooks.bf16_compress_hook),
    "power_sgd": power_sgd(powerSGD_hook.powerSGD_hook),
    "power_sgd_fp16": power_sgd(WRAPPED),
    "post_local_sgd": lambda: post_local_sgd(hierarchical=False),
    "post_local_sgd_hierarchical": lambda: post_local_sgd(hierarchical=True),
    "zero_overlapped": zero_overlapped(ddp_zero_hook.hook_with_zero_step),
    "zero_interleaved": zero_overlapped(ddp_zero_hook.hook_with_zero_step_interleaved),
}

rank = begin()
model, optimizer = CASES[sys.argv[1]]()
losses = train(model, optimizer, data_of(rank))
record(rank, losses, model.module.state_dict())
dist.destroy_process_group()
