"""Networks in RTL whose results are held against `execute`, bit by bit."""

import numpy as np

from multitree import LinkModel, execute
from multitree.sim.emulator.library import network_library
from multitree.sim.rtl.session import RtlSession
from multitree.sim.timing.sizing import config_for, emulated_dtypes, least_sizes

SWITCHED = LinkModel(buffer_flits=64)
SWITCHED_SIZES = {"num_rows": 64, "num_flows": 16, "num_classes": 2, "max_children": 8}


def normals(schedule, num_elements, count=1, *, seed=0):
    """Buffers for some collectives, float32 of shape (count, ranks, elements)."""
    shape = count, schedule.topology.num_ranks, num_elements
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def same_bits(found, wanted):
    alike = found.dtype == wanted.dtype and found.shape == wanted.shape
    return alike and found.tobytes() == wanted.tobytes()


def checked(session, schedule, buffers, *, op="sum", **options):
    """Traces of a schedule's collectives, one behind the other, whose results are exact."""
    runs = session.run(schedule, list(buffers), op=op, **options)
    for buffer, (memory, _) in zip(buffers, runs, strict=True):
        assert same_bits(memory, execute(schedule, buffer, op))
    return [trace for _, trace in runs]


def checked_each(session, queue, buffers, **options):
    """Traces of collectives of any kind, one behind the other, whose results are exact."""
    runs = session.run_each(queue, buffers, **options)
    for each, buffer, (memory, trace) in zip(queue, buffers, runs, strict=True):
        assert same_bits(memory, execute(each.schedule, buffer, each.op))
        assert trace.schedule is each.schedule
    return [trace for _, trace in runs]


def emulate(schedule, buffers, *, model=None, made=None, **options):
    """The same on a network of its own, of the least sizes; `made` has more for the session."""
    model, dtype = model or LinkModel(), buffers[0].dtype
    sizes = least_sizes(schedule, model.num_flits(buffers[0].shape[1], dtype.itemsize))
    sizes |= {"dtypes": emulated_dtypes(dtype.name)} | (made or {})
    with RtlSession(schedule.topology, link_model=model, **sizes) as session:
        return checked(session, schedule, buffers, **options)


def sums(schedule, num_elements, *, num_collectives=1, seed=0, **options):
    """The same of normal numbers."""
    return emulate(schedule, normals(schedule, num_elements, num_collectives, seed=seed), **options)


def switched(topology):
    """What a session asks for interfaces and switches that most tests on shared links have."""
    types = emulated_dtypes("float32")
    config = config_for(topology, SWITCHED, **SWITCHED_SIZES, dtypes=types)
    library = network_library(config, num_switch_ports=4)
    return {"link_model": SWITCHED, "config": config, "library": library}


def switched_session(topology):
    return RtlSession(topology, **switched(topology))
