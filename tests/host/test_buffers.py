"""Buffers come back in the form they were handed over in, and are never touched."""

import re

import numpy as np
import pytest

from multitree.host.buffers import take_buffers, take_pieces
from tests.refusals import refuses


@pytest.mark.parametrize("shape", [(4, 6), (4, 2, 3), (4, 0), (4,)])
def test_a_stacked_array_comes_back_in_its_shape(shape):
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    memory, form = take_buffers(array, 4)
    assert memory.shape == (4, array.size // 4)
    back = form.give_back(memory)
    assert isinstance(back, np.ndarray)
    assert back.shape == shape
    assert (back == array).all()


def test_a_list_of_arrays_comes_back_as_a_list():
    arrays = [np.full((2, 3), rank, dtype=np.int32) for rank in range(4)]
    memory, form = take_buffers(arrays, 4)
    back = form.give_back(memory)
    assert isinstance(back, list)
    assert all((mine == theirs).all() for mine, theirs in zip(back, arrays, strict=True))


def test_memory_is_a_copy_even_of_an_array_that_needs_no_change():
    array = np.zeros((4, 5), dtype=np.float32)
    memory, _ = take_buffers(array, 4)
    memory += 1
    assert not array.any()


def test_arrays_of_any_strides_are_taken():
    array = np.arange(40, dtype=np.float32).reshape(10, 4).T
    memory, _ = take_buffers(array, 4)
    assert memory.flags.c_contiguous
    assert (memory == array).all()


FIVE = np.zeros(5, np.float32)


@pytest.mark.parametrize(
    ("buffers", "error", "says"),
    [
        (np.zeros((3, 5), np.float32), ValueError, "4 rows, one per rank, not shape (3, 5)"),
        (np.zeros((), np.float32), ValueError, "4 rows"),
        (np.zeros((4, 5)), TypeError, "float32 or bfloat16, not float64"),
        (np.zeros((4, 5), ">f4"), TypeError, "float32 or bfloat16, not >f4"),
        (np.ma.zeros((4, 5), np.float32), TypeError, "masked arrays: `.filled(0)` gives"),
        ([np.ma.zeros(5, np.float32)] * 4, TypeError, "without a mask"),
        ([FIVE] * 3 + [np.ma.zeros(5, np.float32)], TypeError, "without a mask"),
        ([[1.0]] * 4, TypeError, "arrays or tensors, not list"),
        (7, TypeError, "arrays or tensors, not int"),
        ([FIVE] * 3, ValueError, "must be 4, one per rank, not 3"),
        ([], ValueError, "must be 4, one per rank, not 0"),
        ([FIVE] * 3 + [np.zeros(6, "f4")], ValueError, "agree in shape: rank 0 (5,), rank 3 (6,)"),
        (
            [FIVE] * 3 + [FIVE.view("i4")],
            ValueError,
            "agree in dtype: rank 0 float32, rank 3 int32",
        ),
    ],
)
def test_buffers_that_do_not_fit_are_refused_in_one_sentence(buffers, error, says):
    refuses(error, re.escape(says), take_buffers, buffers, 4)


def owned(num_elements, element_bytes):
    """Parts of 2 ranks that own unequal parts."""
    return [slice(0, num_elements // 3), slice(num_elements // 3, num_elements)]


def test_pieces_go_where_their_ranks_own_them():
    pieces = [np.array([1, 2], np.int32), np.array([3, 4, 5, 6], np.int32)]
    memory, form = take_pieces(pieces, 2, owned)
    assert memory.tolist() == [[1, 2, 0, 0, 0, 0], [0, 0, 3, 4, 5, 6]]
    assert form.give_back(memory).shape == (2, 6)


@pytest.mark.parametrize(
    ("pieces", "error", "says"),
    [
        (np.zeros((2, 3), np.float32), TypeError, "must be a list"),
        ([np.zeros(3, np.float32)] * 2, ValueError, "Piece of rank 0 must have shape (2,)"),
        ([np.zeros(3, np.float32)], ValueError, "must be 2, one per rank, not 1"),
        ([np.zeros((1, 2), np.int32), np.zeros((1, 4), np.int32)], ValueError, "shape (2,)"),
        ([np.zeros(2, np.int32), np.zeros(4, np.float32)], ValueError, "agree in dtype"),
        ([[1], [2, 3]], TypeError, "arrays or tensors"),
        ([np.ma.zeros(2, np.int32), np.zeros(4, np.int32)], TypeError, "without a mask"),
    ],
)
def test_pieces_that_do_not_fit_are_refused_in_one_sentence(pieces, error, says):
    refuses(error, re.escape(says), take_pieces, pieces, 2, owned)
