"""Groups begin again over a store that holds what earlier ones have left there."""

import os
import signal
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so there is no backend")

import torch.distributed as dist  # noqa: E402

from multitree.torch import CollectiveError  # noqa: E402
from tests.host.torch.ranks import run_ranks, start_ranks  # noqa: E402

PAIRS = ([0, 1], [1, 2], [0, 2])
VICTIM = 1


@pytest.fixture
def store():
    """A store that outlives all ranks, as that of `torchrun` does."""
    return dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


def join(rank, num_ranks, port):
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    place = {"rank": rank, "world_size": num_ranks, "store": store}
    dist.init_process_group("multitree", **place, timeout=timedelta(seconds=30))


def sums(rank, num_ranks):
    """All-reduces of the default group and of one with the same name in each attempt."""
    pair = PAIRS[int(os.environ.get("TURN", "0"))]
    group, ones = dist.new_group(pair), torch.ones(10)
    if rank in pair:
        dist.all_reduce(ones, group=group)
    dist.all_reduce(ones)
    return ones[0].item()


def again_and_again(rank, num_ranks, port):
    results = []
    for turn in range(3):
        os.environ["TURN"] = str(turn)
        join(rank, num_ranks, port)
        results.append(sums(rank, num_ranks))
        dist.destroy_process_group()
    return results


@pytest.mark.parametrize("transport", ["auto", "gloo"])
def test_the_same_processes_begin_again(store, transport):
    how = {"backend": None, "MULTITREE_TRANSPORT": transport}
    assert run_ranks(again_and_again, 3, store.port, **how) == [[5.0] * 3] * 3


def killed(rank, num_ranks, port):
    join(rank, num_ranks, port)
    sums(rank, num_ranks)
    if rank == VICTIM:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(CollectiveError):
        dist.barrier()


def whole(rank, num_ranks, port):
    join(rank, num_ranks, port)
    return sums(rank, num_ranks)


@pytest.mark.parametrize("transport", ["auto", "gloo"])
def test_other_processes_begin_where_one_was_killed(store, transport):
    how = {"backend": None, "MULTITREE_TRANSPORT": transport}
    for turn in range(2):
        start_ranks(killed, 3, store.port, TURN=str(turn), **how).wait(gone=(VICTIM,))
    assert run_ranks(whole, 3, store.port, TURN="2", **how) == [5.0] * 3
