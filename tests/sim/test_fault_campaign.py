"""The fault campaign: a hundred runs, and that it tells what must not happen."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from multitree.sim.injection import FlipMemory, TableBank
from multitree.sim.verilator import why_not
from tests.benches import BENCH, bench_module

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

SEED = int(os.environ.get("MULTITREE_SEED", "1"))


@pytest.fixture(scope="module")
def campaign():
    return bench_module("fault_campaign")


@pytest.fixture(scope="module")
def library(campaign):
    return campaign.network_library(campaign.CONFIG, pokes=True)


@pytest.fixture(scope="module")
def exact_seed(campaign, library):
    """A run that a fault does not disturb."""
    runs = (campaign.Run(campaign.draw(seed), library).outcome() for seed in range(50))
    return next(outcome.seed for outcome in runs if outcome.name == campaign.EXACT)


def test_a_hundred_runs_end_exact_or_in_a_named_fault_and_recover(library):
    print(f"seed {SEED}")
    command = [sys.executable, str(BENCH / "fault_campaign.py"), "--json", "--seed", str(SEED)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    *kinds, everything = told["rows"]
    assert told["good"] and everything["runs"] == 100 == sum(row["runs"] for row in kinds)
    assert everything["exact"] + everything["faults"] == 100
    assert everything["recovered"] == everything["faults"] > 30
    assert everything["worst_time_over_bound"] < 1


@pytest.mark.parametrize("bank", TableBank)
@pytest.mark.parametrize("bit", [0, 32, 65])
def test_a_flipped_bit_is_told_in_the_bank_that_runs_and_harmless_in_the_other(
    campaign, library, bank, bit
):
    # The first table goes to the second bank.
    runs = bank in (TableBank.ROWS_1, TableBank.FLOWS_1)
    case = replace(
        campaign.draw(SEED),
        loads_ahead=False,
        num_collectives=1,
        kinds=("flip row",),
        faults=(FlipMemory(0, 0, bank, 0, bit),),
    )
    outcome = campaign.Run(case, library).outcome()
    assert outcome.name == ("TABLE_PARITY" if runs else campaign.EXACT), outcome.text


def test_a_run_is_the_same_when_it_is_run_again(campaign, library):
    first, again = (campaign.Run(campaign.draw(SEED), library).outcome() for _ in range(2))
    assert first == again


def test_a_wrong_sum_without_a_fault_is_told(campaign, library, exact_seed, monkeypatch):
    monkeypatch.setattr(campaign, "execute", lambda schedule, buffers, op: buffers + 1)
    outcome = campaign.Run(campaign.draw(exact_seed), library).outcome()
    assert outcome.name == "WRONG" and campaign.table_of([outcome])[-1]["bad"] == 1


def test_a_run_beyond_its_bound_is_told(campaign, library, exact_seed, monkeypatch):
    monkeypatch.setattr(campaign.Run, "_bound", lambda *sizes, ahead: 1)
    outcome = campaign.Run(campaign.draw(exact_seed), library).outcome()
    assert outcome.name == "HANG" and campaign.table_of([outcome])[-1]["bad"] == 1


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Rank 0: nothing progressed (WATCHDOG); origin rank 0", "WATCHDOG"),
        ("Rank 0: running a collective, not over after 900 cycles, in step 1", "HANG"),
        ("Rank 0, port 1: link is not up after 900 cycles", "LINK_DOWN"),
        ("Rank 0: table is not accepted", "UNNAMED"),
        ("Rank 0: (SOMETHING) else", "UNNAMED"),
    ],
)
def test_errors_are_counted_by_the_fault_they_name(campaign, text, name):
    assert campaign.name_of(text) == name
