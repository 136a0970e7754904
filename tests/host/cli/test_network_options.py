"""Options of networks and clocks, the same for every command."""

import json
from pathlib import Path

import pytest

from multitree import among, build, load_topology, torus
from tests.host.cli.commands import GRAPH, TIMED


@pytest.mark.slow
@pytest.mark.parametrize("forwarding", [False, True])
def test_every_command_takes_the_ranks_that_take_part(run, forwarding):
    some = "torus:2x4 --ranks 5,0-3,4-6" + " --forwarding" * forwarding
    left = among(torus(2, 4), range(7), forwarding=forwarding)
    built = build(left, "multitree")
    timed = [] if forwarding else ["simulate --engine analytic"]
    for command in ("schedule", "verify", "table --rank 6", *timed):
        data = run.json(f"{command} {some}")
        assert (data["topology"], data["schedule_hash"]) == (left.name, built.hash)
    data = run.json(f"topology {some} --out left.json")
    assert data["num_switches"] == int(forwarding)
    assert load_topology("left.json").links.tolist() == left.links.tolist()
    if not forwarding:
        data = run.json(f"explain {some}")
        assert (data["topology"], data["num_ranks"]) == (left.name, 7)
        data = run.json(f"simulate {some} --engine analytic --algorithm auto")
        assert data["topology"] == left.name
    data = run.json(f"compare {some} --engine analytic --algorithms ring")
    assert data["topology"] == left.name


@pytest.mark.slow
@pytest.mark.parametrize("command", TIMED)
def test_links_that_are_not_used_at_their_speed_are_reported(run, command):
    line = f"{command} {TIMED[command]}"
    far = f"{line} --latency-ns 1000 --link-gbytes-per-s 12"
    data = run.json(far)
    assert (data["buffer_flits"], data["limits"], data["warnings"]) == (2048, [], [])
    short = f"{far} --buffer-flits 512"
    (limit,) = run.json(short)["limits"]
    assert limit == {
        **{"link": 0, "src": 0, "dst": 3, "num_links": 8, "bandwidth_gbytes_per_s": 12.0},
        **{"latency_ns": 1000.0, "reached_gbytes_per_s": 16 * 512 / 2006, "by": "buffer"},
        **{"buffer_flits": 512, "needed_flits": 1505},
    }
    assert "link 0 (0 -> 3) and 7 more like it: 4.084 of 12 GB/s" in run.printed(short)
    assert "more like it" not in run.printed(line)


@pytest.mark.parametrize("command", TIMED)
def test_fast_links_are_fed_by_wide_flits_and_fast_clocks(run, command):
    line = f"{command} {TIMED[command]} --link-gbytes-per-s 100 --size 64KiB"
    (limit,) = run.json(line)["limits"]
    assert (limit["by"], limit["reached_gbytes_per_s"]) == ("interface", 16.0)
    data = run.json(f"{line} --flit-bytes 64 --clock-ghz 2")
    assert (data["limits"], data["flit_bytes"], data["clock_ghz"]) == ([], 64, 2.0)


def on(spec, command):
    """Arguments of a command on another network."""
    return TIMED.get(command, "ring:4").replace("ring:4", spec)


@pytest.mark.parametrize("command", [*TIMED, "schedule"])
def test_capacities_of_a_graph_are_read_by_a_key_and_never_passed_over(run, command):
    Path("net.graphml").write_text(GRAPH)
    line = f"{command} {on('net.graphml', command)}"
    says = run.refused(line)
    assert "attribute 'capacity' of links must be called bandwidth_gbytes_per_s" in says
    assert "--bandwidth-key NAME:UNIT" in says
    status, out, error = run(f"{line} --bandwidth-key capacity:Gb/s --json")
    reported = "net.graphml: attributes of links that are not read: 'colour'"
    assert (status, error) == (0, f"multitree: warning: {reported}\n")
    data = json.loads(out)
    assert data["warnings"] == [reported]
    if command != "schedule":
        assert [limit["bandwidth_gbytes_per_s"] for limit in data["limits"]] == [50.0]


def test_a_family_s_links_stay_in_proportion(run):
    data = run.json("topology dgx_a100:2 --link-gbytes-per-s 50 --latency-ns 700")
    speeds = (data["bandwidth_gbytes_per_s_min"], data["bandwidth_gbytes_per_s_max"])
    assert speeds == (25.0, 50.0)
    assert (data["latency_ns_min"], data["latency_ns_max"]) == (700.0, 700.0)
    slow, fast = (
        run.json(f"simulate torus:4x4 --engine analytic {speed}")["time_us"]
        for speed in ("--link-gbytes-per-s 4", "")
    )
    assert slow > 3.5 * fast


@pytest.mark.parametrize("command", [*TIMED, "schedule"])
def test_a_file_s_links_have_the_speed_that_the_file_says(run, command):
    run.json("topology ring:4 --out net.json")
    for option in ("--link-gbytes-per-s", "--latency-ns"):
        says = run.refused(f"{command} {on('net.json', command)} {option} 100")
        assert f"{option} must come with a family such as torus:4x4, not with the file" in says
