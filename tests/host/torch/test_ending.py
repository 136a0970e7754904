"""A group ends with what was submitted, and ends what waits for one that has left."""

import gc
import os
import threading
import time
from datetime import timedelta
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so there is no backend")

import torch.distributed as dist  # noqa: E402

from multitree.host.torch.creation import create_group  # noqa: E402
from multitree.host.torch.messages import PostedMessages  # noqa: E402
from multitree.torch import CollectiveError, group_of  # noqa: E402
from tests.host.torch.ranks import run_ranks, start_ranks  # noqa: E402

LONG = 1 << 20


def early(rank, num_ranks):
    """A rank that destroys its group while the others have not come."""
    mine, others = torch.full((LONG,), rank + 1.0), torch.zeros(LONG)
    if rank == 0:
        work = dist.all_reduce(mine, async_op=True)
        dist.isend(torch.full((LONG,), 7.0), 1)
        dist.isend(torch.full((3,), 8.0), 1, tag=1)
        dist.destroy_process_group()
        assert work.is_success()
        return mine[0].item(), None, None
    time.sleep(0.5)
    dist.all_reduce(mine)
    short = torch.zeros(3)
    dist.recv(short, 0, tag=1)
    dist.recv(others, 0)
    return mine[0].item(), others.sum().item() / LONG, short.tolist()


@pytest.mark.parametrize("transport", ["shared_memory", "gloo"])
def test_a_rank_that_destroys_its_group_early_finishes_what_it_has_begun(transport):
    first, second = run_ranks(early, 2, MULTITREE_TRANSPORT=transport)
    assert first[0] == 3.0 and second == (3.0, 7.0, [8.0] * 3)


def waiting(rank, num_ranks):
    """What ranks are told that wait for messages of one that leaves."""
    if rank == 1:
        dist.barrier()
        dist.destroy_process_group()
        return []
    received = [dist.irecv(torch.zeros(size), 1) for size in (2, LONG)]
    sent = dist.isend(torch.zeros(LONG), 1)
    dist.barrier()
    texts = []
    for work in (*received, sent):
        with pytest.raises(RuntimeError) as caught:
            work.wait()
        texts.append(str(caught.value))
    with pytest.raises(CollectiveError, match="Rank 1 has left the group"):
        dist.recv(torch.zeros(1), 1)
    return texts


def test_messages_that_wait_for_a_rank_that_leaves_end_at_once():
    texts = run_ranks(waiting, 2)[0]
    assert len(texts) == 3 and all("Rank 1 has left the group" in text for text in texts)


def announced(rank, num_ranks):
    """A receive for a message that was announced by a rank that is gone before it is posted."""
    if rank == 1:
        dist.isend(torch.zeros(LONG), 0)
        dist.barrier()
        os._exit(0)
    dist.barrier()
    time.sleep(0.5)  # so that its end has been noticed
    with pytest.raises(CollectiveError, match="Rank 1 is dead"):
        dist.recv(torch.zeros(LONG), 1)


def test_a_receive_for_what_a_dead_rank_has_announced_fails_at_once():
    start_ranks(announced, 2).wait(30, gone=(1,))


def untaken(rank, num_ranks):
    """A long send that nobody takes in time, and a message after it."""
    dist.barrier()
    tensor = torch.ones(LONG)
    if rank == 0:
        group_of().set_timeout(timedelta(seconds=0.5))
        with pytest.raises(RuntimeError, match=r"Send to rank 1 with tag 3 must end within 0.5 s"):
            dist.send(tensor, 1, tag=3)
        tensor.fill_(5)
        group_of().set_timeout(timedelta(seconds=60))
        dist.barrier()
        dist.send(tensor, 1, tag=3)
        return None
    dist.barrier()
    dist.recv(tensor, 0, tag=3)
    return tensor.unique().tolist()


def test_a_send_that_is_not_taken_in_time_fails_alone_and_is_withdrawn():
    assert run_ranks(untaken, 2) == [None, [5.0]]


def counts():
    """Descriptors and threads of this process."""
    return len(os.listdir("/proc/self/fd")), threading.active_count()


def flooded(rank, num_ranks):
    """A rank that is sent more than it takes, and one that ends all the same."""
    dist.barrier()
    store, go = dist.distributed_c10d._get_default_store(), threading.Event()
    if rank == 1:
        group_of().group.member.progress.call(go.wait)
        store.wait(["ended"])
        go.set()
        return None
    group_of().set_timeout(timedelta(seconds=1))
    short = torch.zeros(8000)
    sent = [dist.isend(short, 1) for _ in range(400)]
    dist.destroy_process_group()
    store.set("ended", "")
    return sum(not work.is_success() for work in sent)


def test_a_rank_ends_though_another_one_takes_nothing():
    assert run_ranks(flooded, 2)[0] > 0


def stuck(rank, num_ranks):
    """Helpers that are left of a group that ends while one waits for what is not sent."""
    store, go = dist.distributed_c10d._get_default_store(), threading.Event()
    if rank == 1:
        PostedMessages.send = lambda *arguments: go.wait()
    work = dist.all_reduce(torch.ones(4), async_op=True)
    if rank == 1:
        store.wait(["ended"])
        go.set()
        return None
    time.sleep(0.5)  # so that it waits
    dist.group.WORLD.abort()
    with pytest.raises(CollectiveError):
        work.wait()
    dist.destroy_process_group()
    store.set("ended", "")
    return [each.name for each in threading.enumerate() if each.name.endswith("-helper")]


def test_no_thread_of_a_group_that_has_ended_waits_in_gloo():
    # If it came back while the interpreter ends, it would abort the process.
    assert run_ranks(stuck, 2, MULTITREE_TRANSPORT="gloo")[0] == []


def chained(rank, num_ranks):
    """Callbacks of what was submitted run to their ends, with the collectives that they start."""
    tensor, ran = torch.ones(3), []

    def again(done):
        dist.all_reduce(tensor)
        ran.append(tensor.tolist())

    dist.all_reduce(torch.ones(5), async_op=True).get_future().then(again)
    dist.destroy_process_group()
    return ran


def test_a_group_ends_behind_the_callbacks_of_what_was_submitted():
    assert run_ranks(chained, 2) == [[[2.0] * 3]] * 2


def dropped(rank, num_ranks):
    """Descriptors and threads that are left of groups that were dropped, a first one and more."""
    store, left = dist.distributed_c10d._get_default_store(), []
    for number in range(5):
        given = SimpleNamespace(
            store=dist.PrefixStore(f"dropped-{number}", store),
            group_rank=rank,
            group_size=num_ranks,
            global_ranks_in_group=[0, 1],
            group_id=f"dropped-{number}",
            timeout=timedelta(seconds=60),
        )
        made = create_group(given, None)
        work = made.allreduce([torch.ones(4)])
        del made
        work.wait()
        del work
        if number in (0, 4):
            time.sleep(1.5)  # the watchdog, too, has to let go
            gc.collect()
            left.append(counts())
    return left


def test_groups_that_nobody_has_any_more_end_and_give_everything_back():
    for before, after in run_ranks(dropped, 2):
        assert after[0] <= before[0] and after[1] <= before[1]
