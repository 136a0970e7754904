"""What a sweep keeps: results, a log, and tables of both."""

import contextlib
import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from multitree.host.evaluation.point import COLUMNS, Point, PointResult, SweepError
from multitree.host.evaluation.sources import Source
from multitree.host.parameters import SCALED
from multitree.host.report_keys import write_csv
from multitree.sim.native_build import content_key
from multitree.topology.file_io import TEMPORARY, write_file

__all__ = ["RunLog", "Store", "check_parquet", "csv_text", "parquet_bytes", "point_key"]

_FOLDER = "points"
_LOCK = ".lock"


def point_key(point: Point, source: Source, code: str) -> str:
    """Hash, of 32 hex digits, of a point, its topology's source and the code's version."""
    return content_key(_canonical(asdict(point)), source.digest or "", code)


class Store:
    """Results in a folder, which is made; it belongs to one process at a time.

    `num_damaged` counts files that `get` found and did not trust.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.num_damaged = 0

    @contextlib.contextmanager
    def opened(self) -> Iterator["Store"]:
        """Make the folder, lock it, remove unfinished files; SweepError if another has it open."""
        points = self._folder / _FOLDER
        points.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self._folder / _LOCK)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise SweepError(
                f"Folder {str(self._folder)!r} must be of one sweep at a time, but another one runs"
            ) from None
        try:
            # What a process that was killed has left, as none but this one may write here.
            for folder in (self._folder, points):
                for left in folder.glob(TEMPORARY.format("*")):
                    left.unlink(missing_ok=True)
            yield self
        finally:
            Path(lock.lock_file).unlink(missing_ok=True)
            lock.release()

    def get(self, key: str) -> PointResult | None:
        """The result of a key; None where there is none, or none that is whole."""
        try:
            text = self._path(key).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError):
            text = ""
        with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
            entry = json.loads(text)
            if entry["key"] == key and entry["sha256"] == _digest(entry["result"], key):
                return PointResult(**entry["result"])
        self.num_damaged += 1
        return None

    def put(self, key: str, point: Point, result: PointResult) -> None:
        """Store a result, as a whole or not at all."""
        found = asdict(result)
        entry = {"key": key, "point": asdict(point), "result": found, "sha256": _digest(found, key)}
        write_file(self._path(key), json.dumps(entry, allow_nan=False) + "\n")

    def _path(self, key: str) -> Path:
        return self._folder / _FOLDER / f"{key}.json"


def _digest(result: Any, key: str) -> str:
    return hashlib.sha256(f"{key} {_canonical(result)}".encode()).hexdigest()


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False)


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

    def last_ended(self) -> dict[str, Any]:
        """The start of the last sweep that came to its end, or nothing; damaged lines are none."""
        start, ended = dict[str, Any](), dict[str, Any]()
        for line in self._path.read_bytes().splitlines() if self._path.exists() else ():
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                if entry.get("event") == "start":
                    start = entry
                elif entry.get("event") == "end":
                    ended = start
        return ended

    def _append(self, text: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(text)


Rows = Sequence[Mapping[str, Any]]


def csv_text(rows: Rows) -> str:
    """Rows as CSV behind the names of `COLUMNS`; floats in the fewest digits, unknown is empty."""
    text = io.StringIO()
    write_csv(COLUMNS, rows, text)
    return text.getvalue()


def check_parquet() -> None:
    """Raise SweepError where PyArrow is missing."""
    if find_spec("pyarrow") is None:
        raise SweepError(
            "PyArrow must be installed for Parquet (pip install 'multitree[parquet]'); "
            "the CSV needs nothing"
        )


def parquet_bytes(rows: Rows) -> bytes:
    """Rows as Parquet, with the columns of the CSV in 64 bits; unknown is null."""
    import pyarrow
    from pyarrow import parquet

    kinds = {
        int: pyarrow.int64(),
        float: pyarrow.float64(),
        bool: pyarrow.bool_(),
        str: pyarrow.string(),
    }
    columns = {name: [row[name] for row in rows] for name in COLUMNS}
    types = dict(COLUMNS)
    for name in SCALED:
        # Factors are text, and a column has one type.
        if any(isinstance(value, str) for value in columns[name]):
            types[name] = str
            columns[name] = [value if value is None else str(value) for value in columns[name]]
    schema = pyarrow.schema([(name, kinds[kind]) for name, kind in types.items()])
    table = pyarrow.table(columns, schema=schema)
    sink = io.BytesIO()
    parquet.write_table(table, sink)
    return sink.getvalue()
