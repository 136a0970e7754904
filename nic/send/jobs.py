"""What a row and its flow's entry make a port do."""

from functools import reduce
from operator import or_

from amaranth import Const, Module, Mux, Signal, Value
from amaranth.lib import data

from multitree.nic.config import NO_PORT, OP_GATHER, SHARED_FLOW, Config, job_layout

__all__ = ["job_of", "last_child_of", "shared_job_of"]


def last_child_of(m: Module, entry: data.View) -> Signal:
    """The port of a flow's last child in the order of summation, or `NO_PORT`.

    Parameters
    ----------
    m : Module
    entry : data.View
        A `FLOW_ENTRY`.

    Returns
    -------
    Signal
        Combinational on the entry.
    """
    children = [entry.children[k] for k in range(8)]
    there = [child != NO_PORT for child in children]
    # The list has no gaps (`FlowCheck`): one child at most has none behind it.
    ends = [a & ~b for a, b in zip(there, [*there[1:], Const(0)], strict=True)]
    chosen = [Mux(end, child, 0) for end, child in zip(ends, children, strict=True)]
    last_child = Signal(4)
    m.d.comb += last_child.eq(reduce(or_, chosen, Mux(there[0], 0, NO_PORT)))
    return last_child


def job_of(m: Module, config: Config, *, index: Value, row, entry, wave: Value) -> data.View:
    """The job of a row on private links, with the dependency that its flow's entry implies.

    Parameters
    ----------
    m : Module
    config : Config
    index : Value
        The row's number.
    row : data.View
        A `ROW`.
    entry : data.View
        A `FLOW_ENTRY`.
    wave : Value
        The wave that it is done for.

    Returns
    -------
    data.View
        A `job_layout`; its chunk is that of the flow's first wave.
    """
    last_child = last_child_of(m, entry)
    from_parent = (row.op == OP_GATHER) & (entry.parent != NO_PORT)
    job = Signal(job_layout(config))
    m.d.comb += [
        job.row.eq(index),
        job.flow.eq(row.flow),
        job.op.eq(row.op),
        job.base.eq(entry.base),
        job.size.eq(entry.size),
        job.wave.eq(wave),
        job.needs.eq(from_parent | (last_child != NO_PORT)),
        job.need_port.eq(Mux(from_parent, entry.parent, last_child)),
        job.need_op.eq(from_parent),
    ]
    return data.View(job_layout(config), job.as_value())


def shared_job_of(
    m: Module, config: Config, *, index: Value, row, entry, header_only: Value
) -> data.View:
    """The same on shared links: a sum is whole, or a result in, wherever it came from.

    Parameters
    ----------
    m : Module
    config : Config
    index : Value
        The row's number.
    row : data.View
        A `SHARED_ROW`.
    entry : data.View
        To be read as `SHARED_FLOW`.
    header_only : Value
        By op: messages are heads without payload.

    Returns
    -------
    data.View
        A `job_layout`.
    """
    entry = data.View(SHARED_FLOW, entry.as_value())
    from_parent = (row.op == OP_GATHER) & entry.parent
    job = Signal(job_layout(config))
    m.d.comb += [
        job.row.eq(index),
        job.flow.eq(row.flow),
        job.op.eq(row.op),
        job.base.eq(entry.base),
        job.size.eq(Mux(header_only.bit_select(row.op[0], 1), 0, entry.size)),
        job.needs.eq(from_parent | (entry.num_children != 0)),
        # The tracker has one count per sum or result here, all at port 0.
        job.need_port.eq(0),
        job.need_op.eq(from_parent),
    ]
    m.d.comb += [job[name].eq(row[name]) for name in ("order", "vc_class", "step", "route")]
    return data.View(job_layout(config), job.as_value())
