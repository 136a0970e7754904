"""Sizes are read and written the way people write them."""

import pytest

from multitree.host.sizes import format_size, parse_size, parse_sizes
from tests.refusals import refuses


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("4", 4),
        ("1000B", 1000),
        ("32KiB", 32768),
        (" 1 MiB ", 1 << 20),
        ("1mib", 1 << 20),
        ("2GiB", 2 << 30),
        ("32kB", 32_000),
        ("1MB", 1_000_000),
        ("3 gb", 3_000_000_000),
        ("1TB", 10**12),
        ("2 TiB", 1 << 41),
        ("9" * 14 + "6", 10**15 - 4),
    ],
)
def test_a_size_is_bytes_or_has_a_binary_or_an_si_unit(text, size_bytes):
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize(
    "text",
    ["", "KiB", "1.5MiB", "-4", "0", "6", "1M", "64k", "1PB", "4,8", "1 0", "٤", "4 4KiB", "0x10"],
)
def test_anything_else_is_refused(text):
    refuses(ValueError, "Size must be", parse_size, text)


def test_a_number_of_too_many_digits_is_refused_with_their_number():
    refuses(ValueError, r"^Size must have at most 15 digits, not 16$", parse_size, "1" + "0" * 15)


def test_a_size_is_in_a_list_once_in_whatever_unit():
    with pytest.raises(ValueError, match=r"^Sizes must be there once each, not '4096' again$"):
        parse_sizes("4KiB, 8, 4096")


@pytest.mark.parametrize(
    "size_bytes", [4, 1000, 1024, 32768, 1 << 20, 3 << 30, 1 << 42, (1 << 20) + 4]
)
def test_what_is_written_is_read_back(size_bytes):
    text = format_size(size_bytes).removesuffix(" bytes")
    assert parse_size(text) == size_bytes
    assert len(text) <= 7


def test_elements_of_two_bytes_may_be_any_number():
    assert parse_sizes("1022,2", "bfloat16") == [1022, 2]
    refuses(ValueError, r"multiple of 2 bytes, not '1023'", parse_size, "1023", "bfloat16")


def test_a_list_has_commas_and_no_empty_place():
    assert parse_sizes("32KiB, 1MB,4") == [32768, 1_000_000, 4]
    for text in ("", "4,", "4,,8", "4;8", "4,6"):
        refuses(ValueError, "Size must be", parse_sizes, text)
