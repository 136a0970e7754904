"""Words, heads and jobs: every bit is some field's, and no field lacks."""

import pytest

from multitree.nic.config import (
    FLOW_ENTRY,
    ROW,
    SHARED_FLOW,
    SHARED_ROW,
    Config,
    head_layout,
    job_layout,
)
from multitree.nic.faults import FaultCode
from multitree.nic.registers import ROUTE_WINDOW, TABLE_WINDOW
from multitree.nic.table import words_of

PRIVATE, SHORT, SHARED = Config(), Config(flit_bytes=8), Config(num_classes=1)


@pytest.mark.parametrize("layout", [ROW, SHARED_ROW, SHARED_FLOW])
def test_the_fields_of_an_entry_fill_its_words_each_with_its_own_bits(layout):
    full = [words_of(layout, **{name: (1 << field.width) - 1}) for name, field in layout]
    assert [sum(words) for words in zip(*full, strict=True)] == [0xFFFFFFFF] * (layout.size // 32)
    every = words_of(layout, **{name: (1 << field.width) - 1 for name, field in layout})
    assert every == [0xFFFFFFFF] * (layout.size // 32)


def test_an_entry_of_the_flow_memory_is_five_words_on_all_links():
    assert FLOW_ENTRY.size == SHARED_FLOW.size == 5 * 32


@pytest.mark.parametrize(("config", "bits"), [(SHORT, 64), (PRIVATE, 112), (SHARED, 128)])
def test_a_head_has_a_bit_for_its_op_and_fits_a_flit(config, bits):
    assert head_layout(config).size == bits <= 8 * config.flit_bytes
    assert head_layout(config)["op"].width == 1


def test_a_job_says_what_a_head_needs():
    for config in (PRIVATE, SHARED):
        routed = {"order", "vc_class", "step", "route"}
        assert routed & {name for name, _ in job_layout(config)} == (
            routed if config.shared else set()
        )


def test_codes_of_faults_count_on_and_each_has_a_sentence():
    assert [int(code) for code in FaultCode] == list(range(26))
    assert len({code.sentence for code in FaultCode}) == 26


def test_the_text_of_a_window_says_where_fields_are():
    row, route = TABLE_WINDOW.description, ROUTE_WINDOW.description
    assert "flow[15:0] port[19:16] op[21:20], word 1 step[15:0] stage[31:16]." in row
    assert SHARED_ROW["vc_class"].offset == 22 and "row bits 22 and 28:23 are" in route
