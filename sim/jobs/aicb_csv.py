"""Workload files of AICB that end in .csv: a line per collective, without times."""

import re
from collections.abc import Sequence

from multitree.sim.jobs.job import DATA, TENSOR, Collective, Job, Layer, LeftOut, Stage, together
from multitree.topology.file_text import (
    ContentError,
    choice,
    integer,
    label,
    shown,
    written_integer,
)

__all__ = ["read_aicb_csv"]

COLUMNS = (
    *("comm_type", "comm_group", "comm_group_size", "msg_size", "stage", "dst", "src"),
    *("additional", "_elapsed_time", "algbw", "busbw", "count"),
)
KINDS = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter",
    "broadcast": "broadcast",
    "reduce": "reduce",
}
NOT_OURS = {
    "all_to_all": "no schedule of ours is an all-to-all",
    "isend": "messages between two ranks are no collective",
    "irecv": "messages between two ranks are no collective",
    "barrier": "nothing is sent but that a rank is there",
}
_COMPUTATION = "CommType.computation,"
_GROUPS = {"dp_group": DATA, "tp_group": TENSOR}
_END = "epoch_end"
_RANKS = re.compile(r"\[rank([0-9]{1,9}) ~ rank([0-9]{1,9})\]", re.ASCII)
MOST = 10**18
MOST_ROWS = 1_000_000
MOST_CHARACTERS = 200


def read_aicb_csv(name: str, text: str) -> Job:
    """Job of a CSV workload: a layer per row, without compute times; errors name line, rule and
    value.

    Rows before the first end of an epoch whose stage begins with "init" are the job's setup. Each
    row waits for the one before it.
    """
    lines = text.splitlines()
    recorded_ranks, first = _heading(lines)
    reader = _Rows()
    for number, line in enumerate(lines[first:], start=first + 1):
        if line.strip():
            reader.take(f"line {number}", line)
    return reader.job(name, recorded_ranks)


def _heading(lines: Sequence[str]) -> tuple[int | None, int]:
    """Number of ranks in the first line, if it has one, and the index of the first row."""
    first, ranks = 0, None
    if lines and lines[0].startswith("["):
        match = _RANKS.fullmatch(lines[0].strip())
        if match is None or match[1] != "0" or int(match[2]) < 1:
            rule = "[rank0 ~ rankN], all of one stage of a pipeline"
            raise ContentError(f"line 1: ranks must be {rule}, not {shown(lines[0])}")
        first, ranks = 1, int(match[2]) + 1
    columns = lines[first].strip().split(",") if first < len(lines) else ["nothing"]
    if columns != list(COLUMNS):
        found = shown(",".join(columns))
        raise ContentError(f"line {first + 1}: columns must be {','.join(COLUMNS)}, not {found}")
    return ranks, first + 1


class _Rows:
    """Job that grows with each row."""

    def __init__(self) -> None:
        self._setup: list[Collective] = []
        self._layers: list[Layer] = []
        self._left_out: list[LeftOut] = []
        self._group_sizes: dict[str, int] = {}
        self._in_setup = True
        self._num_iterations = 0
        self._in_iteration = 0

    def take(self, place: str, line: str) -> None:
        if line.startswith(_COMPUTATION):
            # Its shapes have commas in them.
            self._left_out.append(LeftOut("computation", 1, 0, "it has a shape and no time"))
            return
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(COLUMNS):
            raise ContentError(f"{place}: columns must be {len(COLUMNS)}, not {len(cells)}")
        row = dict(zip(COLUMNS, cells, strict=True))
        kind = row["comm_type"].removeprefix("CommType.")
        choice(f"{place}: comm_type", kind, (*KINDS, *NOT_OURS, _END))
        count = _number(f"{place}: count", row["count"], 1)
        if kind == _END:
            # What follows the first epoch's end belongs to an iteration, whatever its stage is
            # called.
            self._in_setup = False
            self._num_iterations += self._in_iteration > 0
            self._in_iteration = 0
            return
        size_bytes = _number(f"{place}: msg_size", row["msg_size"], 0)
        if kind in NOT_OURS:
            self._left_out.append(LeftOut(kind, count, count * size_bytes, NOT_OURS[kind]))
            return
        group = self._group(place, row)
        integer(f"{place}: msg_size", size_bytes, 1, MOST)
        self._add(place, Collective(KINDS[kind], size_bytes, group), row["stage"], count)

    def job(self, name: str, recorded_ranks: int | None) -> Job:
        tensor = self._group_sizes.get(TENSOR, 1)
        data = self._group_sizes.get(DATA)
        # Without the optional first line both sizes together say how many ranks there were.
        if recorded_ranks is None and data is not None:
            recorded_ranks = tensor * data
        return Job(
            name,
            tuple(self._layers),
            tensor_parallel=tensor,
            has_compute=False,
            num_iterations=self._num_iterations + (self._in_iteration > 0) or 1,
            recorded_ranks=recorded_ranks,
            setup=tuple(self._setup),
            left_out=together(self._left_out),
        )

    def _group(self, place: str, row: dict[str, str]) -> str:
        """Kind of a row's groups, whose size must be the same in all rows."""
        name = row["comm_group"].removeprefix("CommGroup.")
        if name not in _GROUPS:
            known = " or ".join(_GROUPS)
            raise ContentError(
                f"{place}: comm_group must be {known}, no other is modelled, not {shown(name)}"
            )
        group, size = _GROUPS[name], _number(f"{place}: comm_group_size", row["comm_group_size"], 1)
        before = self._group_sizes.setdefault(group, size)
        if size != before:
            raise ContentError(
                f"{place}: comm_group_size must be that of the rows above, {before}, not {size}"
            )
        return group

    def _add(self, place: str, collective: Collective, stage: str, count: int) -> None:
        """Add a collective `count` times."""
        label(f"{place}: stage", stage, MOST_CHARACTERS)
        if len(self._layers) + len(self._setup) + count > MOST_ROWS:
            raise ContentError(
                f"{place}: collectives must be at most {MOST_ROWS}, count included, not more"
            )
        if self._in_setup and stage.startswith("init"):
            self._setup += [collective] * count
            return
        self._layers += [Layer(stage, forward=Stage(0.0, collective))] * count
        self._in_iteration += count


def _number(place: str, text: str, least: int) -> int:
    return written_integer(place, text, least, MOST)
