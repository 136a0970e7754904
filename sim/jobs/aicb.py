"""Workload files of SimAI and AICB: layers with times, or collectives alone."""

import re
from collections.abc import Sequence

from multitree.sim.jobs.job import DATA, TENSOR, Collective, Job, Layer, LeftOut, Stage, together
from multitree.topology.errors import ContentError, choice, integer, label, shown, written_integer

__all__ = ["WORKLOADS", "read_aicb_csv", "read_aicb_text"]

MOST = 10**18
MOST_CHARACTERS = 200
ALL_TO_ALL = "no schedule of ours is an all-to-all"
WORKLOADS = ("HYBRID_TRANSFORMER_FWD_IN_BCKWD", "MICRO")
"""First words of such files."""
TEXT_KINDS = {
    "ALLREDUCE": "all_reduce",
    "ALLGATHER": "all_gather",
    "REDUCESCATTER": "reduce_scatter",
    "BROADCAST": "broadcast",
}
TEXT_NOT_OURS = ("ALLTOALL", "ALLTOALL_EP")
TEXT_COLUMNS = 12
MOST_LAYERS = 100_000
_MUST_BE = {"ep": 1, "pp": 1, "ga": 1, "checkpoints": 0, "checkpoint_initiates": 0, "pp_comm": 0}
"""Keys of the header and what else they would say: groups of experts, stages of a pipeline, several
passes with one update, layers computed again; none of which is modelled."""
_STAGES = (("forward", 2, TENSOR), ("input gradient", 5, TENSOR), ("weight gradient", 8, DATA))
"""Name, first column, and the groups that its collective is of."""
CSV_COLUMNS = (
    *("comm_type", "comm_group", "comm_group_size", "msg_size", "stage", "dst", "src"),
    *("additional", "_elapsed_time", "algbw", "busbw", "count"),
)
CSV_KINDS = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter",
    "broadcast": "broadcast",
    "reduce": "reduce",
}
CSV_NOT_OURS = {
    "all_to_all": ALL_TO_ALL,
    "isend": "messages between two ranks are no collective",
    "irecv": "messages between two ranks are no collective",
    "barrier": "nothing is sent but that a rank is there",
}
_COMPUTATION = "CommType.computation,"
_GROUPS = {"dp_group": DATA, "tp_group": TENSOR}
_END = "epoch_end"
_RANKS = re.compile(r"\[rank([0-9]{1,9}) ~ rank([0-9]{1,9})\]", re.ASCII)
MOST_CSV_ROWS = 1_000_000


def read_aicb_text(name: str, text: str) -> Job:
    """Job of a text workload; errors name line, rule and value.

    The first line is "MICRO", or HYBRID_TRANSFORMER_FWD_IN_BCKWD and keys with values; the second
    line is the number of rows. A row has twelve columns: name, -1, a time in ns, a collective and
    its bytes for each of forward pass, input gradient and weight gradient, and the update's time in
    ns.
    """
    lines = text.splitlines()
    header = _header(lines[0].split() if lines else [])
    left_out: list[LeftOut] = []
    layers = [
        _layer(f"line {number}", line.split(), left_out)
        for number, line in enumerate(_text_rows(lines), start=3)
    ]
    return Job(
        name,
        tuple(layers),
        tensor_parallel=header.get("model_parallel_NPU_group", 1),
        recorded_ranks=header.get("all_gpus"),
        left_out=together(left_out),
    )


def _header(words: Sequence[str]) -> dict[str, int]:
    """Keys and values of the first line."""
    workload = words[0] if words else ""
    if workload not in WORKLOADS:
        raise ContentError(
            f"line 1: workload must be {' or '.join(WORKLOADS)}, not {shown(workload)}"
        )
    known = ("model_parallel_NPU_group", "all_gpus", "vpp", *_MUST_BE)
    found: dict[str, int] = {}
    for at in range(1, len(words), 2):
        key = words[at].removesuffix(":")
        choice("line 1: key", key, known)
        if key in found:
            raise ContentError(f"line 1: key must come once, not twice: {shown(key)}")
        value = words[at + 1] if at + 1 < len(words) else "nothing"
        found[key] = _number(f"line 1: {key}", value)
    for key, rule in _MUST_BE.items():
        if found.get(key, rule) != rule:
            raise ContentError(
                f"line 1: {key} must be {rule}, nothing else is modelled, not {found[key]}"
            )
    if workload != "MICRO" and "model_parallel_NPU_group" not in found:
        raise ContentError("line 1: key model_parallel_NPU_group must be there, not missing")
    for key in ("model_parallel_NPU_group", "all_gpus"):
        integer(f"line 1: {key}", found.get(key, 1), 1, 2**31)
    return found


def _text_rows(lines: Sequence[str]) -> Sequence[str]:
    """Lines after the second, which holds their number; empty lines at the end do not count."""
    text = lines[1].strip() if len(lines) > 1 else "nothing"
    count = written_integer("line 2: number of rows", text, 1, MOST_LAYERS)
    rows = lines[2:]
    while rows and not rows[-1].strip():
        rows = rows[:-1]
    if len(rows) != count:
        raise ContentError(
            f"line 2: number of rows must be that of the lines below, {len(rows)}, not {count}"
        )
    return rows


def _layer(place: str, words: Sequence[str], left_out: list[LeftOut]) -> Layer:
    if len(words) != TEXT_COLUMNS:
        raise ContentError(f"{place}: columns must be {TEXT_COLUMNS}, not {len(words)}")
    name = label(f"{place}: name", words[0], MOST_CHARACTERS)
    if words[1] != "-1":
        raise ContentError(f"{place}: dependency must be -1, not {shown(words[1])}")
    # SimAI runs the first two among tensor-parallel ranks, the last among data-parallel ones.
    forward, input_gradient, weight_gradient = (
        _stage(f"{place}: {stage}", words[at : at + 3], group, left_out)
        for stage, at, group in _STAGES
    )
    update_ns = _number(f"{place}: update time", words[-1])
    return Layer(name, forward, input_gradient, weight_gradient, update_ns)


def _stage(place: str, words: Sequence[str], group: str, left_out: list[LeftOut]) -> Stage:
    time, kind, size = words
    return Stage(_number(f"{place} time", time), _collective(place, kind, size, group, left_out))


def _collective(
    place: str, kind: str, size: str, group: str, left_out: list[LeftOut]
) -> Collective | None:
    """Collective of a stage, or None; kinds without a schedule here are added to `left_out`."""
    choice(f"{place} collective", kind, ("NONE", *TEXT_KINDS, *TEXT_NOT_OURS))
    size_bytes = _number(f"{place} size", size)
    if (kind == "NONE") != (size_bytes == 0):
        rule = "0 without a collective" if kind == "NONE" else f"at least 1 byte for {kind}"
        raise ContentError(f"{place} size must be {rule}, not {size_bytes}")
    if kind in TEXT_NOT_OURS:
        left_out.append(LeftOut(kind, 1, size_bytes, ALL_TO_ALL))
    return Collective(TEXT_KINDS[kind], size_bytes, group) if kind in TEXT_KINDS else None


def read_aicb_csv(name: str, text: str) -> Job:
    """Job of a CSV workload, without compute times; errors name line, rule and value.

    A row is a layer and waits for the one before it. Rows before the first end of an epoch whose
    stage begins with "init" are the job's setup.
    """
    lines = text.splitlines()
    recorded_ranks, first = _csv_heading(lines)
    reader = _CsvRows()
    for number, line in enumerate(lines[first:], start=first + 1):
        if line.strip():
            reader.take(f"line {number}", line)
    return reader.job(name, recorded_ranks)


def _csv_heading(lines: Sequence[str]) -> tuple[int | None, int]:
    """Number of ranks in the first line, if it has one, and the index of the first row."""
    first, ranks = 0, None
    if lines and lines[0].startswith("["):
        match = _RANKS.fullmatch(lines[0].strip())
        # Ranks of a later stage of a pipeline would begin at another number.
        if match is None or match[1] != "0" or int(match[2]) < 1:
            rule = "[rank0 ~ rankN], all of one stage of a pipeline"
            raise ContentError(f"line 1: ranks must be {rule}, not {shown(lines[0])}")
        first, ranks = 1, int(match[2]) + 1
    columns = lines[first].strip().split(",") if first < len(lines) else ["nothing"]
    if columns != list(CSV_COLUMNS):
        found = shown(",".join(columns))
        raise ContentError(
            f"line {first + 1}: columns must be {','.join(CSV_COLUMNS)}, not {found}"
        )
    return ranks, first + 1


class _CsvRows:
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
        if len(cells) != len(CSV_COLUMNS):
            raise ContentError(f"{place}: columns must be {len(CSV_COLUMNS)}, not {len(cells)}")
        row = dict(zip(CSV_COLUMNS, cells, strict=True))
        kind = row["comm_type"].removeprefix("CommType.")
        choice(f"{place}: comm_type", kind, (*CSV_KINDS, *CSV_NOT_OURS, _END))
        count = _number(f"{place}: count", row["count"], least=1)
        if kind == _END:
            # What follows the first epoch's end belongs to an iteration, whatever its stage is
            # called.
            self._in_setup = False
            self._num_iterations += self._in_iteration > 0
            self._in_iteration = 0
            return
        size_bytes = _number(f"{place}: msg_size", row["msg_size"])
        if kind in CSV_NOT_OURS:
            self._left_out.append(LeftOut(kind, count, count * size_bytes, CSV_NOT_OURS[kind]))
            return
        group = self._group(place, row)
        integer(f"{place}: msg_size", size_bytes, 1, MOST)
        self._add(place, Collective(CSV_KINDS[kind], size_bytes, group), row["stage"], count)

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
        group, size = (
            _GROUPS[name],
            _number(f"{place}: comm_group_size", row["comm_group_size"], least=1),
        )
        before = self._group_sizes.setdefault(group, size)
        if size != before:
            raise ContentError(
                f"{place}: comm_group_size must be that of the rows above, {before}, not {size}"
            )
        return group

    def _add(self, place: str, collective: Collective, stage: str, count: int) -> None:
        """Add a collective `count` times."""
        label(f"{place}: stage", stage, MOST_CHARACTERS)
        # A file may claim any count: it is checked before so many rows are made.
        if len(self._layers) + len(self._setup) + count > MOST_CSV_ROWS:
            raise ContentError(
                f"{place}: collectives must be at most {MOST_CSV_ROWS}, count included, not more"
            )
        if self._in_setup and stage.startswith("init"):
            self._setup += [collective] * count
            return
        self._layers += [Layer(stage, forward=Stage(0.0, collective))] * count
        self._in_iteration += count


def _number(place: str, text: str, least: int = 0) -> int:
    return written_integer(place, text, least, MOST)
