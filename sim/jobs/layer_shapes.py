"""Shapes of a network's layers, in the format of SCALE-Sim's topology files."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from multitree.topology.errors import ContentError, label, shown, written_integer

__all__ = ["HEADER", "LayerShape", "is_layer_table", "read_layers"]

HEADER = "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter"
"""How such a file begins; the last column is the stride."""
MOST = 2**31 - 1
MOST_CHARACTERS = 200


@dataclass(frozen=True)
class LayerShape:
    """Convolution without padding; a fully connected layer has a single pixel."""

    name: str
    input_height: int
    input_width: int
    filter_height: int
    filter_width: int
    channels: int
    filters: int
    stride: int

    @property
    def input_pixels(self) -> int:
        """Pixels of one channel."""
        return self.input_height * self.input_width

    @property
    def output_pixels(self) -> int:
        """Pixels of one filter."""
        rows = (self.input_height - self.filter_height) // self.stride + 1
        return rows * ((self.input_width - self.filter_width) // self.stride + 1)

    @property
    def window(self) -> int:
        """Weights of one filter and channel."""
        return self.filter_height * self.filter_width

    @property
    def weights_per_filter(self) -> int:
        """Weights of one filter over all channels."""
        return self.window * self.channels

    @property
    def num_parameters(self) -> int:
        """Weights, without biases."""
        return self.weights_per_filter * self.filters


_COLUMNS = tuple(field.name for field in fields(LayerShape))


def is_layer_table(text: str) -> bool:
    return text.lstrip().lower().startswith("layer name")


def read_layers(text: str) -> tuple[LayerShape, ...]:
    """Layers of a table with headings and eight columns; errors name line, rule and value.

    A comma may follow the last column. Empty lines, and lines with a title in their first column
    alone, are skipped.
    """
    if not is_layer_table(text):
        first = text.split("\n", 1)[0]
        raise ContentError(f"line 1: headings must begin with 'Layer name', not {shown(first)}")
    layers = []
    headings = True
    for number, line in enumerate(text.splitlines(), start=1):
        cells = [cell.strip() for cell in line.split(",")]
        # A line may only be the title of the layers below it.
        if not any(cells) or (len(cells) > 1 and not any(cells[1:])):
            continue
        if headings:
            headings = False
            continue
        layers.append(_layer(f"line {number}", cells))
    if not layers:
        raise ContentError("layers must be at least one, not none")
    return tuple(layers)


def _layer(place: str, cells: Sequence[str]) -> LayerShape:
    # SCALE-Sim's own files end each line with a comma.
    if len(cells) == len(_COLUMNS) + 1 and not cells[-1]:
        cells = cells[:-1]
    if len(cells) != len(_COLUMNS):
        raise ContentError(f"{place}: columns must be {len(_COLUMNS)}, not {len(cells)}")
    name = label(f"{place}: name", cells[0], MOST_CHARACTERS)
    sizes = [
        written_integer(f"{place}: {what}", cell, 1, MOST)
        for what, cell in zip(_COLUMNS[1:], cells[1:], strict=True)
    ]
    shape = LayerShape(name, *sizes)
    for side in ("height", "width"):
        most, size = getattr(shape, f"input_{side}"), getattr(shape, f"filter_{side}")
        if size > most:
            raise ContentError(
                f"{place}: filter_{side} must be at most input_{side}, {most}, not {size}"
            )
    return shape
