"""Schedules of every kind, and the results that both modes must have."""

import itertools
from dataclasses import replace

import networkx as nx
import numpy as np

from multitree import Schedule, Topology, build, execute, mesh, ring, torus
from multitree.host.buffers import to_array, to_tensor
from multitree.host.work import average_of
from multitree.topology.collectives import DTYPES
from tests.host.values import bits, odd_buffers

__all__ = ["COLLECTIVES", "OTHERS", "check_memory", "expected", "naive", "name_of", "networks"]
__all__ += ["schedules", "without_a_row"]

RANDOM_GRAPH_SEED = 11
# Operators that `execute` does not have, by the types they are defined on.
OTHERS = {
    "int32": ("product", "min", "bitwise_and", "bitwise_or", "bitwise_xor"),
    "float32": ("product", "min"),
    "bfloat16": ("product", "min"),
}
COLLECTIVES = [(name, None) for name in ("all_reduce", "reduce_scatter", "all_gather")]
COLLECTIVES += [("broadcast", 1), ("reduce", 1)]


def by_hand(num_ranks, flow_offsets, rows, algorithm="by hand"):
    kind = {"algorithm": algorithm, "collective": "all_reduce", "flow_offsets": flow_offsets}
    return Schedule.from_rows(mesh(num_ranks), **kind, rows=rows)


def lopsided_schedule():
    """Two trees on three ranks, one of which carries nine tenths of the buffer."""
    rows = [(0, 0, f, 2, 1) for f in (0, 1)] + [(1, 0, f, 1, 0) for f in (0, 1)]
    rows += [(2, 1, f, 0, 1) for f in (0, 1)] + [(3, 1, f, 1, 2) for f in (0, 1)]
    return by_hand(3, [0, 9, 10], rows)


def partial_schedule():
    """Two ranks of three get the result, and one of them of one flow only."""
    rows = [(0, 0, 0, 2, 1), (1, 1, 0, 1, 0), (2, 1, 1, 0, 1)]
    return by_hand(3, [0, 1, 2], rows, "partial")


def shared_partial_schedule():
    """A chain to rank 0, and a partial sum that is sent on and then copied, too."""
    rows = [(0, 0, 0, 3, 2), (1, 0, 0, 2, 1), (2, 0, 0, 1, 0), (3, 1, 0, 0, 1), (3, 1, 0, 2, 3)]
    return by_hand(4, [0, 1], rows, "shared")


def networks():
    graph = nx.connected_watts_strogatz_graph(11, 4, 0.5, seed=RANDOM_GRAPH_SEED)
    return [torus(4, 4), mesh(5, 3), ring(2), Topology.from_networkx(graph, name="random")]


def schedules():
    """All collectives of MultiTree on four networks, other algorithms, waves, and odd ones."""
    found = [
        build(network, "multitree", collective, root=root)
        for network, (collective, root) in itertools.product(networks(), COLLECTIVES)
    ]
    found += [build(torus(4, 4), name) for name in ("ring", "bidirectional_ring", "forest")]
    found += [replace(build(torus(2, 2), "multitree"), num_waves=4, period=2)]
    return [*found, lopsided_schedule(), partial_schedule(), shared_partial_schedule()]


def without_a_row(right, row):
    """A schedule that is wrong."""
    columns = (right.step, right.op, right.flow, right.src, right.dst)
    kind = {"algorithm": "wrong", "collective": "all_reduce", "flow_offsets": right.flow_offsets}
    rows = np.delete(np.stack(columns, axis=1), row, axis=0)
    return Schedule.from_rows(right.topology, **kind, rows=rows)


def name_of(schedule):
    return f"{schedule.topology.name}-{schedule.algorithm}-{schedule.collective}"


def expected(schedule, values, op, **options):
    """What `execute` gives, divided for an average."""
    if op == "average":
        return average_of(execute(schedule, values, **options), len(values))
    return execute(schedule, values, op, **options)


def check_memory(run, schedule, lengths, device="cpu"):
    """Raise unless memory has the bits of `execute` after a run, and the buffers their own."""
    for n, dtype in itertools.product(lengths, DTYPES):
        values = odd_buffers(n, schedule.topology.num_ranks, n, dtype)
        for op in ("sum", "max") if dtype == "int32" else ("sum", "max", "average"):
            tensor = to_tensor(values.copy()).to(device)
            image = run(schedule, tensor, op)
            assert (image.device, image.dtype) == (tensor.device, tensor.dtype)
            right = bits(expected(schedule, values, op))
            assert (bits(to_array(image)) == right).all(), (n, dtype, op)
            assert (bits(to_array(tensor)) == bits(values)).all()


def naive(schedule, memory, op):
    """Every row by `combine`, as `execute` does them, for operators that it does not have."""
    from multitree.host.tensors.operators import combine, make_canonical

    memory = memory.clone()
    elements = 16 // memory.element_size()
    bounds = schedule.chunks(-(-memory.shape[1] // elements)) * elements
    for row in np.lexsort((schedule.src, schedule.order, schedule.step)):
        chunk = slice(*bounds[schedule.flow[row] :][:2].tolist())
        to, source = memory[schedule.dst[row], chunk], memory[schedule.src[row], chunk]
        if schedule.op[row] == 0:
            combine(to, source, op, out=to)
            make_canonical(to)
        else:
            to.copy_(source)
    return memory
