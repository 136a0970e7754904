"""What is given of another class is refused with the name of the right one."""

import numpy as np
import pytest

from multitree import (
    Communicator,
    build,
    execute,
    implicit_symmetric,
    load_job,
    save_schedule,
    save_topology,
    time_job,
    torus,
    verify,
    verify_implicit,
)

NETWORK = torus(4, 4)
SCHEDULE, IMPLICIT = build(NETWORK, "symmetric"), implicit_symmetric(NETWORK)
NCF, BUFFERS = load_job("ncf"), np.ones((16, 4), np.int32)


@pytest.mark.every_set
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: build("torus:4x4", "ring"), "Topology must be of class Topology, not str"),
        (lambda: verify(NETWORK), "Schedule must be of class Schedule, not Topology"),
        (lambda: verify(IMPLICIT), "Schedule must be of class Schedule, not ImplicitSchedule"),
        (
            lambda: verify_implicit(SCHEDULE),
            "Implicit schedule must be of class ImplicitSchedule, not Schedule",
        ),
        (lambda: execute(NETWORK, BUFFERS), "Schedule must be of class Schedule, not Topology"),
        (lambda: save_schedule(NETWORK, "x"), "Schedule must be of class Schedule, not Topology"),
        (lambda: save_topology(SCHEDULE, "x"), "Topology must be of class Topology, not Schedule"),
        (lambda: time_job(NETWORK, NETWORK), "Job must be of class Job, not Topology"),
        (lambda: time_job(NCF, "ring:4"), "Topology must be of class Topology, not str"),
    ],
)
def test_another_class_is_refused_by_name(call, message):
    with pytest.raises(TypeError) as refused:
        call()
    assert str(refused.value) == message


@pytest.mark.parametrize("op", [["sum"], {"sum"}, None, 1])
def test_an_operation_that_is_no_name_is_refused(op):
    with pytest.raises(ValueError, match=r"Op must be one of .*, not "):
        Communicator(NETWORK).all_reduce(BUFFERS, op=op)
