"""Options of the command job: arrays, buckets, algorithms with their modes."""

import re
from dataclasses import dataclass
from typing import Annotated

import typer

from multitree.host.sizes import check_once, parse_size
from multitree.nic.program import DEPENDENCIES, FLOW_CONTROLS
from multitree.sim.jobs.iteration import BUCKET_BYTES, OVERLAPS
from multitree.sim.jobs.job import BYTES_PER_PARAMETER, Job
from multitree.sim.jobs.models import MODELS
from multitree.sim.jobs.read import load_job
from multitree.sim.jobs.systolic_arrays import FOLDS, SystolicArrays
from multitree.topology.algorithms.build import check_algorithm

__all__ = [
    "DEFAULT_SCHEMES",
    "ArrayOptions",
    "BucketsOption",
    "JobArgument",
    "OverlapOption",
    "Scheme",
    "SchemesOption",
    "WorldSizeOption",
    "parse_buckets",
    "parse_schemes",
]

DEFAULT_SCHEMES = "ring,multitree"

JobArgument = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help=f"Network: {', '.join(MODELS)}; or a file: a workload of SimAI or AICB (.txt, "
        ".csv), or layers in SCALE-Sim's format (.csv).",
    ),
]
SchemesOption = Annotated[
    str,
    typer.Option(
        help="Names with commas between; modes behind a slash, as in multitree/submessage/packet, "
        "in place of --dependency and --flow-control. The first is what others are compared with.",
        metavar="NAMES",
    ),
]
OverlapOption = Annotated[
    str,
    typer.Option(
        help=f"{OVERLAPS[0]}; {OVERLAPS[1]}: each layer's gradients are sent while others compute; "
        f"{OVERLAPS[2]}: the same, layers put together.",
        metavar="NAME",
    ),
]
WorldSizeOption = Annotated[
    int | None,
    typer.Option(help="Ranks of the job, the first so many; by default all.", metavar="N"),
]
BucketsOption = Annotated[
    str | None,
    typer.Option(
        help="Sizes of the first bucket and of the others; 1MiB,25MiB as in DDP.",
        metavar="SIZE,SIZE",
    ),
]


@dataclass(frozen=True)
class ArrayOptions:
    """What computes the layers of a network; files of workloads have their own times."""

    array: Annotated[
        str, typer.Option(help="Rows and columns of a systolic array.", metavar="ROWSxCOLUMNS")
    ] = "32x32"
    arrays: Annotated[int, typer.Option(help="Arrays of a rank.", metavar="N")] = 16
    samples: Annotated[
        int, typer.Option(help="Samples of an array, one after the other.", metavar="N")
    ] = 1
    array_ghz: Annotated[float, typer.Option(help="Clock of the arrays.", metavar="GHZ")] = 1.0
    folds: Annotated[
        str,
        typer.Option(
            help=f"{FOLDS[0]}: an array is filled and drained for each part of a product, as in "
            f"SCALE-Sim 3; {FOLDS[1]}: as in the paper.",
            metavar="NAME",
        ),
    ] = FOLDS[0]
    bytes_per_parameter: Annotated[int, typer.Option(help="Of a gradient.", metavar="N")] = (
        BYTES_PER_PARAMETER
    )
    first_input_gradient: Annotated[
        bool,
        typer.Option(help="The first layer has an input gradient, too, as in the paper."),
    ] = True

    def job(self, name_or_path: str) -> Job:
        """The job that a network or a file is.

        Raises
        ------
        ValueError
            If a figure is out of range, or as `load_job`.
        """
        return load_job(
            name_or_path,
            arrays=self.model(),
            bytes_per_parameter=self.bytes_per_parameter,
            first_input_gradient=self.first_input_gradient,
        )

    def model(self) -> SystolicArrays:
        """The arrays.

        Raises
        ------
        ValueError
            If a figure is out of range.
        """
        match = re.fullmatch(r"([0-9]{1,7})x([0-9]{1,7})", self.array, re.ASCII)
        if match is None:
            raise ValueError(f"--array must be like 32x32, not {self.array!r}")
        sizes = int(match[1]), int(match[2])
        return SystolicArrays(*sizes, self.arrays, self.samples, self.folds, self.array_ghz)


@dataclass(frozen=True)
class Scheme:
    """An algorithm and the modes in which interfaces run it."""

    algorithm: str
    dependency: str
    flow_control: str


def parse_schemes(text: str, dependency: str, flow_control: str) -> list[Scheme]:
    """Read algorithms with their modes.

    Parameters
    ----------
    text : str
        Such as "ring/packet,multitree".
    dependency, flow_control : str
        Where a name says nothing else.

    Returns
    -------
    list of Scheme

    Raises
    ------
    ValueError
        If there is no such algorithm or mode, or one with the same modes is there twice.

    Examples
    --------
    >>> parse_schemes("ring/packet", "chunk", "message")
    [Scheme(algorithm='ring', dependency='chunk', flow_control='packet')]
    """
    schemes = []
    for each in text.split(","):
        name, *modes = each.split("/")
        found: dict[str, str] = {}
        for mode in modes:
            if mode not in (*DEPENDENCIES, *FLOW_CONTROLS):
                known = ", ".join((*DEPENDENCIES, *FLOW_CONTROLS))
                raise ValueError(f"Mode of {name} must be one of {known}, not {mode!r}")
            field = "dependency" if mode in DEPENDENCIES else "flow_control"
            if field in found:
                raise ValueError(f"{name} must have one {field.replace('_', ' ')}, not {each!r}")
            found[field] = mode
        default = {"dependency": dependency, "flow_control": flow_control}
        schemes.append(Scheme(check_algorithm(name), **default | found))
    check_once("Algorithms with their modes", schemes, text.split(","))
    return schemes


def parse_buckets(text: str | None, overlap: str) -> tuple[int, int]:
    """Read the sizes of buckets.

    Raises
    ------
    ValueError
        If they are not two, or there are no buckets.
    """
    if text is None:
        return BUCKET_BYTES
    if overlap != "buckets":
        raise ValueError("--buckets must come with --overlap buckets")
    sizes = [parse_size(each) for each in text.split(",")]
    if len(sizes) != 2:
        raise ValueError(f"--buckets must be two sizes, such as 1MiB,25MiB, not {text!r}")
    return sizes[0], sizes[1]
