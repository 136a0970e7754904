"""Jobs by a short text: a model's name, or the path of a file."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from multitree.sim.jobs.aicb import read_aicb_csv, read_aicb_text
from multitree.sim.jobs.job import BYTES_PER_PARAMETER, Job, JobError, Layer, Stage
from multitree.sim.jobs.models import MODELS, model_layers
from multitree.sim.jobs.systolic_arrays import (
    LayerShape,
    SystolicArrays,
    is_layer_table,
    read_layers,
)
from multitree.topology.errors import ContentError, meant
from multitree.topology.file_io import naming, read_text

__all__ = ["load_job", "model_job"]

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
    if text in MODELS and not isinstance(name_or_path, Path):
        layers = model_layers(text)
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
        known = ", ".join(MODELS)
        raise JobError(
            f"Job must be one of {known}, or a file that ends in .txt or .csv, not {text!r}"
            + meant(text, MODELS)
        )
    return model_job(
        text,
        layers,
        arrays,
        bytes_per_parameter=bytes_per_parameter,
        first_input_gradient=first_input_gradient,
    )


def model_job(
    name: str,
    layers: Iterable[LayerShape],
    arrays: SystolicArrays | None = None,
    *,
    bytes_per_parameter: int = BYTES_PER_PARAMETER,
    first_input_gradient: bool = True,
) -> Job:
    """Data-parallel training of a model: every rank has all layers, and its own samples.

    As in the simulator of MultiTree's authors the first layer has an input gradient unless
    `first_input_gradient` is false, the input gradient of a layer with a stride multiplies the
    zeros between its outputs, and products of activations are layers with parameters.
    """
    arrays = arrays or SystolicArrays()
    listed = [_layer(shape, arrays) for shape in layers]
    if listed and not first_input_gradient:
        listed[0] = replace(listed[0], input_gradient=Stage())
    return Job(name, tuple(listed), arrays=arrays, bytes_per_parameter=bytes_per_parameter)


def _layer(shape: LayerShape, arrays: SystolicArrays) -> Layer:
    return Layer(
        shape.name,
        forward=Stage(arrays.forward_cycles(shape) / arrays.clock_ghz),
        input_gradient=Stage(arrays.input_gradient_cycles(shape) / arrays.clock_ghz),
        weight_gradient=Stage(arrays.weight_gradient_cycles(shape) / arrays.clock_ghz),
        num_parameters=shape.num_parameters,
    )
