"""The command line: ``multitree``, its commands, and what all of them take."""

import functools
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from multitree.host.cli.process import Verbosity, command_name, run_command, set_verbosity
from multitree.topology.environment import check_variables

__all__ = ["COMMANDS", "app", "load_command", "main"]

COMMANDS = {
    "demo": ("verilog", "Run sixteen interfaces in RTL: three algorithms, side by side."),
    "topology": ("schedule", "Describe a topology, and what no schedule can beat on it."),
    "schedule": ("schedule", "Build a schedule, or read one: steps, transfers, link load, hash."),
    "verify": ("schedule", "Prove that a schedule is right, and say what was proved."),
    "table": (
        "table",
        "Print one rank's schedule table, in the paper's columns, or the writes that load it.",
    ),
    "verilog": (
        "verilog",
        "Write the Verilog of an interface and of the network's switches, and what goes with it.",
    ),
    "cocotb": (
        "cocotb_benches",
        "Run cocotb benches over the Verilog of a network, and of one interface in it.",
    ),
    "simulate": ("simulate", "Run a collective on an engine with a clock, for each size."),
    "compare": (
        "compare",
        "Run several algorithms' all-reduces side by side, for each size.",
    ),
    "sweep": (
        "sweep",
        "Run every combination of topologies, algorithms, sizes and parameters that a file names.",
    ),
    "figure": (
        "sweep",
        "Draw a figure of the evaluation, and write its values as CSV; without NAME, list them.",
    ),
    "explain": (
        "compare",
        "Say what `--algorithm auto` takes for each size, what the others would take, and why.",
    ),
    "job": (
        "job",
        "Time an iteration of training: compute, communication, and what of it is exposed.",
    ),
    "view": (
        "view",
        "Write a page that plays a schedule on its network: one HTML file, without a server.",
    ),
    "doctor": ("doctor", "Say what is installed, what can run here, what is cached."),
    "schema": ("doctor", "Print the JSON Schema of what commands print with --json."),
}
"""Module of each command, which has a function of the same name, and its line in the help."""

VerboseOption = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Say what is being done, also where it is no terminal."),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]


class LazyCommands(TyperGroup):
    """Commands whose modules are imported when they are called, not to list or complete them."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called, with its options, in the place of its line in the help."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and load_command(str(command.name)), rest


app = typer.Typer(
    name="multitree",
    help="All-reduce co-design: schedules, tables, Verilog, emulation and figures.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    cls=LazyCommands,
    invoke_without_command=True,
)
for _name, (_, _line) in COMMANDS.items():
    app.command(_name, help=_line)(lambda: None)


@functools.cache
def load_command(name: str) -> Any:
    """A command with its options, from its module."""
    module, _ = COMMANDS[name]
    function = pkgutil.resolve_name(f"multitree.host.cli.{module}:{name}")
    alone = typer.Typer(rich_markup_mode=None, add_completion=False)
    alone.command(name)(_with_verbosity(name, function))
    return typer.main.get_command(alone)


def _show_version(wanted: bool) -> None:
    if wanted:
        # Only this option needs the metadata of packages, whose import takes 50 ms.
        metadata = importlib.import_module("importlib.metadata")
        typer.echo(f"multitree {metadata.version('multitree')}")
        raise typer.Exit


def _choose_verbosity(verbose: bool, quiet: bool) -> None:
    """Obey the two options, before the command or behind it."""
    if verbose and quiet:
        raise ValueError("Options must be --verbose or --quiet, not both")
    if verbose or quiet:
        set_verbosity(Verbosity.VERBOSE if verbose else Verbosity.QUIET)


@app.callback()
def _common(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True),
    ] = False,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
) -> None:
    _choose_verbosity(verbose, quiet)
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


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


def main(arguments: list[str] | None = None) -> int:
    """Run one command of the process's arguments, or of others, and return the exit status.

    That is 1 also where a result is not exact, and else as of `run_command`.
    """
    set_verbosity(Verbosity.TERMINAL)
    given = sys.argv[1:] if arguments is None else arguments
    return run_command(lambda: _run(given))


def _run(arguments: list[str]) -> Any:
    check_variables()
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
