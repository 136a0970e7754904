"""Options of networks and clocks, the same for every command."""

import json
from pathlib import Path

import pytest

from multitree.topology.algorithms.build import build
from multitree.topology.families.direct import torus
from multitree.topology.files.load_save import load_topology
from multitree.topology.networks.subsets import among
from tests.host.cli.commands import GRAPH, TIMED, printed_json, run


@pytest.mark.slow
@pytest.mark.parametrize("forwarding", [False, True])
def test_every_command_takes_the_ranks_that_take_part(capsys, forwarding):
    some = ["--ranks", "5,0-3,4-6"] + ["--forwarding"] * forwarding
    left = among(torus(2, 4), range(7), forwarding=forwarding)
    built = build(left, "multitree")
    for command, *arguments in (["schedule"], ["verify"], ["table", "--rank", 6], ["simulate"]):
        if command == "simulate" and forwarding:
            continue
        arguments += ["--engine", "analytic"] * (command == "simulate")
        data = printed_json(capsys, command, "torus:2x4", *some, *arguments)
        assert (data["topology"], data["schedule_hash"]) == (left.name, built.hash)
    data = printed_json(capsys, "topology", "torus:2x4", *some, "--out", "left.json")
    assert data["num_switches"] == int(forwarding)
    assert load_topology("left.json").links.tolist() == left.links.tolist()
    if not forwarding:
        data = printed_json(capsys, "explain", "torus:2x4", *some)
        assert (data["topology"], data["num_ranks"]) == (left.name, 7)
        arguments = ("--engine", "analytic", "--algorithm", "auto")
        data = printed_json(capsys, "simulate", "torus:2x4", *some, *arguments)
        assert data["topology"] == left.name
    arguments = ("--engine", "analytic", "--algorithms", "ring")
    assert printed_json(capsys, "compare", "torus:2x4", *some, *arguments)["topology"] == left.name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ranks", "3-1"], "Ranks must be like 0-3,8, not '3-1'"),
        (["--ranks", "0-3,"], "Ranks must be like 0-3,8, not '0-3,'"),
        (["--ranks", "0--3"], "Ranks must be like 0-3,8, not '0--3'"),
        (["--ranks", "0-999999999"], "Rank must be within 0..7, not 8"),
        (["--ranks", "999999999"], "Rank must be within 0..7, not 999999999"),
        (["--forwarding"], "Forwarding must come with ranks, which say who takes part"),
        (
            ["--forwarding", "--ranks", "4-7,0-3"],
            "Forwarding must come with ranks that leave some out, not '4-7,0-3'",
        ),
        (["--ranks", "0,3"], "Rank 3 of 'mesh:2x4' must be connected with rank 0 over ranks"),
    ],
)
def test_ranks_that_cannot_take_part_are_refused(capsys, options, message):
    status, out, error = run(capsys, "schedule", "mesh:2x4", *options)
    assert (status, out) == (2, "")
    assert error.startswith(f"multitree: {message}")


@pytest.mark.slow
@pytest.mark.parametrize("command", TIMED)
def test_links_that_are_not_used_at_their_speed_are_reported(capsys, command):
    links = ["--latency-ns", "1000", "--link-gbytes-per-s", "12"]
    data = printed_json(capsys, command, *TIMED[command], *links)
    assert (data["buffer_flits"], data["limits"], data["warnings"]) == (2048, [], [])
    short = [*links, "--buffer-flits", "512"]
    (limit,) = printed_json(capsys, command, *TIMED[command], *short)["limits"]
    assert limit == {
        "link": 0,
        "src": 0,
        "dst": 3,
        "num_links": 8,
        "bandwidth_gbytes_per_s": 12.0,
        "latency_ns": 1000.0,
        "reached_gbytes_per_s": 16 * 512 / 2006,
        "by": "buffer",
        "buffer_flits": 512,
        "needed_flits": 1505,
    }
    _, out, _ = run(capsys, command, *TIMED[command], *short)
    assert "link 0 (0 -> 3) and 7 more like it: 4.084 of 12 GB/s" in out
    _, out, _ = run(capsys, command, *TIMED[command])
    assert "more like it" not in out


@pytest.mark.parametrize("command", TIMED)
def test_fast_links_are_fed_by_wide_flits_and_fast_clocks(capsys, command):
    fast = ["--link-gbytes-per-s", "100", "--size", "64KiB"]
    (limit,) = printed_json(capsys, command, *TIMED[command], *fast)["limits"]
    assert (limit["by"], limit["reached_gbytes_per_s"]) == ("interface", 16.0)
    fed = ["--flit-bytes", "64", "--clock-ghz", "2"]
    data = printed_json(capsys, command, *TIMED[command], *fast, *fed)
    assert (data["limits"], data["flit_bytes"], data["clock_ghz"]) == ([], 64, 2.0)


@pytest.mark.parametrize("command", [*TIMED, "schedule"])
def test_capacities_of_a_graph_are_read_by_a_key_and_never_passed_over(capsys, command):
    Path("net.graphml").write_text(GRAPH)
    options = ["net.graphml", *TIMED.get(command, ["ring:4"])[1:]]
    status, out, error = run(capsys, command, *options)
    assert (status, out) == (2, "")
    assert "attribute 'capacity' of links must be called bandwidth_gbytes_per_s" in error
    assert "--bandwidth-key NAME:UNIT" in error and error.count("\n") == 1
    status, out, error = run(
        capsys, command, *options, "--bandwidth-key", "capacity:Gb/s", "--json"
    )
    reported = "net.graphml: attributes of links that are not read: 'colour'"
    assert (status, error) == (0, f"multitree: warning: {reported}\n")
    data = json.loads(out)
    assert data["warnings"] == [reported]
    if command != "schedule":
        assert [limit["bandwidth_gbytes_per_s"] for limit in data["limits"]] == [50.0]


def test_a_family_s_links_stay_in_proportion(capsys):
    options = ["--link-gbytes-per-s", "50", "--latency-ns", "700"]
    data = printed_json(capsys, "topology", "dgx_a100:2", *options)
    speeds = (data["bandwidth_gbytes_per_s_min"], data["bandwidth_gbytes_per_s_max"])
    assert speeds == (25.0, 50.0)
    assert (data["latency_ns_min"], data["latency_ns_max"]) == (700.0, 700.0)
    slow, fast = (
        printed_json(capsys, "simulate", "torus:4x4", "--engine", "analytic", *speed)["time_us"]
        for speed in (["--link-gbytes-per-s", "4"], [])
    )
    assert slow > 3.5 * fast


@pytest.mark.parametrize("command", [*TIMED, "schedule"])
def test_a_file_s_links_have_the_speed_that_the_file_says(capsys, command):
    printed_json(capsys, "topology", "ring:4", "--out", "net.json")
    options = TIMED.get(command, ["ring:4"])[1:]
    for option in ("--link-gbytes-per-s", "--latency-ns"):
        status, out, error = run(capsys, command, "net.json", *options, option, "100")
        assert (status, out) == (2, "")
        assert f"{option} must come with a family such as torus:4x4, not with the file" in error
