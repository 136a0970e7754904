"""Tables of figures, for people."""

from typing import Any

from rich.console import Console
from rich.table import Table

from multitree.host.sizes import format_size

LEFT = ("topology", "engine")


def show(title: str, columns: dict[str, str], rows: list[dict[str, Any]], width: int) -> None:
    """Print rows that name a topology, a size and an engine; what is unknown stays empty."""
    table = Table(title=title)
    for key, heading in columns.items():
        table.add_column(heading, justify="left" if key in LEFT else "right")
    for row in rows:
        cells = row | {"size_bytes": format_size(row["size_bytes"])}
        table.add_row(*("" if cells[key] is None else str(cells[key]) for key in columns))
    Console(width=width).print(table)
