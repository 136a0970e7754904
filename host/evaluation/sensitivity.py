"""How time depends on memory, buffers, links, clock, host and starts."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from multitree.host.engines import check_runs_here
from multitree.host.evaluation.figure import Axis, Figure, Request, RunPoints, Value
from multitree.host.evaluation.point import Point
from multitree.host.evaluation.schemes import (
    BIDIRECTIONAL_RING_2D,
    MULTITREE,
    RING,
    RING_2D,
    Timed,
    Wanted,
    point_of,
    schedule_of,
    timed,
    value_of,
)
from multitree.host.runner import Seeded
from multitree.host.sizes import format_size
from multitree.sim.exact.engine import exact
from multitree.sim.timing.link_model import LinkModel
from multitree.sim.timing.offload import WRITE_CYCLES, Host
from multitree.sim.timing.sizing import wire_bits_per_flit
from multitree.topology.errors import report

__all__ = ["SENSITIVITY"]

SCHEMES = tuple(
    replace(scheme, flow_control="message")
    for scheme in (RING, RING_2D, BIDIRECTIONAL_RING_2D, MULTITREE)
)
USUAL_LINK_GBYTES_PER_S = 16.0
FIELDS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "memory, cycles": ("memory_cycles", (12, 50, 100, 200, 500)),
    "link buffer, flits": ("buffer_flits", (128, 256, 318, 512, 1024)),
    "link latency, ns": ("latency_ns", (20.0, 50.0, 150.0, 500.0, 1000.0)),
    "clock, GHz": ("clock_ghz", (0.25, 0.5, 1.0, 1.5)),
}
"""Parameters: the field of a point, and its values. Links keep their 16 GB/s at any clock."""
WIRES, STARTS = "link speed of all wires", "starts apart, cycles"
LOADING, CALLS = "loading, cycles per write", "host, µs"
PARAMETERS = (*FIELDS, WIRES, LOADING, CALLS, STARTS)
SKEWS = (0, 100, 500, 2000)
WRITES = (0, WRITE_CYCLES, 50, 200)
CALLS_US = (0.0, 1.0, 2.0, 5.0, 10.0)
NOTES = (
    "Loading with 0 cycles per write: tables are in the interfaces already",
    "Memory without a fixed latency is a matter of emulation: in Python `MemoryTiming`",
    "Starts apart are timed by the engine exact, whatever engine is asked for",
)


def _sensitivity(request: Request, run: RunPoints) -> list[Value]:
    """Time over that of MultiTree with everything as usual, by parameter."""
    wanted = [
        Wanted(_panel(parameter, spec, size), scheme.algorithm, x, point)
        for spec in request.networks
        for size in request.sizes
        for scheme in SCHEMES
        for parameter, x, point in _varied(point_of(request, scheme, spec, size))
    ]
    # Equal parameters of different sizes stand next to each other.
    wanted.sort(key=lambda each: PARAMETERS.index(each.panel.rsplit(": ", 1)[1]))
    usual = [
        Wanted("", "", 0, point_of(request, MULTITREE, spec, size))
        for spec in request.networks
        for size in request.sizes
    ]
    found = timed(request, run, wanted + usual)
    base = {_network_and_size(each.wanted.point): each.time_us for each in found[len(wanted) :]}

    def over_usual(each: Timed) -> float | None:
        usual_us = base[_network_and_size(each.wanted.point)]
        return each.time_us / usual_us if usual_us and each.time_us else None

    values = [value_of(each, over_usual) for each in found[: len(wanted)]]
    return [*values, *_offloaded(request, run, base), *_starts_apart(request, base)]


def _panel(parameter: str, spec: str, size_bytes: int) -> str:
    return f"{spec}, {format_size(size_bytes)}: {parameter}"


def _network_and_size(point: Point) -> tuple[str, int]:
    return point.topology, point.size_bytes


def _varied(point: Point) -> Iterator[tuple[str, str, Point]]:
    """A point with one parameter after the other as something else: parameter, x, point."""
    for parameter, (field, values) in FIELDS.items():
        for value in values:
            yield parameter, f"{value:g}", replace(point, **{field: value})
    schedule = schedule_of(point.topology, point.algorithm)
    if schedule is not None:
        bits = 8 * point.flit_bytes, wire_bits_per_flit(schedule, LinkModel())
        for label, share in (("payload", 1.0), ("payload and control", bits[0] / bits[1])):
            speed = USUAL_LINK_GBYTES_PER_S * share
            yield WIRES, label, replace(point, link_gbytes_per_s=speed)


def _offloaded(
    request: Request, run: RunPoints, base: dict[tuple[str, int], float | None]
) -> Iterator[Value]:
    """Time with what comes before and after a collective: tables are loaded, or a host calls."""
    for parameter, values in ((LOADING, WRITES), (CALLS, CALLS_US)):
        wanted = [
            Wanted(_panel(parameter, spec, size), scheme.algorithm, f"{value:g}", point)
            for spec in request.networks
            for size in request.sizes
            for scheme in SCHEMES
            for value in values
            for point in [point_of(request, scheme, spec, size)]
        ]

        def over_usual(each: Timed, parameter: str = parameter) -> float | None:
            usual_us, value = base[_network_and_size(each.wanted.point)], float(each.wanted.x)
            if not usual_us or each.time_us is None:
                return None
            more_us = value if parameter == CALLS else _loading_us(each.wanted.point, int(value))
            return None if more_us is None else (each.time_us + more_us) / usual_us

        # The collective may have been run in RTL, but not with this host.
        for each in timed(request, run, wanted):
            yield replace(value_of(each, over_usual), rtl_cycles=None)


def _loading_us(point: Point, write_cycles: int) -> float | None:
    """Microseconds to load all tables; without cycles of a write they are there already."""
    if not write_cycles:
        return 0.0
    schedule, model = schedule_of(point.topology, point.algorithm), point.link_model()
    assert schedule is not None, "what ran has a schedule"
    num_flits = model.num_flits(point.size_bytes, 1)
    cycles = Host(write_cycles).loading_cycles(schedule, num_flits, model)
    return None if cycles is None else model.microseconds(cycles)


def _starts_apart(request: Request, base: dict[tuple[str, int], float | None]) -> Iterator[Value]:
    """Ranks that start at random up to so many cycles after the first one."""
    check_runs_here("exact", next_down="analytic")
    for spec in request.networks:
        for size in request.sizes:
            for scheme in SCHEMES:
                report(f"{scheme.algorithm} on {spec} with starts apart")
                panel, series = _panel(STARTS, spec, size), scheme.algorithm
                model, schedule = LinkModel(), schedule_of(spec, scheme.algorithm)
                if schedule is None:
                    yield Value(panel, series, "0", None, problem=f"{spec}: no {scheme.algorithm}")
                    continue
                for skew in SKEWS:
                    rng = np.random.default_rng(Seeded.seed)
                    start = rng.integers(0, skew + 1, schedule.topology.num_ranks)
                    start -= start.min()
                    trace = exact(schedule, model.num_flits(size, 1), start=start.tolist())
                    usual_us = base[spec, size]
                    y = model.microseconds(trace.cycles) / usual_us if usual_us else None
                    yield Value(
                        panel,
                        series,
                        str(skew),
                        y,
                        topology=spec,
                        algorithm=scheme.algorithm,
                        dependency=scheme.dependency,
                        flow_control=scheme.flow_control,
                        lockstep=False,
                        size_bytes=size,
                        engine="exact",
                        cycles=trace.cycles,
                    )


SENSITIVITY = Figure(
    "sensitivity",
    "Time over MultiTree's as usual, one parameter at a time",
    "Memory, buffers, links, clock, wires, loading, host, starts, one at a time.",
    Axis("", "names"),
    Axis("time over MultiTree's as usual"),
    _sensitivity,
    ("torus:8x8",),
    (32 << 10, 1 << 20),
    subjects=("multitree",),
    own_schemes=True,
    engines=("analytic", "exact"),
    no_published_rule="it is over our cycles as usual",
    notes=NOTES,
)
