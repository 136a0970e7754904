"""Faults in links, streams, AXI managers and the switch."""

FAULTS = """
arbiter.round_robin in hw/arbiter.py
# who was granted comes first again
- self.granted[:number].any()
+ self.granted[: number + 1].any()

axi.read_progress in hw/axi/bursts.py
# the room of a failed read is lost
- inflight.eq(inflight + taken - back)
+ inflight.eq(inflight + taken - (back & (bus.rresp == OKAY)))

axi.read_rules in hw/axi/bursts.py
# a burst reaches over the end of a page
- full.eq((self.burst.more == MAX_BEATS - 1) | ~inside.any())
+ full.eq(self.burst.more == MAX_BEATS - 1)
# a burst has no end but that of the page
- full.eq((self.burst.more == MAX_BEATS - 1) | ~inside.any())
+ full.eq(~inside.any())
# a burst reads what no request is for
- continues.eq(held & ~full & (self.i.payload == following))
+ continues.eq(held & ~full)
# more reads in flight than there is room for
- free.eq(inflight != self.depth)
+ free.eq(1)
# a beat that could not be read is no error
- ((bus.rresp != OKAY) | (inflight == 0))
+ (inflight == 0)

axi.strays in hw/axi/bursts.py
# a beat that no request is for counts as data
- back.eq(bus.rvalid & (inflight != 0))
+ back.eq(bus.rvalid)

axi.write_progress in hw/axi/bursts.py
# the room of a failed write is lost
- unanswered.eq(unanswered + taken - answered)
+ unanswered.eq(unanswered + taken - (answered & (bus.bresp == OKAY)))

axi.write_rules in hw/axi/bursts.py
# a burst's data end before the burst does
- bus.wlast.eq(beat == lengths.payload)
+ bus.wlast.eq((beat == lengths.payload) | (bus.awready & (beat == 0)))
# a beat does not stay until it is taken
- flits.ready.eq(moved)
+ flits.ready.eq(bus.wvalid)
# a write is acknowledged without a response
- channel.ack.eq(due != 0)
+ channel.ack.eq((due != 0) | (unanswered == self.depth))

link.channels in hw/link/transmitter.py
# a flit costs every channel a credit
- self._count(m, vc, sent & (unit.vc == vc))
+ self._count(m, vc, sent)
# no channel may send while one has no credit
- self.open & ~self.control.valid & left)
+ self.open & ~self.control.valid & left & (self.available[0] != 0))

link.channels in hw/link/receiver.py
# a full buffer refuses flits of the other channels
- has_room.eq((chosen & room).any()),
+ has_room.eq(room.all()),
# a flit takes a place in every buffer
- self._count(m, vc, taken & chosen[vc], room[vc])
+ self._count(m, vc, taken, room[vc])

link.comes_up in hw/link/port.py
# two ends that wait for their epochs do not return them
-         with m.If(comes[Kind.DOWN]):
+         with m.If(comes[Kind.DOWN] & ~used):

link.credits in hw/link/receiver.py
# a credit for a flit that is still there
- self.link.credit[vc].eq(o.valid & o.ready)
+ self.link.credit[vc].eq(o.valid)

link.credits in hw/link/transmitter.py
# a credit that comes with a flit is lost
- Mux(spent, available - 1 + back, available + back)
+ Mux(spent, available - 1, available + back)

link.down in hw/link/transmitter.py
# a credit too many is no fault
- (available == self.credits) & self.open
+ 0
# a credit too many counts
- back.eq(self.link.credit[vc] & ~unspent)
+ back.eq(self.link.credit[vc])
# a link that comes up again has not got the credits of its channels back
- m.d.sync += available.eq(self.credits)
+ m.d.sync += available.eq(available)

link.down in hw/link/receiver.py
# what a buffer holds is offered when the link comes up again
- ResetInserter(~self.up)(buffer)
+ buffer

link.reset in hw/link/transmitter.py
# a link that comes up again has not got its credits back
- m.d.sync += available.eq(self.credits)
+ m.d.sync += []

link.session in hw/link/port.py
# an INIT from before the reset brings the link up
- with m.Elif(~used & comes[Kind.INIT] & echoed):
+ with m.Elif(~used & comes[Kind.INIT]):
# an epoch comes again while what was said in it is on its way
- with m.If(used & echoed):
+ with m.If(used):
# an end that received nothing since its reset returns an epoch
- received.payload[:2] == Cat(epoch, 1)
+ received.payload[0] == epoch

link.wrong in hw/link/receiver.py
# what a wrong CRC was for leaves the buffer
- o.valid.eq(buffer.o.valid & whole)
+ o.valid.eq(buffer.o.valid & self.up)
# a flit that was sent without a credit is no overflow
- after.eq(inside + taken - self.link.credit[vc])
+ after.eq(inside + taken - (self.o[vc].valid & self.o[vc].ready))

link.wrong in hw/link/check.py
# a wrong CRC of a message is no error
- wrong = pending & (found != given)
+ wrong = pending & was_control & (found != given)

stream.cut_fifo in hw/stream.py
# a payload overtakes one that is not yet out of the memory
- passes.eq(register.i.ready & rest.empty),
+ passes.eq(register.i.ready & ~rest.o.valid),

stream.fifo in hw/stream.py
# payloads leave without being taken
- fetch.eq(some & (self.o.ready | ~valid)),
+ fetch.eq(some),

stream.quick_fifo in hw/stream.py
# a payload overtakes one that is not yet out of the memory
- passes.eq(free & rest.empty),
+ passes.eq(free & ~rest.o.valid),

stream.register in hw/stream.py
# the spare payload is lost
- m.d.sync += [valid.eq(1), offered.eq(spare)]
+ m.d.sync += [valid.eq(1), offered.eq(_bits(self.i.payload))]

switch.ages in hw/arbiter.py
# sequence numbers do not wrap
- before.eq(distance[7] |
+ before.eq((a.sequence < b.sequence) |

switch.channels in hw/switch/input.py
# a message asks for a channel of the other parity
- self.to_vc.eq(Cat(Const(self._parity, 1), vc_class)),
+ self.to_vc.eq(Cat(Const(0, 1), vc_class)),
# a message to a link that is lost is dropped without a word
- self.message_lost.eq(self.lost | gone)
+ self.message_lost.eq(self.lost)

switch.channels in hw/switch/output.py
# a message that is cut keeps its channel
- with m.Elif(free | drops | self.gone):
+ with m.Elif(free | self.gone):
# a channel without a credit stops the others
- & self.may_send[vc]
+ & self.may_send.all()
# a younger message has the link
- older.eq(messages)
+ older.eq(0)
# of channels with messages of one age the first one always has the link
- link.advance.eq(1)
+ link.advance.eq(0)

switch.channels in hw/switch/fabric.py
# a younger message gets the channel
- output.older[place].eq(Cat(older[k][other] for other in others))
+ output.older[place].eq(0)

switch.messages in hw/switch/output.py
# a channel is given away in the middle of a message
- free.eq(~busy | (goes & ends)),
+ free.eq(~busy | goes),

switch.messages in hw/switch/input.py
# a flit is taken where another one still waits
- self.i.ready.eq((self.o.ready | ~full) & ~ends & ~first)
+ self.i.ready.eq(~ends & ~first)
# a head keeps the hop that it has gone
- left = payload[self._offset + HOP_WIDTH : self._end]
+ left = payload[self._offset : self._end - HOP_WIDTH]

switch.messages in hw/switch/fabric.py
# a head asks at ports in front of its own, too
- asks = end.request & (end.to_port == number)
+ asks = end.request & (end.to_port >= number)

switch.oldest in hw/arbiter.py
# a younger message gets the channel
- turns.requests.eq(Mux(oldest.any(), oldest, self.requests)),
+ turns.requests.eq(self.requests),
# among equals the first one always gets the channel
- turns.advance.eq(self.advance),
+ turns.advance.eq(0),
"""
