"""What groups do is seen from outside: by a call, on a signal, and when one fails."""

import gc
import json
import os
import signal
import time
from datetime import timedelta
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so there is no backend")

import torch.distributed as dist  # noqa: E402
from torch.distributed.flight_recorder.components.builder import build_db  # noqa: E402
from torch.distributed.flight_recorder.components.config_manager import JobConfig  # noqa: E402
from torch.distributed.flight_recorder.components.loader import read_dir  # noqa: E402

from multitree.host.torch.dump import call_on_signal  # noqa: E402
from multitree.host.torch.peers.flight import KEPT_ENTRIES  # noqa: E402
from multitree.torch import CollectiveError, dump, group_of  # noqa: E402
from tests.host.torch.ranks import run_ranks, start_ranks  # noqa: E402

ABSENT = 2


def one_does_not_come(rank, num_ranks, path):
    place = {"rank": rank, "world_size": num_ranks, "init_method": f"file://{path}"}
    dist.init_process_group("multitree", **place, timeout=timedelta(seconds=1))
    for _ in range(KEPT_ENTRIES + 10):
        dist.all_reduce(torch.ones(4))
    dist.all_gather([torch.zeros(3) for _ in range(num_ranks)], torch.ones(3))
    dist.gather(torch.ones(2), [torch.ones(2)] * num_ranks if rank == 0 else None)
    dist.reduce_scatter(torch.ones(2), [torch.ones(2)] * num_ranks)
    if rank == ABSENT:
        while group_of().failure is None:
            time.sleep(0.01)
        return
    later = dist.all_reduce(torch.ones(7, dtype=torch.int32), dist.ReduceOp.MAX, async_op=True)
    queued = dist.broadcast(torch.ones(1), 1, async_op=True)
    for handle in (later, queued):
        with pytest.raises(CollectiveError):
            handle.wait()


def collectives_of(folder):
    """Collectives that PyTorch's tool reads from dumps."""
    arguments = JobConfig().parse_args([str(folder)])
    try:
        details, version = read_dir(arguments)
    finally:
        gc.enable()  # the tool turns it off
    return build_db(details, arguments, version).collectives


def test_dumps_of_a_failure_name_the_absent_rank_to_the_tool_of_pytorch(tmp_path):
    folder = tmp_path / "dumps"
    folder.mkdir()
    path, dumps = str(tmp_path / "store"), str(folder / "rank_")
    run_ranks(one_does_not_come, 3, path, backend=None, MULTITREE_DUMP=dumps)
    read = collectives_of(folder)
    first = next(each for each in read if not each.pass_check or each.missing_ranks)
    assert (first.collective_name, first.missing_ranks) == ("gloo:all_reduce", {ABSENT})
    assert {each.collective_name for each in read[: read.index(first)]} == {
        *("gloo:all_reduce", "gloo:all_gather", "gloo:gather", "gloo:reduce_scatter")
    }
    assert first.collective_seq_id == KEPT_ENTRIES + 14


def waited_for(path):
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.02)


def messages_of(trace):
    return trace["multitree"]["groups"]["0"]["messages"]


def in_flight(rank, num_ranks, folder):
    tensor, written = torch.ones(5), Path(folder) / "0.json"
    dist.all_reduce(tensor)
    if rank:
        dist.send(torch.ones(2), 0, tag=9)
        waited_for(written)
        dist.all_reduce(torch.ones(6))
        dist.broadcast(tensor, 0)
        dist.send(torch.ones(3), 0, tag=8)
        return None
    reduced = dist.all_reduce(torch.ones(6), async_op=True)
    copied = dist.broadcast(tensor, 0, async_op=True)
    received = dist.irecv(torch.ones(3), 1, tag=8)
    while dump()["entries"][1]["state"] != "started" or len(messages_of(dump())) < 2:
        time.sleep(0.01)
    trace = dump(f"{folder}/{{rank}}.json")
    dist.recv(torch.ones(2), 1, tag=9)
    for handle in (reduced, copied, received):
        handle.wait()
    return trace


def test_what_is_under_way_is_dumped_with_what_it_waits_for(tmp_path):
    trace, _ = run_ranks(in_flight, 2, str(tmp_path))
    assert json.loads((tmp_path / "0.json").read_text()) == json.loads(json.dumps(trace))
    done, running, queued = trace["entries"]
    assert [each["state"] for each in (done, running, queued)] == [
        *("completed", "started", "scheduled")
    ]
    assert running["awaited"]["rank"] == 1 and running["operator"] == "sum"
    assert done["time_created_ns"] < running["awaited"]["since_ns"] <= time.time_ns()
    assert [(each["kind"], each["rank"], each["tag"]) for each in messages_of(trace)] == [
        *(("recv", 1, 8), ("unexpected", 1, 9))
    ]
    assert trace["pg_config"]["0"]["ranks"] == "[0, 1]"


def stuck(rank, num_ranks, ready):
    Path(ready).touch()
    torch.futures.Future().wait()  # in C++, which calls no handler of Python


def test_a_signal_has_a_process_dump_whatever_its_main_thread_does(tmp_path):
    ready, written = tmp_path / "ready", tmp_path / "0.json"
    chosen = {"MULTITREE_DUMP": f"{tmp_path}/{{rank}}.json", "MULTITREE_DUMP_SIGNAL": "SIGUSR1"}
    ranks = start_ranks(stuck, 1, str(ready), **chosen)
    try:
        waited_for(ready)
        os.kill(ranks.processes[0].pid, signal.SIGUSR1)
        waited_for(written)
        assert ranks.processes[0].is_alive()
        assert json.loads(written.read_text())["pg_config"]["0"]["ranks"] == "[0]"
    finally:
        ranks.processes[0].kill()
        ranks.end()


def test_a_handler_of_the_user_stays(caplog):
    def mine(number, frame):
        pass

    former = signal.signal(signal.SIGUSR2, mine)
    try:
        call_on_signal("SIGUSR2", lambda: None)
        assert signal.getsignal(signal.SIGUSR2) is mine
        assert "has a handler already" in caplog.text
    finally:
        signal.signal(signal.SIGUSR2, former)
    call_on_signal("SIGNONE", lambda: None)
    assert "none of that name" in caplog.text
