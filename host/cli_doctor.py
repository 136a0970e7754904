"""The command doctor: versions, engines and the cache of this machine."""

from typing import Annotated

import typer

from multitree.host.cli_common import JsonOption, print_json, print_pairs
from multitree.host.doctor import diagnose
from multitree.sim.cache import clear_cache

__all__ = ["add_commands"]


def add_commands(app: typer.Typer) -> None:
    """Add this module's command to the command line."""
    app.command("doctor")(doctor)


def doctor(
    clear: Annotated[bool, typer.Option("--clear-cache", help="Empty the cache.")] = False,
    json: JsonOption = False,
) -> None:
    """Say what is installed, what can run here, what is cached."""
    freed = clear_cache() if clear else None
    data = diagnose() | {"cleared_bytes": freed}
    if json:
        print_json(data)
        return
    versions = data["versions"].items()
    print_pairs("Versions", [(name, version or "not installed") for name, version in versions])
    engines = [(one["name"], one["reason"] or "can run") for one in data["engines"]]
    print_pairs("Engines", engines)
    cache = [("folder", data["cache"]["path"]), ("size", f"{data['cache']['size_bytes']} bytes")]
    print_pairs("Cache", cache if freed is None else [*cache, ("freed", f"{freed} bytes")])
