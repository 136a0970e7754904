"""Layouts of the blocks: the formats of the programmer, and what jobs add."""

import pytest
from amaranth.lib import data

from multitree.hw import codes, lanes
from multitree.hw.link import link
from multitree.nic.driver.config import Config
from multitree.nic.driver.formats import (
    FLOW_FORMAT,
    ROW_FORMAT,
    SHARED_FLOW_FORMAT,
    SHARED_ROW_FORMAT,
    head_format,
)
from multitree.nic.layouts import (
    FLOW_ENTRY,
    ROW,
    SHARED_FLOW,
    SHARED_ROW,
    head_layout,
    job_layout,
    lane_types,
)

PRIVATE, SHORT, SHARED = Config(), Config(flit_bytes=8), Config(num_classes=1)
PAIRS = [
    *((ROW, ROW_FORMAT), (SHARED_ROW, SHARED_ROW_FORMAT)),
    *((FLOW_ENTRY, FLOW_FORMAT), (SHARED_FLOW, SHARED_FLOW_FORMAT)),
    *((head_layout(config), head_format(config)) for config in (PRIVATE, SHORT, SHARED)),
]


@pytest.mark.parametrize(("layout", "entry"), PAIRS)
def test_a_layout_has_the_fields_of_its_format(layout, entry):
    places = {name: (field.offset, field.width) for name, field in layout}
    assert places == entry.fields and layout.size == entry.size


def test_children_are_an_array_of_ports():
    assert FLOW_ENTRY["children"].shape == data.ArrayLayout(4, 8)


def test_a_job_says_what_a_head_needs():
    for config in (PRIVATE, SHARED):
        routed = {"order", "vc_class", "step", "route"}
        assert routed & {name for name, _ in job_layout(config)} == (
            routed if config.shared else set()
        )


@pytest.mark.parametrize(
    ("ours", "plain"), [(link.Kind, codes.Kind), (lanes.DType, codes.DType)], ids=["Kind", "DType"]
)
def test_codes_of_the_hardware_are_all_of_the_plain_ones(ours, plain):
    assert {each.name: each.value for each in ours} == {each.name: each.value for each in plain}


def test_lanes_are_of_the_types_of_the_configuration():
    config = Config(dtypes=("bfloat16", "int32"))
    assert lane_types(config) == (lanes.DType.INT32, lanes.DType.BF16)
