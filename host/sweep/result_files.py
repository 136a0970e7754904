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
    """Rows as CSV, with the names of `COLUMNS` in the first line.

    Parameters
    ----------
    rows : sequence of mappings
        With `COLUMNS` as keys.

    Returns
    -------
    str
        Floats in the fewest digits that give them back; unknown is empty; lines end with a line
        feed.
    """
    text = io.StringIO()
    write_csv(COLUMNS, rows, text)
    return text.getvalue()


def check_parquet() -> None:
    """Raise where no Parquet can be written.

    Raises
    ------
    SweepError
        If PyArrow is missing.
    """
    if find_spec("pyarrow") is None:
        raise SweepError(
            "PyArrow must be installed for Parquet (pip install 'multitree[parquet]'); "
            "the CSV needs nothing"
        )


def parquet_bytes(rows: Rows) -> bytes:
    """Rows as Parquet: columns as those of the CSV, of 64 bits, unknown is null.

    Parameters
    ----------
    rows : sequence of mappings
        With `COLUMNS` as keys.

    Returns
    -------
    bytes
        Of one version of PyArrow always the same.
    """
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
