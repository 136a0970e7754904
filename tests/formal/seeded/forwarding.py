"""Faults in what forwards flits."""

FAULTS = """
chunk_finder.found in nic/forward/chunk_finder.py
# a contribution is taken for the result of its flow: a partial sum goes on
- query.op.eq(job.need_op),
+ query.op.eq(0),
# the next wave's flits are taken for this one's
- begun &= answer.wave == job.wave
+ begun &= answer.wave >= job.wave
# a chunk that has to wait is read where the collective begins
- m.d.sync += [tracked.eq(begun), position.eq(begins)]
+ m.d.sync += [tracked.eq(begun), position.eq(0)]
# a chunk is found while no collective runs
- found.valid.eq(offers & run.running)
+ found.valid.eq(offers)

chunk_reader.flits in nic/forward/chunk_reader.py
# a kept flit is taken while another one is written over it
- most = self.config.forward_flits - STALE_FLITS
+ most = self.config.forward_flits
# memory is read one flit before its acknowledgement
- (read != 0) & ~read[-1]
+ ~read[-1]
# the first flit of a chunk is looked for at the port of the chunk before
- Array(of)[chunk.need_port] - chunk.position
+ Array(of)[port] - chunk.position

chunk_reader.reads in nic/forward/chunk_reader.py
# more flits are asked for than there is room for
- may = some & (room != 0) & self.running
+ may = some & self.running
# a kept flit leaves memory's address where it was
- hand.eq(chunk)]
-         with m.Elif(issue):
-             m.d.sync += address.eq(address + 1)
+ hand.eq(chunk)]
+         with m.Elif(issue):
+             m.d.sync += address.eq(address + ~of_kept)
# the last kept flit of a chunk is taken from the port of the next one
- Array(self.forward.kept)[from_port]
+ Array(self.forward.kept)[port]

chunk_source.turns in nic/forward/chunk_source.py
# a flit of the reader takes one away that was read ahead
- local.o.ready.eq(moved & is_local),
+ local.o.ready.eq(moved),
# a chunk's last flit comes from where the next chunk does
- sequence.o.ready.eq(~some | (moved & last)),
+ sequence.o.ready.eq(~some | last),
# flits are awaited that are not read
- sequence.i.payload.size.eq(self._size_of(job)),
+ sequence.i.payload.size.eq(job.size),
# a chunk is read again while its job waits
- reader.chunks.valid.eq(found.valid & is_next & self.begun.ready),
+ reader.chunks.valid.eq(found.valid & is_next),
# it is idle before a chunk's last flit is taken
- self.idle.eq(Cat(queue.level == 0 for queue in queues).all() & ~some),
+ self.idle.eq(Cat(queue.level == 0 for queue in queues).all()),
# a job is lost whose chunk was not found yet
- order.o.ready.eq(self.begun.valid & self.begun.ready),
+ order.o.ready.eq(self.begun.ready),

forwarding_reducer.writes in nic/reduce/reducer.py
# a sum is announced two cycles before it is kept
- Cat(added, *busy)[-2] | passes
+ Cat(added, *busy)[-3] | passes

forwarding_reducer.writes in nic/reduce/forwarding_reducer.py
# a write that memory has not taken counts as gone
- order.moved.eq(self.write.valid & self.write.ready)
+ order.moved.eq(self.write.valid)
# a write counts as acknowledged when it is taken
- recent.ack.eq(self.write.ack)
+ recent.ack.eq(self.write.valid & self.write.ready)

header_check.jobs in nic/receive/forwarding_header_check.py
# a flit passes before it is known what it is added to
- return ~pending | self.jobs.ready
+ return 1
# a flit that waits counts twice, so that messages begin too late
- passed.eq(passed + (self.items.valid & self.items.ready)),
+ passed.eq(passed + self.items.valid),
# a message is announced again while it waits for the one before it
- accepted.eq(messages.ready & ~message.single & ~message.code.any())
+ accepted.eq(messages.valid & ~message.single & ~message.code.any())
# a result that begins is reported as a contribution
- self.report.op.eq(hand.op)
+ self.report.op.eq(0)
# a beginning is reported as that of the message behind it
- self.report.flow.eq(hand.flow)
+ self.report.flow.eq(messages.payload.flow)
# positions of the next collective follow those of this one
- m.d.sync += [passed.eq(0), pending.eq(0)]
+ m.d.sync += pending.eq(0)

header_check.messages in nic/receive/forwarding_header_check.py
# a message's sub-messages end where those of the one before it would
- place.eq(0),
+ place.eq(place),
# a message that is wrong goes to memory
- with m.If(message.code.any()):
+ with m.If(message.code.all()):
# a message that finds no room is lost
- read.ready.eq(queue.i.ready),
+ read.ready.eq(1),
# a last flit that carries no CRC comes in
- Mux(last, flit.kind == Kind.TAIL, flit.kind == Kind.BODY)
+ ((flit.kind == Kind.TAIL) | (flit.kind == Kind.BODY))
# flits of the next message come in as the rest of this one
- is_right = mine & Mux
+ is_right = Mux

header_check.strays in nic/receive/forwarding_header_check.py
# an empty message that was read ahead hides a flit in front of its head
- with m.If(ahead.valid & is_before & run.running):
+ with m.If(0):

local_reader.reads in nic/forward/chunk_reader.py
# more is read than there is room for
- reads.i.valid.eq(some & room & self.running),
+ reads.i.valid.eq(some & self.running),
# what is left of a chunk is read although nothing runs
- reads.i.valid.eq(some & room & self.running),
+ reads.i.valid.eq(some & room),
# a chunk's last address is lost where it has to wait
- self.chunks.ready.eq(~some | (issue & last)),
+ self.chunks.ready.eq(~some | last),
# every other address is read
- address.eq(chunk.base)
-         with m.Elif(issue):
-             m.d.sync += address.eq(address + 1)
+ address.eq(chunk.base)
+         with m.Elif(issue):
+             m.d.sync += address.eq(address + 2)

merged_queue.order in nic/forward/chunk_reader.py
# a kept flit is lost that waits
- kept.o.ready.eq(taken & of_kept),
+ kept.o.ready.eq(of_kept),
# a flit's source is that of the next one
- order.i.payload.eq(of_late),
+ order.i.payload.eq(self.of_kept),
# a flit leaves before the one that is due has come
- arrived = Mux(of_kept, kept.o.valid, reads.o.valid)
+ arrived = kept.o.valid | reads.o.valid
# a flit that has just been asked for is forgotten
- self.empty.eq((order.level == 0) & ~asked),
+ self.empty.eq(order.level == 0),
# a flit of memory is held against a kept one's parity
- intact.eq(has_parity(goes[:width], goes[width:])),
+ intact.eq(has_parity(goes[:width], kept.o.payload[width:])),

recent_writes.kept in nic/forward/positions.py
# the next collective reads what the one before left in the ring
- m.d.sync += [place.eq(0), positions.written
+ m.d.sync += [positions.written
# a flit is kept before it is there
- write.en.eq(self.put)
+ write.en.eq(self.coming)

write_order.order in nic/reduce/forwarding_reducer.py
# a write goes one flit before the one that it replaces is in memory
- ((left != 0) & ~left[-1])
+ ~left[-1]
# all flits of a message wait for the first one only
- position.eq(position + self.moved)
+ position.eq(position)
# a message loses a cycle behind the one before it
- load.eq(queue.o.valid & (~has | (self.moved & self.last))),
+ load.eq(queue.o.valid & ~has),
# a write goes by the acknowledgement of the flit before it
- m.d.sync += left.eq(lead(ports[port], position, self.moved))
+ m.d.sync += left.eq(lead(ports[port], position, 0))

write_order.order in nic/forward/positions.py
# a flit that moves on is counted where none does
- Cat(~step, ~position)
+ Cat(step, ~position)
"""
