"""Properties of the framer: messages head to tail, each on its own row's channel."""

from amaranth import Cat, Signal
from amaranth.lib import data

from multitree.hw.link.link import Kind
from multitree.nic.driver.config import Config
from multitree.nic.layouts import descriptor_layout, head_layout
from multitree.nic.send.sender import Framer
from tests.formal.bench import driven, holds

OF_A_HEAD = ("flow", "op", "order", "step", "route")
"""What a head on shared links says as its descriptor does, besides its size."""


def _framer(bench, config):
    """The block behind a queue of any descriptors and one of any data; it may be stopped."""
    m = bench.m
    m.submodules.block = block = Framer(config)
    driven(bench, "descriptors", block.descriptors)
    driven(bench, "payload", block.payload)
    m.d.comb += [
        block.run.running.eq(bench.free("running")),
        block.run.sequence.eq(bench.constant("sequence", 8)),
        block.flits.ready.eq(bench.free("flits_ready")),
    ]
    for queue in (block.descriptors, block.payload):
        stood = bench.past(queue.valid & ~queue.ready)
        shown = queue.payload.as_value() if queue is block.descriptors else queue.payload
        bench.assume(~stood | (queue.valid & (shown == bench.past(shown))))
    return block


class _Course:
    """Which message is being sent, by what was taken: its descriptor and the flits it has left."""

    def __init__(self, bench, block, config):
        m = bench.m
        kind = block.flits.payload.kind
        sent = block.flits.valid & block.flits.ready
        self.taken = block.descriptors.valid & block.descriptors.ready
        self.descriptor = Signal(descriptor_layout(config))
        self.left = Signal(config.address_width)
        self.begins, self.moves = Signal(), Signal()
        self.is_head = (kind == Kind.HEAD) | (kind == Kind.SINGLE)
        m.d.comb += [
            self.begins.eq(sent & self.is_head & (self.left == 0)),
            self.moves.eq(sent & ~self.is_head),
        ]
        with m.If(self.begins):
            m.d.sync += self.descriptor.eq(block.descriptors.payload)
            m.d.sync += self.left.eq(block.descriptors.payload.size)
        with m.Elif(self.moves):
            m.d.sync += self.left.eq(self.left - 1)


@holds(
    "framer.channel", {"num_classes": 2, "address_width": 4}, {"num_classes": 1, "address_width": 4}
)
def channel(bench, *, num_classes, address_width):
    """Each flit is on the channel of its own message's row and of its collective's parity."""
    config = Config(num_classes=num_classes, address_width=address_width)
    block = _framer(bench, config)
    course = _Course(bench, block, config)
    inside = course.left != 0
    parity = block.run.sequence[0]
    for vc_class, belongs in (
        (block.descriptors.payload.vc_class, ~inside),
        (course.descriptor.vc_class, inside),
    ):
        # A row of a class that is not there is illegal: the fetcher hands out none.
        bench.assume(~belongs | (vc_class < num_classes))
        bench.check(~(block.flits.valid & belongs) | (block.vc == Cat(parity, vc_class)))
    waits = bench.past(block.flits.valid & ~block.flits.ready) & block.run.running
    bench.check(~waits | (block.vc == bench.past(block.vc)))
    other = course.descriptor.vc_class != block.descriptors.payload.vc_class
    bench.cover("behind", course.moves & (course.left > 1) & block.descriptors.valid & parity)
    if num_classes > 1:
        bench.cover("other", course.moves & (course.left > 1) & block.descriptors.valid & other)


@holds(
    "framer.frames",
    {"shared": True, "packets": False, "submessage_flits": 2},
    {"shared": False, "packets": True, "submessage_flits": 2},
    {"shared": False, "packets": True, "submessage_flits": 4},
)
def frames(bench, *, shared, packets, submessage_flits):
    """Each descriptor is one head that says it, then its data once, in order, tails in place."""
    m = bench.m
    config = Config(
        num_classes=int(shared),
        address_width=4,
        submessage_flits=submessage_flits,
        flit_bytes=16 if shared else 8,
    )
    block = _framer(bench, config)
    m.d.comb += block.run.packets.eq(packets)
    course = _Course(bench, block, config)
    flit, descriptor = block.flits.payload, block.descriptors.payload
    head = data.View(head_layout(config), flit.payload[: head_layout(config).size])
    bench.check(course.taken == course.begins)
    bench.check(~block.flits.valid | block.run.running)
    single = flit.kind == Kind.SINGLE
    bench.check(~course.begins | (single == (descriptor.size == 0)))
    names = OF_A_HEAD if shared else OF_A_HEAD[:2]
    said = Cat(head[name] == descriptor[name] for name in names).all()
    said &= (head.size == descriptor.size) & (head.sequence == block.run.sequence)
    bench.check(~course.begins | said)
    place = Signal(range(submessage_flits))
    with m.If(course.begins):
        m.d.sync += place.eq(0)
    with m.Elif(course.moves):
        m.d.sync += place.eq(place + 1)
    ends = (course.left == 1) | (place.all() & packets)
    tail = flit.kind == Kind.TAIL
    bench.check(~course.moves | ((course.left != 0) & (tail == ends)))
    # Data go out one by one, unchanged, and at no other time.
    taken = block.payload.valid & block.payload.ready
    bench.check(taken == course.moves)
    bench.check(~course.moves | (flit.payload == block.payload.payload))
    again = block.flits.valid & course.is_head & (course.left != 0)
    bench.check(~again | (packets & ~place.any() & (course.descriptor.size != course.left)))
    if not shared:
        same = (head.flow == course.descriptor.flow) & (head.op == course.descriptor.op)
        same &= head.continued & (head.sequence == block.run.sequence)
        bench.check(~again | (same & (head.size == course.descriptor.size)))
        bench.check(~course.begins | ~head.continued)
    # A stop lets nothing out, and what was offered stays until then.
    stands = block.run.running & bench.past(block.run.running)
    whole = Cat(flit.kind, flit.payload)
    waits = bench.past(block.flits.valid & ~block.flits.ready)
    bench.check(~(stands & waits) | (block.flits.valid & (whole == bench.past(whole))))
    bench.check(~block.idle | (course.left == 0))
    bench.check(~block.run.running | block.flits.valid | block.idle | ~block.payload.valid)
    bench.cover("tail", course.moves & tail & (course.descriptor.size == submessage_flits + 1))
