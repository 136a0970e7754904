"""The command figure: what it prints, and its exit status."""

from pathlib import Path

from multitree.host.evaluation.make import FIGURES

LINE = "figure table-size --networks torus:3x3,torus:4x4"


def test_without_a_name_figures_are_listed(run):
    assert [line.split()[0] for line in run.printed("figure").splitlines()] == [*FIGURES]
    assert [each["name"] for each in run.json("figure")["figures"]] == [*FIGURES]
    assert run.printed("figure --csv").splitlines()[0] == "name,summary"


def test_a_figure_is_written_into_the_folder(run):
    text = run.printed(f"{LINE} --out made")
    assert "made/table-size.svg" in text and "made/table-size.csv" in text
    assert Path("made/table-size.svg").read_text().startswith("<?xml")


def test_programs_read_its_values(run):
    data = run.json(LINE)
    assert data["networks"] == ["torus:3x3", "torus:4x4"]
    assert [each["x"] for each in data["values"]] == [9, 9, 9, 16, 16, 16]
    lines = run.printed(f"{LINE} --csv").splitlines()
    assert lines == Path("figures/table-size.csv").read_text().splitlines()


def test_people_read_comparisons_and_notes(run):
    text = run.printed("figure training --networks torus:3x3")
    assert "MultiTree, messages" in text and "2D ring, both directions" in text
    assert "Note: Compute is that of 16 output-stationary arrays" in text
