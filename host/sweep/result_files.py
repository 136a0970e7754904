"""Results of a sweep as CSV and Parquet: the same bytes for the same results."""

import io
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from multitree.host.csv_rows import write_csv
from multitree.host.sweep.errors import SweepError
from multitree.host.sweep.point import COLUMNS

__all__ = ["check_parquet", "csv_text", "parquet_bytes"]

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
    schema = pyarrow.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])
    table = pyarrow.table({name: [row[name] for row in rows] for name in COLUMNS}, schema=schema)
    sink = io.BytesIO()
    parquet.write_table(table, sink)
    return sink.getvalue()
