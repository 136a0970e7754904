"""Words and heads: every bit is a field's, and numbers come back as packed."""

import pytest

from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import Awaited, FaultCode
from multitree.nic.driver.formats import (
    FLOW_FORMAT,
    ROW_FORMAT,
    SHARED_FLOW_FORMAT,
    SHARED_ROW_FORMAT,
    Format,
    head_format,
    sequence_width,
)
from multitree.nic.driver.registers import ROUTE_WINDOW, TABLE_WINDOW

PRIVATE, SHORT, SHARED = Config(), Config(flit_bytes=8), Config(num_classes=1)
ENTRIES = [ROW_FORMAT, SHARED_ROW_FORMAT, FLOW_FORMAT, SHARED_FLOW_FORMAT]


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_fields_of_an_entry_fill_its_words_each_with_its_own_bits(entry):
    full = [entry.words(**{name: entry.mask(name)}) for name in entry.fields]
    assert [sum(words) for words in zip(*full, strict=True)] == [0xFFFFFFFF] * (entry.size // 32)
    every = {name: entry.mask(name) for name in entry.fields}
    assert entry.words(**every) == [0xFFFFFFFF] * (entry.size // 32)
    assert entry.unpack(entry.pack(**every) | 1 << entry.size) == every


def test_a_number_that_does_not_fit_its_field_is_refused():
    entry = Format({"low": 3, "high": 5})
    assert entry.unpack(entry.pack(low=5, high=17)) == {"low": 5, "high": 17}
    for value in (8, -1):
        with pytest.raises(ValueError, match=f"Low must fit 3 bits, not {value}"):
            entry.pack(low=value)


def test_an_entry_of_the_flow_memory_is_five_words_on_all_links():
    assert FLOW_FORMAT.size == SHARED_FLOW_FORMAT.size == 5 * 32


@pytest.mark.parametrize(("config", "bits"), [(SHORT, 64), (PRIVATE, 112), (SHARED, 128)])
def test_a_head_has_a_bit_for_its_op_and_fits_a_flit(config, bits):
    assert head_format(config).size == bits <= 8 * config.flit_bytes
    assert head_format(config)["op"].width == 1


@pytest.mark.parametrize(
    ("sizes", "sequence"),
    [
        ({"flit_bytes": 8}, (42, 22)),
        ({"flit_bytes": 16}, (80, 32)),
        ({"flit_bytes": 32}, (80, 32)),
        ({"flit_bytes": 16, "num_classes": 2}, (40, 8)),
    ],
)
def test_a_head_fits_every_flit_and_counts_collectives_as_the_register_map_says(sizes, sequence):
    head = head_format(Config(**sizes))
    assert sizes["flit_bytes"] * 8 >= head.size
    assert head["sequence"] == sequence
    assert sequence_width(Config(**sizes)) == sequence[1]


def test_codes_of_faults_count_on_and_each_has_a_sentence():
    assert [int(code) for code in FaultCode] == list(range(26))
    assert len({code.sentence for code in FaultCode}) == 26


def test_the_text_of_a_window_says_where_fields_are():
    row, route = TABLE_WINDOW.description, ROUTE_WINDOW.description
    assert "flow[15:0] port[19:16] op[21:20], word 1 step[15:0] stage[31:16]." in row
    assert SHARED_ROW_FORMAT["vc_class"].offset == 22 and "row bits 22 and 28:23 are" in route


@pytest.mark.parametrize("kind", [Awaited, FaultCode])
def test_each_code_has_a_number_of_its_own(kind):
    assert len(kind.__members__) == len({*kind})
