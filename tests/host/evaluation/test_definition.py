"""What a sweep runs: which values are taken, in which order, and what is refused."""

import os
import random

import pytest

from multitree import SweepError
from multitree.host.engines import CLOCKED_ENGINES
from multitree.host.evaluation import definition
from multitree.host.evaluation.definition import _CHECKS, grid_of, read_grid
from multitree.host.evaluation.point import COLUMNS, Point, PointResult
from multitree.host.parameters import swept_parameters
from tests.refusals import refuses
from tests.repository import ROOT

LEAST = {"topology": "ring:4", "algorithm": "ring", "size": "4KiB", "engine": "analytic"}


def test_the_last_key_varies_fastest():
    entries = {"size": [4, 8], "topology": "ring:4", "engine": "rtl", "algorithm": ["ring", "auto"]}
    grid = grid_of(entries)
    assert grid.num_points == 4
    found = [(point.size_bytes, point.algorithm) for point in grid.points()]
    assert found == [(4, "ring"), (4, "auto"), (8, "ring"), (8, "auto")]
    assert {(point.topology, point.engine) for point in grid.points()} == {("ring:4", "rtl")}


def test_without_a_key_the_value_is_that_of_the_command():
    (point,) = grid_of(LEAST).points()
    assert point == Point("ring:4", "ring", 4096, "analytic")
    assert point.link_model().memory_read_cycles == 4
    (slow,) = grid_of(LEAST | {"memory_cycles": 40, "clock_ghz": 2, "op": "avg"}).points()
    assert slow.link_model().memory_read_cycles == 18
    assert (type(slow.clock_ghz), slow.op) == (float, "average")


def test_every_parameter_of_a_point_has_a_key():
    assert [swept_parameters()[key].key for key in _CHECKS] == list(Point.__dataclass_fields__)
    assert list(COLUMNS) == [*Point.__dataclass_fields__, *PointResult.__dataclass_fields__]
    assert set(COLUMNS.values()) == {int, float, bool, str}


GOOD = {
    "size": [4096, 2**40],
    "collective": ["all_reduce", "broadcast"],
    "root": [None, 3],
    "dependency": [None, "submessage"],
    "flow_control": ["packet"],
    "lockstep": [True, False],
    "dtype": ["int32", "bfloat16"],
    "op": ["max", "average"],
    "seed": [0, 2**62],
    "memory_cycles": [6],
    "clock_ghz": [0.001, 100],
    "flit_bytes": [8, 64],
    "buffer_flits": [None, 4, 65536],
    "forward_flits": [0, 32, 4096],
    "adder_stages": [4, 6],
    "ranks": [None, "0-2"],
    "forwarding": [True],
    "link_gbytes_per_s": [None, 0.1, 100_000],
    "latency_ns": [1e-3, 1e9],
    "bandwidth_key": ["capacity:Gb/s"],
    "latency_key": [None],
}


@pytest.mark.every_set
@pytest.mark.parametrize("key", GOOD)
def test_values_of_each_key_are_taken(key):
    field = swept_parameters()[key].key
    points = grid_of(LEAST | {key: GOOD[key]}).points()
    assert [getattr(point, field) for point in points] == GOOD[key]


@pytest.mark.every_set
@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ({"toplogy": 1}, r"key must be one of topology, .*, not 'toplogy'"),
        ({1: 1}, "key must be one of topology, .*, not 1"),
        ({"size": []}, "size must have at least one value, not an empty list"),
        ({"size": ()}, "size must have at least one value, not an empty list"),
        ({"size": ["4KiB", 4096]}, "size must have each value once, not 4096 again"),
        ({"op": ["avg", "average"]}, "op must have each value once, not 'average' again"),
        ({"clock_ghz": [1, 1.0]}, "clock_ghz must have each value once, not 1.0 again"),
        ({"root": [None, None]}, "root must have each value once, not None again"),
        ({"size": None}, "size must be an integer within 2..*, not None"),
        ({"size": True}, "size must be an integer within 2..*, not True"),
        ({"size": 4.0}, "size must be an integer within 2..*, not 4.0"),
        ({"size": [4, 6]}, r"size must be a multiple of 4 bytes with float32, not 6"),
        ({"size": 6, "dtype": ["bfloat16", "int32"]}, "size .* 4 bytes with int32, not 6"),
        ({"size": 7, "dtype": "bfloat16"}, "size .* 2 bytes with bfloat16, not 7"),
        ({"size": "4 pounds"}, "size: Size must be bytes, or a number with kB, .*, not '4 pounds'"),
        ({"size": "9999999999999GiB"}, "size must be an integer within"),
        ({"topology": 4}, "topology must be 1 to 4096 printable characters .*, not 4"),
        ({"topology": None}, "topology must be 1 to 4096 printable characters .*, not None"),
        ({"algorithm": ["ring", "rnig"]}, r"algorithm\[1\] must be multitree or .*, not 'rnig'"),
        ({"algorithm": [["ring"]]}, r"algorithm\[0\] must be multitree or .*, not \['ring'\]"),
        ({"engine": "numpy"}, f"engine must be {' or '.join(CLOCKED_ENGINES)}, not 'numpy'"),
        ({"collective": "gather"}, "collective must be all_reduce or .*, not 'gather'"),
        ({"root": -1}, "root must be an integer within 0..65535, not -1"),
        ({"root": "0"}, "root must be an integer within 0..65535, not '0'"),
        ({"dependency": "chunks"}, "dependency must be chunk or submessage, not 'chunks'"),
        ({"flow_control": None}, "flow_control must be message or packet, not None"),
        ({"lockstep": "no"}, "lockstep must be true or false, not 'no'"),
        ({"lockstep": 0}, "lockstep must be true or false, not 0"),
        ({"dtype": "float64"}, "dtype must be int32 or float32 or bfloat16, not 'float64'"),
        ({"op": "mean"}, "op must be sum or max or average or avg, not 'mean'"),
        ({"seed": -1}, "seed must be an integer within 0..*, not -1"),
        ({"seed": 2**63}, "seed must be an integer within 0..*, not 9223372036854775808"),
        ({"memory_cycles": 5}, "memory_cycles must be an integer within 6..1048576, not 5"),
        ({"clock_ghz": 0}, "clock_ghz must be a positive, finite number, not 0"),
        ({"clock_ghz": float("nan")}, "clock_ghz must be a positive, finite number, not nan"),
        ({"clock_ghz": True}, "clock_ghz must be a positive, finite number, not True"),
        ({"clock_ghz": 1e-4}, "clock_ghz must be within 0.001..100, not 0.0001"),
        ({"clock_ghz": 101}, "clock_ghz must be within 0.001..100, not 101"),
        ({"latency_ns": 2e9}, "latency_ns must be within 0.001..1e.09, not 2e.09"),
        ({"link_gbytes_per_s": 0.09}, "link_gbytes_per_s must be within 0.1..100000, not 0.09"),
        ({"size": 2**40 + 4}, "size must be an integer within 2..*, not 1099511627780"),
        ({"flit_bytes": 24}, "flit_bytes must be a power of two, not 24"),
        ({"flit_bytes": "16"}, "flit_bytes must be an integer within .*, not '16'"),
        ({"buffer_flits": 3}, "buffer_flits must be within 4..65536, not 3"),
        ({"forward_flits": 16}, "forward_flits must be 0 or a power of two from 32 on, not 16"),
        ({"adder_stages": 7}, "adder_stages must be within 4..6, not 7"),
        ({"ranks": 3}, "ranks must be 1 to 4096 printable characters .*, not 3"),
        ({"forwarding": None}, "forwarding must be true or false, not None"),
        ({"latency_ns": -1}, "latency_ns must be a positive, finite number, not -1"),
        ({"seed": b"12"}, "seed must be an integer within"),
    ],
)
def test_wrong_values_are_refused(entries, problem):
    refuses(SweepError, f"^sweep: {problem}", grid_of, LEAST | entries)


@pytest.mark.parametrize("key", LEAST)
def test_what_every_sweep_needs_must_be_there(key):
    with pytest.raises(SweepError, match=f"^sweep: {key} must be there$"):
        grid_of({name: value for name, value in LEAST.items() if name != key})


def test_a_sweep_is_a_mapping():
    refuses(TypeError, r"^Sweep must be a mapping or the path .*, not \[1\]$", grid_of, [1])


def test_too_many_points_are_refused(monkeypatch):
    monkeypatch.setattr(definition, "MAX_POINTS", 6)
    entries = LEAST | {"seed": [1, 2, 3], "size": [4, 8]}
    assert len(grid_of(entries).points()) == 6
    with pytest.raises(SweepError, match=r"^sweep: points must be at most 6, not 12$"):
        grid_of(entries | {"adder_stages": [4, 5]})


def test_problems_of_a_file_have_its_name_and_the_line(tmp_path):
    path = tmp_path / "sweep.yaml"
    sizes = "topology: ring:4\nalgorithm: ring\nengine: analytic\nsize: [4, 5]\n"
    for text, problem in (
        (sizes, "line 4, column 1: size must be a multiple of 4 bytes with float32, not 5"),
        ("topologies: ring:4\n", "line 1, column 1: key must be one of topol"),
        ("topology: [", "line 1, column 12: file must be YAML"),
    ):
        path.write_text(text)
        for given in (path, str(path)):
            refuses(SweepError, f"^{path}: {problem}", read_grid, given)


def test_of_a_file_that_is_damaged_anywhere_the_place_or_the_rule_is_named(tmp_path):
    seed = int.from_bytes(os.urandom(4))
    print(f"seed {seed}")
    rng, path = random.Random(seed), tmp_path / "sweep.yaml"
    whole = (ROOT / "examples" / "sweep.yaml").read_bytes()
    refused = 0
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(data))
            length = rng.choice([0, 1, 1, 30])
            data[at : at + length] = rng.choice(
                [b"", rng.randbytes(2), rng.choice([b"[", b"]", b":", b"- ", b"&a ", b"*a", b"? "])]
            )
        path.write_bytes(data)
        try:
            assert 0 < read_grid(path).num_points <= definition.MAX_POINTS
        except SweepError as error:
            refused += 1
            assert str(error).startswith(f"{path}: ") and "\n" not in str(error)
    assert refused > 100
