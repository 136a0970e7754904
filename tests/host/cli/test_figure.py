"""The command figure: what it prints, and its exit status."""

import json
from pathlib import Path

import pytest

from multitree.host.cli.main import main
from multitree.host.evaluation.make import FIGURES

ARGUMENTS = ["figure", "table-size", "--networks", "torus:3x3,torus:4x4"]


def printed(capsys, *arguments):
    assert main([*arguments]) == 0
    return capsys.readouterr().out


def test_without_a_name_figures_are_listed(capsys):
    lines = printed(capsys, "figure").splitlines()
    assert [line.split()[0] for line in lines] == [*FIGURES]
    data = json.loads(printed(capsys, "figure", "--json"))
    assert [each["name"] for each in data["figures"]] == [*FIGURES]
    assert printed(capsys, "figure", "--csv").splitlines()[0] == "name,summary"


def test_a_figure_is_written_into_the_folder(capsys):
    text = printed(capsys, *ARGUMENTS, "--out", "made")
    assert "made/table-size.svg" in text and "made/table-size.csv" in text
    assert Path("made/table-size.svg").read_text().startswith("<?xml")


def test_programs_read_its_values(capsys):
    data = json.loads(printed(capsys, *ARGUMENTS, "--json"))
    assert data["networks"] == ["torus:3x3", "torus:4x4"]
    assert [each["x"] for each in data["values"]] == [9, 9, 9, 16, 16, 16]
    lines = printed(capsys, *ARGUMENTS, "--csv").splitlines()
    assert lines == Path("figures/table-size.csv").read_text().splitlines()


def test_people_read_comparisons_and_notes(capsys):
    text = printed(capsys, "figure", "training", "--networks", "torus:3x3")
    assert "MultiTree, messages" in text and "2D ring, both directions" in text
    assert "Note: Compute is that of 16 output-stationary arrays" in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nothing"], "Figure must be one of bandwidth, packets"),
        (["table-size", "--networks", "torus"], "Topology must be a spec"),
        (["table-size", "--engine", "rtl"], "Engine of table-size must be analytic, not 'rtl'"),
        (["packets", "--size", "5"], "Size must be a positive multiple of 4 bytes"),
        (["packets", "--jobs", "0"], "Jobs must be within 1..1024, not 0"),
        (["--engine", "exact"], "Options of a figure must come with the name of one"),
        (["--size", "4KiB", "--json"], "Options of a figure must come with the name of one"),
        (["packets", "--json", "--csv"], "Output must be --json or --csv, not both"),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(capsys, arguments, says):
    assert main(["figure", *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error.splitlines()[-1]
