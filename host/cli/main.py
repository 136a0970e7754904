"""The command line: ``multitree``, its commands, and what all of them take."""

import functools
import importlib.metadata
import inspect
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from multitree.host.cli import cocotb_benches as cli_cocotb
from multitree.host.cli import demo as cli_demo
from multitree.host.cli import doctor as cli_doctor
from multitree.host.cli import figure as cli_figure
from multitree.host.cli import schedule as cli_schedule
from multitree.host.cli import tables as cli_tables
from multitree.host.cli import verilog as cli_verilog
from multitree.host.cli import view as cli_view
from multitree.host.cli.job import command as cli_job
from multitree.host.cli.output import Verbosity, command_name, set_verbosity
from multitree.host.cli.process import run_command
from multitree.host.cli.timing import compare as cli_compare
from multitree.host.cli.timing import explain as cli_explain
from multitree.host.cli.timing import simulate as cli_simulate
from multitree.host.cli.timing import sweep as cli_sweep

__all__ = ["app", "main"]

app = typer.Typer(
    name="multitree",
    help="All-reduce co-design: schedules, tables, Verilog, emulation and figures.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)

VerboseOption = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Say what is being done, also where it is no terminal."),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"multitree {importlib.metadata.version('multitree')}")
        raise typer.Exit


def _choose_verbosity(verbose: bool, quiet: bool) -> None:
    """Obey the two options, before the command or behind it."""
    if verbose and quiet:
        raise ValueError("Options must be --verbose or --quiet, not both")
    if verbose or quiet:
        set_verbosity(Verbosity.VERBOSE if verbose else Verbosity.QUIET)


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True),
    ] = False,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
) -> None:
    _choose_verbosity(verbose, quiet)


def _with_verbosity(name: str, command: Callable[..., Any]) -> Callable[..., Any]:
    """A command of that name that takes the two options, too."""

    @functools.wraps(command)
    def wrapped(*, verbose: bool, quiet: bool, **arguments: Any) -> Any:
        _choose_verbosity(verbose, quiet)
        command_name.set(name)
        return command(**arguments)

    own = inspect.signature(command, eval_str=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter(option, kind, default=False, annotation=annotation)
        for option, annotation in (("verbose", VerboseOption), ("quiet", QuietOption))
    ]
    wrapped.__signature__ = own.replace(  # type: ignore[attr-defined]
        parameters=[*own.parameters.values(), *added]
    )
    return wrapped


_MAY_BE_EMPTY = {"--modes"}

for _commands in (
    cli_demo,
    cli_schedule,
    cli_tables,
    cli_verilog,
    cli_cocotb,
    cli_simulate,
    cli_compare,
    cli_sweep,
    cli_figure,
    cli_explain,
    cli_job,
    cli_view,
    cli_doctor,
):
    _commands.add_commands(app)
for _command in app.registered_commands:
    assert _command.name is not None and _command.callback is not None
    _command.callback = _with_verbosity(_command.name, _command.callback)


def main(arguments: list[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    arguments : list of str, optional
        What follows the program's name; by default that of this process.

    Returns
    -------
    int
        Exit status, as of `run_command`; 1 also where a result is not exact.
    """
    set_verbosity(Verbosity.TERMINAL)
    given = sys.argv[1:] if arguments is None else arguments
    return run_command(lambda: _run(given))


def _run(arguments: list[str]) -> Any:
    _check_values(arguments)
    return app(arguments, prog_name="multitree", standalone_mode=False)


def _check_values(arguments: list[str]) -> None:
    """Raise where a value is empty: it would count as not given, or name the current folder."""
    for before, argument in zip(["", *arguments], arguments, strict=False):
        option, equals, value = argument.partition("=")
        if not argument:
            named = before if before.startswith("-") else "Argument"
        elif option.startswith("--") and equals and not value:
            named = option
        else:
            continue
        if named not in _MAY_BE_EMPTY:
            raise ValueError(f"{named} must have a value, not ''")
