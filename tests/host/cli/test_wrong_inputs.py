"""Some wrong inputs, limits and signals, and what the campaign would find wrong."""

import os

import pytest

from tests.benches import bench_module

wrong_inputs = bench_module("wrong_inputs")


def test_a_sample_of_wrong_inputs_breaks_nothing():
    seed = int.from_bytes(os.urandom(3))
    print(f"seed {seed}")
    found = wrong_inputs.campaign(20, seed)
    assert found["problems"] == {}
    assert sum(found["kinds"].values()) == 20


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ({"a": b""}, {}, "lost"),
        ({}, {".multitree-1.tmp": b""}, "left"),
        ({}, {"out.json": b"{"}, "broke"),
        ({"build/a": b"", "build/b": b""}, {"build/a": b"", "build/b": b"1"}, "only some"),
        ({"a": b""}, {"a": b""}, None),
    ],
)
def test_damage_is_seen(tmp_path, before, after, says):
    for name, data in after.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    found = wrong_inputs.damage(before, after, tmp_path, "build" if "build/a" in before else "out")
    assert (found is None) if says is None else found.startswith(says)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (lambda _: 0, "status 0"),
        (lambda _: 1 / 0, "Traceback"),
        (lambda _: 2, "not one sentence"),
    ],
)
def test_a_command_that_misbehaves_is_seen(tmp_path, monkeypatch, command, says):
    monkeypatch.setattr(wrong_inputs, "main", command)
    assert says in wrong_inputs.problem_of(wrong_inputs.Case("made", ["table"], {1, 2}), tmp_path)
