"""The seven networks: parameters and layers, and their times on systolic arrays."""

import pytest

from multitree import JobError, load_job
from multitree.sim.jobs.models import EVALUATED, MODELS, model_layers
from multitree.sim.jobs.systolic_arrays import HEADER, LayerShape, SystolicArrays, read_layers
from multitree.topology.errors import ContentError
from tests.refusals import refuses

# Of the topology files in the repository of MultiTree's authors: layers and weights.
PUBLISHED = {
    "alexnet_published": (5, 3_745_824),
    "alphagozero": (8, 1_573_620),
    "fasterrcnn": (46, 13_258_944),
    "googlenet": (58, 6_854_208),
    "ncf": (8, 11_042_704),
    "resnet50": (54, 25_502_912),
    "transformer": (891, 77_418_328),
}


def test_the_seven_have_the_layers_and_parameters_of_the_published_files():
    found = {name: model_layers(name) for name in EVALUATED}
    counts = {
        name: (len(layers), sum(layer.num_parameters for layer in layers))
        for name, layers in found.items()
    }
    assert counts == PUBLISHED
    assert set(MODELS) == set(EVALUATED) | {"alexnet"}


def test_the_corrected_alexnet_differs_in_the_input_of_its_second_layer_only():
    published, corrected = model_layers("alexnet_published"), model_layers("alexnet")
    differing = [(a, b) for a, b in zip(published, corrected, strict=True) if a != b]
    ((wrong, right),) = differing
    assert (wrong.name, wrong.input_pixels, right.input_pixels) == ("Conv2", 207**2, 27**2)
    first = LayerShape("Conv1", 227, 227, 11, 11, 3, 96, 4)
    assert right.input_height == ((first.output_pixels**0.5) - 3) // 2 + 1


def test_a_layer_has_as_many_weights_and_outputs_as_its_shape_says():
    layer = LayerShape("any", 9, 7, 3, 2, 5, 4, 2)
    positions = [(row, col) for row in range(0, 9 - 3 + 1, 2) for col in range(0, 7 - 2 + 1, 2)]
    assert layer.output_pixels == len(positions)
    assert (layer.window, layer.weights_per_filter, layer.num_parameters) == (6, 30, 120)
    assert layer.input_pixels == 63


def test_a_file_of_layers_is_the_job_of_the_network_with_these(tmp_path):
    rows = [
        ", ".join(map(str, vars(layer).values())) + "," for layer in model_layers("alphagozero")
    ]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join([HEADER + ", Strides,", "", "A title,", *rows, ""]))
    assert load_job(path).layers == load_job("alphagozero").layers


ROW = "Conv1, 8, 8, 3, 3, 2, 4, 1"


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (["Conv1, 8, 8, 3, 3, 2, 4"], "line 2: columns must be 8, not 7"),
        ([ROW, ROW + ", 9"], "line 3: columns must be 8, not 9"),
        (["Conv1"], "line 2: columns must be 8, not 1"),
        (["Conv1, 8, 8, 3, 3, 2, 4, 0"], "line 2: stride must be an integer within 1..2147483647"),
        (["Conv1, 8, x, 3, 3, 2, 4, 1"], "line 2: input_width must be an integer .*, not 'x'"),
        (["Conv1, 8, ٤, 3, 3, 2, 4, 1"], "line 2: input_width must be an integer"),
        (["Conv1, 8, 8, 9, 3, 2, 4, 1"], "line 2: filter_height must be at most input_height, 8"),
        (["Conv1, 8, 8, 3, 9, 2, 4, 1"], "line 2: filter_width must be at most input_width, 8"),
        ([", 8, 8, 3, 3, 2, 4, 1"], "line 2: name must be 1 to 200 printable characters"),
        ([], "layers must be at least one, not none"),
    ],
)
@pytest.mark.every_set
def test_a_malformed_table_is_refused_with_line_rule_and_value(rows, says):
    refuses(ContentError, says, read_layers, "\n".join([HEADER + ", Strides", *rows]))


def test_what_is_no_network_and_no_file_is_refused(tmp_path):
    refuses(JobError, r"Job must be one of alexnet, .*, not 'vgg'", load_job, "vgg")
    with pytest.raises(JobError, match=r"no\.csv: file must be readable, not: No such file"):
        load_job(tmp_path / "no.csv")
    with pytest.raises(ContentError, match="line 1: headings must begin with 'Layer name'"):
        read_layers("Conv1, 8, 8, 3, 3, 2, 4, 1")
    refuses(JobError, r"Network must be one of .*, not 'vgg'", model_layers, "vgg")


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
    refuses(ValueError, says, SystolicArrays, **wrong)
