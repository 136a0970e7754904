"""The command table: rows, ports, and the ranks at the other ends."""

import re

import pytest

from multitree import build, parse_topology
from multitree.host.cli.output import print_table
from multitree.nic.driver.config import LIMITS
from multitree.topology.collectives import Op


def test_a_file_of_a_broadcast_has_its_table(run):
    spec, table = "fat_tree:2x2 --collective broadcast --root 3", "--rank 2 --size 4KiB"
    built = run.json(f"table {spec} {table}")
    run.json(f"schedule {spec} --out saved.json")
    read = run.json(f"table saved.json {table}")
    assert read == built | {"topology": "saved.json"}


@pytest.mark.parametrize("spec", ["ring:8", "bigraph:2x4"])
def test_a_table_names_the_ranks_at_the_far_ends_of_routes(run, spec):
    rows = run.json(f"table {spec} --algorithm halving_doubling --rank 5")["rows"]
    schedule = build(parse_topology(spec), "halving_doubling")
    assert [row["destination"] for row in rows] == schedule.dst[schedule.src == 5].tolist()
    for row in rows:
        came = (schedule.flow == row["flow_id"]) & (schedule.dst == 5)
        parent = schedule.src[came & (schedule.op == Op.GATHER)].tolist()
        assert ([] if row["parent"] is None else [row["parent"]]) == parent
        assert row["children"] == schedule.src[came & (schedule.op == Op.REDUCE)].tolist()


def test_a_table_has_the_columns_of_the_paper(run):
    line = "table torus:4x4 --rank 5 --size 32KiB"
    columns = (
        r"Op +FlowID +Parent +at Port +Children +at Ports +Step +Start Addr \[bytes\] +\[flits\] "
    )
    columns += r"+Size \[bytes\] +\[flits\] +To +by Port$"
    assert re.search(columns, run.printed(line), re.M)
    rows = run.json(line)["rows"]
    assert {row["destination"] for row in rows} == {1, 4, 6, 9}
    own = [row for row in rows if row["flow_id"] == 5]
    assert {row["op"] for row in own} == {"GATHER"}
    assert all(row["parent"] is None and len(row["children"]) == 4 for row in own)
    assert all(row["start_address"] == 5 * 2048 and row["size"] == 2048 for row in own)


@pytest.mark.parametrize("spec", ["torus:4x4", "ring:3", "fat_tree:2x2"])
def test_a_table_has_beside_each_rank_the_port_and_beside_bytes_flits(run, spec):
    line = f"table {spec} --rank 2 --size 1KiB"
    rows = run.json(line)["rows"]
    topology = parse_topology(spec)
    behind = [int(topology.links[link, 1]) for link in topology.ports(2)]
    assert any(row["parent"] is None for row in rows) and any(row["children"] for row in rows)
    for row in rows:
        pairs = [(row["destination"], row["port"]), (row["parent"], row["parent_port"])]
        pairs += zip(row["children"], row["child_ports"], strict=True)
        for rank, port in pairs:
            assert (rank is None) == (port is None)
            # A switch is behind the only port there.
            assert rank is None or behind[port] == rank or topology.num_switches
        assert row["size"] == 16 * row["size_flits"]
        assert row["start_address"] == 16 * row["start_address_flits"]
    lines = [row.split("  ") for row in run.printed(line).splitlines() if re.match(r" +\d", row)]
    shown = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    for cells, row in zip(shown, rows, strict=True):
        names = "start_address start_address_flits size size_flits destination port"
        assert cells[-6:] == [str(row[name]) for name in names.split()]
        assert cells[4] == str("-" if row["parent_port"] is None else row["parent_port"])
        assert cells[6] == (", ".join(map(str, row["child_ports"])) or "-")


def test_a_table_has_numbers_to_the_right_and_no_cell_cut_off(capsys):
    print_table("Title", ["name", "n", "long one"], [["a", "1", "-"], ["[b]" * 70, "23", "4 %"]])
    width = 210 + 2 + 2 + 2 + 8
    assert capsys.readouterr().out.splitlines() == [
        "Title",
        "",
        f" name{' ' * 206}   n  long one",
        f" {'─' * width}",
        f" a{' ' * 209}   1         -",
        f" {'[b]' * 70}  23       4 %",
        "",
    ]


def test_a_table_that_no_interface_holds_is_printed_and_says_so(run, monkeypatch):
    monkeypatch.setitem(LIMITS, "num_flows", (1, 128))
    monkeypatch.setitem(LIMITS, "table_depth", (2, 256))
    line = "table torus:12x12 --algorithm symmetric --rank"
    problem = "rows must be at most 256, not 286; flows must be at most 128, not 144"
    reported = run.json(line, 143)
    assert (reported["problem"], reported["num_rows"], reported["num_flows"]) == (problem, 286, 144)
    monkeypatch.undo()
    assert run.json(line, 143) == reported | {"problem": None}
    assert run.refused(line, 144) == "Rank must be in 0..143, not 144"


def test_a_table_of_a_broadcast_over_switches_has_heads_that_carry_nothing(run):
    line = "table fat_tree:2x2 --collective broadcast --root 1 --size 1KiB --rank"
    for rank, first in enumerate([("REDUCE", 0), ("GATHER", 1024)]):
        rows = run.json(line, rank)["rows"]
        assert [(row["op"], row["size"]) for row in rows] == [first, ("GATHER", 1024)]
