"""Networks in RTL that have lost links and ranks: those left keep their ports."""

import numpy as np
import pytest

from multitree import LinkModel, build, execute, torus
from multitree.host.runner import make_buffers
from multitree.sim.emulator.verilator import why_not
from multitree.sim.rtl.session import RtlSession
from multitree.sim.timing.sizing import config_for, least_sizes

pytestmark = pytest.mark.skipif(why_not() is not None, reason=f"no RTL here: {why_not()}")
WHOLE = torus(4, 4)
N = 700


@pytest.mark.slow
def test_what_is_left_sums_over_the_ports_that_are_left():
    sizes = least_sizes(build(WHOLE, "multitree"), LinkModel().num_flits(N, 4))
    config = config_for(WHOLE, LinkModel(), **sizes)
    once = WHOLE.without(links=[20])
    for left in (WHOLE, once, once.without(ranks=[9])):
        schedule = build(left, "multitree")
        buffers = make_buffers(7, left.num_ranks, N, "float32")
        with RtlSession(left, config=config) as session:
            ((memory, trace),) = session.run(schedule, [buffers])
            counts = session.counts()
        assert memory.tobytes() == execute(schedule, buffers).tobytes()
        assert [len(ports) for ports in counts] == left.degree.tolist()
        sent = [port.flits_sent for ports in counts for port in ports]
        by_port = np.concatenate([left.ports(rank) for rank in range(left.num_ranks)])
        assert sent == trace.link_flits[by_port].tolist()


def test_tables_for_other_ports_are_refused():
    left = WHOLE.without(links=[20])
    moved = build(type(left)(*(getattr(left, name) for name in FIELDS)), "multitree")
    sizes = least_sizes(moved, LinkModel().num_flits(N, 4))
    with (
        RtlSession(left, config=config_for(WHOLE, LinkModel(), **sizes)) as session,
        pytest.raises(ValueError, match="Schedule must be for torus:4x4 without"),
    ):
        session.run(moved, [make_buffers(7, 16, N, "float32")])


FIELDS = ("name", "num_ranks", "num_switches", "links", "bandwidth_gbytes_per_s", "latency_ns")
