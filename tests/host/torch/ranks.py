"""Processes of a group, for tests."""

from tests.benches import bench_module

ranks = bench_module("_ranks")
# Ranks are forked from a process that has loaded what the modules of the tests import.
LOADED = ["pytest", "multitree.host.communicator", "multitree.topology.specs", "tests.host.values"]
ranks.CONTEXT.set_forkserver_preload([*ranks.PRELOADED, *LOADED])
run_ranks = ranks.run_ranks
start_ranks = ranks.start_ranks
RankError = ranks.RankError
