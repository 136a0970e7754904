"""A switch between neighbours: links, latency, credits, and faults that cross it."""

import functools
import itertools

import pytest
from amaranth import Module, ResetInserter, Signal
from amaranth.lib import wiring

from multitree.hw.export.verilog import generate
from multitree.hw.link.link import Kind
from multitree.hw.link.port import LinkPort
from multitree.hw.switch.faults import SwitchFault
from multitree.hw.switch.switch import Switch
from multitree.nic.driver.faults import FaultCode
from tests.hw.link.wires import join, offer, take
from tests.hw.streams import go, process, pulse, put, run, seeded
from tests.hw.switch.switches import FLIT_BYTES, LAYOUT, expected, flits_of, forwarded, message_to
from tests.hw.switch.switches import traffic as draw

NUM_PORTS, NUM_VCS, NUMBER = 3, 2, 77
COME_UP_CYCLES = 120


class Network(wiring.Component):
    """A switch, a neighbour at each port that has one, and wires of some cycles."""

    def __init__(self, *, latency_cycles=1, depth=12, num_ports=NUM_PORTS, linked=range(NUM_PORTS)):
        self._latency_cycles = latency_cycles
        sizes = {"num_vcs": NUM_VCS, "flit_bytes": FLIT_BYTES, "depth": depth}
        sizes["submessage_flits"] = 4
        self.switch = Switch(num_ports=num_ports, **sizes, **LAYOUT)
        self.ends = {port: LinkPort(**sizes) for port in linked}
        self.resets = {port: Signal(name=f"reset_{port}") for port in linked}
        self.broken = Signal()
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.switch = switch = self.switch
        m.d.comb += switch.number.eq(NUMBER)
        for port, end in self.ends.items():
            m.submodules[f"end_{port}"] = ResetInserter(self.resets[port])(end)
            link, flips = switch.link[port], self.broken if port == 0 else 0
            join(m, link.tx, end.rx, self._latency_cycles)
            join(m, end.tx, link.rx, self._latency_cycles, flips=flips)
        return m


network = functools.cache(Network)
"""One for all tests that run it from its reset."""


def units(messages):
    return [{"kind": kind, "payload": payload} for flits in messages for kind, payload in flits]


def play(net, queues, script=None, *, cycles=400, ready="never", times=None, late=()):
    """What the neighbours get per (port, vc), and hear of faults, while messages are sent.

    `script(ctx)` runs from when all links are up but those of neighbours that come late, which
    are in reset; it may reset neighbours and break wires.
    """
    got, heard = {}, []
    times = {} if times is None else times

    @process
    async def sender(ctx, port, end):
        await ctx.tick().repeat(COME_UP_CYCLES)
        flits = [units(queues.get((port, vc), [])) for vc in range(NUM_VCS)]
        went = times.setdefault(port, [])
        await offer(ctx, end, flits, go("never", 0), seed=port, times=went)

    @process
    async def receiver(ctx, port, end):
        moves = [go(ready, f"{port} {vc}") for vc in range(NUM_VCS)]
        faults = end.fault_received, end.received_fault
        for cycle in itertools.count(-COME_UP_CYCLES):
            flits, (fault, word) = await take(ctx, end.o, [*map(next, moves)], *faults)
            for vc, taken in enumerate(flits):
                for unit in taken:
                    got.setdefault((port, vc), []).append((cycle, unit.kind, unit.payload))
            if fault:
                heard.append((port, word))

    async def drive(ctx):
        for port in late:
            ctx.set(net.resets[port], 1)
        await ctx.tick().repeat(COME_UP_CYCLES)
        up = sum(1 << port for port in net.ends if port not in late)
        assert ctx.get(net.switch.up) == up
        if script is not None:
            await script(ctx)
        await ctx.tick().repeat(cycles)

    ends = [process(*each) for process in (receiver, sender) for each in net.ends.items()]
    run(net, drive, background=ends, keep=True)
    return got, heard


def fault_record(code, port, number=NUMBER):
    """What a switch tells of a fault of its own, as far as it fits."""
    words = number | code << 16 | 0xFFFFFFFF << 32 | (code | 15 << 12 | port << 16) << 64
    return words & (1 << 8 * FLIT_BYTES) - 1


@pytest.mark.slow
@pytest.mark.parametrize("linked", [(0, 1, 2), (0, 2)])
def test_messages_cross_the_switch_whole_and_a_port_without_a_link_harms_nobody(linked):
    rng = seeded(len(linked))
    queues = {
        place: [flits for flits in messages if flits[0][1] >> 24 & 31 in linked]
        for place, messages in draw(rng, NUM_PORTS, NUM_VCS).items()
        if place[0] in linked
    }
    net = network(linked=linked)
    got, heard = play(net, queues, cycles=250, ready="seldom")
    wanted = expected(queues)
    assert not heard and set(got) == set(wanted)
    for place, came in flits_of(got).items():
        sent = [flit for flits in wanted[place].values() for one in flits for flit in one]
        assert sorted(came, key=repr) == sorted(sent, key=repr)


def test_from_link_to_link_is_five_cycles():
    latency_cycles, times = 3, {}
    flits = message_to(2, 5, number=1)
    got, _ = play(network(latency_cycles=latency_cycles), {(1, 1): [flits]}, cycles=60, times=times)
    went = [cycle for cycle, _ in times[1]]
    came = [cycle for cycle, _, _ in got[2, 1]]
    # One cycle to the first link, the wires, the switch, the wires, three to the far end's stream.
    assert came == [cycle + 1 + latency_cycles + 5 + latency_cycles + 3 for cycle in went]
    assert flits_of(got)[2, 1] == forwarded(flits)


@pytest.mark.slow
@pytest.mark.parametrize(("depth", "line_rate"), [(10, True), (9, False)])
def test_line_rate_through_a_switch_needs_credits_for_the_round_trip(depth, line_rate):
    # A credit is back after 6 cycles and twice the wires' latency.
    times = {}
    net = network(latency_cycles=2, depth=depth)
    play(net, {(0, 0): [message_to(1, 60)]}, cycles=120, times=times)
    went = [cycle for cycle, _ in times[0]]
    assert (went == [*range(went[0], went[0] + 61)]) is line_rate


def fault(ctx, net):
    found = ctx.get(net.switch.fault)
    return SwitchFault(found.code), found.port


def test_a_route_to_nowhere_is_named_with_its_port_and_reported_to_all():
    net = network()
    queues = {(1, 0): [message_to(1, 2), message_to(0, 2, number=2)]}

    async def script(ctx):
        await ctx.tick().repeat(60)
        assert fault(ctx, net) == (SwitchFault.ROUTE, 1)
        assert ctx.get(net.switch.origin) == NUMBER | SwitchFault.ROUTE << 16 | 1 << 24

    got, heard = play(net, queues, script, cycles=1)
    record = fault_record(SwitchFault.ROUTE, 1)
    assert sorted(heard) == [(port, record) for port in range(NUM_PORTS)]
    assert flits_of(got)[0, 0] == forwarded(queues[1, 0][1])


def test_a_fault_that_a_neighbour_tells_is_reported_to_all_others_once():
    net = network()

    async def script(ctx):
        for port, word in ((2, 0xABCDEF), (1, 0x123456)):
            put(ctx, net.ends[port], fault_record=word, send_fault=1)
            await ctx.tick().until(net.ends[port].fault_sent)
            ctx.set(net.ends[port].send_fault, 0)
            await ctx.tick().repeat(40)
        assert fault(ctx, net) == (SwitchFault.PEER_FAULT, 2)
        assert ctx.get(net.switch.origin) == 0xABCDEF | 1 << 24
        # Not again to one that comes up later: two neighbours would tell each other for ever.
        await pulse(ctx, net.resets[0])

    _, heard = play(net, {}, script, cycles=COME_UP_CYCLES)
    assert sorted(heard) == [(0, 0xABCDEF), (1, 0xABCDEF)]


@pytest.mark.parametrize("reset", [0, 2])
def test_a_link_lost_with_a_message_on_it_is_reported_and_the_rest_goes_on(reset):
    """A neighbour that sends is reset, then one that is sent to; then it comes up again."""
    net = network()
    queues = {
        (0, 0): [message_to(2, 200, number=1)],
        (1, 1): [message_to(0 if reset == 2 else 2, 90, number=2)],
    }

    async def script(ctx):
        await ctx.tick().repeat(30)
        await pulse(ctx, net.resets[reset], 2)
        await ctx.tick().repeat(2 * COME_UP_CYCLES)
        assert fault(ctx, net) == (SwitchFault.PEER_RESET, reset)
        assert ctx.get(net.switch.up) == 7

    got, heard = play(net, queues, script, cycles=30)
    others = 0 if reset == 2 else 2
    assert flits_of(got)[others, 1] == forwarded(queues[1, 1][0])
    # Also the one that was reset, as soon as it is up.
    record = fault_record(SwitchFault.PEER_RESET, reset)
    assert sorted(heard) == [(port, record) for port in range(NUM_PORTS)]
    assert not any(kind == Kind.TAIL for kind, _ in flits_of(got)[2, 0])


def test_a_head_waits_for_a_link_that_has_not_been_up_yet():
    net, flits = network(), message_to(2, 3, number=1)

    async def script(ctx):
        await ctx.tick().repeat(30)
        ctx.set(net.resets[2], 0)
        await ctx.tick().repeat(COME_UP_CYCLES)

    got, heard = play(net, {(0, 1): [flits]}, script, cycles=30, late=(2,))
    assert flits_of(got) == {(2, 1): forwarded(flits)} and not heard


def test_a_neighbour_that_is_reset_with_nothing_on_its_links_is_no_fault():
    net = network()

    async def script(ctx):
        await pulse(ctx, net.resets[1])
        await ctx.tick().repeat(COME_UP_CYCLES)
        assert fault(ctx, net) == (SwitchFault.NONE, 0) and ctx.get(net.switch.up) == 7
        assert ctx.get(net.switch.origin) == 0

    _, heard = play(net, {}, script, cycles=1)
    assert not heard


def test_a_wrong_flit_is_named_and_its_message_holds_up_nobody():
    net = network()
    queues = {
        (0, 0): [message_to(2, 9, number=1)],
        (1, 0): [message_to(2, 9, number=2, step=1) for _ in range(3)],
    }

    async def script(ctx):
        await ctx.tick().repeat(6)
        await pulse(ctx, net.broken)
        await ctx.tick().repeat(100)
        assert fault(ctx, net) == (SwitchFault.LINK_CHECK, 0)

    got, heard = play(net, queues, script, cycles=1)
    assert [word for _, word in heard] == [fault_record(SwitchFault.LINK_CHECK, 0)] * 3
    second = [(kind, payload) for kind, payload in flits_of(got)[2, 0] if payload >> 36 == 2]
    assert second == 3 * forwarded(queues[1, 0][0])


def test_faults_of_one_name_have_one_number_in_switch_and_interface():
    assert all(fault == FaultCode[fault.name] for fault in SwitchFault)


@pytest.mark.slow
def test_the_verilog_of_a_switch_is_the_same_each_time():
    sizes = {"num_vcs": 2, "flit_bytes": FLIT_BYTES, "depth": 4, "submessage_flits": 4}
    switches = [Switch(num_ports=2, **sizes, **LAYOUT) for _ in range(2)]
    texts = [generate(switch, name="multitree_switch") for switch in switches]
    assert texts[0] == texts[1]
    assert "output link_1_tx_valid;\n" in texts[0] and "input [1:0] link_0_tx_credit;" in texts[0]
