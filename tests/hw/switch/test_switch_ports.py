"""A switch with ports to spare, as the emulation has it, moves like one without."""

import pytest

from tests.hw.streams import PATTERNS, pulse, seeded
from tests.hw.switch.switches import traffic
from tests.hw.switch.test_switch import NUM_PORTS, NUM_VCS, fault, network, play


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("ready", PATTERNS)
@pytest.mark.parametrize("num_ports", [4, 7])
def test_ports_without_a_link_change_no_cycle_of_the_others(num_ports, ready):
    queues = traffic(seeded(f"{num_ports} {ready}"), NUM_PORTS, NUM_VCS, count=9)
    exact, spare = (
        play(network(num_ports=ports), queues, cycles=300, ready=ready)
        for ports in (NUM_PORTS, num_ports)
    )
    assert sum(map(len, exact[0].values())) > 100
    assert spare == exact


@pytest.mark.slow
@pytest.mark.parametrize("reset", range(NUM_PORTS))
def test_a_fault_has_the_same_name_and_is_reported_to_the_linked_ports_just_so(reset):
    queues = traffic(seeded(reset), NUM_PORTS, NUM_VCS, count=9)
    reported = []
    for ports in (NUM_PORTS, 5):
        net = network(num_ports=ports)

        async def script(ctx, net=net):
            await ctx.tick().repeat(30)
            await pulse(ctx, net.resets[reset], 40)
            await ctx.tick().repeat(100)
            reported.append(fault(ctx, net))

        reported.append(play(net, queues, script, cycles=300))
    named, (_, heard) = reported[:2]
    assert named[0] and heard
    assert reported[:2] == reported[2:]
