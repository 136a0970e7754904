"""Callbacks run in no thread that serves a group; that thread is looked after."""

import math
import os
import re
import threading
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so there is no backend")

import torch.distributed as dist  # noqa: E402
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from multitree.host.torch.peers import futures  # noqa: E402
from multitree.host.torch.peers.futures import Callbacks  # noqa: E402
from multitree.torch import CollectiveError, group_of  # noqa: E402
from tests.host.torch.ranks import run_ranks, start_ranks  # noqa: E402


def reduced(value=1.0):
    """The Future of a sum that has begun."""
    return dist.all_reduce(torch.full((3,), float(value)), async_op=True).get_future()


def nested(rank, num_ranks):
    """A callback that waits for collectives of its own group, and for what hangs on their ends."""

    def again(done):
        inner = reduced(done.value()[0][0])
        chained = reduced(1).then(lambda other: other.value()[0] + 1)
        return inner.wait()[0] + chained.wait()

    return reduced().then(again).wait().tolist()


def test_a_callback_may_wait_for_collectives_and_callbacks_of_its_own_group():
    assert run_ranks(nested, 2) == [[4 + 3.0] * 3] * 2


def blocked(rank, num_ranks):
    """A callback that blocks holds up no collective."""
    ended, ran = threading.Event(), []
    future = reduced().then(lambda done: ran.append(ended.wait(30)))
    for _ in range(20):
        dist.all_reduce(torch.ones(10))
    ended.set()
    future.wait()
    return ran


def test_a_callback_that_blocks_holds_up_no_collective():
    assert run_ranks(blocked, 2) == [[True]] * 2


def in_order(rank, num_ranks):
    """Numbers of collectives in the order of their callbacks, which are no inference."""
    ran, grads = [], []

    def callback(number, done):
        weight = torch.ones(2, requires_grad=True)
        (weight * done.value()[0][:2]).sum().backward()
        grads.append(weight.grad.tolist())
        ran.append(number)

    for number in range(50):
        reduced(number).add_done_callback(lambda done, number=number: callback(number, done))
    reduced().then(lambda done: None).wait()
    assert grads == [[2.0 * number] * 2 for number in range(50)]
    return ran


def test_callbacks_run_in_the_order_of_collectives_and_may_use_autograd():
    assert run_ranks(in_order, 2) == [list(range(50))] * 2


def chained(rank, num_ranks):
    """Sums that callbacks of callbacks start, which one rank hangs on what has ended already."""
    results, failed = [], reduced().then(lambda done: 1 / 0)
    for number in range(20):
        first = reduced(number).then(lambda done: done.value()[0] + 1)
        if rank == number % 2:
            first.wait()
        second = first.then(lambda done: reduced(done.value()[0]).wait()[0])
        dist.all_reduce(torch.ones(3))
        results.append(second.then(lambda done: done.value().tolist()))
    with pytest.raises(ZeroDivisionError):
        failed.then(lambda done: done.value()).wait()
    return [result.wait()[0] for result in results]


def test_callbacks_of_callbacks_run_in_one_order_on_all_ranks():
    expected = [2 * (2.0 * number + 1) for number in range(20)]
    assert run_ranks(chained, 2) == [expected] * 2


@pytest.mark.parametrize("error", [ZeroDivisionError(), SystemExit(3), KeyboardInterrupt()])
def test_whatever_a_callback_raises_completes_its_future(error):
    made = futures._Chained([])

    def fail():
        raise error

    made.fill(fail)
    with pytest.raises(Exception, match=f"^{re.escape(repr(error))}$|^$"):
        made.wait()


def test_where_a_callback_takes_long_the_next_ones_go_on_in_order(monkeypatch):
    monkeypatch.setattr(futures, "PATIENCE_S", 0.0)
    callbacks, go, ran = Callbacks(), threading.Event(), []
    done = threading.Event()
    callbacks.submit(lambda: (go.wait(30), ran.append("slow")))
    for number in range(3):
        callbacks.submit(lambda number=number: ran.append(number))
    callbacks.submit(done.set)
    while not done.wait(0.01):
        callbacks.hand_over()
    assert ran == [0, 1, 2]
    go.set()


def trained(rank, num_ranks, hook):
    """Weights after some steps of DDP with a hook, which several buckets go through."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(32, 32) for _ in range(3)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.002)
    if hook == "powerSGD":
        state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    elif hook == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif hook is not None:
        model._register_builtin_comm_hook(getattr(dist.BuiltinCommHookType, hook))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(4, 32)).square().mean().backward()
        optimizer.step()
    return torch.cat([weight.detach().reshape(-1) for weight in model.parameters()]).tolist()


HOOKS = (None, "ALLREDUCE", "fp16", "FP16_COMPRESS", "powerSGD")


def trained_with_all(rank, num_ranks):
    """Weights by hook."""
    return [trained(rank, num_ranks, hook) for hook in HOOKS]


def test_ddp_trains_with_hooks_that_read_futures_in_c_or_wait_in_callbacks():
    of_ranks = run_ranks(trained_with_all, 2)
    plain, built_in, half, built_in_half, compressed = of_ranks[0]
    assert of_ranks[0] == of_ranks[1]
    assert plain == built_in and half == built_in_half != plain
    assert compressed != plain and all(map(math.isfinite, compressed))


def bereaved(rank, num_ranks, hook):
    """What DDP raises where another rank dies."""
    if rank == 1:
        trained_once = threading.Timer(0.5, os._exit, (0,))
        trained_once.start()
    try:
        while True:
            trained(rank, num_ranks, hook)
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize("hook", [None, "fp16"])
def test_ddp_raises_and_names_a_rank_that_dies(hook):
    results = start_ranks(bereaved, 2, hook).wait(60, gone=(1,))
    assert "Rank 1 is dead" in results[0]


def crashed(rank, num_ranks):
    """What ranks learn where the thread of one ends by what nothing expects."""

    def crash():
        raise SystemExit("a bug")

    group = group_of()
    dist.barrier()
    if rank == 1:
        group.group.member.progress.call(crash)
    with pytest.raises(CollectiveError) as caught:
        while True:
            dist.all_reduce(torch.ones(4))
    return caught.value.record


def test_a_thread_that_ends_by_an_error_fails_the_group_by_name():
    for record in run_ranks(crashed, 3):
        assert (record.rank, record.state) == (1, "aborted")
        assert "its thread has ended by SystemExit: a bug" in record.detail


def stuck(rank, num_ranks):
    """What ranks learn where the thread of one does not turn for the timeout."""
    go = threading.Event()
    group_of().set_timeout(timedelta(seconds=1))
    dist.barrier()
    if rank == 1:
        group_of().group.member.progress.call(go.wait)
    with pytest.raises(CollectiveError) as caught:
        dist.all_reduce(torch.ones(4))
    store = dist.distributed_c10d._get_default_store()
    if rank == 1:
        store.wait(["named"])  # until then it is alive
    else:
        store.set("named", "")
    go.set()
    return caught.value.record


def test_a_thread_that_does_not_turn_fails_the_group_by_name():
    for record in run_ranks(stuck, 2):
        assert (record.rank, record.state) == (1, "not responding"), record
