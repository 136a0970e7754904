"""Workload files of SimAI and AICB that end in .txt: a line per layer, with times."""

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

__all__ = ["WORKLOADS", "read_aicb_text"]

WORKLOADS = ("HYBRID_TRANSFORMER_FWD_IN_BCKWD", "MICRO")
"""First words of such files."""
KINDS = {
    "ALLREDUCE": "all_reduce",
    "ALLGATHER": "all_gather",
    "REDUCESCATTER": "reduce_scatter",
    "BROADCAST": "broadcast",
}
NOT_OURS = ("ALLTOALL", "ALLTOALL_EP")
ALL_TO_ALL = "no schedule of ours is an all-to-all"
NUM_COLUMNS = 12
MOST_LAYERS = 100_000
MOST = 10**18
MOST_CHARACTERS = 200
_MUST_BE = {"ep": 1, "pp": 1, "ga": 1, "checkpoints": 0, "checkpoint_initiates": 0, "pp_comm": 0}
"""Keys of the header and what else they would say: groups of experts, stages of a pipeline, several
passes with one update, layers computed again; none of which is modelled."""
_STAGES = (("forward", 2, TENSOR), ("input gradient", 5, TENSOR), ("weight gradient", 8, DATA))
"""Name, first column, and the groups that its collective is of."""


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
        for number, line in enumerate(_rows(lines), start=3)
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


def _rows(lines: Sequence[str]) -> Sequence[str]:
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
    if len(words) != NUM_COLUMNS:
        raise ContentError(f"{place}: columns must be {NUM_COLUMNS}, not {len(words)}")
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
    choice(f"{place} collective", kind, ("NONE", *KINDS, *NOT_OURS))
    size_bytes = _number(f"{place} size", size)
    if (kind == "NONE") != (size_bytes == 0):
        rule = "0 without a collective" if kind == "NONE" else f"at least 1 byte for {kind}"
        raise ContentError(f"{place} size must be {rule}, not {size_bytes}")
    if kind in NOT_OURS:
        left_out.append(LeftOut(kind, 1, size_bytes, ALL_TO_ALL))
    return Collective(KINDS[kind], size_bytes, group) if kind in KINDS else None


def _number(place: str, text: str) -> int:
    return written_integer(place, text, 0, MOST)
