"""Runs that the campaigns draw, as cocotb benches over their networks' Verilog.

The same seed draws the same collectives, data and starts on either side: what a campaign found in
the emulation is replayed here, and what fails here by ``--only SEED`` of the campaign. Different
are the models around the design (hosts, memory with light stalls) and the links, which all have
their usual speed and two cycles. Exit status 1 if a run is not exact:

    python bench/cocotb_replay.py switched --seed 17 --sim verilator
    python bench/cocotb_replay.py skew --seed 1 --runs 6
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import skew_campaign
import switched_campaign
from _draws import Draw

from multitree.cocotb import SIMULATORS, TestResult, missing, simulate
from multitree.host.design.names import PREFIX, DesignNames
from multitree.host.design.network_top import network_verilog, switch_modules
from multitree.host.design.verilog_files import write_verilog
from multitree.topology.lowering import lowered

__all__ = ["CAMPAIGN", "CAMPAIGNS", "SEED", "replay"]

CAMPAIGNS: dict[str, Callable[[int], Draw]] = {
    "skew": skew_campaign.draw,
    "switched": switched_campaign.draw,
}
CAMPAIGN, SEED = "MULTITREE_CAMPAIGN", "MULTITREE_SEED"
"""Variables of the environment that tell the bench what to run."""
BENCH = "_drawn_bench"


def replay(campaign: str, drawn: Draw, simulator: str, folder: Path) -> TestResult:
    """Write the network of a run to a folder, and run it there."""
    names, config = DesignNames(PREFIX), drawn.config
    wired = lowered(drawn.queue[0].schedule).topology
    written = write_verilog(config, folder, topology=wired)
    parts = [path for path in written.paths if path.suffix == ".v" and path.stem != names.bench]
    text = "".join(path.read_text() for path in parts)
    top = folder / f"{names.network}.v"
    top.write_text(network_verilog(wired, config, names, text))
    switches = switch_modules(wired, config, names.switch)
    (result,) = simulate(
        simulator,
        sources=[*parts, top],
        top=names.network,
        modules=[BENCH],
        folder=folder,
        seed=drawn.seed,
        blocks=[names.top("sram"), *(shape.module for shape in switches)],
        python_path=Path(__file__).resolve().parent,
        variables={CAMPAIGN: campaign, SEED: str(drawn.seed)},
    )
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("campaign", choices=CAMPAIGNS)
    parser.add_argument("--seed", type=int, default=1, help="the first; runs count up from it")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--sim", choices=SIMULATORS, default="verilator")
    arguments = parser.parse_args()
    if lack := missing(arguments.sim):
        parser.error(lack)
    wrong = 0
    for seed in range(arguments.seed, arguments.seed + arguments.runs):
        drawn, begin = CAMPAIGNS[arguments.campaign](seed), time.perf_counter()
        with tempfile.TemporaryDirectory() as name:
            result = replay(arguments.campaign, drawn, arguments.sim, Path(name))
        wrong += not result.passed
        verdict = "exact" if result.passed else result.message
        seconds = time.perf_counter() - begin
        print(f"seed {seed}, {drawn.spec}: {verdict} ({seconds:.0f} s)", flush=True)
    print(f"{arguments.runs - wrong} of {arguments.runs} runs exact")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
