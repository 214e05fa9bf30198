from itertools import product

import numpy as np
import pytest

from rmsaudit.arrays import dtype_of, round_to
from rmsaudit.battery import common_format
from rmsaudit.formats import FORMATS

PAIRS = tuple(product(FORMATS, repeat=2))


def every_finite(word):
    values = np.arange(1 << 16, dtype=np.uint16).view(dtype_of(word)).astype(np.float32)
    return values[np.isfinite(values)]


def has_both_formats(values):
    """From the definitions of the two formats: at most 8 bits, on the grid of 2^-24, at most 65280 = 255 · 2^8."""
    wide = values.astype(np.float64)
    mantissa, _ = np.frexp(wide)
    eight_bits = mantissa * 2**8 == np.rint(mantissa * 2**8)
    on_grid = wide * 2.0**24 == np.rint(wide * 2.0**24)
    return eight_bits & on_grid & (np.abs(wide) <= 65280)


@pytest.mark.parametrize("word", ["float16", "bfloat16"])
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_every_16_bit_pattern_rounds_to_a_value_of_float16_and_of_bfloat16(word):
    rounded = common_format("float16", "bfloat16").round(every_finite(word))
    finite = np.isfinite(rounded)
    assert rounded.dtype == np.float32
    assert has_both_formats(rounded[finite]).all()
    assert np.isinf(rounded[~finite]).all()


@pytest.mark.parametrize("word", ["float16", "bfloat16"])
def test_every_16_bit_pattern_that_both_have_stays_as_it_is(word):
    values = every_finite(word)
    shared = values[has_both_formats(values)]
    assert shared.size > 5000  # float16 has 30 binades of 2 · 128 shared values
    np.testing.assert_array_equal(common_format("bfloat16", "float16").round(shared), shared)


def test_most_patterns_of_one_are_no_values_of_the_other():
    """The twin: what is asserted above is not true of any rounding."""
    assert not has_both_formats(every_finite("float16")).all()
    assert not has_both_formats(every_finite("bfloat16")).all()


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_rounded_values_are_values_of_both(first, second):
    fmt = common_format(first, second)
    rng = np.random.Generator(np.random.PCG64(1))
    exponents = rng.integers(fmt.smallest_exponent - 2, fmt.max_exponent, size=4000)
    values = np.ldexp(rng.uniform(-2, 2, size=4000), exponents).astype(fmt.draft)
    np.clip(values, -fmt.max, fmt.max, out=values)
    rounded = fmt.round(values)
    assert rounded.dtype == dtype_of(fmt.held)
    for word in (first, second):
        there = round_to(rounded, word)
        np.testing.assert_array_equal(there.astype(np.float64), rounded.astype(np.float64))
    assert np.isfinite(rounded.astype(np.float64)).all()


@pytest.mark.parametrize(
    ("first", "second", "held"),
    [
        ("float32", "float32", "float32"),
        ("float64", "float32", "float32"),
        ("float32", "bfloat16", "bfloat16"),
        ("float16", "float32", "float16"),
        ("float16", "bfloat16", "float32"),
        ("float8_e5m2", "float16", "float8_e5m2"),
        ("float8_e4m3fn", "bfloat16", "float8_e4m3fn"),
        ("float8_e4m3fn", "float8_e5m2", "float32"),
    ],
)
def test_arrays_are_held_in_the_coarser_dtype_and_in_float32_where_there_is_none(first, second, held):
    assert common_format(first, second).held == held
    assert common_format(second, first) == common_format(first, second)


@pytest.mark.parametrize("word", FORMATS)
def test_a_format_shares_itself_with_itself(word):
    fmt, own = common_format(word, word), FORMATS[word]
    assert (fmt.precision, fmt.min_exponent, fmt.max, fmt.max_exponent, fmt.has_infinity) == (
        own.precision,
        own.min_exponent,
        own.max,
        own.max_exponent,
        own.has_infinity,
    )


def test_the_two_float8_formats_share_three_bits_down_to_2_to_the_minus_9():
    fmt = common_format("float8_e4m3fn", "float8_e5m2")
    assert (fmt.precision, fmt.smallest_exponent, fmt.max, fmt.has_infinity) == (3, -9, 448.0, False)


def test_floor_and_above_are_neighbours():
    fmt = common_format("float16", "bfloat16")
    assert (fmt.floor(255.99), fmt.above(255.0)) == (255.0, 256.0)
    assert (fmt.floor(1e9), fmt.above(fmt.max)) == (65280.0, float("inf"))
    assert fmt.floor(2.0**-23 + 2.0**-25) == 2.0**-23  # between two subnormals of float16
    assert fmt.above(2.0**-24) == 2.0**-23
