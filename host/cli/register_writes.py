"""Register writes for a rank's table, as `multitree table --format` writes them."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from multitree.host.cli.output import check_writable
from multitree.host.design.names import DesignNames
from multitree.host.design.write_lists import FORMATS, WriteList
from multitree.host.engines import needs_of
from multitree.nic.driver.commands import COMMIT, RunSettings, run_writes
from multitree.nic.driver.config import Config
from multitree.nic.driver.table import Table, compile_table, table_writes
from multitree.sim.timing.inputs import check_store_and_forward
from multitree.sim.timing.limits import limits_of
from multitree.sim.timing.link_model import LinkModel, MemoryTiming
from multitree.sim.timing.sizing import beyond_interfaces, config_for
from multitree.topology.checks.verify import verify
from multitree.topology.errors import ScheduleError
from multitree.topology.file_io import write_file
from multitree.topology.lowering import as_sent, header_only_ops
from multitree.topology.schedules.schedule import Schedule

__all__ = ["WriteOptions", "write_list"]

_MAX_CYCLES = 2**32 - 1


@dataclass(frozen=True)
class WriteOptions:
    """What ``--format`` and its options ask for; None where nothing is.

    By default the type is float32, the op sum, the dependency chunk, the window's first flit 0, the
    watchdog a bound on the collective, and the first arrival may take 2^32 - 1 cycles.
    """

    format: Annotated[
        str | None,
        typer.Option(
            help="Register writes instead: words (address and value), readmemh (Verilog) or c.",
            metavar="NAME",
        ),
    ] = None
    out: Annotated[
        Path | None, typer.Option(help="With --format: file to write to.", metavar="FILE")
    ] = None
    dtype: Annotated[
        str | None, typer.Option(help="With --format: float32, int32 or bfloat16.", metavar="NAME")
    ] = None
    op: Annotated[str | None, typer.Option(help="With --format: sum or max.", metavar="NAME")] = (
        None
    )
    dependency: Annotated[
        str | None,
        typer.Option(help="With --format: chunk, or submessage for cut-through.", metavar="NAME"),
    ] = None
    window_base: Annotated[
        int | None, typer.Option(help="With --format: first flit of the buffer.", metavar="FLIT")
    ] = None
    watchdog_cycles: Annotated[
        int | None,
        typer.Option(help="With --format: longest time without progress, 0 for ever.", metavar="N"),
    ] = None
    first_arrival_cycles: Annotated[
        int | None,
        typer.Option(help="With --format: the same before the first message came in.", metavar="N"),
    ] = None
    name: Annotated[
        str | None,
        typer.Option(help="With --format c: what names in C begin with.", metavar="PREFIX"),
    ] = None

    def __post_init__(self) -> None:
        """Refuse what would be left out without a word."""
        if self.format is None:
            for field in fields(self):
                if getattr(self, field.name) is not None:
                    option = field.name.replace("_", "-")
                    raise ValueError(f"--{option} must come with --format")
        elif self.format not in FORMATS:
            raise ValueError(f"Format must be one of {', '.join(FORMATS)}, not {self.format!r}")
        elif self.name is not None and self.format != "c":
            raise ValueError(f"--name must come with --format c, not {self.format}")
        for name in ("window_base", "watchdog_cycles", "first_arrival_cycles"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= _MAX_CYCLES:
                option = name.replace("_", "-")
                raise ValueError(f"--{option} must be in 0..{_MAX_CYCLES}, not {value}")
        if self.name is not None:
            DesignNames(self.name)
        if self.out is not None:
            check_writable(self.out)

    def put(self, text: str) -> None:
        """Write a text to the file, or print it."""
        if self.out is None:
            typer.echo(text, nl=False)
        else:
            write_file(self.out, text)


def write_list(
    schedule: Schedule,
    rank: int,
    size_bytes: int,
    wanted: WriteOptions,
    link_model: LinkModel | None = None,
) -> WriteList:
    """All writes that load and commit one rank's table, of a schedule that is verified here."""
    verify(schedule)
    model = replace(link_model or LinkModel(), dependency=wanted.dependency or "chunk")
    base = wanted.window_base or 0
    needs = needs_of(schedule, model, size_bytes)
    needs["memory_flits"] += base
    sent, num_flits = as_sent(schedule), model.num_flits(size_bytes, 1)
    problem = beyond_interfaces(sent, needs)
    if problem is not None:
        raise ScheduleError(f"No interface holds it: {problem}")
    config = config_for(sent.topology, model, **needs)
    if config.shared:
        check_store_and_forward(schedule, model)
    table = compile_table(sent, rank, num_flits, config)
    settings = _settings(schedule, table, num_flits, config, model, wanted)
    return WriteList(
        name=wanted.name or DesignNames().prefix,
        rank=rank,
        about=_about(schedule, rank, size_bytes, config, settings),
        ports=sum(1 << port for port in table.ports_in_use()),
        writes=[*table_writes(table), *run_writes(settings), COMMIT],
    )


def _settings(
    schedule: Schedule,
    table: Table,
    num_flits: int,
    config: Config,
    model: LinkModel,
    wanted: WriteOptions,
) -> RunSettings:
    limits = limits_of(
        as_sent(schedule),
        num_flits,
        model,
        memory_timing=MemoryTiming(),
        queue_flits=config.memory_queue_flits,
        max_skew_cycles=0,
        lockstep=False,
    )
    watchdog, first = wanted.watchdog_cycles, wanted.first_arrival_cycles
    more: dict[str, Any] = {
        "window_base": wanted.window_base or 0,
        "watchdog_cycles": limits.watchdog_cycles if watchdog is None else watchdog,
        # Hosts of different cards start at any time.
        "first_arrival_cycles": _MAX_CYCLES if first is None else first,
        "header_only": header_only_ops(schedule.collective) if config.shared else (),
        "num_waves": schedule.num_waves,
    }
    settings = limits.settings(
        wanted.dtype or "float32", table.end_flits, model, wanted.op or "sum"
    )
    return replace(settings, **more)


def _about(
    schedule: Schedule, rank: int, size_bytes: int, config: Config, settings: RunSettings
) -> tuple[str, ...]:
    """Lines that say of what the writes are, and what interface they are for."""
    return (
        f"{schedule.collective} by {schedule.algorithm} on {schedule.topology.name}, rank {rank}: "
        f"{size_bytes} bytes of {settings.dtype} from flit {settings.window_base} on, "
        f"{settings.reduction}.",
        f"Schedule {schedule.hash}.",
        f"For flits of {config.flit_bytes} bytes, "
        f"{'shared' if config.shared else 'private'} links, addresses of at least "
        f"{(settings.window_base + settings.window_flits).bit_length()} bits.",
    )
