"""Properties of what remembers arrivals: counts as reported, each message once."""

from functools import partial
from types import SimpleNamespace

from amaranth import Array, Cat, Elaboratable, Module, Mux, Signal
from amaranth.lib.memory import Memory

from multitree.nic.control.tracker import DependencyTracker
from multitree.nic.driver.config import Config
from multitree.nic.receive.duplicate_filter import DuplicateFilter
from tests.formal.bench import holds, sets


class _Collectives:
    """The order of collectives and tables, as the control keeps it, for one arbitrary key.

    A phase only ends when what is expected has come; a bank is only changed to when it was
    cleared. Members: `phase`, `bank`, `clear`; `count`, what was last reported of the key in this
    collective before this cycle; `same`, phase and bank are those of the cycle before.
    """

    def __init__(self, m, block, *, clearing, width):
        self._m = m
        self.phase, self.bank, self.clear = block.phase, block.bank, block.clear
        m.drive(self.phase, self.bank, self.clear)
        self._kept = Signal(width, name="kept")
        self._reported, self._dirty = Signal(), Array(Signal(name=f"dirty_{k}") for k in range(2))
        changes, swaps = Signal(), Signal()
        m.d.comb += changes.eq(self.phase != m.past(self.phase))
        m.d.comb += swaps.eq(self.bank != m.past(self.bank))
        self.same = ~changes & ~swaps
        self.count = Mux(changes | swaps, 0, self._kept)
        cleared = m.past(clearing) & ~clearing
        was_bank = m.past(self.bank)
        m.assume(~self.clear | (~clearing & ~swaps))
        m.assume(~swaps | (~clearing & ~(self._dirty[self.bank] & ~cleared)))
        m.assume(~changes | self._reported | ~self._dirty[was_bank])
        with m.If(cleared):
            m.d.sync += self._dirty[~was_bank].eq(0)

    def report(self, hit, value):
        """The key is reported; returns what is reported from then on."""
        m, now = self._m, Signal(len(self._kept), name="now")
        m.d.comb += now.eq(Mux(hit, value, self.count))
        m.d.sync += [self._kept.eq(now), self._reported.eq(hit | (self._reported & self.same))]
        with m.If(hit):
            m.d.sync += self._dirty[self.bank].eq(1)
        return now


def _config(num_ports, num_flows, wave_width=0):
    sizes = {"num_ports": num_ports, "num_flows": num_flows, "wave_width": wave_width}
    return Config(**sizes, address_width=4, submessage_flits=4, flit_bytes=8)


def _ask(m, query, config, bits):
    """Questions that stand until they are lowered, and fall for a cycle between two."""
    valid, fields = query.valid, Cat(query.port, query.op, query.flow[:bits])
    m.drive(valid, fields)
    m.assume(~(valid & m.past(valid)) | (fields == m.past(fields)))
    m.assume((fields[:4] < config.num_ports) & (fields[5:] < config.num_flows))
    return valid, fields


class _Forgetful(Elaboratable):
    """A memory that reads anything where it is written in the same cycle, as block memories may."""

    def __init__(self, m, **options):
        self._bench, self._memory = m, Memory(**options)
        self._write, self._read = self._memory.write_port(), self._memory.read_port()
        self._seen = SimpleNamespace(addr=self._read.addr, data=Signal.like(self._read.data))

    def write_port(self):
        """The only one."""
        return self._write

    def read_port(self):
        """The only one; what it reads may be wrong."""
        return self._seen

    def elaborate(self, platform):
        """What was read, or any value."""
        m = Module()
        m.submodules.memory = self._memory
        both = Signal()
        m.d.sync += both.eq(self._write.en & (self._write.addr == self._read.addr))
        anything = self._bench.free("anything", len(self._seen.data))
        m.d.comb += self._seen.data.eq(Mux(both, anything, self._read.data))
        return m


@holds("tracker.counts", *sets("num_ports num_flows num_clients", (1, 1, 1), (2, 2, 2), (2, 3, 4)))
def counts(m, *, num_ports, num_flows, num_clients):
    """Answers are the last report of this collective, in clients + 2 cycles; no flip is seen."""
    config = _config(num_ports, num_flows)
    m.replace("multitree.nic.control.tracker.Memory", partial(_Forgetful, m))
    m.submodules.block = block = DependencyTracker(config, num_clients=num_clients)
    m.drive(block.running)
    m.check(~block.state_error.any())
    course = _Collectives(m, block, clearing=block.clearing, width=config.count_width)
    bits = num_flows.bit_length()
    key = m.constant("key", 5 + bits)
    m.assume((key[:4] < num_ports) & (key[5:] < num_flows))
    hit, value = Signal(), Signal(config.count_width)
    for number, arrival in enumerate(block.arrivals):
        of = Cat(arrival.op, arrival.flow[:bits])
        m.drive(arrival.valid, arrival.count, of)
        m.assume(of[1:] < num_flows)
        with m.If(arrival.valid & (key[:4] == number) & (key[4:] == of)):
            m.d.comb += [hit.eq(1), value.eq(arrival.count)]
    now = course.report(hit, value)
    for client, query in enumerate(block.queries):
        valid, fields = _ask(m, query, config, bits)
        # What is read takes two cycles, in which no collective ends.
        stood = m.past(valid & (fields == key)) & course.same & m.past(course.same)
        m.check(~(query.answered & stood) | (query.count == m.past(now)))
        m.lasts(valid & ~(query.answered & m.past(valid)), num_clients + 2)
        m.cover(f"reported_{client}", query.answered & stood & (query.count == 2) & course.bank)


@holds(
    "duplicate_filter.waves",
    *sets("num_flows wave_width", (1, 2), (3, 2)),
    claim="a wave is known exactly if it or a later one was marked, early if behind the next",
)
@holds(
    "duplicate_filter.once",
    *sets("num_flows", (1,), (2,), (4,)),
    claim="a message is known exactly if it was marked in this collective, whatever was cleared",
)
def once(m, *, num_flows, wave_width=0):
    """A message has come in this collective exactly if it was marked in it.

    Of several waves, each up to the one that was marked last, and the one behind that is next.
    """
    config = _config(1, num_flows, wave_width)
    m.submodules.block = block = DuplicateFilter(config)
    sweeping = Signal(range(2 * num_flows + 1))
    course = _Collectives(m, block, clearing=sweeping.any(), width=wave_width + 1)
    with m.If(course.clear):
        m.d.sync += sweeping.eq(2 * num_flows)
    with m.Elif(sweeping != 0):
        m.d.sync += sweeping.eq(sweeping - 1)
    bits = (num_flows - 1).bit_length()
    key, asked = m.constant("key", 1 + bits), Cat(block.op, block.flow[:bits])
    m.drive(asked, block.mark, block.wave)
    m.assume((key[1:] < num_flows) & (asked[1:] < num_flows))
    wave = block.wave
    now = course.report(block.mark & (asked == key), wave + 1 if wave_width else 1)
    # The answer is about what was marked before the question, and the wave of the cycle behind it.
    before = m.past(course.count, 2)
    stood = m.past(m.past(asked == key) & course.same)
    held = m.past(wave) if wave_width else wave
    m.check(~stood | (block.seen == ((held < before) if wave_width else before)))
    m.check(~stood | block.intact)
    m.check(~stood | (block.early == ((held > before) if wave_width else 0)))
    m.cover("seen", stood & block.seen & course.bank & (now[0] if wave_width else now))
    if wave_width:
        m.cover("next", stood & ~block.seen & ~block.early & (before > 1) & course.bank)
        m.cover("early", stood & block.early & (before == 1))
