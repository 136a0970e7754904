"""The command line: ``multitree``, its commands and how errors are told."""

import os
import sys

import typer

from multitree.host import (
    cli_demo,
    cli_doctor,
    cli_explain,
    cli_schedule,
    cli_simulate,
    cli_tables,
    cli_verilog,
)
from multitree.host.engines import EngineError
from multitree.nic.faults import DeviceError

__all__ = ["app", "main"]

FAILED = 1
WRONG_INPUT = 2
INTERRUPTED = 130

# Typer shows the base of its usage errors only through this subclass.
_USAGE_ERROR: type[Exception] = typer.BadParameter.__bases__[0]

app = typer.Typer(
    name="multitree",
    help="All-reduce co-design: schedules, tables, Verilog, emulation and figures.",
    add_completion=False,
    rich_markup_mode=None,
)
for _commands in (
    cli_demo,
    cli_schedule,
    cli_tables,
    cli_verilog,
    cli_simulate,
    cli_explain,
    cli_doctor,
):
    _commands.add_commands(app)


def main(arguments: list[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    arguments : list of str, optional
        What follows the program's name; by default that of this process.

    Returns
    -------
    int
        Exit status: 0; 1 where a run failed or its result is not exact; 2 for wrong input, or an
        engine that cannot run here. Both are told in one sentence on stderr.
    """
    try:
        status = app(arguments, prog_name="multitree", standalone_mode=False)
    except _USAGE_ERROR as error:
        return _tell(error.format_message(), WRONG_INPUT)  # type: ignore[attr-defined]
    except (ValueError, EngineError) as error:
        return _tell(str(error), WRONG_INPUT)
    except BrokenPipeError:
        # Who read our output has seen enough; nothing must be flushed to it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return _tell(f"{place}{error.strerror or error}", WRONG_INPUT)
    except DeviceError as error:
        return _tell(str(error), FAILED)
    except (KeyboardInterrupt, typer.Abort):
        return _tell("interrupted", INTERRUPTED)
    return status if isinstance(status, int) else 0


def _tell(sentence: str, status: int) -> int:
    """Print one sentence on stderr and return the exit status."""
    print(f"multitree: {' '.join(sentence.split())}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
