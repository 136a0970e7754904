"""Properties of what remembers arrivals: counts as reported, each message once."""

from functools import partial
from types import SimpleNamespace

from amaranth import Array, Cat, Const, Elaboratable, Module, Mux, Signal
from amaranth.lib.memory import Memory

from multitree.nic.control.tracker import DependencyTracker
from multitree.nic.driver.config import Config
from multitree.nic.receive.duplicate_filter import DuplicateFilter
from tests.formal.bench import holds


class _Collectives:
    """The order of collectives and tables, as the control keeps it, for one arbitrary key.

    A phase only ends when what is expected has come; a bank is only changed to when it was
    cleared. Members: `phase`, `bank`, `clear`; `count`, what was last reported of the key in this
    collective before this cycle; `same`, phase and bank are those of the cycle before.
    """

    def __init__(self, bench, *, clearing, width):
        m = bench.m
        self._m, self._clearing = m, clearing
        self.phase, self.bank = bench.free("phase"), bench.free("bank")
        self.clear = bench.free("clear")
        self._kept = Signal(width, name="kept")
        self._reported, self._dirty = Signal(), Array(Signal(name=f"dirty_{k}") for k in range(2))
        changes, swaps = Signal(), Signal()
        m.d.comb += [
            changes.eq(self.phase != bench.past(self.phase)),
            swaps.eq(self.bank != bench.past(self.bank)),
        ]
        self.same = ~changes & ~swaps
        self.count = Mux(changes | swaps, 0, self._kept)
        cleared = bench.past(clearing) & ~clearing
        was_bank = bench.past(self.bank)
        bench.assume(~self.clear | (~clearing & ~swaps))
        bench.assume(~swaps | (~clearing & ~(self._dirty[self.bank] & ~cleared)))
        bench.assume(~changes | self._reported | ~self._dirty[was_bank])
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


def _ask(bench, query, client, config, bits):
    """Questions that stand until they are lowered, and fall for a cycle between two."""
    valid, fields = bench.free(f"asks_{client}"), bench.free(f"question_{client}", 5 + bits)
    bench.m.d.comb += query.valid.eq(valid)
    bench.m.d.comb += Cat(query.port, query.op, query.flow[:bits]).eq(fields)
    bench.assume(~(valid & bench.past(valid)) | (fields == bench.past(fields)))
    bench.assume((fields[:4] < config.num_ports) & (fields[5:] < config.num_flows))
    return valid, fields


class _Forgetful(Elaboratable):
    """A memory that reads anything where it is written in the same cycle, as block memories may."""

    def __init__(self, bench, **options):
        self._bench, self._memory = bench, Memory(**options)
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


@holds(
    "tracker.counts",
    {"num_ports": 1, "num_flows": 1, "num_clients": 1},
    {"num_ports": 2, "num_flows": 2, "num_clients": 2},
    {"num_ports": 2, "num_flows": 3, "num_clients": 4},
)
def counts(bench, *, num_ports, num_flows, num_clients):
    """Answers are the last report of this collective, in clients + 2 cycles; no flip is seen."""
    m = bench.m
    config = _config(num_ports, num_flows)
    bench.replace("multitree.nic.control.tracker.Memory", partial(_Forgetful, bench))
    m.submodules.block = block = DependencyTracker(config, num_clients=num_clients)
    m.d.comb += block.running.eq(bench.free("running"))
    bench.check(~block.state_error.any())
    course = _Collectives(bench, clearing=block.clearing, width=config.count_width)
    for name in ("phase", "bank", "clear"):
        m.d.comb += getattr(block, name).eq(getattr(course, name))
    bits = num_flows.bit_length()
    key = bench.constant("key", 5 + bits)
    bench.assume((key[:4] < num_ports) & (key[5:] < num_flows))
    hit, value = Signal(), Signal(config.count_width)
    for number, arrival in enumerate(block.arrivals):
        arrives, of = bench.free(f"arrives_{number}"), bench.free(f"of_{number}", 1 + bits)
        count = bench.free(f"count_{number}", config.count_width)
        m.d.comb += [arrival.valid.eq(arrives), arrival.count.eq(count)]
        m.d.comb += Cat(arrival.op, arrival.flow[:bits]).eq(of)
        bench.assume(of[1:] < num_flows)
        with m.If(arrives & (key[:4] == number) & (key[4:] == of)):
            m.d.comb += [hit.eq(1), value.eq(count)]
    now = course.report(hit, value)
    for client, query in enumerate(block.queries):
        valid, fields = _ask(bench, query, client, config, bits)
        # What is read takes two cycles, in which no collective ends.
        stood = bench.past(valid & (fields == key)) & course.same & bench.past(course.same)
        bench.check(~(query.answered & stood) | (query.count == bench.past(now)))
        waited = Signal(range(num_clients + 4), name=f"waited_{client}")
        answered = query.answered & bench.past(valid)
        m.d.sync += waited.eq(Mux(valid & ~answered, waited + 1, 0))
        bench.check(waited <= num_clients + 2)
        bench.cover(f"reported_{client}", query.answered & stood & (query.count == 2) & course.bank)


@holds(
    "duplicate_filter.waves",
    {"num_flows": 1, "wave_width": 2},
    {"num_flows": 3, "wave_width": 2},
    claim="a wave is known exactly if it or a later one was marked, early if behind the next",
)
@holds(
    "duplicate_filter.once",
    {"num_flows": 1},
    {"num_flows": 2},
    {"num_flows": 4},
    claim="a message is known exactly if it was marked in this collective, whatever was cleared",
)
def once(bench, *, num_flows, wave_width=0):
    """A message has come in this collective exactly if it was marked in it.

    Of several waves, each up to the one that was marked last, and the one behind that is next.
    """
    m = bench.m
    config = _config(1, num_flows, wave_width)
    m.submodules.block = block = DuplicateFilter(config)
    sweeping = Signal(range(2 * num_flows + 1))
    course = _Collectives(bench, clearing=sweeping.any(), width=wave_width + 1)
    with m.If(course.clear):
        m.d.sync += sweeping.eq(2 * num_flows)
    with m.Elif(sweeping != 0):
        m.d.sync += sweeping.eq(sweeping - 1)
    bits = (num_flows - 1).bit_length()
    key, asked = bench.constant("key", 1 + bits), bench.free("asked", 1 + bits)
    marks = bench.free("mark")
    bench.assume((key[1:] < num_flows) & (asked[1:] < num_flows))
    for name in ("phase", "bank", "clear"):
        m.d.comb += getattr(block, name).eq(getattr(course, name))
    m.d.comb += [Cat(block.op, block.flow[:bits]).eq(asked), block.mark.eq(marks)]
    wave = bench.free("wave", wave_width) if wave_width else Const(0, 0)
    m.d.comb += block.wave.eq(wave)
    now = course.report(marks & (asked == key), wave + 1 if wave_width else 1)
    # The answer is about what was marked before the question, and the wave of the cycle behind it.
    before = bench.past(bench.past(course.count))
    stood = bench.past(bench.past(asked == key) & course.same)
    held = bench.past(wave) if wave_width else wave
    bench.check(~stood | (block.seen == ((held < before) if wave_width else before)))
    bench.check(~stood | block.intact)
    bench.check(~stood | (block.early == ((held > before) if wave_width else 0)))
    bench.cover("seen", stood & block.seen & course.bank & (now[0] if wave_width else now))
    if wave_width:
        bench.cover("next", stood & ~block.seen & ~block.early & (before > 1) & course.bank)
        bench.cover("early", stood & block.early & (before == 1))
