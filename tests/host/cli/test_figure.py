"""The command figure: what it prints, and its exit status."""

import csv
from pathlib import Path

from multitree.host.evaluation.make import FIGURES

LINE = "figure table-size --networks torus:3x3,torus:4x4"


def test_without_a_name_figures_are_listed(run):
    assert [line.split()[0] for line in run.printed("figure").splitlines()] == [*FIGURES, "sweep"]
    assert [each["name"] for each in run.json("figure")["figures"]] == [*FIGURES, "sweep"]
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


def test_a_sweep_of_one_s_own_is_drawn(run):
    Path("s.yaml").write_text(
        "topology: [ring:4, ring:5]\nalgorithm: [ring, ring_2d]\nsize: [4KiB, 8KiB]\n"
        "engine: analytic\nlatency_ns: [100, 200]\n"
    )
    run.printed("sweep s.yaml --out results --jobs 1")
    rows = [*csv.DictReader(Path("results/results.csv").read_text().splitlines())]
    data = run.json("figure sweep results --out mine.svg")
    found = {(each["panel"], each["series"], each["x"]): each["y"] for each in data["values"]}
    for row in rows:
        series = f"{row['algorithm']}, latency_ns {row['latency_ns']}"
        bandwidth = row["bandwidth_gbytes_per_s"]
        at = row["topology"], series, int(row["size_bytes"])
        assert found[at] == (float(bandwidth) if bandwidth else None)
    assert "no value: ring_2d, latency_ns 100.0, ring_2d" in Path("mine.svg").read_text()
    data = run.json("figure sweep results --x latency_ns --y time_us")
    times = {
        each["x"]: each for each in data["values"] if each["series"] == "ring, size_bytes 4096"
    }
    assert times[200.0]["y"] > times[100.0]["y"] > 0
    data = run.json("figure sweep results --x num_ranks")
    series = "ring, ring, size_bytes 4096, latency_ns 100.0"
    assert [each["x"] for each in data["values"] if each["series"] == series] == [4, 5]
    assert "Columns of a figure must be of size_bytes" in run.refused("figure sweep results --x op")
    Path("steps.yaml").write_text(
        "topology: ring:4\nalgorithm: ring\nsize: [4KiB, 8KiB]\nengine: analytic\n"
        "lockstep: [false, true]\nlatency_ns: [x2, 99]\n"
    )
    run.printed("sweep steps.yaml --out steps --jobs 1")
    values = run.json("figure sweep steps")["values"]
    found = {(each["series"], each["lockstep"]) for each in values if each["algorithm"]}
    assert found == {
        (f"lockstep {lockstep}, latency_ns {latency}", lockstep)
        for lockstep in (False, True)
        for latency in ("x2", 99.0)
    }
    says = "latency_ns must be numbers in a figure, not 'x2'"
    assert says in run.refused("figure sweep steps --x latency_ns")
    Path("results.csv").write_text("a\n1\n")
    assert "columns must be those" in run.refused("figure sweep .")
    for line in ("figure sweep", "figure packets results", "figure sweep results --engine exact"):
        assert "sweep" in run.refused(line)
