"""Collectives stand in PyTorch's profiles under the names that tools look for."""

import json
import time

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so there is no backend")

import torch.distributed as dist  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402

from tests.host.torch.ranks import run_ranks  # noqa: E402


def trace(rank, num_ranks, path):
    ones = torch.ones(6)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        if rank == 1:
            time.sleep(0.1)  # the first collective ends in the thread of the group
        dist.all_reduce(ones)
        dist.all_gather([torch.zeros(6) for _ in range(num_ranks)], ones)
        dist.barrier()
        dist.send(ones, 1) if rank == 0 else dist.recv(ones, 0)
        time.sleep(0.1)
    if rank == 0:
        profiler.export_chrome_trace(path)
    return {event.name: event.is_async for event in profiler.events()}


def test_every_collective_is_there_from_its_start_to_its_end(tmp_path):
    path = tmp_path / "trace.json"
    kinds = run_ranks(trace, 2, str(path))
    events = json.loads(path.read_text())["traceEvents"]
    found = {event["name"]: event for event in events if ":" in event.get("name", "")}
    for name, operator in [
        ("all_reduce", "allreduce_"),
        ("all_gather", "allgather_"),
        ("barrier", "barrier"),
        ("send", "send"),
    ]:
        whole, start = found[f"multitree:{name}"], found[f"c10d::{operator}"]
        assert (whole["cat"], start["cat"]) == ("user_annotation", "cpu_op")
        assert whole["args"].get("finished", True), name
        assert kinds[0][f"multitree:{name}"]
    arguments = found["c10d::allgather_"]["args"]
    assert {key: arguments[key] for key in ("Collective name", "dtype", "Group size")} == {
        "Collective name": "allgather",
        "dtype": "Float",
        "Group size": 2,
    }
    assert (arguments["In msg nelems"], arguments["Out msg nelems"]) == (6, 12)
    assert "c10d::recv_" in kinds[1]
