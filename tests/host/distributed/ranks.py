"""Processes of a group, for tests."""

from tests.benches import bench_module

run_ranks = bench_module("_ranks").run_ranks
start_ranks = bench_module("_ranks").start_ranks
RankError = bench_module("_ranks").RankError
