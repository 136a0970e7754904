"""The seven networks: parameters, layers, and the table that users may bring."""

import pytest

from multitree import JobError, load_job
from multitree.sim.jobs.models import EVALUATED, MODELS, model_layers
from multitree.sim.jobs.systolic_arrays import HEADER, LayerShape, read_layers
from multitree.topology.errors import ContentError

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
    with pytest.raises(ContentError, match=says):
        read_layers("\n".join([HEADER + ", Strides", *rows]))


def test_what_is_no_network_and_no_file_is_refused(tmp_path):
    with pytest.raises(JobError, match=r"Job must be one of alexnet, .*, not 'vgg'"):
        load_job("vgg")
    with pytest.raises(JobError, match=r"no\.csv: file must be readable, not: No such file"):
        load_job(tmp_path / "no.csv")
    with pytest.raises(ContentError, match="line 1: headings must begin with 'Layer name'"):
        read_layers("Conv1, 8, 8, 3, 3, 2, 4, 1")
    with pytest.raises(JobError, match=r"Network must be one of .*, not 'vgg'"):
        model_layers("vgg")
