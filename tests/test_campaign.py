"""Campaigns: every seed once, none again that was kept, status 1 for a problem."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.benches import bench_module

RUNS = Path("runs.txt")


@dataclass(frozen=True)
class Squared:
    seed: int
    spec: str
    value: int
    parts: tuple[str, ...] = ()


def square(seed):
    with RUNS.open("a") as file:
        file.write(f"{seed}\n")
    return Squared(seed, "odd" if seed % 2 else "even", seed * seed, ("a", "b"))


def too_large(outcome):
    return f"{outcome.value} is too large" if outcome.value > 30 else None


def table_of(outcomes):
    def row_of(name, group):
        return {"network": name, "runs": len(group), "sum": sum(each.value for each in group)}

    return bench_module("_campaign").by_network(("odd", "even"), outcomes, row_of)


@pytest.fixture
def campaign(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = bench_module("_campaign")
    return runner.Campaign(square, Squared, too_large, table_of, chunk=2)


def runs():
    return [int(line) for line in RUNS.read_text().split()]


def run(campaign, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["bench", *arguments])
    return campaign.main("What it does.", runs=4)


def test_outcomes_are_in_the_order_of_their_seeds_and_each_is_run_once(campaign):
    outcomes = campaign.outcomes(range(1, 8), jobs=2)
    assert [each.seed for each in outcomes] == [*range(1, 8)]
    assert sorted(runs()) == [*range(1, 8)]


def test_what_a_file_of_results_has_is_not_run_again(campaign):
    kept = Path("kept.jsonl")
    first = campaign.outcomes(range(1, 5), results=kept)
    RUNS.unlink()
    again = campaign.outcomes(range(2, 7), results=kept)
    assert again[:3] == first[1:] and sorted(runs()) == [5, 6]
    assert len(kept.read_text().splitlines()) == 6


def test_rows_are_of_each_network_and_of_all(campaign, monkeypatch, capsys):
    assert run(campaign, monkeypatch, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["sum"] for row in found["rows"]] == [1 + 9, 4 + 16, 30]
    assert found["good"] is True and found["bad"] == []


def test_a_problem_is_said_with_its_seed_and_is_status_1(campaign, monkeypatch, capsys):
    assert run(campaign, monkeypatch, "--seed", "5", "--runs", "2", "--json") == 1
    reported = capsys.readouterr()
    assert "--only 6: 36 is too large" in reported.err and "--only 5" not in reported.err
    found = json.loads(reported.out)
    assert not found["good"] and [each["seed"] for each in found["bad"]] == [6]
    assert run(campaign, monkeypatch, "--only", "6") == 1
    assert run(campaign, monkeypatch, "--only", "5") == 0
    assert "value=25" in capsys.readouterr().out


def test_a_table_is_for_people_without_json(campaign, monkeypatch, capsys):
    assert run(campaign, monkeypatch) == 0
    assert "4 of 4 runs as they have to be" in capsys.readouterr().out
