"""Compute times: closed form, products of the gradients, published ratios."""

import pytest

from multitree.sim.jobs.read import load_job
from multitree.sim.jobs.systolic_arrays import LayerShape, SystolicArrays

LAYER = LayerShape("any", 19, 19, 3, 3, 17, 256, 1)


def separate_folds(m, n, k, rows, columns):
    """Cycles in which the cells of an array multiply, one fold after the other has drained.

    Cell (i, j) meets the elements of its row and column that are number e in cycle i + j + e.
    """
    cycles = 0
    for _ in range(0, m, rows):
        for _ in range(0, n, columns):
            cycles += max(i + j + k - 1 for i in (0, rows - 1) for j in (0, columns - 1)) + 1
    return cycles - 1


@pytest.mark.parametrize("sizes", [(289, 256, 153), (1, 8, 138_000), (32, 32, 1), (33, 65, 7)])
@pytest.mark.parametrize("array", [(32, 32), (8, 16)])
def test_a_product_takes_what_its_folds_take(sizes, array):
    arrays = SystolicArrays(*array)
    assert arrays.product_cycles(*sizes) == separate_folds(*sizes, *array)
    m, n, k = sizes
    if array == (32, 32):
        assert arrays.product_cycles(*sizes) == -(-m // 32) * -(-n // 32) * (k + 62) - 1


def test_overlapped_folds_take_their_operands_or_their_rows_whichever_are_more():
    arrays = SystolicArrays(8, 4, folds="overlapped")
    assert arrays.product_cycles(16, 8, 100) == 4 * 100 + 8 + 4 - 2
    assert arrays.product_cycles(16, 8, 3) == 4 * 8 + 8 + 4 - 2
    assert arrays.product_cycles(2, 3, 1) == 2 + 2 + 3 - 2


def test_each_pass_is_a_product_of_its_own():
    arrays = SystolicArrays(samples=3)
    forward = 3 * arrays.product_cycles(17 * 17, 256, 9 * 17)
    input_gradient = 3 * arrays.product_cycles(19 * 19, 17, 9 * 256)
    weight_gradient = 3 * arrays.product_cycles(9 * 17, 256, 17 * 17)
    assert arrays.forward_cycles(LAYER) == forward
    assert arrays.input_gradient_cycles(LAYER) == input_gradient
    assert arrays.weight_gradient_cycles(LAYER) == weight_gradient


def passes(name, folds):
    """Forward and backward time of a network."""
    layers = load_job(name, arrays=SystolicArrays(folds=folds)).layers
    forward = sum(layer.forward.compute_ns for layer in layers)
    gradients = [(layer.input_gradient, layer.weight_gradient) for layer in layers]
    return forward, sum(stage.compute_ns for pair in gradients for stage in pair)


def test_overlapped_folds_give_the_ratios_of_backward_to_forward_of_the_authors_code():
    ratios = {"alphagozero": 2.13, "ncf": 1.63}
    for name, published in ratios.items():
        forward, backward = passes(name, "overlapped")
        assert round(backward / forward, 2) == published


def test_separate_folds_give_the_cycles_of_scale_sim():
    assert passes("ncf", "separate")[0] == 552_616
    assert passes("alphagozero", "separate")[0] == 416_494


def test_the_arrays_of_a_rank_add_a_part_each():
    assert SystolicArrays().aggregation_cycles(11_042_704) == 345_088
    assert SystolicArrays(8, 4, count=3).aggregation_cycles(100) == -(-34 // 8) * 3
    assert SystolicArrays(count=1).aggregation_cycles(1) == 1


def test_only_the_first_layer_may_go_without_an_input_gradient():
    usual, without = (load_job("resnet50", first_input_gradient=each) for each in (True, False))
    assert (
        without.layers[0].input_gradient.compute_ns == 0 < usual.layers[0].input_gradient.compute_ns
    )
    assert without.layers[1:] == usual.layers[1:]
    assert without.layers[0].weight_gradient == usual.layers[0].weight_gradient


def test_times_are_at_the_arrays_clock():
    half = load_job("ncf", arrays=SystolicArrays(clock_ghz=0.5)).layers[0].forward.compute_ns
    assert half == 2 * load_job("ncf").layers[0].forward.compute_ns


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"rows": 0}, "Arrays' rows must be within"),
        ({"count": True}, "Arrays' count must be within .*, not True"),
        ({"samples": 1.5}, "Arrays' samples must be within .*, not 1.5"),
        ({"folds": "both"}, "Folds must be separate or overlapped, not 'both'"),
        ({"clock_ghz": 0.0}, "Arrays' clock must be within 0.001..100 GHz, not 0.0"),
        ({"clock_ghz": 100.5}, "Arrays' clock must be within 0.001..100 GHz, not 100.5"),
        ({"clock_ghz": float("nan")}, "Arrays' clock must be within 0.001..100 GHz, not nan"),
    ],
)
@pytest.mark.every_set
def test_figures_that_cannot_be_are_refused(wrong, says):
    with pytest.raises(ValueError, match=says):
        SystolicArrays(**wrong)
