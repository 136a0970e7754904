"""Faults in what shared links need."""

FAULTS = """
header_lookup.outcome in nic/receive/header_lookup.py
# a claim that is answered after its collective is let in
- with m.Elif(head.sequence != self.run.sequence):
-                         m.d.comb
+ with m.Elif(self.run.faulted):
+                         m.d.comb
# the place goes to the channel that is next, not to that of the head
- self.opened.eq(Mux(single, 0, 1 << vc))
+ self.opened.eq(Mux(single, 0, 1 << chosen.grant))
# a message that is too short is let in
- with m.Elif(~single & (head.size != entry.size)):
+ with m.Elif(~single & (head.size > entry.size)):
# a head of the next collective is taken
- self.run.sequence[0] == vc % 2
+ self.run.sequence[0] <= vc % 2
# an entry of wrong parity is used
- with m.If(~self.lookup.intact):
+ with m.If(~self.lookup.intact & single):

header_lookup.place in nic/receive/header_lookup.py
# slots begin at the chunk
- slot.eq(self._slots + product)
+ slot.eq(self._chunk + product)
# a staged contribution is added to what is in its slot
- self.place.adds.eq((head.op != OP_GATHER) & ~staged)
+ self.place.adds.eq(head.op != OP_GATHER)

header_lookup.turns in nic/receive/header_lookup.py
# the lowest channel always comes first
- m.d.comb += chosen.advance.eq(1)
+ m.d.comb += chosen.advance.eq(0)
# turns go on while a head is looked up
-         m.submodules.turns = turns = RoundRobin(count=self.config.num_vcs)
+         m.submodules.turns = turns = RoundRobin(count=self.config.num_vcs)
+         m.d.comb += turns.advance.eq(1)

lane.flits in nic/receive/shared_lane.py
# a message that is too short goes on with the next one's payload
- right_kind = Mux(last, tail, body)
+ right_kind = Mux(last, tail, body | tail)
# a flit that has to wait is dropped
- payload.ready.eq(moved | self.run.faulted),
+ payload.ready.eq((payload.valid & busy & self.items.ready) | self.run.faulted),
# a message that is too long is not reported
- self.wrong_kind.eq(offered & ~right_kind),
+ self.wrong_kind.eq(offered & ~right_kind & ~last),
# a contribution waits for ever behind a chunk of as many flits as are not counted
- distance.eq(Mux(next_place.size > most, most, next_place.size)),
+ distance.eq(next_place.size),

lane.places in nic/receive/shared_lane.py
# the next message's place is taken in the middle of this one
- with m.If(goes & (~busy | (moved & last))):
+ with m.If(goes & ~busy | (goes & moved)):
# a head is taken while there is no room for its place
- self.head.valid.eq(self.flits.valid & ~inside & ~pending),
+ self.head.valid.eq(self.flits.valid & ~inside),
# the end of a message reports the order of another one
- item.mark.order.eq(place.order)
+ item.mark.order.eq(self.place.order)

lane.turn in nic/receive/shared_lane.py
# a flit is added to one whose write is not acknowledged
- may_add = ~chained | kept | (self.unwritten < distance)
+ may_add = ~chained | kept | (self.unwritten <= distance)
# a contribution goes behind one that is not the one before it
- (place.flow == next_place.flow) & (place.order + 1 == next_place.order)
+ (place.flow == next_place.flow)
# what has to wait for its turn does not
- return pending & (~waits | behind), behind
+ return pending, behind

port.channels in nic/top/port.py
# a flit goes with a credit of another channel
- out.ready.eq(link.may_send.bit_select(vc, 1)),
+ out.ready.eq(link.may_send.any()),
# a port with rows in its queue is idle
- self.idle.eq(sender.idle & (queue.level == 0)),
+ self.idle.eq(sender.idle),
# a neighbour that goes down is no fault
- (link.lost & self.run.running, FaultCode.PEER_RESET)
+ (link.send_fault & self.run.running, FaultCode.PEER_RESET)

reorder_buffer.payload in nic/reduce/reorder_buffer.py
# a flit leaves without being taken
- payload.o.ready.eq(self.items.ready & self.run.running),
+ payload.o.ready.eq(self.run.running),
# room is given back before the flit has gone
- m.d.sync += room.eq(room + moved - issued)
+ m.d.sync += room.eq(room + self.read.data_valid - issued)

reorder_buffer.progress in nic/reduce/reorder_buffer.py
# room that came free is lost
- m.d.sync += room.eq(room + moved - issued)
+ m.d.sync += room.eq(room + (moved & ~issued) - issued)

reorder_buffer.reads in nic/reduce/reorder_buffer.py
# the slot behind is read
- slot.eq(slot + job.order * left)
+ slot.eq(slot + (job.order + 1) * left)
# more is read than lies in the slot
- slot.eq(slot + 1), unread.eq(unread - 1)
+ slot.eq(slot + 1), unread.eq(unread - (unread != 1))
# the last contribution is not reported as the last one
- item.mark.final.eq(job.order == last),
+ item.mark.final.eq(0),

sequencer.answers in nic/reduce/sequencer.py
# the claims of the lowest port always come first
- askers.advance.eq(~turns.valid)
+ askers.advance.eq(0)
# a claim is judged by what was known of another flow, a cycle early
- with m.State("READ"):
-                 m.next = "HOLD"
+ with m.State("READ"):
+                 m.next = "JUDGE"

sequencer.arrivals in nic/reduce/sequencer.py
# messages of other ports are judged while port 0 has some, which they add to
- first = ~queues[0].valid if port else 1
+ first = 1
# a place too few for messages that are in before the claims stop
- 2 * config.num_vcs + LATE_MESSAGES
+ 2 * config.num_vcs + LATE_MESSAGES - 1

sequencer.order in nic/reduce/sequencer.py
# a contribution is added while the one before it still is
- verdict.eq(Mux(is_next, Verdict.DIRECT, late))
+ verdict.eq(Mux(all_before, Verdict.DIRECT, late))
# what lies in any later slot is added next
- drain.eq((behind & place).any())
+ drain.eq(behind.any())
# what is staged after its turn came is never added
- drain.eq(is_next),
+ drain.eq(0),
# a result may come twice
- twice = Mux(event.op == OP_GATHER, held.gathered,
+ twice = Mux(event.op == OP_GATHER, 0,
# what a flow did in the collective before is not forgotten
- known = Mux(fresh.phase == self.phase, read.data[:size], 0)
+ known = read.data[:size]
# the last flow of a bank is not cleared
- self.clearing.eq(sweep != self.config.num_flows - 1),
+ self.clearing.eq(sweep < self.config.num_flows - 2),
# a message without payload that comes twice is counted twice
- over.eq(Mux(is_reservation, empty & ~twice, ~event.staged))
+ over.eq(Mux(is_reservation, empty, ~event.staged))
# a contribution without payload is said to wait
- verdict.eq(Verdict.DIRECT),
+ verdict.eq(Mux(empty & (event.op == 0), Verdict.WAITS, Verdict.DIRECT)),

shared_header_check.turns in nic/receive/shared_receiver.py
# a lane knows nothing of what is not written
- lane.unwritten.eq(self.unwritten),
+ lane.unwritten.eq(0),
# another lane takes over what one offers
- grant = stay(m, turns.grant, self.items.valid, moved)
+ grant = turns.grant
# the lowest lane always comes first
- turns.advance.eq(moved),
+ turns.advance.eq(0),
# a message out of its length is no fault
- [self.fault.eq(FaultCode.FRAMING), self.wait
+ [self.wait

shared_receiver.joins in nic/receive/shared_receiver.py
# a maximum is a sum
- reducer.maximum.eq(self.run.maximum),
# a flit from a link pushes a staged one aside
- second = stay(m, ~came.valid, items.valid, items.ready)
+ second = ~came.valid
# the contribution that was just taken may follow itself
- following.order.eq(item.mark.order + 1),
+ following.order.eq(item.mark.order),
# a contribution follows one that only lies in its slot
- items.ready & item.end & ~item.replace):
+ items.ready & item.end):
# what is not acknowledged wraps to none
- range(2 * self.config.memory_queue_flits + 1)
+ range(2 * self.config.memory_queue_flits)
"""
