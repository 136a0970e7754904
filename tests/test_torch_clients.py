"""Programs that train on gloo and on the backend, by bench/torch_clients.py."""

import json

import pytest

from multitree.host import engines
from tests.benches import BENCH, bench_module
from tests.programs import python

pytestmark = pytest.mark.skipif(
    engines.why_not("torch") is not None, reason="PyTorch is not installed"
)


@pytest.fixture
def clients():
    return bench_module("torch_clients")


@pytest.fixture
def ran(clients):
    """Makes a run with an outcome, a reason and a tensor of one rank."""
    import torch

    def make(outcome="pass", reason="", values=None):
        numbers = [] if values is None else [{"w": torch.tensor(values)}]
        return clients.Run(outcome, reason, 1.0, numbers)

    return make


@pytest.mark.parametrize(
    ("ours", "tolerance", "agree", "said"),
    [
        ([1.0, 4.0], 0.0, True, "same bits"),
        ([1.0, 4.002], 1e-3, True, "within 5e-04"),
        ([1.0, 4.002], 1e-4, False, "OFF BY 5e-04: w of rank 0"),
        ([1.0, float("nan")], 1.0, False, "OFF BY inf: w of rank 0"),
        ([1.0], 1.0, False, "OFF BY inf: w of rank 0"),
        ([1, 4], 1.0, False, "OFF BY inf: w of rank 0"),
        (None, 0.0, False, "OTHER NAMES"),
    ],
)
def test_numbers_are_those_of_gloo(clients, ran, ours, tolerance, agree, said):
    gloo = ran(values=[1.0, 4.0])
    assert clients.compared(ran(values=ours), gloo, tolerance) == (agree, said)


def test_numbers_of_a_run_that_failed_are_not_compared(clients, ran):
    assert clients.compared(ran("fail"), ran(values=[1.0]), 0.0) == (True, "-")
    assert clients.compared(ran(), ran(), 0.0) == (True, "own checks")


@pytest.mark.parametrize(
    ("how", "outcome", "reason", "expected"),
    [
        ({}, "pass", "", True),
        ({}, "fail", "no", False),
        ({"refused": "no"}, "refused", "no", True),
        ({"refused": "no"}, "pass", "", False),
        ({"fails": "no"}, "fail", "oh no", True),
        ({"fails": "no"}, "fail", "else", False),
    ],
)
def test_a_client_ends_as_its_row_says(clients, ran, how, outcome, reason, expected):
    client = clients.Client("ours.py", "a client", **how)
    assert clients.is_expected(client, ran(outcome, reason)) is expected


def test_the_reason_is_the_first_error_that_is_a_cause(clients):
    output = """[rank1]: UserWarning: slow
[rank0]: Traceback (most recent call last):
[rank0]:   File "a.py", line 1, in <module>
[rank0]: a.b.CollectiveError: Rank 1 is dead
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
"""
    assert clients.reason_of(output, 1, 9) == "a.b.CollectiveError: Rank 1 is dead"
    assert clients.reason_of("one\ntwo", 1, 9) == "one\ntwo"
    hung = 'Thread 0x1 (most recent call first):\n  File "a.py", line 1 in wait\n  File "b.py"'
    assert clients.reason_of(hung, None, 9) == 'did not end within 9 s; File "a.py", line 1 in wait'


def test_every_client_is_a_program_of_the_folder(clients):
    for client in clients.CLIENTS.values():
        assert (BENCH / "clients" / client.command.split()[0]).is_file()


@pytest.mark.long
def test_a_client_has_the_bits_of_gloo():
    done = python(BENCH / "torch_clients.py", "--only", "ddp", "--json")
    (row,) = json.loads(done.stdout)["rows"]
    assert (row["gloo"], row["multitree"], row["numbers"]) == ("pass", "pass", "same bits")
