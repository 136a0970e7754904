"""Options of networks and clocks, the same for every command."""

import json
from pathlib import Path

import pytest

from multitree import among, build, load_topology, torus
from tests.host.cli.commands import GRAPH, TIMED


@pytest.mark.slow
@pytest.mark.parametrize("forwarding", [False, True])
def test_every_command_takes_the_ranks_that_take_part(run, forwarding):
    some = "torus:2x4 --ranks 5,0-3,4,6" + " --forwarding" * forwarding
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
    data = run.json(line)
    (limit,) = data["limits"]
    assert (limit["by"], limit["reached_gbytes_per_s"]) == ("interface", 16.0)
    if command in ("simulate", "compare"):
        # A ring of four is bound by its links' speed alone.
        assert data["driven_bound_cycles"] == pytest.approx(100 / 16 * data["bound_cycles"])
        assert f"{data['driven_bound_cycles']:.0f} at the speed that links" in run.printed(line)
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


def test_a_file_s_links_are_scaled_by_a_factor_or_to_a_number_and_named_so(run):
    Path("net.graphml").write_text(GRAPH.replace('<data key="k">red</data>', ""))
    line = "topology net.graphml --bandwidth-key capacity:Gb/s"
    for option, speeds, latency in (
        ("", (12.5, 50.0), 150.0),
        ("--link-gbytes-per-s x2 --latency-ns x0.5", (25.0, 100.0), 75.0),
        ("--link-gbytes-per-s 100 --latency-ns 75", (25.0, 100.0), 75.0),
    ):
        data = run.json(f"{line} {option}")
        found = data["bandwidth_gbytes_per_s_min"], data["bandwidth_gbytes_per_s_max"]
        assert (found, data["latency_ns_max"]) == (speeds, latency)
        assert bool(option) == data["topology"].startswith("net.graphml (links ")
    says = run.refused(f"{line} --link-gbytes-per-s xx2")
    assert "--link-gbytes-per-s must be a number, or a factor such as x2, not 'xx2'" in says
    run.json("schedule ring:4 --out plan.json")
    assert "must be those of the file's schedule" in run.refused("verify plan.json --latency-ns 7")


@pytest.mark.parametrize("command", ["simulate", "compare"])
def test_a_run_says_to_what_its_links_were_scaled(run, command):
    data = run.json(f"{command} ring:4 --engine analytic --latency-ns x2 --link-gbytes-per-s 8")
    assert data["topology"] == "ring:4 (links 8 GB/s, latency x2)"


def test_a_sweep_and_a_figure_scale_links_and_say_which_are_limited(run):
    Path("net.graphml").write_text(GRAPH.replace("capacity", "bandwidth_gbytes_per_s"))
    grid = "topology: net.graphml\nalgorithm: ring\nsize: 64KiB\nengine: analytic\n"
    Path("grid.yaml").write_text(grid + "link_gbytes_per_s: [x2, 16]\nlatency_ns: x0.5\n")
    fast, slow = run.json("sweep grid.yaml --out o --jobs 1 --parquet")["results"]
    assert [row["link_gbytes_per_s"] for row in (fast, slow)] == ["x2", 16]
    assert "16 of 800 GB/s" in fast["limited"] and slow["limited"] is None
    line = "figure bandwidth --networks net.graphml --size 64KiB --algorithms ring --jobs 1"
    data = run.json(line)
    (value,) = [each for each in data["values"] if each["algorithm"] == "ring"]
    assert "16 of 400 GB/s" in value["limited"] and any("16 of 400" in n for n in data["notes"])
    for name in ("figures/bandwidth.csv", "figures/bandwidth.svg"):
        assert "16 of 400" in " ".join(Path(name).read_text().split())
    data = run.json(f"{line} --link-gbytes-per-s 64 --clock-ghz 2 --flit-bytes 32 --latency-ns 20")
    assert {each["limited"] for each in data["values"]} == {None}
    assert "clock_ghz 2.0, flit_bytes 32, latency_ns 20.0, link_gbytes_per_s 64.0" in data["title"]
    assert "Clock, flits and links of training must be its own" in run.refused(
        "figure training --clock-ghz 2"
    )
