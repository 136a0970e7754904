"""A rank that dies, stops or is late is named, and the others go on."""

import json
import os
import signal
import time
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so there is no backend")

import torch.distributed as dist  # noqa: E402

from multitree.torch import CollectiveError, FailureRecord, group_of  # noqa: E402
from tests.host.torch.ranks import run_ranks, start_ranks  # noqa: E402

VICTIM, TIMEOUT_S = 2, 5.0
OTHERS = (0, 1, 3)


def join(rank, num_ranks, path):
    """The default group, with a store that is in no rank."""
    store = dist.FileStore(path, num_ranks)
    place = {"rank": rank, "world_size": num_ranks, "store": store}
    dist.init_process_group("multitree", **place, timeout=timedelta(seconds=TIMEOUT_S))


def fail(how):
    """What happens to the victim."""
    if how == "late":
        time.sleep(60)
    os.kill(os.getpid(), signal.SIGKILL if how == "dead" else signal.SIGSTOP)


def all_reduces(rank, num_ranks, path, how, num_elements):
    """All-reduces until one fails; then one of a group of those that are left."""
    join(rank, num_ranks, path)
    group = dist.group.WORLD
    tensor = torch.ones(num_elements)
    dist.all_reduce(tensor)
    begun = time.monotonic()
    with pytest.raises(CollectiveError) as caught:
        for turn in range(1000):
            if rank == VICTIM and turn == 10:
                fail(how)
            dist.all_reduce(tensor)
    seconds = time.monotonic() - begun
    with pytest.raises(CollectiveError):
        dist.all_reduce(tensor)  # the group has failed for good
    assert group_of(group).failure == caught.value.record
    rest = dist.new_group(list(OTHERS), use_local_synchronization=True)
    ones = torch.ones(3)
    dist.all_reduce(ones, group=rest)
    kept = group_of(group)._store.get("failure").decode()
    return caught.value.record, seconds, ones.tolist(), FailureRecord(**json.loads(kept))


@pytest.mark.parametrize("num_elements", [10, 300_000])
@pytest.mark.parametrize(
    "how", ["dead", pytest.param("not responding", marks=pytest.mark.slow), "late"]
)
def test_every_other_rank_names_it_in_time_and_a_group_of_the_rest_works(
    how, num_elements, tmp_path
):
    ranks = start_ranks(all_reduces, 4, str(tmp_path / "store"), how, num_elements, backend=None)
    results = ranks.wait(60, gone=(VICTIM,))
    for rank in OTHERS:
        record, seconds, ones, kept = results[rank]
        assert (record.rank, record.state) == (VICTIM, how)
        assert record.is_slow == (how != "dead")
        assert record.flow >= 0 and record.step >= 0 and "all_reduce" in record.collective
        assert ones == [3, 3, 3]
        # Where several notice it at once, the store has the record of one of them.
        assert (kept.rank, kept.state, kept.sequence) == (VICTIM, how, record.sequence)
        if how == "dead":
            assert seconds < TIMEOUT_S  # no need to wait for the timeout


def disagree(rank, num_ranks, what):
    """Ranks that call different collectives under the same number."""
    other, ones = rank == 1, torch.ones(100)
    parts = [torch.ones(1) for _ in range(4)] if rank == 0 else None
    calls = {
        "size": lambda: dist.all_reduce(torch.ones(100 + other)),
        "type": lambda: dist.all_reduce(torch.ones(100, dtype=(torch.half, torch.int)[other])),
        "operator": lambda: dist.all_reduce(ones, (dist.ReduceOp.SUM, dist.ReduceOp.MAX)[other]),
        "root": lambda: dist.broadcast(ones, int(other)),
        "collective": lambda: dist.barrier() if other else dist.gather(torch.ones(1), parts, 0),
    }
    with pytest.raises(CollectiveError) as caught:
        calls[what]()
        dist.barrier()  # where a rank's own part could be done before it was noticed
    return caught.value.record.state, str(caught.value)


@pytest.mark.parametrize("transport", ["shared_memory", "gloo"])
@pytest.mark.parametrize("what", ["size", "type", "operator", "root", "collective"])
def test_ranks_that_do_not_agree_on_the_collective_all_learn_what_differs(what, transport):
    word = {"size": "num_elements", "type": "dtype"}.get(what, what)
    for state, text in run_ranks(disagree, 4, what, MULTITREE_TRANSPORT=transport):
        assert state == "mismatch" and f"{word} is" in text, text


def ended(rank, num_ranks, leaving, how):
    """What a rank learns of one that leaves, or aborts the group, while the others wait for it."""
    if rank == leaving:
        dist.barrier()
        if how == "aborted":
            dist.group.WORLD.abort()
        return None
    with pytest.raises(CollectiveError) as caught:
        dist.barrier()  # its end may still be under way
        dist.all_reduce(torch.ones(5))
    return caught.value.record


@pytest.mark.parametrize(
    ("leaving", "how", "learning"), [(1, "left", (2, 3)), (3, "aborted", (0, 1, 2))]
)
def test_a_rank_that_leaves_or_aborts_is_named_as_such(leaving, how, learning):
    records = run_ranks(ended, 4, leaving, how)
    for rank in learning:
        assert (records[rank].rank, records[rank].state) == (leaving, how)


def no_message(rank, num_ranks, path):
    """A receive that nothing is sent for fails alone."""
    join(rank, num_ranks, path)
    if rank == 0:
        with pytest.raises(RuntimeError, match=f"rank 1 with tag 5 must end within {TIMEOUT_S} s"):
            dist.recv(torch.zeros(1), 1, tag=5)
    else:
        time.sleep(TIMEOUT_S - 0.3)  # so that it does not run out of time itself
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    return tensor.tolist()


def test_a_receive_without_a_message_fails_alone(tmp_path):
    results = run_ranks(no_message, 2, str(tmp_path / "store"), backend=None)
    assert results == [[2, 2], [2, 2]]
