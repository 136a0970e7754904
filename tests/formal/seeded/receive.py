"""The faults that are seeded in receivers, and in what waits for them."""

from tests.formal.mutants import Mutant

__all__ = ["MUTANTS"]

_CHECK = "nic/receive/header_check.py"
_REDUCER = "nic/reduce/reducer.py"
_DUPLICATE_FILTER = "nic/receive/duplicate_filter.py"

MUTANTS = (
    Mutant(
        "header_check.heads",
        _CHECK,
        "item.replace.eq(op == OP_GATHER),",
        "item.replace.eq(0),",
        "a result is added",
    ),
    Mutant(
        "header_check.heads",
        _CHECK,
        "item.payload.eq(self.flits.payload.payload),",
        "item.payload.eq(self.flits.payload.payload >> 1),",
        "another payload than the link's",
    ),
    Mutant(
        "header_check.heads",
        _CHECK,
        "self.flits.ready.eq(self.items.valid & self.items.ready),",
        "self.flits.ready.eq(self.items.ready),",
        "a flit is lost while the gate is closed",
    ),
    Mutant(
        "header_check.heads",
        _CHECK,
        "self.empty.last.eq(1),",
        "self.empty.last.eq(0),",
        "an empty message is not the last of its own",
    ),
    Mutant(
        "header_check.heads",
        _CHECK,
        "self.empty.count.eq(next_count if self.config.wave_width else 1),",
        "self.empty.count.eq(0),",
        "an empty message is not counted",
    ),
    Mutant(
        "header_check.asks",
        _CHECK,
        "stale = phase != run.sequence[0]",
        "stale = Const(0)",
        "a head of the collective before is taken",
    ),
    Mutant(
        "header_check.asks",
        _CHECK,
        "duplicates.phase.eq(phase),",
        "duplicates.phase.eq(0),",
        "every second collective is another's",
    ),
    Mutant(
        "header_check.asks",
        _CHECK,
        "duplicates.clear.eq(self.run.clear),",
        "duplicates.clear.eq(0),",
        "marks of tables before are kept",
    ),
    Mutant(
        "receiver.joins",
        "nic/receive/receiver.py",
        "reducer.maximum.eq(self.run.maximum),",
        "",
        "a maximum is a sum",
    ),
    Mutant(
        "receiver.joins",
        "nic/receive/receiver.py",
        "header_check.port.eq(self.port),",
        "",
        "every port is port 0",
    ),
    Mutant(
        "duplicate_filter.once",
        _DUPLICATE_FILTER,
        "write.data.eq(Cat(known, check_of(known))),",
        "write.data.eq(Cat(known, ~check_of(known))),",
        "check bits of another mark",
    ),
    Mutant(
        "reducer.writes",
        _REDUCER,
        "reads.i.payload.eq(item.address),",
        "reads.i.payload.eq(item.address + 1),",
        "added to what stands behind it",
    ),
    Mutant(
        "reducer.writes",
        _REDUCER,
        "writes.i.payload.payload.eq(Mux(passes, operand.payload, adder.o)),",
        "writes.i.payload.payload.eq(adder.o),",
        "what replaces is what the adder has",
    ),
    Mutant(
        "reducer.writes",
        _REDUCER,
        "LaneOp.SECOND,",
        "LaneOp.SUM,",
        "what replaces behind a sum is added",
    ),
    Mutant(
        "reducer.writes",
        _REDUCER,
        "source.ready.eq(pair & ~operand.replace),",
        "source.ready.eq(pair),",
        "what replaces takes another's read data",
    ),
    Mutant(
        "reducer.writes",
        _REDUCER,
        "may_take = item.replace | reads.i.ready",
        "may_take = 1",
        "a read is lost while memory takes none",
    ),
    Mutant(
        "issuer.dependency",
        "nic/send/issuer.py",
        "return Const(1)",
        "return Const(0)",
        "a whole sum goes before it is there",
    ),
    Mutant(
        "issuer.progress",
        "nic/send/issuer.py",
        "(known >= needed)",
        "(known > needed)",
        "waits for more than it needs",
    ),
    Mutant(
        "issuer.progress",
        "nic/send/issuer.py",
        "self.query.valid.eq(job.needs & self.run.cut_through),",
        "self.query.valid.eq(0),",
        "does not ask again for what comes later",
    ),
    Mutant(
        "header_check.jobs",
        "nic/receive/forwarding_header_check.py",
        "m.d.sync += [passed.eq(0), pending.eq(0)]",
        "m.d.sync += pending.eq(0)",
        "positions of the next collective follow those of this one",
    ),
    Mutant(
        "shared_header_check.turns",
        "nic/receive/shared_receiver.py",
        "lane.unwritten.eq(self.unwritten),",
        "lane.unwritten.eq(0),",
        "a lane knows nothing of what is not written",
    ),
    Mutant(
        "shared_receiver.joins",
        "nic/receive/shared_receiver.py",
        "reducer.maximum.eq(self.run.maximum),",
        "",
        "a maximum is a sum",
    ),
    Mutant(
        "control.start",
        "nic/control/collective.py",
        "m.d.sync += self.start_waits.eq(start)",
        "m.d.sync += self.start_waits.eq(self.start)",
        "a start that waits is forgotten",
    ),
    Mutant(
        "control.done",
        "nic/control/collective.py",
        "m.d.sync += self.irq.eq(self.faulted | left.any())",
        "m.d.sync += self.irq.eq(left.any())",
        "no interrupt of a fault",
    ),
    Mutant(
        "control.done",
        "nic/control/collective.py",
        "m.d.sync += unread.eq(left + (finished & ~left.all()))",
        "m.d.sync += unread.eq(left | finished)",
        "two that are done are one",
    ),
    Mutant(
        "checked.flips",
        "hw/check_bits.py",
        "self.state_error.eq(left & syndrome.any()),",
        "self.state_error.eq(left & syndrome.all()),",
        "a single flip goes unseen",
    ),
)
