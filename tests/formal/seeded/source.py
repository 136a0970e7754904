"""The faults that are seeded in what reads the flits of chunks."""

from tests.formal.mutants import Mutant

__all__ = ["MUTANTS"]

MUTANTS = (
    Mutant(
        "merged_queue.order",
        "nic/forward/chunk_reader.py",
        "kept.o.ready.eq(taken & of_kept),",
        "kept.o.ready.eq(of_kept),",
        "a kept flit is lost that waits",
    ),
    Mutant(
        "merged_queue.order",
        "nic/forward/chunk_reader.py",
        "order.i.payload.eq(of_late),",
        "order.i.payload.eq(self.of_kept),",
        "a flit's source is that of the next one",
    ),
    Mutant(
        "merged_queue.order",
        "nic/forward/chunk_reader.py",
        "arrived = Mux(of_kept, kept.o.valid, reads.o.valid)",
        "arrived = kept.o.valid | reads.o.valid",
        "a flit leaves before the one that is due has come",
    ),
    Mutant(
        "merged_queue.order",
        "nic/forward/chunk_reader.py",
        "self.empty.eq((order.level == 0) & ~asked),",
        "self.empty.eq(order.level == 0),",
        "a flit that has just been asked for is forgotten",
    ),
    Mutant(
        "merged_queue.order",
        "nic/forward/chunk_reader.py",
        "intact.eq(has_parity(goes[:width], goes[width:])),",
        "intact.eq(has_parity(goes[:width], kept.o.payload[width:])),",
        "a flit of memory is held against a kept one's parity",
    ),
    Mutant(
        "local_reader.reads",
        "nic/forward/chunk_reader.py",
        "reads.i.valid.eq(some & room & self.running),",
        "reads.i.valid.eq(some & self.running),",
        "more is read than there is room for",
    ),
    Mutant(
        "local_reader.reads",
        "nic/forward/chunk_reader.py",
        "reads.i.valid.eq(some & room & self.running),",
        "reads.i.valid.eq(some & room),",
        "what is left of a chunk is read although nothing runs",
    ),
    Mutant(
        "local_reader.reads",
        "nic/forward/chunk_reader.py",
        "self.chunks.ready.eq(~some | (issue & last)),",
        "self.chunks.ready.eq(~some | last),",
        "a chunk's last address is lost where it has to wait",
    ),
    Mutant(
        "local_reader.reads",
        "nic/forward/chunk_reader.py",
        "address.eq(chunk.base)\n        with m.Elif(issue):\n"
        "            m.d.sync += address.eq(address + 1)",
        "address.eq(chunk.base)\n        with m.Elif(issue):\n"
        "            m.d.sync += address.eq(address + 2)",
        "every other address is read",
    ),
    Mutant(
        "chunk_source.turns",
        "nic/forward/chunk_source.py",
        "local.o.ready.eq(moved & is_local),",
        "local.o.ready.eq(moved),",
        "a flit of the reader takes one away that was read ahead",
    ),
    Mutant(
        "chunk_source.turns",
        "nic/forward/chunk_source.py",
        "sequence.o.ready.eq(~some | (moved & last)),",
        "sequence.o.ready.eq(~some | last),",
        "a chunk's last flit comes from where the next chunk does",
    ),
    Mutant(
        "chunk_source.turns",
        "nic/forward/chunk_source.py",
        "sequence.i.payload.size.eq(self._size_of(job)),",
        "sequence.i.payload.size.eq(job.size),",
        "flits are awaited that are not read",
    ),
    Mutant(
        "chunk_source.turns",
        "nic/forward/chunk_source.py",
        "reader.chunks.valid.eq(found.valid & is_next & self.begun.ready),",
        "reader.chunks.valid.eq(found.valid & is_next),",
        "a chunk is read again while its job waits",
    ),
    Mutant(
        "chunk_source.turns",
        "nic/forward/chunk_source.py",
        "self.idle.eq(Cat(queue.level == 0 for queue in queues).all() & ~some),",
        "self.idle.eq(Cat(queue.level == 0 for queue in queues).all()),",
        "it is idle before a chunk's last flit is taken",
    ),
    Mutant(
        "chunk_source.turns",
        "nic/forward/chunk_source.py",
        "order.o.ready.eq(self.begun.valid & self.begun.ready),",
        "order.o.ready.eq(self.begun.ready),",
        "a job is lost whose chunk was not found yet",
    ),
)
