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
