"""Faults in what controls an interface."""

FAULTS = """
axi_lite.answers in hw/axi/lite.py
# a write of some bytes is taken for one of all
- legal.eq((address[:2] == 0) & (~write | strobe.all())),
+ legal.eq((address[:2] == 0) & (~write | strobe.any())),
# a read is taken before the answer to the one before it
- answered = bus.rvalid & bus.rready if
+ answered = bus.rvalid if
# a write in the cycle of a read is asked as a read
- request.write.eq(write),
+ request.write.eq(~read),

axi_lite.progress in hw/axi/lite.py
# a write in the cycle of a read is never asked
- request.valid.eq(legal),
+ request.valid.eq(legal & ~(write & read)),

banks.words in nic/control/memories.py
# the bank in use is written, too
- write.en.eq((self.write & shadow) << self.word),
+ write.en.eq(self.write << self.word),

checked.flips in hw/check_bits.py
# a single flip goes unseen
- self.state_error.eq(left & syndrome.any()),
+ self.state_error.eq(left & syndrome.all()),
# an entry that is not the next goes unseen
- syndrome.eq(parity_of(word) ^ parity ^ expected)
+ syndrome.eq(parity_of(word) ^ parity)

checked.queue in hw/check_bits.py
# what leaves is held against what comes in
- syndrome.eq(parity_of(word) ^ parity ^ expected)
+ syndrome.eq(parity_of(came) ^ parity ^ expected)

checker.passes in nic/control/checker.py
# flows are not checked
- wrong.eq(Mux(self.of_flow, of_flow.code, row_check.code))
+ wrong.eq(Mux(self.of_flow, 0, row_check.code))
# the check bits of flows are not looked at
- with m.If(~Mux(self.of_flow, self.entry_intact, self.row_intact)):
+ with m.If(~self.row_intact):

checker.progress in nic/control/checker.py
# the check reads on behind the last flow
- with m.Elif(at == count):
+ with m.Elif((at == count) & (at != 1)):

checker.waves in nic/control/checker.py
# the last row's stage is reported, not the highest
- (self.row.stage > self.last_stage)
+ (self.row.stage != self.last_stage)
# a stage without a number passes
- (row.stage >> self.config.wave_width) != 0
+ (row.stage >> self.config.run_width) != 0

control.done in nic/control/collective.py
# over while a sender still reads
- over = (self.missing == 0) & ~self.fetching & ~self.sending
+ over = (self.missing == 0) & ~self.fetching
# no interrupt of a fault
- m.d.sync += self.irq.eq(self.faulted | left.any())
+ m.d.sync += self.irq.eq(left.any())
# two that are done are one
- m.d.sync += unread.eq(left + (finished & ~left.all()))
+ m.d.sync += unread.eq(left | finished)

control.progress in nic/control/monitor.py
# the watchdog never bites before the first arrival
- (limit != 0) & (waited >= limit)
+ (limit != 0) & (waited >= limit) & seen

control.start in nic/control/collective.py
# a start overtakes the commit that came before it
- start & ~commit_waits & ~self.check & settled
+ start & ~self.check & settled
# a start in one write with a commit runs the old table
- start & ~commit_waits & ~self.check & settled
+ start & ~commit_waits & settled
# a start that waits is forgotten
- m.d.sync += self.start_waits.eq(start)
+ m.d.sync += self.start_waits.eq(self.start)

control.waves in nic/control/collective.py
# waves that have no number are started
- (self.iterations >> self._wave_width) != 0
+ (self.iterations[:16] >> self._wave_width) != 0
# the stages are those of a table that waits
- self.last_run.eq(self.iterations + last_stage)
+ self.last_run.eq(self.iterations + self.last_stage)

counters.counts in nic/control/counters.py
# the first event of a collective is counted in the one before
- with m.Elif(running & happened):
+ with m.Elif(self.running & happened):
# the least credits rise again
- with m.Elif(running & (credits < least)):
+ with m.Elif(running & (credits <= least + 1)):

drain.answered in nic/interface.py
# a request of the reset's first cycle is forgotten
- with m.Elif(lasts & ~Cat(waiting).any()):
+ with m.Elif(~Cat(waiting).any()):
# a request that comes with an answer is not counted
- outstanding + asked - came
+ outstanding + (asked & ~came) - came
# a request that is not counted yet is forgotten
- waiting.append(left != 0)
+ waiting.append(outstanding != 0)

drain.answered in nic/driver/config.py
# two readers have more reads in flight than are counted, and as many are none
- self.memory_queue_flits * (1 + (self.shared or self.forward_flits > 0))
+ self.memory_queue_flits * (1 + self.shared)

duplicate_filter.once in nic/receive/duplicate_filter.py
# a bank is not cleared for another table
- write.en.eq(Mux(used, self.mark, sweeping)),
+ write.en.eq(Mux(used, self.mark, 0)),
# check bits of another mark
- write.data.eq(Cat(known, check_of(known))),
+ write.data.eq(Cat(known, ~check_of(known))),

duplicate_filter.waves in nic/receive/duplicate_filter.py
# an earlier wave may come again
- self.wave <= last
+ self.wave == last
# a wave may be left out
- Mux(came, last + 1, 0)
+ Mux(came, last + 2, 0)

expectation.sibling in nic/receive/duplicate_filter.py
# every contribution waits for the first one only
- self.sibling.eq(children[k - 1])
+ self.sibling.eq(children[0])
# the second contribution waits for none
- self.after.eq(is_child[1:].any())
+ self.after.eq(is_child[2:].any())

flow_memory.lookups in nic/control/memories.py
# the first client always comes first
- arbiter.advance.eq(1),
+ arbiter.advance.eq(0),

link_check.channels in hw/link/check.py
# sub-messages of all channels are counted together
- register, place = Array(registers)[vc], Array(places)[vc]
+ register, place = Array(registers)[vc], places[0]
# a head does not begin a sub-message
- m.d.sync += [register.eq(after), place.eq(next_place)]
+ m.d.sync += [register.eq(after), place.eq(place + 1)]
# a link that comes up counts on where it went down
- m.d.sync += [signal.eq(0) for signal in places]
+ m.d.sync += places[0].eq(0)

monitor.first in nic/control/monitor.py
# the last fault is kept, not the first
- with m.If(~self.faulted):
-             m.d.sync += [
+ with m.If(seen.code.any()):
+             m.d.sync += [
# a receiver is named before a sender that waits
- for index in reversed(range(2 * self._num_ports)):
+ for index in range(2 * self._num_ports):
# a watchdog's fault names the port that waits in place of what it waits for
- stuck.port.eq(wait.port),
+ stuck.port.eq(index % self._num_ports),
# a fault of no flow names a wave
- _reported_wave.eq(Cat(wait.wave, flow != UNKNOWN))
+ _reported_wave.eq(Cat(wait.wave, 1))

read_share.owners in hw/memory_channel.py
# a read that memory has not taken is replaced by another one
- second = stay(m, ~self.first.valid, channel.valid, channel.ready)
+ second = ~self.first.valid
# data go to the wrong reader where an answer comes with a read
- ((write.addr, taken), (place, answered))
+ ((write.addr, taken), (place, answered & ~taken))
# an answer in the cycle behind its read goes to the wrong reader
- oldest.eq(Mux(is_written, write.data, read.data)),
+ oldest.eq(read.data),

register_file.once in nic/control/register_file.py
# a table is written while a commit waits
- self.table_write.eq(write & table & allowed),
+ self.table_write.eq(write & table & exists),
# an access is done twice
- began.eq(request.valid & ~began & ~response.done),
+ began.eq(request.valid & ~response.done),
# a second start is taken while one waits
- (command.start & self.start_waits)
+ (command.start & self.locked)

relay.sent in nic/control/monitor.py
# the sender of a fault is notified of it
- pending[port].eq(own | (self.fault.at_port != port))
+ pending[port].eq(1)
# a neighbour's fault is reported again whenever a link comes up
- pending[port].eq(self.faulted & own)
+ pending[port].eq(self.faulted)
# a record has no word of the fault
- Const(0, 8), fault[32:64], fault[:32])
+ Const(0, 8), fault[32:64], fault[:16])

row_check.legal in nic/control/checker.py
# a class that is not there passes
- (row.vc_class >= self.config.num_classes)
+ (row.vc_class > self.config.num_classes)
# a row goes back by a step
- (row.step < self.previous_step)
+ (row.step + 1 < self.previous_step)

settings_check.legal in nic/control/checker.py
# a start in another window than the checked one
- self.window_flits == self.committed_flits
+ self.window_flits <= self.committed_flits
# cut-through and packets on shared links
- & whole
# modes that are not built
- known &= ~mode[name]
+ pass

shared_flow_check.legal in nic/control/checker.py
# a child more than there is room for passes
- too_many = entry.num_children > self.config.max_children
+ too_many = entry.num_children > self.config.max_children + 1
# slots may begin outside the window
- outside |= entry.staging > self.window_flits
+ outside |= 0

snapshot.still in nic/control/register_file.py
# settings change under the collective that runs
- self.swap if name in OF_THE_TABLE else ~self.held
+ self.swap if name in OF_THE_TABLE else 1

steps.free in nic/send/rows.py
# a step is reported that no row in hand has
- with m.Elif(self.row_valid & ~self.run.lockstep):
+ with m.Elif(~self.run.lockstep):

steps.lockstep in nic/send/rows.py
# a NOP does not wait until its step has passed
- reached & (~self.nop | over)
+ reached
# a step ends before its time
- with m.Elif(self.row_valid & over & (~reached |
+ with m.Elif(self.row_valid & (~reached |

switch_faults.sent in hw/switch/faults.py
# the last fault is kept, not the first
-         with m.If(~faulted):
-             m.d.sync += fault.eq(seen)
+         with m.If(seen.code.any()):
+             m.d.sync += fault.eq(seen)
# a neighbour's fault is not passed on
- pending[port].eq(own | (fault.port != port))
+ pending[port].eq(own & (fault.port != port))
# row and flow 0 are named, which are unknown
- Const(_UNKNOWN, 32)
+ Const(0, 32)

tracker.counts in nic/control/tracker.py
# a count of the collective before is reported
- with m.If(found.phase == self.phase):
+ with m.If(1):
# a count that is written while it is read is taken for one that flipped
- read_now.eq(self.running & is_sound)
+ read_now.eq(self.running & arbiter.valid)
# what was overheard is answered from memory
- query.count.eq(Mux(overheard, newest, count)),
+ query.count.eq(count),

watchdog.bites in nic/control/monitor.py
# what moves before the first arrival buys no time
- Mux(self.progress, 1, waited + 1)
+ Mux(self.progress & seen, 1, waited + 1)

wave_offset.place in nic/send/rows.py
# a wave that begins just beyond all addresses is not reported
- self.beyond.eq(place[width:].any()),
+ self.beyond.eq(place[width + 1 :].any()),
"""
