"""The faults that are seeded in the blocks that forward."""

from tests.formal.mutants import Mutant

__all__ = ["MUTANTS"]

MUTANTS = (
    Mutant(
        "chunk_finder.found",
        "nic/forward/chunk_finder.py",
        "query.op.eq(job.need_op),",
        "query.op.eq(0),",
        "a contribution is taken for the result of its flow: a partial sum goes on",
    ),
    Mutant(
        "chunk_finder.found",
        "nic/forward/chunk_finder.py",
        "begun &= answer.wave == job.wave",
        "begun &= answer.wave >= job.wave",
        "the next wave's flits are taken for this one's",
    ),
    Mutant(
        "chunk_finder.found",
        "nic/forward/chunk_finder.py",
        "m.d.sync += [tracked.eq(begun), position.eq(begins)]",
        "m.d.sync += [tracked.eq(begun), position.eq(0)]",
        "a chunk that has to wait is read where the collective begins",
    ),
    Mutant(
        "chunk_reader.flits",
        "nic/forward/chunk_reader.py",
        "most = self.config.forward_flits - _STALE_FLITS",
        "most = self.config.forward_flits",
        "a kept flit is taken while another one is written over it",
    ),
    Mutant(
        "chunk_reader.flits",
        "nic/forward/chunk_reader.py",
        "(read != 0) & ~read[-1]",
        "~read[-1]",
        "memory is read one flit before its acknowledgement",
    ),
    Mutant(
        "chunk_reader.flits",
        "nic/forward/chunk_reader.py",
        "port = Mux(load, chunk.need_port, hand.need_port)",
        "port = hand.need_port",
        "the first flit of a chunk is looked for at the port of the chunk before",
    ),
    Mutant(
        "header_check.jobs",
        "nic/receive/forwarding_header_check.py",
        "return ~self._pending | self.jobs.ready",
        "return 1",
        "a flit passes before it is known what it is added to",
    ),
    Mutant(
        "header_check.jobs",
        "nic/receive/forwarding_header_check.py",
        "passed.eq(passed + (self.items.valid & self.items.ready)),",
        "passed.eq(passed + self.items.valid),",
        "a flit that waits counts twice, so that messages begin too late",
    ),
    Mutant(
        "header_check.jobs",
        "nic/receive/forwarding_header_check.py",
        "with m.If(message.op == OP_GATHER):",
        "with m.If(message.op != OP_GATHER):",
        "a result does not follow the sum that it replaces",
    ),
    Mutant(
        "header_check.jobs",
        "nic/receive/header_check.py",
        "self.items.valid.eq(self.flits.valid & gate & right_kind & self.run.running),",
        "self.items.valid.eq(self.flits.valid & gate & self.run.running),",
        "a flit that is not the message's next one goes on",
    ),
    Mutant(
        "write_order.order",
        "nic/forward/write_order.py",
        "((left != 0) & ~left[-1])",
        "~left[-1]",
        "a write goes one flit before the one that it replaces is in memory",
    ),
    Mutant(
        "write_order.order",
        "nic/forward/write_order.py",
        "following.eq(Mux(load, offered.position, position + self.moved)),",
        "following.eq(Mux(load, offered.position, position)),",
        "all flits of a message wait for the first one only",
    ),
)
