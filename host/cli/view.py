"""The command view: a page that plays a schedule, or a run of it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from multitree.host.cli.options import (
    ClockOptions,
    NetworkOptions,
    ScheduleOptions,
    build_schedule,
    identity_of,
    report_limits,
    with_options,
)
from multitree.host.cli.output import Working, check_writable, print_json, print_pairs
from multitree.host.cli.simulate import built_for
from multitree.host.parameters import parameter
from multitree.host.runner import Runner
from multitree.host.sizes import format_size, parse_size
from multitree.host.view.player_page import Recording, check_playable, page_of
from multitree.sim.choice import AUTO
from multitree.sim.timing.sizing import link_limits
from multitree.topology.file_io import write_file

__all__ = ["view"]

SUFFIX = ".html"


@with_options
def view(
    *,
    spec: str,
    out: Annotated[Path, typer.Option(help="The page, .html.", metavar="FILE")],
    network: NetworkOptions,
    clock: ClockOptions,
    asked: ScheduleOptions,
    size: str | None,
    engine: str | None,
    dependency: str | None,
    memory_cycles: int | None,
    json: bool,
) -> None:
    """Write a page that plays a schedule on its network: one HTML file, without a server."""
    check_writable(out)
    if out.suffix != SUFFIX:
        raise ValueError(f"Page must end in {SUFFIX}, not {str(out)!r}")
    if size is None:
        _check_untimed(clock, engine=engine, dependency=dependency, memory_cycles=memory_cycles)
        if asked.algorithm == AUTO:
            raise ValueError(f"Algorithm {AUTO!r} must come with --size, not without")
        built, _ = build_schedule(spec, asked, network)
        recording = Recording(built)
    else:
        size_bytes = parse_size(size)
        model = clock.model(dependency=dependency or "chunk")
        model = model if memory_cycles is None else model.with_memory(memory_cycles)
        chosen, model, _ = built_for(spec, asked, dependency, network, model, size_bytes, False)
        built = chosen.schedule()
        check_playable(built)
        engine = engine or "analytic"
        with (
            Working(f"{built.algorithm} on {built.topology.name}, engine {engine}") as work,
            Runner.timed(
                built.topology,
                engine,
                link_model=model,
                progress=work.count_cycles,
                say=work.say,
            ) as runner,
        ):
            _, trace = runner.simulate(built, size_bytes)
        recording = Recording(built, trace, size_bytes, model)
    with Working(f"Drawing {built.topology.name}"):
        page = page_of(recording).encode()
        write_file(out, page)
    _show(recording, out, len(page), clock, network.warnings, json)


def _check_untimed(clock: ClockOptions, **given: Any) -> None:
    """Raise where an option is given that only matters to an engine, which has no size to run."""
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{parameter(name).option} {value} must come with --size, not without")
    if clock != ClockOptions():
        raise ValueError("Clock, flits and buffers must come with --size, not without")


def _show(
    recording: Recording,
    out: Path,
    page_bytes: int,
    clock: ClockOptions,
    warnings: list[str],
    json: bool,
) -> None:
    """Print what the page plays: as JSON, or for people."""
    built, trace = recording.schedule, recording.trace
    model = recording.link_model or clock.model()
    data: dict[str, Any] = identity_of(built) | {
        "num_steps": built.num_steps,
        "num_waves": built.num_waves,
        "num_messages": recording.num_messages,
        "engine": trace and trace.engine,
        "size_bytes": recording.size_bytes,
        "dependency": trace and model.dependency,
        "cycles": trace and trace.cycles,
        "page_bytes": page_bytes,
        "out": str(out),
    }
    if json:
        print_json(data | clock.figures(built.topology, model) | {"warnings": warnings})
        return
    plays = f"{built.num_steps} steps"
    if trace is not None and recording.size_bytes is not None:
        plays = f"{trace.cycles} cycles of {format_size(recording.size_bytes)}, {trace.engine}"
    print_pairs(
        f"{built.collective} by {built.algorithm} on {built.topology.name}",
        [
            ("plays", plays),
            ("messages", recording.num_messages),
            ("page", f"{page_bytes} bytes, which a browser opens without a network"),
            ("in", out),
        ],
    )
    if trace is not None:
        report_limits(link_limits(built.topology, model))
