"""Jobs by a short text: a network's name, or the path of a file."""

from pathlib import Path

from multitree.sim.jobs.aicb_csv import read_aicb_csv
from multitree.sim.jobs.aicb_text import read_aicb_text
from multitree.sim.jobs.job import BYTES_PER_PARAMETER, Job, JobError
from multitree.sim.jobs.layer_shapes import is_layer_table, read_layers
from multitree.sim.jobs.network_job import network_job
from multitree.sim.jobs.networks import NETWORKS, network_layers
from multitree.sim.jobs.systolic_arrays import SystolicArrays
from multitree.topology.file_text import ContentError, naming, read_text

__all__ = ["load_job"]

_ARRAYS = SystolicArrays()


def load_job(
    name_or_path: str | Path,
    *,
    arrays: SystolicArrays | None = None,
    bytes_per_parameter: int = BYTES_PER_PARAMETER,
    first_input_gradient: bool = True,
) -> Job:
    """Read a training job.

    Parameters
    ----------
    name_or_path : str or pathlib.Path
        One of the models that `multitree job --help` lists; or a file that ends in .txt or .csv: a
        workload of SimAI or AICB, or layers in SCALE-Sim's format.
    arrays : SystolicArrays, optional
        Arrays that compute a model's layers. Like the next two not for a workload, which has times
        and sizes of its own.
    bytes_per_parameter : int
        Of a model's gradients.
    first_input_gradient : bool
        Whether the first layer computes an input gradient, too, which training does not need.

    Returns
    -------
    Job

    Raises
    ------
    JobError
        If there is no such model, or the file is malformed: names line, rule and value. If
        something is asked of a workload's layers.

    Examples
    --------
    >>> job = load_job("googlenet")
    >>> len(job.layers), job.num_parameters
    (58, 6854208)
    """
    text = str(name_or_path)
    if text in NETWORKS and not isinstance(name_or_path, Path):
        layers = network_layers(text)
    elif text.endswith((".txt", ".csv")):
        with naming(text, JobError):
            content = read_text(text)
            if not is_layer_table(content):
                given = arrays or _ARRAYS, bytes_per_parameter, first_input_gradient
                if given != (_ARRAYS, BYTES_PER_PARAMETER, True):
                    raise ContentError(
                        "arrays, bytes per parameter and the first input gradient must be those "
                        "of a network or of layers, not of a workload, whose times and sizes are "
                        "its own"
                    )
                return (read_aicb_text if text.endswith(".txt") else read_aicb_csv)(text, content)
            layers = read_layers(content)
    else:
        known = ", ".join(NETWORKS)
        raise JobError(
            f"Job must be one of {known}, or a file that ends in .txt or .csv, not {text!r}"
        )
    return network_job(
        text,
        layers,
        arrays,
        bytes_per_parameter=bytes_per_parameter,
        first_input_gradient=first_input_gradient,
    )
