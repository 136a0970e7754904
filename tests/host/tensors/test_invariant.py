"""Invariant sums are exact sums of rounded summands, rounded once, in every order."""

import itertools
import math
import threading
from fractions import Fraction

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so its sums are untested")

from multitree.host.tensors import invariant  # noqa: E402
from multitree.host.tensors.invariant import (  # noqa: E402
    INVARIANT_DTYPES,
    MOST_RANKS,
    check_invariant,
    invariant_sum,
    keys_of,
    limbs_of,
    needs_limbs,
    sum_of,
)
from tests.host.devices import on_every_device  # noqa: E402
from tests.host.tensors.exact import (  # noqa: E402
    FORMATS,
    bits_of,
    exact_sum,
    random_floats,
    rounded,
)

REAL = list(FORMATS)
MAX = torch.finfo(torch.float32).max
NAN, INFINITY = 0x7FC00000, 0x7F800000
CANONICAL = {torch.float32: NAN, torch.bfloat16: 0x7FC0, torch.float16: 0x7E00}


def summed(ranks, op="sum"):
    """The sum over the first dimension, by all-reduces that this process does for all ranks."""
    largest = torch.stack([keys_of(x) for x in ranks]).amax(0)
    limbs = sum(limbs_of(x, largest) for x in ranks)  # int32, so that it wraps around
    return sum_of(limbs, largest, ranks[0].dtype, len(ranks) if op == "average" else None)


def of_columns(*columns, dtype=torch.float32):
    """A rank per summand: every column is the summands of one element."""
    return torch.tensor(columns, dtype=dtype).T


def expected_bits(values, op, dtype):
    """What one element must be, from fractions."""
    if any(map(math.isnan, values)) or {math.inf, -math.inf} <= set(values):
        return CANONICAL[dtype]
    infinite = [value for value in values if math.isinf(value)]
    if infinite:
        return bits_of(torch.tensor(infinite[:1], dtype=dtype))[0]
    if all(value == 0 and math.copysign(1, value) < 0 for value in values):
        return bits_of(torch.tensor([-0.0], dtype=dtype))[0]
    total = exact_sum(values)[1]
    return rounded(total / len(values) if op == "average" else total, dtype)


def spread(seed, num_ranks, n, dtype):
    """Finite floats of random bits, those of an element within some binades of each other."""
    generator = torch.Generator().manual_seed(seed)
    _, least, above = FORMATS[dtype]
    tops = torch.randint(least, above, (n,), generator=generator)
    down = torch.randint(0, 60, (num_ranks, n), generator=generator)
    significands = torch.rand((num_ranks, n), generator=generator, dtype=torch.float64) * 2 - 1
    return (significands * 2.0 ** (tops - down)).to(dtype)


@on_every_device
@pytest.mark.parametrize("op", ["sum", "average"])
@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("num_ranks", [1, 2, 3, 7, 16])
def test_every_bit_is_that_of_exact_arithmetic(num_ranks, dtype, op, device):
    seed = num_ranks
    for ranks in (
        random_floats(seed, (num_ranks, 300), dtype),
        spread(seed, num_ranks, 300, dtype),
        spread(seed, num_ranks, 60, dtype) * torch.finfo(dtype).smallest_normal,
    ):
        found = bits_of(summed(ranks.to(device), op))
        columns = ranks.to(torch.float64).T.tolist()
        assert found == [expected_bits(values, op, dtype) for values in columns], f"seed {seed}"


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("num_ranks", [2, 9])
def test_the_error_is_within_the_stated_bound(num_ranks, dtype):
    precision = FORMATS[dtype][0]
    ranks = spread(seed := 20 + num_ranks, num_ranks, 400, dtype)
    result = summed(ranks).to(torch.float64).tolist()
    for values, value in zip(ranks.to(torch.float64).T.tolist(), result, strict=True):
        if math.isinf(value):
            continue
        exact, total = exact_sum(values)
        most = (num_ranks - 1) * Fraction(max(map(abs, values))) / 2**43
        assert abs(total - exact) <= most, f"seed {seed}: {values}"
        assert abs(Fraction(value) - exact) <= abs(total) / 2**precision + most, f"seed {seed}"


def test_sums_of_float16_are_correctly_rounded_whatever_they_span():
    ranks = random_floats(5, (6, 500), torch.float16).nan_to_num(1, 1, 1)
    ranks[0], ranks[1] = torch.finfo(torch.float16).max, 2.0**-24
    exact = [sum(map(Fraction, values)) for values in ranks.to(torch.float64).T.tolist()]
    assert bits_of(summed(ranks)) == [rounded(value, torch.float16) for value in exact]


@pytest.mark.parametrize(
    ("values", "total"), [((1e8, 1.0, -1e8, 1.0), 2.0), ((1e30, 1.0, -1e30, 1.0), 0.0)]
)
def test_large_numbers_that_cancel_leave_one_result_in_all_placements(values, total):
    placed = of_columns(*itertools.permutations(values))
    assert bits_of(summed(placed)) == bits_of(torch.full((24,), total))
    # In the usual order of additions, what is left depends on the placement.
    first, second, third, fourth = placed
    assert len(set((first + second + third + fourth).tolist())) > 1


def test_sums_beyond_the_largest_number_are_infinite_and_partial_sums_do_not_matter():
    ulp = 2.0**104
    half, even = (MAX, ulp / 2), (MAX, ulp / 4)
    columns = [(MAX, MAX, MAX), (-MAX, -MAX, 0.0), (MAX, MAX, -MAX), (*half, 0.0), (*even, 0.0)]
    expected = torch.tensor([math.inf, -math.inf, MAX, math.inf, MAX])
    assert bits_of(summed(of_columns(*columns))) == bits_of(expected)
    averages = summed(of_columns((MAX, MAX, MAX), (MAX, MAX, -MAX)), "average")
    assert averages.tolist() == [MAX, torch.tensor(MAX / 3).item()]


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_zeros_infinities_and_nan_follow_ieee_754(dtype):
    inf, nan = math.inf, math.nan
    cases = [
        ((-0.0, -0.0, -0.0), -0.0),
        ((-0.0, 0.0, -0.0), 0.0),
        ((1.5, -1.5, -0.0), 0.0),
        ((inf, 1.0, inf), inf),
        ((-inf, 1.0, 2.0), -inf),
        ((inf, -inf, 1.0), nan),
        ((nan, -inf, inf), nan),
        ((nan, 1.0, -0.0), nan),
    ]
    columns, results = zip(*cases, strict=True)
    ranks = of_columns(*columns, dtype=dtype)
    expected = bits_of(torch.tensor(results, dtype=dtype))
    for op in ("sum", "average"):
        assert bits_of(summed(ranks, op)) == expected
    # A NaN of other bits, and one that signals.
    odd = torch.zeros(2, dtype=dtype)
    odd.view(torch.int32 if dtype == torch.float32 else torch.int16)[:] = torch.tensor(
        [-1, bits_of(torch.tensor([inf], dtype=dtype))[0] + 1]
    )
    assert bits_of(summed([odd, torch.zeros_like(odd)])) == 2 * [CANONICAL[dtype]]


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_neither_order_nor_padding_nor_more_ranks_of_zeros_change_a_bit(dtype):
    ranks = torch.cat([random_floats(7, (6, 200), dtype), spread(7, 6, 200, dtype)], 1)
    expected = bits_of(summed(ranks))
    for shift in range(1, 6):
        assert bits_of(summed(ranks.roll(shift, 0).flip(0))) == expected
    padded = torch.nn.functional.pad(ranks, (3, 5))
    assert bits_of(summed(padded)[3:-5]) == expected
    negative = -torch.zeros(9, 400, dtype=dtype)
    assert bits_of(summed([*ranks, *negative])) == expected
    # As in any order of additions, -0 with +0 is +0.
    zero = bits_of(negative)[0]
    expected = [0 if bits == zero else bits for bits in expected]
    assert bits_of(summed([*ranks, *-negative])) == expected


@pytest.mark.parametrize("sign", [1, -1])
def test_limbs_have_room_for_the_most_ranks(sign):
    large = 2.0**43 - 2.0**19  # units: the largest significand
    ones = 2.0**22 - 1  # all bits of a low limb
    columns = [[large] * MOST_RANKS, [large] + [ones] * 1023, [large] + [-ones] * 1023]
    ranks = sign * of_columns(*columns)
    exact = [sum(map(Fraction, values)) for values in (sign * torch.tensor(columns)).tolist()]
    assert bits_of(summed(ranks)) == [rounded(value, torch.float32) for value in exact]
    largest = keys_of(ranks).view(MOST_RANKS, -1).amax(0)
    limbs = torch.stack([limbs_of(x, largest) for x in ranks]).to(torch.int64)
    high = limbs[:, 0].sum(0)
    assert high.min() >= -(2**31) and high.max() < 2**31
    assert 2**31 < limbs[:, 1].sum(0).max() < 2**32 and limbs[:, 1].min() >= 0


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("num_ranks", [3, 7, 1000, 1023, 1024])
def test_an_average_next_to_half_way_is_rounded_once(num_ranks, dtype):
    precision = FORMATS[dtype][0]
    # Odd multiples of half an ulp, with and without fractions of a unit, and their neighbours.
    middles = [(2**precision + odd) << shift for odd in (1, 3, 5) for shift in (0, 41 - precision)]
    totals = [num_ranks * middle + off for middle in middles for off in (-1, 0, 1)]
    totals += [num_ranks * middle // 2**20 + off for middle in middles for off in (0, 1)]
    limbs = torch.tensor([[t >> 22 for t in totals], [t & 2**22 - 1 for t in totals]])
    keys = keys_of(torch.ones(len(totals)))
    found = bits_of(sum_of(limbs.to(torch.int32), keys, dtype, num_ranks))
    exact = [Fraction(total, num_ranks) / 2**42 for total in totals]
    assert found == [rounded(value, dtype) for value in exact]


def test_a_narrow_float_is_not_rounded_twice():
    # Next to the middle of two bfloat16, nearer than a float32 shows: both ways of it.
    for dtype, half in ((torch.bfloat16, 2.0**-8), (torch.float16, 2.0**-11)):
        least = 2.0**-24
        columns = [(1, half, -least), (1, half, least), (1, half, 0), (1 + 2 * half, half, 0)]
        columns += [tuple(-value for value in column) for column in columns]
        expected = [rounded(sum(map(Fraction, values)), dtype) for values in columns]
        assert bits_of(summed(of_columns(*columns, dtype=dtype))) == expected


def test_complex_numbers_are_pairs():
    parts = random_floats(11, (5, 64, 2), torch.float32)
    ranks = torch.view_as_complex(parts)
    result = summed(ranks)
    assert result.dtype == torch.complex64 and result.shape == (64,)
    pairs = summed(parts.reshape(5, -1))
    assert bits_of(torch.view_as_real(result)) == bits_of(pairs)
    conjugated = summed(ranks.nan_to_num(0, 0, 0).conj())
    assert (conjugated == summed(ranks.nan_to_num(0, 0, 0)).conj()).all()


def test_blocks_do_not_show(monkeypatch):
    ranks = torch.cat([random_floats(13, (3, 100), torch.float32), spread(13, 3, 11, REAL[0])], 1)
    whole = bits_of(summed(ranks))
    for length in (1, 7, 111):
        monkeypatch.setattr(invariant, "_CPU_BLOCK", length)
        assert bits_of(summed(ranks)) == whole
    assert summed(torch.zeros(3, 0)).shape == (0,)


class Threads:
    """All-reduces among ranks that are threads, and how many elements they were called with."""

    def __init__(self, num_ranks):
        self.barrier = threading.Barrier(num_ranks, timeout=20)
        self.given = [None] * num_ranks
        self.calls = []

    def all_reduce(self, rank):
        def reduce(tensor, op):
            assert tensor.dtype == torch.int32 and tensor.ndim == 1
            self.given[rank] = tensor
            self.barrier.wait()
            stack = torch.stack(self.given)
            self.barrier.wait()
            if rank == 0:
                self.calls.append((op, len(tensor)))
            return stack.amax(0) if op == "max" else stack.sum(0, dtype=torch.int32)

        return reduce


@pytest.mark.parametrize("dtype", INVARIANT_DTYPES, ids=str)
@pytest.mark.parametrize("op", ["sum", "average"])
def test_ranks_that_hold_one_buffer_each_get_the_sum_by_two_all_reduces(dtype, op):
    shape = (4, 6, 10)
    whole = torch.view_as_complex if dtype.is_complex else torch.Tensor.clone
    ranks = whole(random_floats(3, (*shape, 2) if dtype.is_complex else shape, (dtype.to_real())))
    before, results, threads = ranks.clone(), [None] * 4, Threads(4)

    def run(rank):
        mine = ranks[rank].T  # not contiguous
        results[rank] = invariant_sum(threads.all_reduce(rank), mine, op, num_ranks=4)

    running = [threading.Thread(target=run, args=(rank,)) for rank in range(4)]
    [thread.start() for thread in running]
    [thread.join() for thread in running]
    numbers = 60 * (1 + dtype.is_complex)
    assert threads.calls == [("max", numbers), ("sum", 2 * numbers)]
    expected = summed([x.T for x in ranks], op).reshape(10, 6)
    for result in results:
        assert result.shape == (10, 6) and result.dtype == dtype
        assert real_bits(result) == real_bits(expected)
    assert real_bits(ranks) == real_bits(before)


def real_bits(tensor):
    return bits_of(torch.view_as_real(tensor) if tensor.is_complex() else tensor)


def test_only_sums_and_products_of_floats_depend_on_the_order():
    for op in ("sum", "average", "product"):
        assert needs_limbs(op, torch.float32) and needs_limbs(op, torch.complex128)
    for op in ("min", "max"):
        assert not needs_limbs(op, torch.bfloat16)
    for op in ("sum", "product", "bitwise_xor"):
        assert not needs_limbs(op, torch.int32)


@pytest.mark.parametrize(
    ("op", "dtype", "num_ranks", "error", "text"),
    [
        ("product", torch.float32, 2, ValueError, "Operator must be sum or average .* 'product'"),
        ("sum", torch.float64, 2, TypeError, "complex64 for an invariant sum, not torch.float64"),
        ("average", torch.int32, 2, TypeError, "for an invariant average, not torch.int32"),
        ("sum", torch.float32, 1025, ValueError, "must be at most 1024, not 1025"),
    ],
)
def test_what_has_no_invariant_form_is_refused_by_name(op, dtype, num_ranks, error, text):
    with pytest.raises(error, match=text):
        check_invariant(op, dtype, num_ranks)
    with pytest.raises(error, match=text):
        invariant_sum(lambda *_: None, torch.zeros(3, dtype=dtype), op, num_ranks=num_ranks)
    check_invariant("sum", torch.float32, MOST_RANKS)
