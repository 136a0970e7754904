"""Tests of an interface's sizes: what is refused, and that the rest can be built."""

from dataclasses import replace

import pytest
from amaranth.back import rtlil

from multitree.nic.driver.config import MOST_SHARED_ROWS, Config
from multitree.nic.driver.registers import ROUTE_WINDOW
from multitree.nic.interface import Interface

LEAST = Config(
    num_ports=1,
    flit_bytes=8,
    table_depth=2,
    num_flows=1,
    buffer_flits=4,
    submessage_flits=2,
    memory_queue_flits=4,
    address_width=4,
)
UNEVEN = Config(
    num_ports=2,
    flit_bytes=8,
    table_depth=145,
    num_flows=5,
    buffer_flits=399,
    submessage_flits=1024,
    memory_queue_flits=5,
    address_width=8,
    dtypes=("float32",),
)


OUT_OF_RANGE = {
    "num_ports": (0, 9),
    "flit_bytes": (4, 12, 128),
    "table_depth": (1, 65537),
    "num_flows": (0, 4097),
    "buffer_flits": (3, 65537),
    "submessage_flits": (1, 24, 2048),
    "memory_queue_flits": (3, 1025),
    "address_width": (3, 33),
    "num_classes": (-1, 3),
    "max_children": (0, 65),
    "wave_width": (-1, 17),
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in OUT_OF_RANGE.items() for value in values]
)
def test_a_size_out_of_range_is_an_error_that_names_it(name, value):
    with pytest.raises(ValueError, match=f"Config {name} must be .*, not {value}"):
        Config(**{name: value})


@pytest.mark.parametrize("value", [True, 4.0, "4", None])
def test_a_size_that_is_no_integer_is_an_error_that_names_it(value):
    with pytest.raises(TypeError, match=f"Config num_ports must be an int, not {value!r}"):
        Config(num_ports=value)


def test_modes_are_any_that_are_known_in_one_order():
    assert Config().modes == ("lockstep", "packets")
    assert Config(modes=("packets", "lockstep")) == Config()
    assert Config(modes=()).modes == ()
    with pytest.raises(ValueError, match="modes must be some of lockstep, packets, not waves"):
        Config(modes=("waves",))
    with pytest.raises(TypeError, match="Config modes must be a tuple of names, not 'packets'"):
        Config(modes="packets")


@pytest.mark.parametrize("dtypes", [(), ("float64",), ("int32", "fp32")])
def test_types_of_lanes_that_nobody_knows_are_an_error(dtypes):
    with pytest.raises(ValueError, match=r"Config dtypes must be some of .*, not "):
        Config(dtypes=dtypes)


def test_types_of_lanes_must_be_a_tuple_and_are_kept_in_one_order():
    with pytest.raises(TypeError, match="Config dtypes must be a tuple of names, not 'int32'"):
        Config(dtypes="int32")
    assert Config(dtypes=("bfloat16", "int32")) == Config(dtypes=("int32", "bfloat16"))
    assert Config().dtypes == ("int32", "float32", "bfloat16")


WAVES = [replace(LEAST, wave_width=1), replace(UNEVEN, address_width=19, wave_width=16)]


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("config", [LEAST, UNEVEN, *WAVES], ids=str)
def test_an_interface_of_legal_sizes_can_be_built(config):
    assert "module" in rtlil.convert(Interface(config))


@pytest.mark.parametrize("width", [4, 8, 24, 32])
@pytest.mark.parametrize("submessage_flits", [2, 16, 1024])
def test_a_count_of_submessages_holds_the_largest_buffer(width, submessage_flits):
    config = Config(address_width=width, submessage_flits=submessage_flits)
    largest = -(-((1 << width) - 1) // submessage_flits)
    assert largest < 1 << config.count_width


@pytest.mark.parametrize("width", [4, 8, 24, 28, 31])
@pytest.mark.parametrize("submessage_flits", [2, 16, 1024])
def test_a_count_of_a_later_wave_is_more_than_all_of_an_earlier_one_and_fits_a_register(
    width, submessage_flits
):
    config = Config(address_width=width, submessage_flits=submessage_flits)
    whole = -(-((1 << width) - 1) // submessage_flits)
    assert config.most_wave_width == min(16, 32 - config.count_width)
    config = replace(config, wave_width=config.most_wave_width)
    assert whole < 1 << config.part_width and config.count_width <= 32
    assert config.count_width == config.part_width + config.wave_width
    # As many runs as waves and stages: their numbers go from 0 to twice the last one's.
    assert 2 * ((1 << config.wave_width) - 1) < 1 << config.run_width


def test_more_bits_of_a_wave_than_counts_have_room_for_are_an_error_and_so_is_one_over_switches():
    with pytest.raises(ValueError, match="wave_width must be at most 11 where addresses have 24 b"):
        Config(address_width=24, wave_width=12)
    assert Config(address_width=24, wave_width=11).count_width == 32
    with pytest.raises(ValueError, match="wave_width must be 0 on shared links, not 1"):
        Config(num_classes=1, wave_width=1)
    # Counts of one wave alone take all 32 bits.
    assert Config(address_width=32, submessage_flits=2).most_wave_width == 0


def test_a_table_on_shared_links_has_no_more_rows_than_the_bus_has_routes_for():
    assert ROUTE_WINDOW.count == MOST_SHARED_ROWS
    shared = {"flit_bytes": 16, "num_classes": 1}
    for num_rows in (MOST_SHARED_ROWS, MOST_SHARED_ROWS + 1):
        assert replace(LEAST, table_depth=num_rows).table_depth == num_rows
    assert replace(LEAST, table_depth=MOST_SHARED_ROWS, **shared).shared
    with pytest.raises(ValueError, match="table_depth must be at most 16384 on shared links, not"):
        replace(LEAST, table_depth=MOST_SHARED_ROWS + 1, **shared)


@pytest.mark.parametrize("flit_bytes", [8, 16])
def test_flits_of_less_than_16_bytes_are_an_error_on_shared_links_only(flit_bytes):
    shared = {"flit_bytes": flit_bytes, "num_classes": 1}
    assert replace(LEAST, flit_bytes=flit_bytes).flit_bytes == flit_bytes
    if flit_bytes == 16:
        assert replace(LEAST, **shared).shared
        return
    message = "Config flit_bytes must be at least 16 on shared links, not 8"
    with pytest.raises(ValueError, match=message):
        replace(LEAST, **shared)
