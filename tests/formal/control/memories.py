"""Properties of memories and of who asks them: words, turns, answers, resets."""

from amaranth import Array, Cat, Mux, Signal

from multitree.hw.check_bits import Checked, has_parity, numbers_of, parity_width
from multitree.hw.memory_channel import ReadShare
from multitree.hw.stream import Fifo
from multitree.nic.control.memories import BankedMemory, FlowMemory
from multitree.nic.driver.config import Config
from multitree.nic.interface import Drain
from multitree.nic.send.rows import WaveOffset
from tests.formal.bench import Watch, holds, sets, transfer
from tests.formal.stand_ins import hollow

BITS = 2
"""Bits of a word that may be other than 0."""
QUEUE_FLITS = 4
"""Reads that a reader has room for."""


@holds("banks.words", {"depth": 2, "num_words": 2}, {"depth": 3, "num_words": 5})
def banks(m, *, depth, num_words):
    """A word read is the one written last, of right parity; the bank in use is not written."""
    m.submodules.block = block = BankedMemory(depth=depth, num_words=num_words)
    address_bits, word_bits = (depth - 1).bit_length(), (num_words - 1).bit_length()
    index, word = block.index[:address_bits], block.word
    stored, writes = block.data[:BITS], block.write
    m.drive(block.bank, block.address[:address_bits], block.shadow_address[:address_bits])
    m.drive(index, word, stored, writes)
    for at in (block.index, block.address, block.shadow_address):
        m.assume(at < depth)
    # One arbitrary word of one arbitrary entry of one bank.
    bank, place = m.constant("of_bank"), m.constant("of_index", address_bits)
    number = m.constant("of_word", max(word_bits, 1))
    m.assume((place < depth) & (number < num_words))
    mine = writes & (block.bank != bank) & (index == place) & (word == number)
    # What is read is not written in that cycle, since the shadow is checked before it is used.
    looks = Mux(block.bank == bank, block.address, block.shadow_address) == place
    m.assume(~(mine & looks))
    then = m.past(m.latch(mine, stored), 2)
    for address, entry, intact, active in (
        (block.address, block.entry, block.intact, 1),
        (block.shadow_address, block.shadow_entry, block.shadow_intact, 0),
    ):
        of_mine = (address == place) & ((block.bank == bank) == active)
        # The bank must stay while an answer is on its way.
        stays = block.bank == m.past(block.bank)
        answered = m.past(of_mine, 2) & (stays & m.past(stays))
        shown = Array(entry[32 * k :][:32] for k in range(num_words))[number]
        m.check(~answered | ((shown == then) & intact))
    m.cover("written", answered & (then == 3) & (place != 0))


@holds("flow_memory.lookups", {"num_clients": 2}, {"num_clients": 5})
def lookups(m, *, num_clients):
    """A look-up waits for each other client once at most; its entry is that of its own flow."""
    config = Config(table_depth=4, num_flows=4)
    m.submodules.block = block = FlowMemory(config, num_clients=num_clients)
    block.content = content = hollow(BankedMemory)(depth=4, num_words=5)
    names = ("bank", "write", "index", "word", "data", "shadow_address")
    m.drive(*(getattr(block, name) for name in names))
    m.drive(content.entry, content.shadow_entry, content.intact, content.shadow_intact)
    for name in names:
        m.check(getattr(content, name) == getattr(block, name))
    m.check(block.shadow_entry.as_value() == content.shadow_entry)
    m.check(block.shadow_intact == content.shadow_intact)
    for lookup in block.lookups:
        m.drive(lookup.valid, lookup.flow)
        m.check(~lookup.granted | lookup.valid)
        m.check(~lookup.granted | (content.address == lookup.flow))
        m.check(lookup.entry.as_value() == content.entry)
        m.check(lookup.intact == content.intact)
    grants = Cat(lookup.granted for lookup in block.lookups)
    asks = Cat(lookup.valid for lookup in block.lookups)
    m.check(sum(grants) == asks.any())
    client = m.one_of(num_clients, "client")
    waited = m.lasts((asks & ~grants).bit_select(client, 1), num_clients - 1)
    m.cover("waits", waited == num_clients - 1)


@holds("read_share.owners", {"depth": 3, "width": 2}, {"depth": 7, "width": 2})
def share(m, *, depth, width):
    """Each reader gets the data that it asked for, in order; what is offered stays; no error by
    itself.
    """
    m.submodules.block = block = ReadShare(address_width=width, flit_bytes=1, depth=depth)
    channel, readers = block.channel, (block.first, block.second)
    m.drive(channel.ready, channel.data_valid, channel.error, channel.data[:1])
    asked = transfer(channel)
    in_flight = m.tally(asked, channel.data_valid, depth)
    m.assume(~channel.data_valid | (in_flight != 0))
    m.assume(~asked | (in_flight < depth) | channel.data_valid)
    takes = []
    for reader in readers:
        m.drive(reader.valid, reader.address)
        m.assume(m.stays(reader.valid, reader.ready, reader.address))
        takes.append(transfer(reader))
        m.check(~takes[-1] | (asked & (channel.address == reader.address)))
        m.check((reader.error == channel.error) & (reader.data == channel.data))
    m.check((takes[0] ^ takes[1]) == asked)
    m.check(~(takes[0] & takes[1]))
    # What is offered stays, and the first reader waits for nothing but that.
    m.check(m.stays(channel.valid, channel.ready, channel.address))
    waits = m.past(channel.valid & ~channel.ready)
    m.check(~(takes[1] & ~waits) | ~readers[0].valid)
    back = [reader.data_valid for reader in readers]
    m.check((back[0] ^ back[1]) == channel.data_valid)
    Watch(m, (asked, Cat(takes[1])), (channel.data_valid, Cat(back[1])), capacity=depth)
    m.check(~block.state_error)
    m.cover("both", (in_flight == 2) & back[1])


@holds(
    "drain.answered",
    {"num_ports": 1, "num_readers": 1},
    {"num_ports": 2, "num_readers": 1},
    {"num_ports": 1, "num_readers": 2, "num_classes": 1},
    {"num_ports": 1, "num_readers": 2, "forward_flits": 32},
)
def drain(m, *, num_ports, num_readers, **kind):
    """A reset ends when all that memory was asked is answered, and lasts two cycles at least."""
    config = Config(num_ports=num_ports, memory_queue_flits=QUEUE_FLITS, **kind)
    m.submodules.block = block = Drain(config)
    m.drive(block.command, block.requested, block.answered)
    channel = m.one_of(3 * num_ports, "channel")
    asked, answered = (bits.bit_select(channel, 1) for bits in (block.requested, block.answered))
    # Each reader of a channel has room for so many, and reads no more.
    most = num_readers * QUEUE_FLITS
    left = m.tally(asked, answered, most)
    m.assume(~answered | (left != 0))
    m.assume(~asked | (left < most))
    # The reset is a register: what it resets may ask in its first cycle, and not from then on.
    m.assume(~(block.reset & m.past(block.reset)) | ~block.requested.any())
    command, reset = block.command, block.reset
    m.check(reset | ~m.past(command))
    m.check(~reset | m.past(command | reset))
    ends = m.past(reset) & ~reset
    m.check(~ends | ((left == 0) & ~answered))
    m.check(~ends | m.past(reset, 2))
    # It ends as soon as it is known that all are answered.
    quiet = ~block.requested.any() & ~block.answered.any()
    m.cover("waited", ends & m.past(left == 1, 3))
    m.cover("ends", ends & quiet)
    m.cover("most", block.reset & (left == most))


@holds("wave_offset.place", *sets("address_width wave_width", (4, 1), (5, 2)))
def offset(m, *, address_width, wave_width):
    """A wave begins at base plus its number times the stride, or is reported to be beyond."""
    config = Config(address_width=address_width, wave_width=wave_width)
    m.submodules.block = block = WaveOffset(config)
    wave, stride, base = block.wave, block.stride[:address_width], block.base
    m.drive(wave, stride, base)
    place = Signal(address_width + wave_width + 1)
    m.d.comb += place.eq(base + m.past(wave) * m.past(stride))
    begun = m.past(1)
    m.check(~begun | (block.beyond == (place >= (1 << address_width))))
    m.check(~begun | block.beyond | (block.address == place))
    m.cover("beyond", block.beyond)
    m.cover("second", begun & ~block.beyond & (place == 9))


@holds("checked.queue", {"width": 2, "depth": 3}, depth=12)
def checked(m, *, width, depth):
    """A queue with check bits keeps order and payload, and tells no error where no bit flips."""
    m.submodules.block = block = Checked(Fifo, shape=width, depth=depth)
    m.drive(block)
    i, o = block.i, block.o
    Watch(m, (transfer(i), i.payload), (transfer(o), o.payload), capacity=depth)
    m.check(~block.state_error)


@holds("checked.flips", {"width": 2}, {"width": 9})
def flipped(m, *, width):
    """An error is told exactly where what leaves has not its parity, or is not the next."""
    m.submodules.block = block = Checked(hollow(Fifo), shape=width, depth=3)
    inside = block._queue.o
    m.drive(inside.valid, inside.payload, block.o.ready)
    left, word = inside.valid & block.o.ready, inside.payload
    count = numbers_of(2, parity_width(width))
    number = Signal(range(count))
    with m.If(left):
        m.d.sync += number.eq(Mux(number == count - 1, 0, number + 1))
    wrong = left & ~has_parity(word[:width], word[width:] ^ number)
    m.check(block.state_error == m.past(wrong))
    m.cover("wrong", block.state_error)
    m.cover("another", m.past(left & has_parity(word[:width], word[width:])) & block.state_error)
