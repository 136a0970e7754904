"""Jobs of networks that are given as layers."""

from collections.abc import Iterable
from dataclasses import replace

from multitree.sim.jobs.job import BYTES_PER_PARAMETER, Job, Layer, Stage
from multitree.sim.jobs.layer_shapes import LayerShape
from multitree.sim.jobs.systolic_arrays import SystolicArrays

__all__ = ["network_job"]


def network_job(
    name: str,
    layers: Iterable[LayerShape],
    arrays: SystolicArrays | None = None,
    *,
    bytes_per_parameter: int = BYTES_PER_PARAMETER,
    first_input_gradient: bool = True,
) -> Job:
    """The data-parallel training of a network: every rank has all of it, and its own samples.

    Parameters
    ----------
    name : str
    layers : iterable of LayerShape
    arrays : SystolicArrays, optional
        What computes; by default 16 arrays of 32x32 per rank with a sample each.
    bytes_per_parameter : int
        Of a gradient as it is sent.
    first_input_gradient : bool
        Whether the first layer has an input gradient, too, which training does not need.

    Returns
    -------
    Job

    Raises
    ------
    JobError
        If there are no layers, or a gradient has no bytes.

    Notes
    -----
    As in the simulator of MultiTree's authors the first layer has an input gradient, the input
    gradient of a layer with a stride multiplies the zeros between its outputs, and products of
    activations are layers with parameters.

    Examples
    --------
    >>> from multitree.sim.jobs.networks import network_layers
    >>> job = network_job("ncf", network_layers("ncf"))
    >>> job.num_parameters, sum(layer.forward.compute_ns for layer in job.layers)
    (11042704, 552616.0)
    """
    arrays = arrays or SystolicArrays()
    listed = [_layer(shape, arrays) for shape in layers]
    if listed and not first_input_gradient:
        listed[0] = replace(listed[0], input_gradient=Stage())
    return Job(name, tuple(listed), arrays=arrays, bytes_per_parameter=bytes_per_parameter)


def _layer(shape: LayerShape, arrays: SystolicArrays) -> Layer:
    """A layer's times."""
    return Layer(
        shape.name,
        forward=Stage(arrays.forward_cycles(shape) / arrays.clock_ghz),
        input_gradient=Stage(arrays.input_gradient_cycles(shape) / arrays.clock_ghz),
        weight_gradient=Stage(arrays.weight_gradient_cycles(shape) / arrays.clock_ghz),
        num_parameters=shape.num_parameters,
    )
