"""Faults in the path of a private link's messages."""

FAULTS = """
acknowledger.arrivals in nic/reduce/reducer.py
# an arrival without an acknowledgement
- ((acked != 0) | self.ack) & (~ends.o.payload
+ (~ends.o.payload
# room is found missing a write too late
- outstanding, depth, self.taken
+ outstanding, depth + 1, self.taken

fetcher.illegal in nic/send/fetcher.py
# an illegal row raises no fault
- Mux(self.row_intact, row_check.code, flipped)
+ Mux(self.row_intact, 0, flipped)
# a flow that flipped is used
- Mux(self.lookup.intact, flows.code, flipped)
+ flows.code

fetcher.illegal in nic/send/pipelined_fetcher.py
# an illegal row raises no fault
- item.code.eq(Mux(of_flow, wrong, read.code)),
+ item.code.eq(wrong),
# a row that flipped is used
- code.eq(Mux(self.row_intact, check.code, FaultCode.TABLE_PARITY)),
+ code.eq(check.code),

fetcher.piped_waves in nic/send/pipelined_fetcher.py
# the runs of the last stages are left out
- (number != self.run.last_run)
+ (number != self.run.last_wave)
# a place beyond all addresses wraps around
- with m.If(offset.beyond & item.of_flow & ~item.code.any()):
+ with m.If(0):

fetcher.rows in nic/send/fetcher.py
# a row is passed over while its port is not ready
- steps.go & (hand.nop | hand.taken)
+ steps.go

fetcher.rows in nic/send/pipelined_fetcher.py
# more rows are read than there is room for
- room.eq(room - asks + gone)
+ room.eq(room - asks + queue.o.valid)

fetcher.waves in nic/send/fetcher.py
# a row goes ahead of its first wave
- return wave > self.run.last_wave
+ return wave[:-1] > self.run.last_wave
# the runs of the last stages are left out
- with m.If(hand.run != self.run.last_run):
+ with m.If(hand.run != self.run.last_wave):
# a place beyond all addresses wraps around
- with m.If(offset.beyond & ~hand.code.any()):
+ with m.If(0):

flow_check.window in nic/control/checker.py
# the end of a chunk wraps
- (entry.base + entry.size) > self.window_flits
-         unused
+ (entry.base + entry.size)[:32] > self.window_flits
+         unused

framer.channel in nic/send/sender.py
# payload goes on the channel of the message that is queued behind
- in_hand = begun | fsm.ongoing("BODY")
+ in_hand = begun

framer.frames in nic/send/sender.py
# data leave the queue while nothing is sent
- self.payload.ready.eq(self.flits.ready & self.run.running),
+ self.payload.ready.eq(self.flits.ready),
# a head does not say its row's step
- ("order", "step", "route")]
+ ("order", "route")]
# a result's packets behind the first say that they are a contribution's
- head.continued.eq(begun), head.wave.eq(message.wave)
+ head.continued.eq(begun), head.op.eq(message.op & ~begun)

guard.window in nic/top/port.py
# the flit behind the window passes
- (inner.address >= run.window_base) & (inner.address < end)
+ (inner.address >= run.window_base) & (inner.address <= end)
# what is held back is no fault, and the interface stands still without a word
- outside[number].eq(inner.valid & ~inside)
+ outside[number].eq(outer.valid & ~inside)

head_reader.heads in nic/receive/head_reader.py
# a message of a later collective comes in
- & run.running & (due | late)
+ & run.running
# a message of another size than its chunk's comes in
- size != entry.size[: len(size)]
+ 0

head_reader.once in nic/receive/head_reader.py
# a message is remembered by what was wrong with the one before it
- duplicates.mark.eq(fresh & ~known.code.any())
+ duplicates.mark.eq(found & ~known.code.any())

head_reader.order in nic/receive/head_reader.py
# a first head passes as a flit of the message before it
- self.ahead.valid.eq(self.flits.valid & ~is_first & run.running),
+ self.ahead.valid.eq(self.flits.valid & run.running),
# a message is lost that waits while the next one is looked up
- free.eq(~self.messages.valid),
+ free.eq(1),

head_reader.waves in nic/receive/head_reader.py
# what comes in beyond all addresses wraps around
- with m.If(offset.beyond & ~known.single & ~known.code.any()):
+ with m.If(0):
# a message goes to the place of the wave before it
- offset.wave.eq(hand.wave)
+ offset.wave.eq(known.wave)

head_reader.window in nic/receive/head_reader.py
# a chunk lies outside the window
- known.address.eq(run.window_base + entry.base),
+ known.address.eq(entry.base),
# a result does not follow the sum that it replaces
- replaces = hand.op == OP_GATHER
+ replaces = hand.op != OP_GATHER

header_check.asks in nic/receive/header_check.py
# a head of the collective before is taken
- stale = phase != run.sequence[0]
+ stale = Const(0)
# every second collective is another's
- duplicates.phase.eq(phase),
+ duplicates.phase.eq(0),
# marks of tables before are kept
- duplicates.clear.eq(self.run.clear),
+ duplicates.clear.eq(0),

header_check.heads in nic/receive/header_check.py
# a last flit that carries no CRC comes in
- right_kind = Mux(last, flit.kind == Kind.TAIL, flit.kind == Kind.BODY)
+ right_kind = (flit.kind == Kind.TAIL) | (flit.kind == Kind.BODY)
# a contribution comes in a sub-message ahead of the child before it
- | (known >= message.next_count)
+ | (known >= message.next_count - 1)
# what was answered for the message before opens the gate
- m.d.sync += [known.eq(0), asked.eq(0)]
+ m.d.sync += asked.eq(0)
# an empty message is reported ahead of flits that are not yet in memory
- self.empty.valid.eq(gate & self.drained)
+ self.empty.valid.eq(gate)
# a message of another size than its chunk's comes in
- size != entry.size[: len(size)]
+ 0
# a message of a later collective comes in
- with m.Elif(ahead == 0):
+ with m.Else():
# a result is added
- item.replace.eq(op == OP_GATHER),
+ item.replace.eq(0),
# another payload than the link's
- item.payload.eq(self.flits.payload.payload),
+ item.payload.eq(self.flits.payload.payload >> 1),
# a flit is lost while the gate is closed
- self.flits.ready.eq(self.items.valid & self.items.ready),
+ self.flits.ready.eq(self.items.ready),
# an empty message is not the last of its own
- self.empty.last.eq(1),
+ self.empty.last.eq(0),
# an empty message is not counted
- self.empty.count.eq(next_count if self.config.wave_width else 1),
+ self.empty.count.eq(0),

header_check.once in nic/receive/header_check.py
# a message that came in is not remembered
- duplicates.mark.eq(1)
+ duplicates.mark.eq(0)

header_check.waves in nic/receive/header_check.py
# a count does not say of which wave it is
- next_count.eq(first)
+ next_count.eq(1)
# a wave that has no number is taken for one that has
- (head.wave > run.last_wave)
+ (head.wave[: len(run.last_wave)] > run.last_wave)
# what comes in beyond all addresses wraps around
- with m.If(offset.beyond):
+ with m.If(0):

header_check.waves in nic/receive/duplicate_filter.py
# a wave comes in before the one before it
- ~expectation.expected | duplicates.early
+ ~expectation.expected

header_check.window in nic/receive/header_check.py
# a message is not ended by its size
- self.items.valid & self.items.ready & (left == 1)
+ self.items.valid & self.items.ready & (flit.kind == Kind.TAIL) & (left == 0)

issuer.dependency in nic/send/issuer.py
# a partial last sub-message is not awaited
- (job.size + (self.config.submessage_flits - 1)) >> shift
+ job.size >> shift
# an answer to an old question is taken
- self.query.answered & asked
+ self.query.answered
# a whole sum goes before it is there
- return Const(1)
+ return Const(0)

issuer.progress in nic/send/issuer.py
# room that came free is not given back
- room + self.returned - issued
+ room - issued
# waits for more than it needs
- (known >= needed)
+ (known > needed)
# does not ask again for what comes later
- self.query.valid.eq(job.needs & self.run.cut_through),
+ self.query.valid.eq(0),

issuer.reads in nic/send/issuer.py
# the last flit is not read
- (left == 0) | (issued & (left == 1))
+ (left == 0) | (issued & (left <= 2))

issuer.waves in nic/send/issuer.py
# as much of any wave is enough
- return Cat(part, job.wave)
+ return Cat(part)

issuer.window in nic/send/issuer.py
# reads start one flit late
- address.eq(self.run.window_base + offered.base)
+ address.eq(self.run.window_base + offered.base + 1)

receiver.joins in nic/receive/receiver.py
# an empty message is reported as what was reported last
- Mux(empty.valid, getattr(empty, name), getattr(reducer.arrival, name))
+ Mux(header_check.empty.valid, getattr(empty, name), getattr(reducer.arrival, name))
# an empty message does not wait for what is in the reducer
- header_check.drained.eq(reducer.idle),
+ header_check.drained.eq(1),
# a maximum is a sum
- reducer.maximum.eq(self.run.maximum),
# every port is port 0
- header_check.port.eq(self.port),

reducer.arrivals in nic/reduce/reducer.py
# a write counts as acknowledged when it is taken
- acknowledger.ack.eq(self.write.ack),
+ acknowledger.ack.eq(written),
# idle while flits wait to be added
- (inflight == 0) & acknowledger.idle & ~self.arrival.valid
+ acknowledger.idle & ~self.arrival.valid
# idle while the last arrival is being reported
- (inflight == 0) & acknowledger.idle & ~self.arrival.valid
+ (inflight == 0) & acknowledger.idle

reducer.progress in nic/reduce/reducer.py
# room of a written flit is lost
- written.eq(self.write.valid & self.write.ready),
+ written.eq(self.write.valid & self.write.ready & self.items.valid),

reducer.writes in nic/reduce/reducer.py
# a replacing flit overtakes one that is being added
- operand.replace & ~Cat(busy).any()
+ operand.replace
# added to what stands behind it
- reads.i.payload.eq(item.address),
+ reads.i.payload.eq(item.address + 1),
# what replaces is what the adder has
- writes.i.payload.payload.eq(Mux(passes, operand.payload, adder.o)),
+ writes.i.payload.payload.eq(adder.o),
# what replaces behind a sum is added
- LaneOp.SECOND,
+ LaneOp.SUM,
# what replaces takes another's read data
- source.ready.eq(pair & ~operand.replace),
+ source.ready.eq(pair),
# a read is lost while memory takes none
- may_take = item.replace | reads.i.ready
+ may_take = 1

sender.framing in nic/send/sender.py
# a message ends with its first packet
- begun.eq(left != 1)
+ begun.eq(0)
# the tail comes a flit early
- last = (left == 1) | (place.all() & self.run.packets)
+ last = (left == 2) | (place.all() & self.run.packets)

sender.payload in nic/send/sender.py
# room is given back before the data leave
- issuer.returned.eq(payload.o.valid & payload.o.ready),
+ issuer.returned.eq(self.memory.data_valid),

sender.waves in nic/send/sender.py
# a packet behind the first names the next message's wave
- head.wave.eq(message.wave)
+ head.wave.eq(self.descriptors.payload.wave)
"""
