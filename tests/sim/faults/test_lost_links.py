"""Networks in RTL that have lost links and ranks: those left keep their ports."""

import numpy as np
import pytest

from multitree import LinkModel, build, torus
from multitree.sim.rtl.session import RtlSession
from multitree.sim.timing.sizing import config_for, least_sizes
from tests.emulation import needs_rtl
from tests.sim.emulated import checked, normals

pytestmark = needs_rtl
WHOLE = torus(4, 4)
N = 700


@pytest.mark.slow
def test_what_is_left_sums_over_the_ports_that_are_left():
    sizes = least_sizes(build(WHOLE, "multitree"), LinkModel().num_flits(N, 4))
    config = config_for(WHOLE, LinkModel(), **sizes)
    once = WHOLE.without(links=[20])
    for left in (WHOLE, once, once.without(ranks=[9])):
        schedule = build(left, "multitree")
        with RtlSession(left, config=config) as session:
            (trace,) = checked(session, schedule, normals(schedule, N))
            counts = session.counts()
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
        session.run(moved, list(normals(moved, N)))


FIELDS = ("name", "num_ranks", "num_switches", "links", "bandwidth_gbytes_per_s", "latency_ns")
