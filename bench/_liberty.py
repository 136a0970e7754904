"""Liberty libraries: which of their cells may be used, and what these are."""

import gzip
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

CELL = re.compile(r"^[ \t]*cell[ \t]*\([ \t]*\"?([^\s()\"]+)\"?[ \t]*\)[ \t]*\{", re.MULTILINE)
# Not to be used: what holds a state without an edge, what is scanned, gates a clock, can let go of
# its output, or is said not to be used.
UNWANTED = re.compile(
    r"\blatch(?:_bank)?[ \t]*\(|\bstatetable[ \t]*\(|\btest_cell\b|\bsignal_type[ \t]*:|"
    r"\bclock_gating_integrated_cell[ \t]*:|\bthree_state[ \t]*:|"
    r"\bdont_(?:use|touch)[ \t]*:[ \t]*\"?true"
)
SCAN_PINS = re.compile(r"^[ \t]*pin[ \t]*\([ \t]*\"?(?:SE|SI|SCAN_\w+)\"?[ \t]*\)", re.MULTILINE)
AREA = re.compile(r"\barea[ \t]*:[ \t]*\"?([\d.eE+-]+)")
CAPACITANCE = re.compile(r"\bcapacitance[ \t]*:[ \t]*\"?([\d.eE+-]+)")
PIN = re.compile(r"^[ \t]*pin[ \t]*\([ \t]*\"?(\w+)\"?[ \t]*\)", re.MULTILINE)
DIRECTION = re.compile(r"\bdirection[ \t]*:[ \t]*\"?(input|output)\b")
FUNCTION = re.compile(r"\bfunction[ \t]*:[ \t]*\"([^\"]*)\"")
FLIP_FLOP = re.compile(r"\bff[ \t]*\(")
LOAD_UNIT = re.compile(
    r"capacitive_load_unit[ \t]*\([ \t]*\"?([\d.]+)\"?[ \t]*,[ \t]*\"?([fp])f", re.I
)
FEMTOFARADS = {"f": 1.0, "p": 1000.0}


class LibertyError(ValueError):
    """A library that cannot be used; the message says which and why."""


@dataclass(frozen=True)
class Cell:
    """A cell: its name, area, capacitance of its first pin that has one, and its kind.

    `outputs` are its pins that drive; `buffer` are input and output of a buffer.
    """

    name: str
    area_um2: float
    pin_ff: float
    flip_flop: bool
    outputs: frozenset[str]
    buffer: tuple[str, str] | None = None


@dataclass(frozen=True)
class Library:
    """Files with nothing but cells that may be used, and these cells by name."""

    files: tuple[Path, ...]
    cells: dict[str, Cell]
    left_out: tuple[str, ...]

    def nand2(self) -> Cell:
        """The smallest cell called NAND2 something: what a gate equivalent is."""
        found = [cell for cell in self.cells.values() if re.match(r"(?i)nand2(?!\d)", cell.name)]
        found = found or [cell for cell in self.cells.values() if "nand2" in cell.name.lower()]
        if not found:
            raise LibertyError("The library must have a NAND of two inputs, called NAND2...")
        return min(found, key=lambda cell: (cell.area_um2, cell.name))

    def buffers(self) -> list[tuple[str, str, str]]:
        """Every buffer with its input and output; a LibertyError if there is none."""
        found = [(cell.name, *cell.buffer) for cell in self.cells.values() if cell.buffer]
        if not found:
            raise LibertyError("The library must have a buffer")
        return found


def text_of(path: Path) -> str:
    """A Liberty file, packed by gzip or not; a LibertyError if it is none."""
    try:
        packed = path.read_bytes()
        text = (gzip.decompress(packed) if packed[:2] == b"\x1f\x8b" else packed).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise LibertyError(f"{path} must be a Liberty file: {error}") from None
    if not re.search(r"^\s*library\s*\(", text, re.MULTILINE):
        raise LibertyError(f"{path} must be a Liberty file: it has no library (...)")
    return text


def groups(text: str) -> Iterator[tuple[str, int, int]]:
    """Name of every cell of a text, and where its group begins and ends."""
    for found in CELL.finditer(text):
        depth = 0
        for brace in re.compile(r"[{}]").finditer(text, found.end() - 1):
            depth += 1 if brace[0] == "{" else -1
            if not depth:
                yield found[1], found.start(), brace.end()
                break
        else:
            raise LibertyError(f"Cell {found[1]} must end")


def _is_unwanted(group: str) -> bool:
    """Whether mapping must not use a cell; one without an area is a filler or a tie."""
    return bool(UNWANTED.search(group) or SCAN_PINS.search(group) or not AREA.search(group))


def _cell(name: str, group: str, femtofarads: float) -> Cell:
    """A cell from its group; a buffer has an input and an output, and one is the other."""
    pins = PIN.split(group)[1:]
    texts = dict(zip(pins[::2], pins[1::2], strict=True))
    kinds = {pin: DIRECTION.search(text) for pin, text in texts.items()}
    inputs, outputs = (
        [pin for pin, found in kinds.items() if found and found[1] == kind]
        for kind in ("input", "output")
    )
    buffer = None
    if len(inputs) == len(outputs) == 1 and (function := FUNCTION.search(texts[outputs[0]])):
        buffer = (inputs[0], outputs[0]) if function[1].strip(" ()") == inputs[0] else None
    area, load = _value(AREA, group), _value(CAPACITANCE, group)
    is_flip_flop = bool(FLIP_FLOP.search(group))
    return Cell(name, area, femtofarads * load, is_flip_flop, frozenset(outputs), buffer)


def _value(attribute: re.Pattern[str], group: str) -> float:
    found = attribute.search(group)
    return float(found[1]) if found else 0.0


def select_cells(text: str, dont_use: Sequence[str] = ()) -> tuple[str, dict[str, Cell], list[str]]:
    """The text without the cells that are not to be used, the cells it has, and the others."""
    unit = LOAD_UNIT.search(text)
    femtofarads = float(unit[1]) * FEMTOFARADS[unit[2].lower()] if unit else 1000.0
    kept: list[str] = []
    cells: dict[str, Cell] = {}
    left_out, after = [], 0
    for name, start, end in groups(text):
        group = text[start:end]
        kept.append(text[after:start])
        after = end
        if _is_unwanted(group) or any(fnmatchcase(name, each) for each in dont_use):
            left_out.append(name)
            continue
        kept.append(group)
        cells[name] = _cell(name, group, femtofarads)
    return "".join([*kept, text[after:]]), cells, left_out


def read_libraries(paths: Sequence[Path], folder: Path, dont_use: Sequence[str] = ()) -> Library:
    """Read libraries, and write them to a folder without the cells that are not to be used.

    Yosys, ABC and OpenSTA then have the same cells, whatever each knows of scan and latches.
    `dont_use` are patterns of names, such as ``HB*``. A LibertyError if a file is none, or together
    they have no flip-flop or no gate.
    """
    files: list[Path] = []
    cells: dict[str, Cell] = {}
    left_out: list[str] = []
    for number, path in enumerate(paths):
        text, own, others = select_cells(text_of(path), dont_use)
        if twice := sorted(set(own) & set(cells)):
            raise LibertyError(f"{path}: cell {twice[0]} must be in one of the files only")
        left_out += others
        cells |= own
        if own:
            files.append(folder / f"library_{number}.lib")
            files[-1].write_text(text)
    if len({cell.flip_flop for cell in cells.values()}) < 2:
        raise LibertyError("The Liberty files must have a flip-flop and gates")
    library = Library(tuple(files), cells, tuple(left_out))
    library.nand2()
    library.buffers()
    return library
