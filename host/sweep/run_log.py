"""The log of a sweep's runs: dates, hosts, times, and what was not foreseen."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

__all__ = ["RunLog"]


class RunLog:
    """A file with a JSON object per line, to which lines are only added.

    A last line that a killed process has left unfinished is ended.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        if path.exists() and path.stat().st_size and path.read_bytes()[-1:] != b"\n":
            self._append("\n")

    def add(self, event: str, **more: Any) -> None:
        """Add a line: what happens, when, and more about it."""
        line = {"event": event, "date": datetime.now(UTC).isoformat(), **more}
        self._append(json.dumps(line) + "\n")

    def _append(self, text: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(text)
