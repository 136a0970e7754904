"""Figures: documents quote the file's, and commands print them again."""

import json
import re
import sys

import pytest

from tests.benches import bench_module
from tests.refusals import refuses

figures = bench_module("figures")
file, pages = bench_module("_figures"), bench_module("_figure_pages")
BOOK = file.read()
CHEAP = [run for run in BOOK.runs if run.cpu_seconds <= figures.CHECKED_CPU_SECONDS]
MACHINE_UNITS = ("CPU s", "MiB", "x", "cycles per CPU s")
MOST_CHECKED_CPU_SECONDS = 75
# A number with one of these units is a measurement, wherever it stands.
MEASURED = re.compile(r"\d[\d .]*\s(?:cycles|x bound|CPU s|LUTs?|LUT4|MHz)\b")
SMALL = """
[sections]
"One" = "Of one."

[[table]]
name = "sizes"
document = "docs/baselines.md"
rows = "rows[kind=a]"
columns = [
  { key = "size_bytes", heading = "size", unit = "bytes" },
  { key = "share", heading = "share", unit = "%", digits = 1, tolerance = 0.01 },
  { key = "seconds", heading = "s", machine = true },
]

[[run]]
section = "One"
command = "multitree doctor --json"
cpu_seconds = 1.5
figures = [
  { claim = "of it", key = "rows[kind=b].cycles", value = 12345, id = "it", unit = "cycles" },
  { claim = "ratio", key = "max rows[*].ratio", value = 1.25, tolerance = 0.1, readme = true },
  { claim = "time", key = "seconds", value = 3.0, unit = "CPU s", digits = 1, machine = true },
]
table = "sizes"
values = [
  [1024, 0.5, 2.0],
  [2048, "", 1.0],
]
"""
PRINTED = {
    "seconds": 30.0,
    "rows": [
        {"kind": "a", "size_bytes": 1024, "share": 0.5, "seconds": 9.0, "ratio": None},
        {"kind": "a", "size_bytes": 2048, "share": None, "seconds": 9.0, "ratio": 1.25},
        {"kind": "b", "cycles": 12345, "ratio": 1.0},
    ],
}


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "figures.toml"
    path.write_text(SMALL)
    return file.read(path)


def changed(**changes):
    """What the command prints, and one value in it another one."""
    data = json.loads(json.dumps(PRINTED))
    for place, value in changes.items():
        row, key = place.split("_", 1)
        data["rows"][int(row[3:])][key] = value
    return data


def test_documents_quote_the_figures_as_the_file_has_them():
    stale = [path.name for path, text in pages.pages(BOOK).items() if path.read_text() != text]
    assert not stale, "python bench/figures.py writes them"


def test_the_file_is_as_it_would_be_written(tmp_path):
    file.write(BOOK, tmp_path / "again.toml")
    assert (tmp_path / "again.toml").read_text() == file.FIGURES.read_text()


def test_the_readme_has_no_figure_of_its_own_and_at_most_ten():
    text = pages.BLOCK.sub("", (file.ROOT / "README.md").read_text())
    # What the demo prints is compared with what is shown of it, by a test of its own.
    assert not MEASURED.findall(re.sub(r"^```text\n.*?^```$", "", text, flags=re.M | re.S))
    assert 6 <= sum(figure.readme for _, figure in BOOK.figures()) <= 10


def test_only_machine_times_and_ratios_may_be_off():
    """Cycles, steps and counts are reproduced exactly."""
    for run, figure in BOOK.figures():
        assert not (isinstance(figure.value, int) and figure.tolerance), figure.claim
        assert 0 <= figure.tolerance <= 0.02, figure.claim
        if figure.machine:
            assert figure.unit in MACHINE_UNITS, f"{run.command}: {figure.claim}"


def test_what_is_not_checked_has_the_commit_that_it_was_taken_at():
    wrong = [r.command for r in BOOK.runs if bool(r.commit) == (r in CHEAP)]
    assert not wrong


def test_what_is_checked_takes_few_minutes():
    assert sum(run.cpu_seconds for run in CHEAP) < MOST_CHECKED_CPU_SECONDS
    assert len(CHEAP) > len(BOOK.runs) / 5


def test_a_key_leads_to_one_value_or_says_how_many(book):
    found = file.found
    assert found(PRINTED, "rows[0].size_bytes") == 1024
    assert found(PRINTED, "rows[kind=a;share=0.5].size_bytes") == 1024
    assert found(PRINTED, "max rows[*].ratio") == 1.25 and found(PRINTED, "len rows[kind=a]") == 2
    assert found(PRINTED, "rows[1].share") == "" and found({"x": 1 / 3}, "x") == 0.333333
    assert found({"rows": [{"what": "all of it", "x": 5}]}, "rows[what=all of it].x") == 5
    refuses(KeyError, "leads to 2 values", found, PRINTED, "rows[kind=a].size_bytes")
    for nothing in ("rows[kind=c].cycles", "none", "rows[0].cycles"):
        refuses(KeyError, "leads to 0 values", found, PRINTED, nothing)


def test_what_is_as_it_was_does_not_differ_and_machine_times_never_do(book):
    assert not figures.differences(book, book.runs[0], PRINTED, update=False)
    ratio = changed(row1_ratio=1.37, row0_share=0.504)
    assert not figures.differences(book, book.runs[0], ratio, update=False)


@pytest.mark.parametrize(
    "place, value, reported",
    [
        ("row2_cycles", 12346, ("of it", 12345, 12346)),
        ("row1_ratio", 1.38, ("ratio", 1.25, 1.38)),
        ("row0_share", 0.506, ("sizes: 1024, 0.5, 2.0: share", 0.5, 0.506)),
        ("row1_share", 0.0, ("sizes: 2048, , 1.0: share", "", 0.0)),
        ("row0_kind", "b2", ("rows of table sizes", 2, 1)),
    ],
)
def test_every_difference_is_reported_and_written(book, place, value, reported):
    run, data = book.runs[0], changed(**{place: value})
    reported = ("multitree doctor --json", *reported)
    assert reported in figures.differences(book, run, data, update=False)
    assert reported in figures.differences(book, run, data, update=True)
    assert not figures.differences(book, run, data, update=False)
    assert run.figures[2].value == 30.0


def test_a_key_that_leads_nowhere_names_the_command(book):
    with pytest.raises(figures.CommandError, match=r"doctor --json: .*rows\[kind=b\].*0 values"):
        figures.differences(book, book.runs[0], changed(row2_kind="c"), update=False)


def test_documents_are_written_from_figures(book, tmp_path):
    text = "1<!--=it--> cycles\n<!-- table: sizes -->\nold\n<!-- end -->\n"
    text += "<!-- figures: by -->\n<!-- end -->\n"
    table = "| size | share | s |\n|---|---|---|\n"
    table += "| 1 KiB | 50.0 % | 2.000 |\n| 2 KiB |  | 1.000 |\n"
    row = "| what | figure | command | CPU s | taken at |\n|---|---|---|---|---|\n"
    row += "| ratio | 1.250 | `multitree doctor --json` | 1.5 |  |\n"
    wanted = f"12 345<!--=it--> cycles\n<!-- table: sizes -->\n{table}<!-- end -->\n"
    wanted += f"<!-- figures: by -->\n{row}<!-- end -->\n"
    assert pages.quoted(book, text, "x.md") == wanted
    assert pages.quoted(book, wanted, "x.md") == wanted
    assert "| of it | 12 345 cycles | `multitree doctor --json` | 1.5 |  |" in pages.page(book)
    assert "| time | 3.0 CPU s* | the same |  |  |" in pages.page(book)
    for wrong in ("5<!--=other-->", "<!-- table: other -->\n<!-- end -->"):
        with pytest.raises(ValueError, match=r"x\.md: .* must be one of .*'other'"):
            pages.quoted(book, wrong, "x.md")
    file.write(book, tmp_path / "again.toml")
    assert vars(file.read(tmp_path / "again.toml")) == vars(book)


@pytest.mark.parametrize(
    "old, new, reported",
    [
        ('claim = "ratio"', 'id = "it", claim = "ratio"', "Id must come once"),
        ('section = "One"', 'section = "Two"', "section must be one of the file's"),
        ('table = "sizes"', 'table = "other"', "table must be one of the file's"),
        ('claim = "ratio"', 'claim = "time"', "Claim must come once"),
    ],
)
def test_a_file_that_does_not_hold_together_is_refused(tmp_path, old, new, reported):
    path = tmp_path / "wrong.toml"
    path.write_text(SMALL.replace(old, new, 1))
    refuses(ValueError, reported, file.read, path)


@pytest.mark.slow
def test_a_command_that_fails_or_prints_no_json_is_reported():
    for command, why in (
        ("multitree topology nowhere:3 --json", r"exit status 2: .*must be one of"),
        ("multitree topology ring:3", "must print JSON"),
        ("cat README.md", "must begin with python or multitree"),
    ):
        refuses(figures.CommandError, why, figures.printed, command)


def test_the_check_runs_what_is_cheap_and_its_status_tells(book, monkeypatch, capsys):
    one = [file.Figure("x", "x", 1)]
    dear = figures.Run("python bench/dear.py --json", 20.5, section="One", figures=one)
    book.runs.append(dear)
    data, ran = changed(), []
    monkeypatch.setattr(figures, "read", lambda: book)
    monkeypatch.setattr(figures, "pages", lambda book: {})
    monkeypatch.setattr(figures, "printed", lambda command: ran.append(command) or data)
    monkeypatch.setattr(sys, "argv", ["figures.py", "--check"])
    assert figures.main() == 0 and ran == ["multitree doctor --json"]
    reported = "5 figures and rows of 1 commands, 0 differences; 1 commands above"
    assert reported in capsys.readouterr().out
    data["rows"][2]["cycles"] += 1
    assert figures.main() == 1 and "was 12345, now 12346" in capsys.readouterr().out
    data["rows"][2]["cycles"] -= 1
    monkeypatch.setattr(figures, "pages", lambda book: {file.ROOT / "docs" / "x.md": ""})
    assert figures.main() == 1 and "docs/x.md: must be written again" in capsys.readouterr().out
    assert not (file.ROOT / "docs" / "x.md").exists()


def test_what_is_written_has_values_costs_without_compiling_and_pages(book, monkeypatch, tmp_path):
    """A command that compiled runs once more, and its cost is that of the second time."""
    data, said = changed(row2_cycles=77), ["Compiling multitree_nic ...", ""]
    monkeypatch.setattr(figures, "read", lambda: book)
    monkeypatch.setattr(figures, "_ran", lambda command: (data, 40.0 / len(said), said.pop(0)))
    monkeypatch.setattr(figures, "write", lambda book: file.write(book, tmp_path / "figures.toml"))
    monkeypatch.setattr(figures, "stale", lambda book, update: [])
    monkeypatch.setattr(sys, "argv", ["figures.py", "--write"])
    assert figures.main() == 0 and not said
    ((run, *_),) = [file.read(tmp_path / "figures.toml").runs]
    assert (run.cpu_seconds, run.figures[0].value, run.values[0][2]) == (40.0, 77, 9.0)
    assert run.commit == figures.head()
