"""The faults that are seeded in the AXI4 managers."""

from tests.formal.mutants import Mutant

__all__ = ["MUTANTS"]

MUTANTS = (
    Mutant(
        "axi.read_rules",
        "hw/axi/bursts.py",
        "full.eq((self.burst.more == MAX_BEATS - 1) | ~inside.any())",
        "full.eq(self.burst.more == MAX_BEATS - 1)",
        "a burst reaches over the end of a page",
    ),
    Mutant(
        "axi.read_rules",
        "hw/axi/bursts.py",
        "full.eq((self.burst.more == MAX_BEATS - 1) | ~inside.any())",
        "full.eq(~inside.any())",
        "a burst has no end but that of the page",
    ),
    Mutant(
        "axi.read_rules",
        "hw/axi/bursts.py",
        "continues.eq(held & ~full & (self.i.payload == following))",
        "continues.eq(held & ~full)",
        "a burst reads what no request is for",
    ),
    Mutant(
        "axi.read_rules",
        "hw/axi/bursts.py",
        "free.eq(inflight != self.depth)",
        "free.eq(1)",
        "more reads in flight than there is room for",
    ),
    Mutant(
        "axi.read_rules",
        "hw/axi/bursts.py",
        "((bus.rresp != OKAY) | (inflight == 0))",
        "(inflight == 0)",
        "a beat that could not be read is no error",
    ),
    Mutant(
        "axi.write_rules",
        "hw/axi/bursts.py",
        "bus.wlast.eq(beat == lengths.payload)",
        "bus.wlast.eq((beat == lengths.payload) | (bus.awready & (beat == 0)))",
        "a burst's data end before the burst does",
    ),
    Mutant(
        "axi.write_rules",
        "hw/axi/bursts.py",
        "flits.ready.eq(moved)",
        "flits.ready.eq(bus.wvalid)",
        "a beat does not stay until it is taken",
    ),
    Mutant(
        "axi.write_rules",
        "hw/axi/bursts.py",
        "channel.ack.eq(due != 0)",
        "channel.ack.eq((due != 0) | (unanswered == self.depth))",
        "a write is acknowledged without a response",
    ),
    Mutant(
        "axi.read_progress",
        "hw/axi/bursts.py",
        "inflight.eq(inflight + taken - back)",
        "inflight.eq(inflight + taken - (back & (bus.rresp == OKAY)))",
        "the room of a failed read is lost",
    ),
    Mutant(
        "axi.write_progress",
        "hw/axi/bursts.py",
        "unanswered.eq(unanswered + taken - answered)",
        "unanswered.eq(unanswered + taken - (answered & (bus.bresp == OKAY)))",
        "the room of a failed write is lost",
    ),
    Mutant(
        "axi.strays",
        "hw/axi/bursts.py",
        "back.eq(bus.rvalid & (inflight != 0))",
        "back.eq(bus.rvalid)",
        "a beat that no request is for counts as data",
    ),
)
