"""The ablation: each row adds one cause to those above it."""

from multitree import LinkModel, build, exact, torus
from multitree.host.cli.output import Working
from tests.benches import bench_module

ablation = bench_module("ablation")


def test_causes_are_added_one_by_one():
    rows = {each["cause"]: each for each in ablation.measure("torus:4x4", 32768, Working("x"))}
    packets, steps = LinkModel(flow_control="packet"), rows["steps of the authors' code"]
    tree, ring = (build(torus(4, 4), name) for name in ("multitree", "ring"))
    here = exact(tree, 2048).cycles
    assert rows["as here"]["multitree_cycles"] == here
    assert rows["MultiTree in packets"]["multitree_cycles"] == exact(tree, 2048, packets).cycles
    ring_cycles = exact(ring, 2048, packets).cycles
    assert rows["as here"]["over_ring"] == ring_cycles / here
    # The single order of growth has five steps, the best one four.
    assert steps["multitree_cycles"] != here
    lockstep, less = rows["lockstep"], rows["reduction time subtracted"]
    assert lockstep["multitree_cycles"] > steps["multitree_cycles"]
    assert lockstep["multitree_cycles"] - less["multitree_cycles"] == 5 * 13
    assert ring_cycles - less["ring_cycles"] == 15 * 13
    peer = rows["the authors' simulator"]
    assert peer["residual_multitree"] == peer["multitree_cycles"] / less["multitree_cycles"]
