"""Properties of memories and of who asks them: words, turns, answers, resets."""

from amaranth import Array, Cat, Mux, Signal

from multitree.hw.check_bits import Checked, has_parity
from multitree.hw.memory_channel import ReadShare
from multitree.hw.stream import Fifo
from multitree.nic.control.memories import BankedMemory, FlowMemory
from multitree.nic.driver.config import Config
from multitree.nic.interface import Drain
from multitree.nic.send.rows import WaveOffset
from tests.formal.bench import Watch, holds
from tests.formal.stand_ins import free_outputs, hollow

BITS = 2
"""Bits of a word that may be other than 0."""
QUEUE_FLITS = 4
"""Reads that a reader has room for."""


@holds("banks.words", {"depth": 2, "num_words": 2}, {"depth": 3, "num_words": 5})
def banks(bench, *, depth, num_words):
    """A word read is the one written last, of right parity; the bank in use is not written."""
    m = bench.m
    m.submodules.block = block = BankedMemory(depth=depth, num_words=num_words)
    address_bits, word_bits = (depth - 1).bit_length(), (num_words - 1).bit_length()
    index, word = bench.free("index", address_bits), bench.free("word", 3)
    stored, writes = bench.free("data", BITS), bench.free("write")
    m.d.comb += [
        block.bank.eq(bench.free("bank")),
        block.write.eq(writes),
        block.index.eq(index),
        block.word.eq(word),
        block.data.eq(stored),
        block.address.eq(bench.free("address", address_bits)),
        block.shadow_address.eq(bench.free("shadow_address", address_bits)),
    ]
    for at in (block.index, block.address, block.shadow_address):
        bench.assume(at < depth)
    # One arbitrary word of one arbitrary entry of one bank.
    bank, place = bench.constant("of_bank"), bench.constant("of_index", address_bits)
    number = bench.constant("of_word", max(word_bits, 1))
    bench.assume((place < depth) & (number < num_words))
    kept = Signal(BITS)
    mine = writes & (block.bank != bank) & (index == place) & (word == number)
    # What is read is not written in that cycle, since the shadow is checked before it is used.
    looks = Mux(block.bank == bank, block.address, block.shadow_address) == place
    bench.assume(~(mine & looks))
    with m.If(mine):
        m.d.sync += kept.eq(stored)
    then = bench.past(bench.past(kept))
    for address, entry, intact, active in (
        (block.address, block.entry, block.intact, 1),
        (block.shadow_address, block.shadow_entry, block.shadow_intact, 0),
    ):
        of_mine = (address == place) & ((block.bank == bank) == active)
        # The bank must stay while an answer is on its way.
        stays = (block.bank == bench.past(block.bank)) & bench.past(
            block.bank == bench.past(block.bank)
        )
        answered = bench.past(bench.past(of_mine)) & stays
        shown = Array(entry[32 * k :][:32] for k in range(num_words))[number]
        bench.check(~answered | ((shown == then) & intact))
    bench.cover("written", answered & (then == 3) & (place != 0))


@holds("flow_memory.lookups", {"num_clients": 2}, {"num_clients": 5})
def lookups(bench, *, num_clients):
    """A look-up waits for each other client once at most; its entry is that of its own flow."""
    m = bench.m
    config = Config(table_depth=4, num_flows=4)
    m.submodules.block = block = FlowMemory(config, num_clients=num_clients)
    block.content = content = hollow(BankedMemory)(depth=4, num_words=5)
    names = ("bank", "write", "index", "word", "data", "shadow_address")
    free_outputs(bench, "in", *(getattr(block, name) for name in names))
    free_outputs(bench, "out", content.entry, content.shadow_entry)
    free_outputs(bench, "intact", content.intact, content.shadow_intact)
    for name in names:
        bench.check(getattr(content, name) == getattr(block, name))
    bench.check(block.shadow_entry.as_value() == content.shadow_entry)
    bench.check(block.shadow_intact == content.shadow_intact)
    for number, lookup in enumerate(block.lookups):
        free_outputs(bench, f"asks_{number}", lookup.valid, lookup.flow)
        bench.check(~lookup.granted | lookup.valid)
        bench.check(~lookup.granted | (content.address == lookup.flow))
        bench.check(lookup.entry.as_value() == content.entry)
        bench.check(lookup.intact == content.intact)
    grants = Cat(lookup.granted for lookup in block.lookups)
    asks = Cat(lookup.valid for lookup in block.lookups)
    bench.check(sum(grants) == asks.any())
    client = bench.constant("client", range(num_clients))
    bench.assume(client < num_clients)
    waited, waits = Signal(range(num_clients + 1)), (asks & ~grants).bit_select(client, 1)
    m.d.sync += waited.eq(Mux(waits, waited + 1, 0))
    bench.check(waited < num_clients)
    bench.cover("waits", waited == num_clients - 1)


@holds("read_share.owners", {"depth": 3, "width": 2}, {"depth": 7, "width": 2})
def share(bench, *, depth, width):
    """Each reader gets the data that it asked for, in order; what is offered stays; no error by
    itself.
    """
    m = bench.m
    m.submodules.block = block = ReadShare(address_width=width, flit_bytes=1, depth=depth)
    channel, readers = block.channel, (block.first, block.second)
    m.d.comb += [
        channel.ready.eq(bench.free("ready")),
        channel.data_valid.eq(bench.free("data_valid")),
        channel.error.eq(bench.free("error")),
        channel.data.eq(bench.free("data")),
    ]
    in_flight = Signal(range(depth + 2))
    asked = channel.valid & channel.ready
    m.d.sync += in_flight.eq(in_flight + asked - channel.data_valid)
    bench.assume(~channel.data_valid | (in_flight != 0))
    bench.assume(~asked | (in_flight < depth) | channel.data_valid)
    takes = []
    for number, reader in enumerate(readers):
        free_outputs(bench, f"reader_{number}", reader.valid, reader.address)
        stood = bench.past(reader.valid & ~reader.ready)
        bench.assume(~stood | (reader.valid & (reader.address == bench.past(reader.address))))
        takes.append(reader.valid & reader.ready)
        bench.check(~takes[-1] | (asked & (channel.address == reader.address)))
        bench.check((reader.error == channel.error) & (reader.data == channel.data))
    bench.check((takes[0] ^ takes[1]) == asked)
    bench.check(~(takes[0] & takes[1]))
    # What is offered stays, and the first reader waits for nothing but that.
    waits = bench.past(channel.valid & ~channel.ready)
    bench.check(~waits | (channel.valid & (channel.address == bench.past(channel.address))))
    bench.check(~(takes[1] & ~waits) | ~readers[0].valid)
    back = [reader.data_valid for reader in readers]
    bench.check((back[0] ^ back[1]) == channel.data_valid)
    Watch(
        bench,
        put=asked,
        take=channel.data_valid,
        value_in=Cat(takes[1]),
        value_out=Cat(back[1]),
        capacity=depth,
    )
    bench.check(~block.state_error)
    bench.cover("both", (in_flight == 2) & back[1])


@holds(
    "drain.answered",
    {"num_ports": 1, "num_readers": 1},
    {"num_ports": 2, "num_readers": 1},
    {"num_ports": 1, "num_readers": 2, "num_classes": 1},
    {"num_ports": 1, "num_readers": 2, "forward_flits": 32},
)
def drain(bench, *, num_ports, num_readers, **kind):
    """A reset ends when all that memory was asked is answered, and lasts two cycles at least."""
    m = bench.m
    config = Config(num_ports=num_ports, memory_queue_flits=QUEUE_FLITS, **kind)
    m.submodules.block = block = Drain(config)
    free_outputs(bench, "in", block.command, block.requested, block.answered)
    channel = bench.constant("channel", range(3 * num_ports))
    bench.assume(channel < 3 * num_ports)
    asked, answered = (bits.bit_select(channel, 1) for bits in (block.requested, block.answered))
    # Each reader of a channel has room for so many, and reads no more.
    most = num_readers * QUEUE_FLITS
    left = Signal(range(most + 2))
    m.d.sync += left.eq(left + asked - answered)
    bench.assume(~answered | (left != 0))
    bench.assume(~asked | (left < most))
    # The reset is a register: what it resets may ask in its first cycle, and not from then on.
    bench.assume(~(block.reset & bench.past(block.reset)) | ~block.requested.any())
    command, reset = block.command, block.reset
    bench.check(reset | ~bench.past(command))
    bench.check(~reset | bench.past(command | reset))
    ends = bench.past(reset) & ~reset
    bench.check(~ends | ((left == 0) & ~answered))
    bench.check(~ends | bench.past(bench.past(reset)))
    # It ends as soon as it is known that all are answered.
    quiet = Signal()
    m.d.comb += quiet.eq(~block.requested.any() & ~block.answered.any())
    bench.cover("waited", ends & bench.past(bench.past(bench.past(left == 1))))
    bench.cover("ends", ends & quiet)
    bench.cover("most", block.reset & (left == most))


@holds(
    "wave_offset.place",
    {"address_width": 4, "wave_width": 1},
    {"address_width": 5, "wave_width": 2},
)
def offset(bench, *, address_width, wave_width):
    """A wave begins at base plus its number times the stride, or is reported to be beyond."""
    m = bench.m
    config = Config(address_width=address_width, wave_width=wave_width)
    m.submodules.block = block = WaveOffset(config)
    wave, stride = bench.free("wave", wave_width), bench.free("stride", address_width)
    base = bench.free("base", address_width)
    m.d.comb += [block.wave.eq(wave), block.stride.eq(stride), block.base.eq(base)]
    place = Signal(address_width + wave_width + 1)
    m.d.comb += place.eq(base + bench.past(wave) * bench.past(stride))
    begun = bench.past(1)
    bench.check(~begun | (block.beyond == (place >= (1 << address_width))))
    bench.check(~begun | block.beyond | (block.address == place))
    bench.cover("beyond", block.beyond)
    bench.cover("second", begun & ~block.beyond & (place == 9))


@holds("checked.queue", {"width": 2, "depth": 3}, depth=12)
def checked(bench, *, width, depth):
    """A queue with check bits keeps order and payload, and tells no error where no bit flips."""
    m = bench.m
    m.submodules.block = block = Checked(Fifo, shape=width, depth=depth)
    free_outputs(bench, "in", block.i.valid, block.i.payload, block.o.ready)
    Watch(
        bench,
        put=block.i.valid & block.i.ready,
        take=block.o.valid & block.o.ready,
        value_in=block.i.payload,
        value_out=block.o.payload,
        capacity=depth,
    )
    bench.check(~block.state_error)


@holds("checked.flips", {"width": 2}, {"width": 9})
def flipped(bench, *, width):
    """An error is told exactly where what leaves has not its parity."""
    m = bench.m
    queue = hollow(Fifo)
    m.submodules.block = block = Checked(queue, shape=width, depth=3)
    free_outputs(bench, "queue", block._queue.o.valid, block._queue.o.payload, block.o.ready)
    left, word = block._queue.o.valid & block.o.ready, block._queue.o.payload
    wrong = left & ~has_parity(word[:width], word[width:])
    bench.check(block.state_error == bench.past(wrong))
    bench.cover("wrong", block.state_error)
