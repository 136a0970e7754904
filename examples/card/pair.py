"""Two cards of `card.py`, joined by their first link, all-reduce under cocotb.

Each card has a core clock of its own and AXI4 memory that pauses; the link has a third clock, and
the cards' crossings are in between. The bench, `bench_pair.py`, takes everything it needs from
`multitree.cocotb`:

    python examples/card/pair.py --out build/pair --sim verilator
"""

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from card import write_card

from multitree.cocotb import SIMULATORS, BenchError, missing, simulate

HERE = Path(__file__).resolve().parent
NUM_CARDS = 2
JOINED = "link_0_"


def ports_of(card):
    """Direction, range and name of every port of the card."""
    header = re.search(r"^module card \((.*?)\);", card, re.M | re.S)[1]
    return re.findall(r"(input|output) wire (\[\d+:0\] )?(\w+)", header)


def pair_verilog(card):
    """A module with two cards: what one sends on the first link, the other receives."""
    ports = ports_of(card)
    outside, nets, cards = ["input wire link_clk"], [], []
    for number in range(NUM_CARDS):
        pins = []
        for direction, width, name in ports:
            net = f"card_{number}_{name}"
            if re.fullmatch(r"link_\d+_clk", name):
                net = "link_clk"
            elif name.startswith(JOINED) and not name.endswith("lost"):
                net = joined(number, direction, name)
                nets += [f"wire {width}{net};"] if direction == "output" else []
            elif name.startswith("link_") and direction == "input":
                net = "0"  # The other links of the cards end here.
            elif name.startswith("link_"):
                net = ""
            else:
                outside.append(f"{direction} wire {width}{net}")
            pins.append(f".{name}({net})")
        cards.append(f"card card_{number} ({', '.join(pins)});")
    listed = ",\n  ".join(outside)
    return f"module pair (\n  {listed}\n);\n" + "\n".join([*nets, *cards, "endmodule", ""])


def joined(number, direction, name):
    """The net at a pin of the first link, called after the pin that drives it."""
    other = {"tx": "rx", "rx": "tx"}
    if direction == "output":
        return f"card_{number}_{name}"
    swapped = re.sub(r"_(tx|rx)_", lambda found: f"_{other[found[1]]}_", name)
    return f"card_{1 - number}_{swapped}"


def main():
    """Write the cards, build the pair, run its bench; exit status 1 if a test failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/pair"), metavar="DIR")
    parser.add_argument("--sim", choices=SIMULATORS, default="verilator")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if lack := missing(arguments.sim):
        parser.error(lack)
    paths = [p for p in write_card(arguments.out, "axi", False) if p.suffix == ".v"]
    text = pair_verilog((arguments.out / "card.v").read_text())
    (arguments.out / "pair.v").write_text(text)
    sources = [p for p in paths if not p.stem.endswith("_sim")] + [arguments.out / "pair.v"]
    try:
        results = simulate(
            arguments.sim,
            sources=sources,
            top="pair",
            modules=["bench_pair"],
            folder=arguments.out,
            seed=arguments.seed,
            blocks=["card"],
            python_path=HERE,
        )
    except BenchError as error:
        sys.exit(str(error))
    for result in results:
        verdict = "passed" if result.passed else f"FAILED: {result.message}"
        print(f"{result.name}  {result.sim_time_ns:.0f} ns  {verdict}")
    return int(not all(result.passed for result in results))


if __name__ == "__main__":
    sys.exit(main())
