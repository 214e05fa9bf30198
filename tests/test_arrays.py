"""One correct rounding into every format, proven on all of its values and on the midpoints between them.

The judge is written here from the bit layout: a sorted list of a format's values, and a search in it.
"""

from functools import cache
from math import ldexp
from typing import Any

import gmpy2
import numpy as np
import pytest

from rmsaudit.arrays import (
    Array,
    bits,
    bits_of,
    dtype_of,
    format_of,
    hex_of,
    ordered,
    round_to,
    round_toward_zero,
    word_of,
)
from rmsaudit.formats import FORMATS

WORDS = tuple(FORMATS)
LAYOUT = {"float16": (5, 10), "bfloat16": (8, 7), "float8_e4m3fn": (4, 3), "float8_e5m2": (5, 2)}  # exponent, mantissa
NARROW = tuple(LAYOUT)


@pytest.fixture(autouse=True)
def _ieee() -> Any:
    with np.errstate(all="ignore"):
        yield


@cache
def positive_values(word: str) -> tuple[float, ...]:
    """Every finite value from 0 up, decoded from its pattern by hand; position k has pattern k."""
    exponent_bits, mantissa_bits = LAYOUT[word]
    bias = (1 << (exponent_bits - 1)) - 1
    values = []
    for pattern in range(1 << (exponent_bits + mantissa_bits)):
        exponent, mantissa = divmod(pattern, 1 << mantissa_bits)
        if word == "float8_e4m3fn":
            if pattern == 0x7F:  # its only NaN
                break
        elif exponent == (1 << exponent_bits) - 1:
            break
        whole = (mantissa + (1 << mantissa_bits)) if exponent else mantissa
        values.append(ldexp(whole, max(exponent, 1) - bias - mantissa_bits))
    return tuple(values)


def nearest_by_search(values: Array, word: str) -> Array:
    """float64 `values` to the nearest of the format's, ties to the even pattern, overflow as the format has it."""
    grid = np.array(positive_values(word))
    step = grid[-1] - grid[-2]
    grid = np.append(grid, grid[-1] + step)  # where rounding starts to overflow is halfway to the value after the last
    middle = grid[:-1] + (grid[1:] - grid[:-1]) / 2  # exact: one bit more than the format has
    size = np.abs(values)
    at = np.searchsorted(middle, size, side="left")  # how many midpoints lie strictly below
    tie = (at < middle.size) & (middle[np.minimum(at, middle.size - 1)] == size)
    at = at + (tie & (at % 2 == 1))
    beyond = np.inf if FORMATS[word].has_infinity else np.nan
    nearest = np.where(at >= grid.size - 1, beyond, grid[np.minimum(at, grid.size - 1)])
    return np.copysign(np.where(np.isnan(values), np.nan, nearest), values)


def probes(word: str) -> Array:
    """All values, all midpoints, the float64 on either side of each, and random ones far inside and outside."""
    grid = np.array(positive_values(word))
    step = grid[-1] - grid[-2]
    middle = np.append(grid[:-1] + (grid[1:] - grid[:-1]) / 2, grid[-1] + step / 2)
    rng = np.random.default_rng(1)
    drawn = np.ldexp(rng.random(20_000), rng.integers(-1074, 1025, size=20_000))
    inside = np.exp2(rng.uniform(np.log2(grid[1]) - 2, np.log2(grid[-1]) + 2, size=20_000))
    edges = np.array([0.0, 5e-324, 1.7976931348623157e308, np.inf, 2 * grid[-1]])
    positive = np.concatenate(
        [grid, middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf), drawn, inside, edges]
    )
    return np.concatenate([positive, -positive, [np.nan]])


@pytest.mark.parametrize("word", NARROW)
def test_float64_is_rounded_once_to_every_narrow_format(word: str) -> None:
    values = probes(word)
    got = round_to(values, word)
    assert word_of(got) == word
    np.testing.assert_array_equal(got.astype(np.float64), nearest_by_search(values, word))
    finite = np.isfinite(got)
    np.testing.assert_array_equal(np.signbit(got.astype(np.float64))[finite], np.signbit(values)[finite])


@pytest.mark.parametrize("word", NARROW)
def test_float32_is_rounded_once_to_every_narrow_format(word: str) -> None:
    values = probes(word).astype(np.float32)
    np.testing.assert_array_equal(
        round_to(values, word).astype(np.float64), nearest_by_search(values.astype(np.float64), word)
    )


@pytest.mark.parametrize("target", NARROW)
@pytest.mark.parametrize("source", NARROW)
def test_every_narrow_value_into_every_narrow_format(source: str, target: str) -> None:
    positive = np.array(positive_values(source))
    values = np.concatenate([positive, -positive, [np.nan]]).astype(dtype_of(source))
    np.testing.assert_array_equal(
        round_to(values, target).astype(np.float64), nearest_by_search(values.astype(np.float64), target)
    )


def test_float64_is_rounded_once_to_float32() -> None:
    rng = np.random.default_rng(2)
    middle = np.float64(rng.integers(1 << 24, 1 << 25, size=2000) | 1)  # 25 bits, the last one set: midpoints
    middle = np.ldexp(middle, rng.integers(-172, 103, size=2000))  # down among the subnormals, up to overflow
    values = np.concatenate([middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf)])
    with gmpy2.context(precision=24, emin=-148, emax=128, subnormalize=True):
        want = [float(gmpy2.mpfr(gmpy2.mpq(v))) for v in values.tolist()]
    np.testing.assert_array_equal(round_to(values, "float32").astype(np.float64), want)


def test_the_library_alone_rounds_twice() -> None:
    """The twin: what `round_to` is there for. If this fails, ml_dtypes has been mended and `_quantise` can go."""
    value = np.array([1 + 2.0**-8 + 2.0**-40])
    assert value.astype(dtype_of("bfloat16"))[0] == 1.0
    assert float(round_to(value, "bfloat16")[0]) == 1.0078125


def test_values_of_the_right_dtype_are_handed_back() -> None:
    values = np.float32([1.0, 2.0])
    assert round_to(values, "float32") is values


def test_e4m3fn_overflows_to_nan_above_464() -> None:
    got = round_to(np.array([448.0, 464.0, np.nextafter(464.0, 500), 480.0, np.inf, -1e9]), "float8_e4m3fn")
    np.testing.assert_array_equal(got.astype(np.float64), [448, 448, np.nan, np.nan, np.nan, np.nan])


@pytest.mark.parametrize("word", NARROW)
def test_toward_zero_is_the_last_value_not_beyond(word: str) -> None:
    values = probes(word)
    values = values[np.isfinite(values)]
    grid = np.array(positive_values(word))
    want = np.copysign(grid[np.searchsorted(grid, np.abs(values), side="right") - 1], values)
    got = round_toward_zero(values, word).astype(np.float64)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(values))
    narrow = values.astype(np.float32)
    narrow = narrow[np.isfinite(narrow)]
    want = np.copysign(grid[np.searchsorted(grid, np.abs(narrow.astype(np.float64)), side="right") - 1], narrow)
    np.testing.assert_array_equal(round_toward_zero(narrow, word).astype(np.float64), want)


@pytest.mark.parametrize("word", WORDS)
def test_a_word_its_dtype_and_its_bits(word: str) -> None:
    array = np.ones(3, dtype=dtype_of(word))
    assert word_of(array) == word
    assert format_of(array) is FORMATS[word]
    assert bits(array).dtype == bits_of(word)
    assert bits_of(word).itemsize * 8 == FORMATS[word].bits


def test_short_words_are_read_and_others_are_not() -> None:
    assert dtype_of("bf16") == dtype_of("bfloat16")
    with pytest.raises(KeyError):
        dtype_of("int8")
    with pytest.raises(KeyError):
        word_of(np.ones(1, dtype=np.int32))


# --- the ordered line -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", NARROW)
def test_neighbours_are_one_step_apart_and_the_zeros_none(word: str) -> None:
    grid = np.array(positive_values(word))
    line = np.concatenate([-grid[::-1], grid]).astype(dtype_of(word))
    steps = np.diff(ordered(line))
    assert steps[grid.size - 1] == 0  # from −0 to +0
    assert (np.delete(steps, grid.size - 1) == 1).all()


@pytest.mark.parametrize("word", ["float32", "float64"])
def test_steps_between_wide_neighbours(word: str) -> None:
    dtype = dtype_of(word)
    values = np.array([0.0, FORMATS[word].smallest_subnormal, 1.0, 1e-30, 3e38, FORMATS[word].max]).astype(dtype)
    values = np.concatenate([values, -values])
    upward = np.nextafter(values, dtype.type(np.inf))
    np.testing.assert_array_equal(ordered(upward) - ordered(values), np.ones(values.size))
    assert ordered(upward).dtype == np.int64


def test_infinity_follows_the_largest_value() -> None:
    line = ordered(np.float32([FORMATS["float32"].max, np.inf, -FORMATS["float32"].max, -np.inf]))
    assert line[1] - line[0] == 1
    assert line[3] - line[2] == -1


# --- hex --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0x0p+0"),
        (-0.0, "-0x0p+0"),
        (1.0, "0x1p+0"),
        (1.5, "0x1.8p+0"),
        (-0.1, "-0x1.999999999999ap-4"),
        (2.0**-149, "0x1p-149"),
        (5e-324, "0x0.0000000000001p-1022"),
        (float(np.float32(1e-5)), "0x1.4f8b58p-17"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
    ],
)
def test_hex_is_short_and_reads_back(value: float, text: str) -> None:
    assert hex_of(value) == text
    np.testing.assert_equal(float.fromhex(text), value)
