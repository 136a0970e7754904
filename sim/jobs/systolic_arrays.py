"""Compute times of layers on output-stationary systolic arrays, in closed form."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from multitree.sim.timing.link_model import CLOCK_GHZ
from multitree.topology.errors import ContentError, label, shown, written_integer

__all__ = ["FOLDS", "HEADER", "LayerShape", "SystolicArrays", "is_layer_table", "read_layers"]

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


FOLDS = ("separate", "overlapped")


@dataclass(frozen=True)
class SystolicArrays:
    """Arrays of one rank, which compute the same number of samples at the same time.

    A matrix product of (M, K) by (K, N) is cut into ceil(M / rows) x ceil(N / columns) folds. A
    fold takes K cycles, and rows + columns - 2 more until its last element has met its last.

    Parameters
    ----------
    rows, columns : int
        Of one array.
    count : int
        Arrays of a rank.
    samples : int
        Of one array, one after the other: the mini-batch is count x samples x ranks.
    folds : str
        "separate": each fold fills and drains the array, as in SCALE-Sim 2 and 3. "overlapped":
        a fold's operands follow those of the fold before it, and its results leave meanwhile, one
        row per cycle, as in SCALE-Sim 1, which MultiTree's authors used and extended.
    clock_ghz : float

    Raises
    ------
    ValueError
        If a number is out of range, or there are no such folds.

    Notes
    -----
    No memory traffic is counted: operands are in the arrays' buffers, as in SCALE-Sim's compute
    cycles. The gradients with respect to the input and to the weights are products of their own,
    as in the authors' extension:

    ================ ============================ ====================== ======================
    product          M                            N                      K
    ================ ============================ ====================== ======================
    forward          output pixels                filters                window x channels
    input gradient   input pixels                 channels               window x filters
    weight gradient  window x channels            filters                output pixels
    ================ ============================ ====================== ======================

    References
    ----------
    A. Samajdar et al., "A Systematic Methodology for Characterizing Scalability of DNN
    Accelerators using SCALE-Sim", ISPASS 2020.

    Examples
    --------
    >>> SystolicArrays().product_cycles(289, 256, 2304)
    189279
    """

    rows: int = 32
    columns: int = 32
    count: int = 16
    samples: int = 1
    folds: str = "separate"
    clock_ghz: float = 1.0

    def __post_init__(self) -> None:
        for name in ("rows", "columns", "count", "samples"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 2**20:
                raise ValueError(f"Arrays' {name} must be within 1..{2**20}, not {value!r}")
        if self.folds not in FOLDS:
            raise ValueError(f"Folds must be {' or '.join(FOLDS)}, not {self.folds!r}")
        least, most = CLOCK_GHZ
        if not least <= self.clock_ghz <= most:
            raise ValueError(
                f"Arrays' clock must be within {least}..{most} GHz, not {self.clock_ghz!r}"
            )

    def product_cycles(self, m: int, n: int, k: int) -> int:
        """Cycles of a matrix product of (m, k) by (k, n) on one array."""
        folds = -(-m // self.rows) * -(-n // self.columns)
        if self.folds == "separate":
            return folds * (k + self.rows + self.columns - 2) - 1
        # Only the first fold fills the array, and only the last one drains it.
        used_rows, used_columns = min(m, self.rows), min(n, self.columns)
        return folds * max(k, used_rows) + used_rows + used_columns - 2

    def forward_cycles(self, shape: LayerShape) -> int:
        """Cycles of a layer's forward pass, of all samples."""
        product = shape.output_pixels, shape.filters, shape.weights_per_filter
        return self.samples * self.product_cycles(*product)

    def input_gradient_cycles(self, shape: LayerShape) -> int:
        """Cycles of the gradient with respect to a layer's input, of all samples."""
        product = shape.input_pixels, shape.channels, shape.window * shape.filters
        return self.samples * self.product_cycles(*product)

    def weight_gradient_cycles(self, shape: LayerShape) -> int:
        """Cycles of the gradient with respect to a layer's weights, of all samples."""
        product = shape.weights_per_filter, shape.filters, shape.output_pixels
        return self.samples * self.product_cycles(*product)

    def aggregation_cycles(self, num_parameters: int) -> int:
        """Cycles in which the arrays of a rank add up their gradients.

        Each array adds a part of the parameters, from all arrays, by one row or column of adders.
        """
        part = -(-num_parameters // self.count)
        return -(-part // max(self.rows, self.columns)) * self.count
