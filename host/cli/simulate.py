"""The command simulate: when it happens, and whether the data come out right."""

import io
import json as json_module
import re
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from multitree.host.cli.compare import REPORT_COLUMNS, choose, report_cells
from multitree.host.cli.options import (
    ClockOptions,
    HostOptions,
    NetworkOptions,
    ScheduleOptions,
    build_compactly,
    identity_of,
    with_options,
)
from multitree.host.cli.output import (
    Working,
    check_format,
    check_writable,
    print_csv,
    print_sizes,
    print_table,
)
from multitree.host.cli.process import FAILED
from multitree.host.report import WorkReport
from multitree.host.report_keys import keys_of, record, write_csv
from multitree.host.runner import Runner, Seeded
from multitree.host.sizes import cost_model_for, format_size, parse_sizes
from multitree.host.view.trace_events import SUFFIXES, TraceEvents, write_trace_events
from multitree.nic.driver.commands import PortCounts
from multitree.sim.choice import AUTO, Choice
from multitree.sim.emulator.verilator import WAVEFORMS, Waveform
from multitree.sim.timing.link_model import LinkModel
from multitree.sim.timing.trace import Trace
from multitree.topology.checks.implicit import AnySchedule, written_out
from multitree.topology.file_io import write_file

__all__ = ["built_for", "simulate"]


@dataclass(frozen=True)
class TraceOptions:
    """A file for a run's messages or its waveform, and the cycles that it has."""

    trace: Annotated[
        Path | None,
        typer.Option(
            help="Write messages for Perfetto, .json.gz or .json, or (rtl) a waveform, .vcd or "
            ".fst.",
            metavar="FILE",
        ),
    ] = None
    window: Annotated[
        str | None, typer.Option(help="Cycles A up to B of --trace only.", metavar="A:B")
    ] = None
    ports_only: Annotated[
        bool, typer.Option("--ports-only", help="No signals inside of interfaces in a waveform.")
    ] = False


LINK_FILES = (".csv", ".json")
LinksOption = Annotated[
    Path | None,
    typer.Option(help="Write what each link carried, .csv or .json.", metavar="FILE"),
]


class _LinkFile:
    """What each link carried in all runs, for the file of `--links`, if there is one."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._rows = path, list[dict[str, Any]]()
        if path is not None:
            if path.suffix not in LINK_FILES:
                raise ValueError(f"Links must end in {' or '.join(LINK_FILES)}, not {str(path)!r}")
            check_writable(path)

    @property
    def name(self) -> str | None:
        """The file's path in reports."""
        return None if self._path is None else str(self._path)

    def add(self, trace: Trace, report: WorkReport, model: LinkModel) -> None:
        """Note a run's links, with the names of their ends."""
        topology, cycles = trace.schedule.topology, max(trace.cycles, 1)
        names = topology.names or [*map(str, range(topology.num_nodes))]
        intervals = model.cycles_per_flit(topology).tolist()
        of_run = {name: getattr(report, name) for name in ("size_bytes", "algorithm", "engine")}
        for link, (src, dst) in enumerate(topology.links.tolist() if self._path else ()):
            flits = int(trace.link_flits[link])
            ends = {"link": link, "src": src, "src_name": names[src], "dst": dst}
            about = {
                "dst_name": names[dst],
                "bandwidth_gbytes_per_s": float(topology.bandwidth_gbytes_per_s[link]),
                "latency_ns": float(topology.latency_ns[link]),
                "payload_flits": flits,
                "utilization": flits / cycles,
                "busy": flits * intervals[link] / cycles,
            }
            self._rows.append(record("simulate.links", of_run | ends | about))

    def write(self) -> None:
        """Write all rows as the file's ending says."""
        if self._path is None:
            return
        text = io.StringIO()
        if self._path.suffix == ".json":
            json_module.dump({"links": self._rows}, text, indent=2, allow_nan=False)
            text.write("\n")
        else:
            write_csv(keys_of("simulate.links"), self._rows, text)
        write_file(self._path, text.getvalue())


@with_options
def simulate(
    *,
    spec: str,
    network: NetworkOptions,
    clock: ClockOptions,
    host: HostOptions,
    asked: ScheduleOptions,
    size: str,
    engine: str,
    dependency: str | None,
    flow_control: str,
    lockstep: bool,
    dtype: str,
    op: str,
    seed: int,
    memory_cycles: int,
    tracing: TraceOptions,
    links: LinksOption = None,
    backdoor: Annotated[
        bool, typer.Option("--backdoor", help="Tables are loaded without the bus (rtl).")
    ] = False,
    csv: bool,
    json: bool,
) -> int:
    """Run a collective on an engine with a clock, for each size.

    The engine rtl carries data: every rank's memory is compared with the definition, bit for bit.
    """
    check_format(json, csv)
    data, used = Seeded(dtype, op, seed), _LinkFile(links)
    sizes, recorder = parse_sizes(size, dtype), _Recorder.of(tracing, size)
    modes = {"dependency": dependency or "chunk", "flow_control": flow_control}
    model = clock.model(**modes).with_memory(memory_cycles)
    given: dict[str, Any] = {"flow_control": flow_control, "lockstep": lockstep, **vars(data)}
    given |= vars(host) | {"memory_cycles": memory_cycles}
    given |= {"trace": recorder.file, "links": used.name}

    def run(size_bytes: int) -> _Run:
        wanted = (spec, asked, dependency, network, model, size_bytes, lockstep)
        built, chosen, choice = built_for(*wanted)
        with (
            Working(f"{built.algorithm} on {built.topology.name}, engine {engine}") as work,
            Runner.timed(
                built.topology,
                engine,
                link_model=chosen,
                lockstep=lockstep,
                waveform=recorder.waveform,
                backdoor=backdoor,
                host=host.host(),
                **{"progress": work.count_cycles, "say": work.say},
            ) as runner,
        ):
            report, recorded = runner.simulate(built, size_bytes, data)
            recorder.write(recorded, chosen)
            used.add(recorded, report, chosen)
        network.warn_of_slots(built.topology, [built.algorithm], lockstep)
        given["reason"], given["warnings"] = choice and choice.reason, network.warnings
        entry = identity_of(built) | _figures(report) | clock.figures(built.topology, chosen)
        return _Run(report, choice, entry | given)

    runs = [run(size_bytes) for size_bytes in sizes]
    used.write()
    if json or csv:
        (print_csv if csv else print_sizes)([each.entry for each in runs])
    else:
        _show(runs, recorder)
    return FAILED if any(each.report.exact is False for each in runs) else 0


@dataclass(frozen=True)
class _Recorder:
    """What `--trace` and `--window` ask for: a waveform, which the run writes, or its messages."""

    path: Path | None = None
    first_cycle: int = 0
    last_cycle: int | None = None
    waveform: Waveform | None = None

    @classmethod
    def of(cls, options: TraceOptions, size: str) -> "_Recorder":
        """Check that the options fit each other, and that the file can be written."""
        path, window, ports_only = options.trace, options.window, options.ports_only
        if path is None:
            if window is not None:
                raise ValueError("Window must come with --trace, which names the file")
            if ports_only:
                raise ValueError("--ports-only must come with --trace, which names the file")
            return cls()
        if "," in size:
            raise ValueError(f"Size must be one with --trace, not a list, {size!r}")
        first, last = 0, None
        if window is not None:
            match = re.fullmatch(r"(\d{0,18}):(\d{0,18})", window, flags=re.ASCII)
            if match is None:
                raise ValueError(f"Window must be cycles A:B, not {window!r}")
            first, last = int(match[1] or 0), int(match[2]) if match[2] else None
        is_waveform = path.suffix[1:] in WAVEFORMS
        if not is_waveform and not path.name.endswith(SUFFIXES):
            endings = ", ".join([*SUFFIXES, *(f".{kind}" for kind in WAVEFORMS)])
            raise ValueError(f"Trace must end in one of {endings}, not {str(path)!r}")
        if last is not None and last <= first:
            raise ValueError(f"Window must be A:B with A < B, not {first}:{last}")
        if ports_only and not is_waveform:
            raise ValueError(f"--ports-only must come with a waveform, not {str(path)!r}")
        check_writable(path)
        waveform = Waveform(path, first, last, ports_only) if is_waveform else None
        return cls(path, first, last, waveform)

    @property
    def file(self) -> str | None:
        """The file's path in reports."""
        return None if self.path is None else str(self.path)

    def write(self, trace: Trace, model: LinkModel) -> None:
        """Write the messages of a run, unless it was a waveform or nothing that was asked for."""
        if self.first_cycle >= trace.cycles:
            raise ValueError(
                f"Window must begin before the run ends, which takes {trace.cycles} cycles, not in "
                f"cycle {self.first_cycle}"
            )
        if self.path is not None and self.waveform is None:
            events = TraceEvents(trace, self.first_cycle, self.last_cycle)
            write_trace_events(self.path, events, model.clock_ghz)


@dataclass(frozen=True)
class _Run:
    """One size's run: its report, why its algorithm was chosen, and both for programs."""

    report: WorkReport
    choice: Choice | None
    entry: dict[str, Any]


def _show(runs: list[_Run], recorder: _Recorder) -> None:
    """Print one run for people, or several in a table."""
    if len(runs) == 1:
        typer.echo(str(runs[0].report))
        if runs[0].choice is not None:
            typer.echo(f"  chosen: {runs[0].choice.reason}")
        if recorder.path is not None:
            what = "waveform" if recorder.waveform else "messages, for ui.perfetto.dev,"
            typer.echo(f"  {what} in {recorder.path}")
        return
    first = runs[0].report
    title = f"{first.collective} on {runs[0].entry['topology']}, engine {first.engine}"
    rows = [report_cells(each.report) for each in runs]
    print_table(title, REPORT_COLUMNS, rows)
    for limit in dict.fromkeys(limit for each in runs for limit in each.report.limits):
        typer.echo(f"Limited: {limit}")
    for each in runs:
        if each.choice is not None:
            typer.echo(f"{format_size(each.report.size_bytes)}: {each.choice.reason}")


def built_for(
    spec: str,
    asked: ScheduleOptions,
    dependency: str | None,
    network: NetworkOptions,
    model: LinkModel,
    size_bytes: int,
    lockstep: bool,
) -> tuple[AnySchedule, LinkModel, Choice | None]:
    """The schedule for a size, its link model, and with `AUTO` the choice of the fastest one.

    The model has the dependency that was chosen. A ValueError refuses `AUTO` in lockstep, since
    algorithms are timed without it.
    """
    if asked.algorithm != AUTO:
        built, _ = build_compactly(spec, asked, network, cost_model_for(model, size_bytes))
        return written_out(built), model, None
    if lockstep:
        raise ValueError(f"Algorithm must be named in lockstep, not {AUTO!r}")
    on = network.network(spec)
    choice = next(choose(on, model, [size_bytes], asked.collective, asked.root, dependency))
    best = choice.best
    return best.schedule, replace(model, dependency=best.dependency), choice


def _figures(report: WorkReport) -> dict[str, Any]:
    """A report for programs, with the counters of all ports together; unknown is None."""
    named = asdict(report)
    del named["ports"], named["limits"], named["stages"]
    totals = {} if report.totals is None else asdict(report.totals)
    return named | {field.name: totals.get(field.name) for field in fields(PortCounts)}
