"""The command job: what people and programs are given, and what is refused."""

import csv
import io
import json

import pytest

from multitree import load_job, ring, time_job, torus
from multitree.host.cli.main import main
from multitree.sim.jobs.aicb import CSV_COLUMNS

WORKLOAD = """HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 all_gpus: 64
2
mlp -1 500 ALLREDUCE 4096 400 NONE 0 300 REDUCESCATTER 8192 100
moe -1 500 ALLTOALL 4096 400 NONE 0 300 NONE 0 100
"""


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Status, standard output and standard error of the command."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.txt").write_text(WORKLOAD)

    def run(*arguments):
        status = main(["job", *arguments])
        return status, *capsys.readouterr()

    return run


def test_an_entry_has_the_figures_of_its_algorithm_and_modes(run):
    names = "ring/packet,multitree/submessage,hdrm"
    status, out, _ = run("ncf", "torus:4x4", "--algorithms", names, "--overlap", "layers", "--json")
    data = json.loads(out)
    slow, tree, none = data["results"]
    assert (status, data["num_parameters"], data["bucket_bytes"]) == (0, 11_042_704, None)
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
    status, out, err = run("job.txt", "torus:4x4", "--json")
    data = json.loads(out)
    assert status == 0
    assert [each["kind"] for each in data["left_out"]] == ["ALLTOALL"]
    assert "1 collective ALLTOALL, 4096 bytes, not timed" in data["warnings"][0]
    assert "written for 64 ranks, sizes taken as they are for 16" in data["warnings"][1]
    assert err.count("multitree: warning: ") == len(data["warnings"]) == 2
    assert [each["num_ranks"] for each in data["groups"]] == [4, 4]


def test_people_read_a_row_for_each_algorithm_and_why_one_has_no_figures(run):
    status, out, _ = run("job.txt", "torus:4x4", "--algorithms", "ring,ring_2d,multitree/packet")
    assert status == 0
    assert "Groups of ranks: 4 tensor-parallel of 4; 4 data-parallel of 4." in out
    names = [line.split()[0] for line in out.splitlines() if line.startswith(" ")]
    assert [name for name in names if name[0] != "─"][1:] == ["ring", "ring_2d", "multitree/packet"]
    assert "ring_2d: ring_2d must have a torus or mesh of two dimensions" in out
    assert "before the first iteration" not in out


def test_people_read_shares_and_groups_of_several_ranks_only(run):
    _, out, _ = run("ncf", "ring:4", "--algorithms", "ring")
    assert "Groups of ranks: 1 data-parallel of 4. Cycles." in out
    found = time_job(load_job("ncf"), ring(4), "ring")
    (row,) = [line.split() for line in out.splitlines() if line.startswith(" ring")]
    share = 100 * found.exposed_cycles / found.total_cycles
    expected = [found.compute_cycles, found.communication_cycles, found.exposed_cycles]
    expected += [found.total_cycles, f"{found.total_us:.1f}", f"{share:.1f}", "%"]
    assert row == ["ring", *map(str, expected), "1.000", "1.000"]


def test_people_read_what_a_setup_takes(run, tmp_path):
    row = "CommType.{},CommGroup.dp_group,4,64,{},None,None,,None,None,None,1"
    rows = [
        row.format("broadcast", "init"),
        row.format("epoch_end", ""),
        row.format("all_reduce", "a"),
    ]
    (tmp_path / "job.csv").write_text("\n".join([",".join(CSV_COLUMNS), *rows]))
    _, out, _ = run("job.csv", "ring:4", "--algorithms", "ring")
    cycles = time_job(load_job("job.csv"), ring(4), "ring").setup_cycles
    assert f"ring: before the first iteration {cycles} cycles" in out


def test_programs_read_csv_with_the_same_figures(run):
    asked = ("ncf", "torus:2x2", "--overlap", "buckets", "--buckets", "4MiB,8MiB")
    entries = json.loads(run(*asked, "--json")[1])
    rows = [*csv.DictReader(io.StringIO(run(*asked, "--csv")[1]))]
    assert entries["bucket_bytes"] == [4 << 20, 8 << 20]
    assert [row["algorithm"] for row in rows] == ["ring", "multitree"]
    for row, entry in zip(rows, entries["results"], strict=True):
        assert int(row["total_cycles"]) == entry["total_cycles"]
        assert float(row["speedup_total"]) == entry["speedup_total"]


def test_the_world_is_the_first_so_many_ranks(run):
    data = json.loads(run("ncf", "torus:4x4", "--world-size", "8", "--json")[1])
    assert (data["num_ranks"], data["topology"]) == (8, "torus:4x4 among ranks 0-7")


def test_arrays_are_those_asked_for(run):
    options = ["--array", "8x16", "--arrays", "4", "--samples", "2", "--folds", "overlapped"]
    data = json.loads(run("ncf", "ring:2", *options, "--array-ghz", "0.5", "--json")[1])
    expected = {"rows": 8, "columns": 16, "count": 4, "samples": 2, "folds": "overlapped"}
    assert data["arrays"] == expected | {"clock_ghz": 0.5}
    fewer = json.loads(run("ncf", "ring:2", "--no-first-input-gradient", "--json")[1])
    usual = json.loads(run("ncf", "ring:2", "--json")[1])
    saved = load_job("ncf").layers[0].input_gradient.compute_ns
    backward = [each["results"][0]["backward_cycles"] for each in (usual, fewer)]
    assert backward[0] - backward[1] == saved > 0
    one, two = (
        json.loads(run("ncf", "ring:2", "--bytes-per-parameter", size, "--json")[1])["results"][0]
        for size in ("2", "4")
    )
    assert 2 * one["size_bytes"] == two["size_bytes"]
    assert usual["bytes_per_parameter"] == 4


@pytest.mark.parametrize(
    "option",
    [
        "--array=8x8",
        "--arrays=4",
        "--samples=2",
        "--array-ghz=2",
        "--folds=overlapped",
        "--bytes-per-parameter=2",
        "--no-first-input-gradient",
    ],
)
def test_arrays_are_not_asked_for_where_a_file_has_the_times(run, option):
    status, out, err = run("job.txt", "ring:4", option)
    assert (status, out) == (2, "")
    assert "job.txt: arrays, bytes per parameter" in err and "not of a workload" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["vgg", "torus:4x4"], "Job must be one of alexnet, "),
        (["no.txt", "torus:4x4"], "no.txt: file must be readable"),
        (["ncf", "torus:4x4", "--overlap", "all"], "Overlap must be none, layers or buckets"),
        (
            ["job.txt", "torus:4x4", "--overlap", "buckets"],
            "job.txt: overlap must be none or layers",
        ),
        (["ncf", "torus:4x4", "--buckets", "1MiB,2MiB"], "--buckets must come with --overlap"),
        (["ncf", "torus:4x4", "--overlap", "buckets", "--buckets", "1MiB"], "must be two sizes"),
        (["ncf", "torus:4x4", "--world-size", "17"], "World size must be within 2..16, not 17"),
        (["job.txt", "torus:4x4", "--world-size", "6"], "must be a multiple of the 4 of a tensor"),
        (
            ["job.txt", "torus:2x8"],
            "data-parallel groups of 4 ranks must have links of their own",
        ),
        (["ncf", "torus:4x4", "--algorithms", "tree"], "Algorithm must be one of"),
        (["ncf", "torus:4x4", "--algorithms", "ring/fast"], "Mode of ring must be one of chunk"),
        (["ncf", "torus:4x4", "--algorithms", "hdrm"], "at least one algorithm must run, but hdrm"),
        (["ncf", "torus:4x4", "--array", "32"], "--array must be like 32x32, not '32'"),
        (["ncf", "torus:4x4", "--array", "0x32"], "Arrays' rows must be within"),
        (["ncf", "torus:4x4", "--folds", "none"], "Folds must be separate or overlapped"),
        (["ncf", "torus:4x4", "--bytes-per-parameter", "0"], "ncf: bytes_per_parameter must be at"),
        (["ncf", "torus:4x4", "--dependency", "flit"], "Dependency must be chunk or submessage"),
        (["ncf", "torus:4x4", "--json", "--csv"], "Output must be --json or --csv, not both"),
    ],
)
@pytest.mark.every_set
def test_wrong_input_is_refused_in_one_sentence(run, arguments, says):
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1 and says in err
