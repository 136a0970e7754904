"""Properties of the framer: messages head to tail, each on its own row's channel."""

from amaranth import Cat, Signal
from amaranth.lib import data

from multitree.hw.link.link import Kind
from multitree.nic.driver.config import Config
from multitree.nic.layouts import descriptor_layout, head_layout
from multitree.nic.send.sender import Framer
from tests.formal.bench import alike, holds, sets, transfer

OF_A_HEAD = "flow op order step route"
"""What a head on shared links says as its descriptor does, besides its size."""


def _framer(m, config):
    """The block behind a queue of any descriptors and one of any data; it may be stopped."""
    m.submodules.block = block = Framer(config)
    m.drive(block.descriptors, block.payload, block.run.running, block.flits)
    m.fix(block.run.sequence[:8])
    m.patient(block.descriptors, block.payload)
    return block


class _Course:
    """Which message is being sent, by what was taken: its descriptor and the flits it has left."""

    def __init__(self, m, block, config):
        kind = block.flits.payload.kind
        sent = transfer(block.flits)
        self.taken = transfer(block.descriptors)
        self.descriptor = Signal(descriptor_layout(config))
        self.left = Signal(config.address_width)
        self.is_head = (kind == Kind.HEAD) | (kind == Kind.SINGLE)
        self.begins, self.moves = sent & self.is_head & (self.left == 0), sent & ~self.is_head
        with m.If(self.begins):
            m.d.sync += self.descriptor.eq(block.descriptors.payload)
            m.d.sync += self.left.eq(block.descriptors.payload.size)
        with m.Elif(self.moves):
            m.d.sync += self.left.eq(self.left - 1)


@holds("framer.channel", *sets("num_classes address_width", (2, 4), (1, 4)))
def channel(m, *, num_classes, address_width):
    """Each flit is on the channel of its own message's row and of its collective's parity."""
    config = Config(num_classes=num_classes, address_width=address_width)
    block = _framer(m, config)
    course = _Course(m, block, config)
    inside = course.left != 0
    parity = block.run.sequence[0]
    for vc_class, belongs in (
        (block.descriptors.payload.vc_class, ~inside),
        (course.descriptor.vc_class, inside),
    ):
        # A row of a class that is not there is illegal: the fetcher hands out none.
        m.assume(~belongs | (vc_class < num_classes))
        m.check(~(block.flits.valid & belongs) | (block.vc == Cat(parity, vc_class)))
    waits = m.past(block.flits.valid & ~block.flits.ready) & block.run.running
    m.check(~waits | (block.vc == m.past(block.vc)))
    other = course.descriptor.vc_class != block.descriptors.payload.vc_class
    m.cover("behind", course.moves & (course.left > 1) & block.descriptors.valid & parity)
    if num_classes > 1:
        m.cover("other", course.moves & (course.left > 1) & block.descriptors.valid & other)


@holds(
    "framer.frames",
    *sets("shared packets submessage_flits", (True, False, 2), (False, True, 2), (False, True, 4)),
)
def frames(m, *, shared, packets, submessage_flits):
    """Each descriptor is one head that says it, then its data once, in order, tails in place."""
    sizes = {"num_classes": int(shared), "flit_bytes": 16 if shared else 8}
    config = Config(address_width=4, submessage_flits=submessage_flits, **sizes)
    block = _framer(m, config)
    m.d.comb += block.run.packets.eq(packets)
    course = _Course(m, block, config)
    flit, descriptor = block.flits.payload, block.descriptors.payload
    head = data.View(head_layout(config), flit.payload[: head_layout(config).size])
    m.check(course.taken == course.begins)
    m.check(~block.flits.valid | block.run.running)
    single = flit.kind == Kind.SINGLE
    m.check(~course.begins | (single == (descriptor.size == 0)))
    said = alike(head, descriptor, OF_A_HEAD if shared else "flow op")
    said &= (head.size == descriptor.size) & (head.sequence == block.run.sequence)
    m.check(~course.begins | said)
    place = Signal(range(submessage_flits))
    with m.If(course.begins):
        m.d.sync += place.eq(0)
    with m.Elif(course.moves):
        m.d.sync += place.eq(place + 1)
    ends = (course.left == 1) | (place.all() & packets)
    tail = flit.kind == Kind.TAIL
    m.check(~course.moves | ((course.left != 0) & (tail == ends)))
    # Data go out one by one, unchanged, and at no other time.
    m.check(transfer(block.payload) == course.moves)
    m.check(~course.moves | (flit.payload == block.payload.payload))
    again = block.flits.valid & course.is_head & (course.left != 0)
    m.check(~again | (packets & ~place.any() & (course.descriptor.size != course.left)))
    if not shared:
        same = alike(head, course.descriptor, "flow op size")
        m.check(~again | (same & head.continued & (head.sequence == block.run.sequence)))
        m.check(~course.begins | ~head.continued)
    # A stop lets nothing out, and what was offered stays until then.
    stands = block.run.running & m.past(block.run.running)
    whole = Cat(flit.kind, flit.payload)
    m.check(m.stays(block.flits.valid, block.flits.ready, whole, during=stands))
    m.check(~block.idle | (course.left == 0))
    m.check(~block.run.running | block.flits.valid | block.idle | ~block.payload.valid)
    m.cover("tail", course.moves & tail & (course.descriptor.size == submessage_flits + 1))
