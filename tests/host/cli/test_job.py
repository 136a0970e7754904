"""The command job: what people and programs are given, and what is refused."""

import csv
import json
from pathlib import Path

import pytest

from multitree import load_job, ring, time_job, torus
from multitree.sim.jobs.aicb import CSV_COLUMNS
from tests.host.cli.commands import WORKLOAD


@pytest.fixture(autouse=True)
def _workload(_in_a_folder_of_its_own):
    Path("job.txt").write_text(WORKLOAD)


def test_an_entry_has_the_figures_of_its_algorithm_and_modes(run):
    names = "ring/packet,multitree/submessage,hdrm"
    data = run.json(f"job ncf torus:4x4 --algorithms {names} --overlap layers")
    slow, tree, none = data["results"]
    assert (data["num_parameters"], data["bucket_bytes"]) == (11_042_704, None)
    assert (slow["flow_control"], tree["dependency"]) == ("packet", "submessage")
    assert none["error"].startswith("hdrm must have a BiGraph") and none["total_cycles"] is None
    found = time_job(load_job("ncf"), torus(4, 4), overlap="layers")
    assert abs(tree["total_cycles"] / found.total_cycles - 1) < 0.01
    assert tree["speedup_total"] == slow["total_cycles"] / tree["total_cycles"]
    ratio = slow["communication_cycles"] / tree["communication_cycles"]
    assert tree["speedup_communication"] == ratio
    assert tree["exposed_share"] == tree["exposed_cycles"] / tree["total_cycles"]
    parts = [each["count"] * each["cycles"] for each in tree["collectives"]]
    assert sum(parts) == tree["communication_cycles"]


def test_what_a_file_has_and_is_not_timed_is_warned_of(run):
    status, out, err = run("job job.txt torus:4x4 --json")
    data = json.loads(out)
    assert status == 0
    assert [each["kind"] for each in data["left_out"]] == ["ALLTOALL"]
    assert "1 collective ALLTOALL, 4096 bytes, not timed" in data["warnings"][0]
    assert "written for 64 ranks, sizes taken as they are for 16" in data["warnings"][1]
    assert err.count("multitree: warning: ") == len(data["warnings"]) == 2
    assert [each["num_ranks"] for each in data["groups"]] == [4, 4]


def test_people_read_a_row_for_each_algorithm_and_why_one_has_no_figures(run):
    out = run.printed("job job.txt torus:4x4 --algorithms ring,ring_2d,multitree/packet")
    assert "Groups of ranks: 4 tensor-parallel of 4; 4 data-parallel of 4." in out
    names = [line.split()[0] for line in out.splitlines() if line.startswith(" ")]
    assert [name for name in names if name[0] != "─"][1:] == ["ring", "ring_2d", "multitree/packet"]
    assert "ring_2d: ring_2d must have a torus or mesh of two dimensions" in out
    assert "before the first iteration" not in out


def test_people_read_shares_and_groups_of_several_ranks_only(run):
    out = run.printed("job ncf ring:4 --algorithms ring")
    assert "Groups of ranks: 1 data-parallel of 4. Cycles." in out
    found = time_job(load_job("ncf"), ring(4), "ring")
    (row,) = [line.split() for line in out.splitlines() if line.startswith(" ring")]
    share = 100 * found.exposed_cycles / found.total_cycles
    expected = [found.compute_cycles, found.communication_cycles, found.exposed_cycles]
    expected += [found.total_cycles, f"{found.total_us:.1f}", f"{share:.1f}", "%"]
    assert row == ["ring", *map(str, expected), "1.000", "1.000"]


def test_people_read_what_a_setup_takes(run):
    row = "CommType.{},CommGroup.dp_group,4,64,{},None,None,,None,None,None,1"
    kinds = (("broadcast", "init"), ("epoch_end", ""), ("all_reduce", "a"))
    rows = [",".join(CSV_COLUMNS), *(row.format(*kind) for kind in kinds)]
    Path("job.csv").write_text("\n".join(rows))
    out = run.printed("job job.csv ring:4 --algorithms ring")
    cycles = time_job(load_job("job.csv"), ring(4), "ring").setup_cycles
    assert f"ring: before the first iteration {cycles} cycles" in out


def test_programs_read_csv_with_the_same_figures(run):
    line = "job ncf torus:2x2 --overlap buckets --buckets 4MiB,8MiB"
    entries = run.json(line)
    rows = [*csv.DictReader(run.printed(line, "--csv").splitlines())]
    assert entries["bucket_bytes"] == [4 << 20, 8 << 20]
    assert [row["algorithm"] for row in rows] == ["ring", "multitree"]
    for row, entry in zip(rows, entries["results"], strict=True):
        assert int(row["total_cycles"]) == entry["total_cycles"]
        assert float(row["speedup_total"]) == entry["speedup_total"]


def test_the_world_is_the_first_so_many_ranks(run):
    data = run.json("job ncf torus:4x4 --world-size 8")
    assert (data["num_ranks"], data["topology"]) == (8, "torus:4x4 among ranks 0-7")


def test_arrays_are_those_asked_for(run):
    options = "--array 8x16 --arrays 4 --samples 2 --folds overlapped --array-ghz 0.5"
    data = run.json(f"job ncf ring:2 {options}")
    expected = {"rows": 8, "columns": 16, "count": 4, "samples": 2, "folds": "overlapped"}
    assert data["arrays"] == expected | {"clock_ghz": 0.5}
    fewer = run.json("job ncf ring:2 --no-first-input-gradient")
    usual = run.json("job ncf ring:2")
    saved = load_job("ncf").layers[0].input_gradient.compute_ns
    backward = [each["results"][0]["backward_cycles"] for each in (usual, fewer)]
    assert backward[0] - backward[1] == saved > 0
    sizes = [run.json("job ncf ring:2 --bytes-per-parameter", size) for size in (2, 4)]
    one, two = (each["results"][0]["size_bytes"] for each in sizes)
    assert 2 * one == two
    assert usual["bytes_per_parameter"] == 4
