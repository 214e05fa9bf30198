"""Double-double steps against exact fractions, their published bounds, and roundings against MPFR."""

from fractions import Fraction
from math import ceil, log2
from typing import Any

import gmpy2
import numpy as np
import pytest

from rmsaudit.arrays import Array, round_to, word_of
from rmsaudit.double_double import (
    DoubleDouble,
    add,
    exact_sum,
    fast_two_sum,
    round_once,
    rsqrt,
    sum_last_axis,
    two_product,
    two_sum,
)
from rmsaudit.formats import FORMATS

U = Fraction(1, 2**53)
BELOW_64_BITS = [word for word in FORMATS if word != "float64"]


@pytest.fixture(autouse=True)
def _ieee() -> Any:
    with np.errstate(all="ignore"):
        yield


def draw(count: int, low: int, high: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    mantissa = (rng.random(count) + 1) * rng.choice([-1.0, 1.0], size=count)
    return np.ldexp(mantissa, rng.integers(low, high, size=count))


def exactly(x: DoubleDouble) -> list[Fraction]:
    return [Fraction(float(hi)) + Fraction(float(lo)) for hi, lo in zip(x.hi.ravel(), x.lo.ravel(), strict=True)]


def nearest(value: Fraction, word: str) -> float:
    fmt = FORMATS[word]
    emin, emax = fmt.min_exponent - fmt.precision + 2, fmt.max_exponent + 1
    with gmpy2.context(precision=fmt.precision, emin=emin, emax=emax, subnormalize=True):
        result = float(gmpy2.mpfr(gmpy2.mpq(value)))
    return float("nan") if not fmt.has_infinity and abs(result) > fmt.max else result


@pytest.mark.parametrize("span", [(-20, 20), (-500, 500), (-1060, -1000), (900, 1000)])
def test_two_sum_is_exact(span: tuple[int, int]) -> None:
    a, b = draw(3000, *span, seed=1), draw(3000, *span, seed=2)
    got = two_sum(a, b)
    assert exactly(got) == [Fraction(x) + Fraction(y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    np.testing.assert_array_equal(got.hi, a + b)


def test_fast_two_sum_is_exact_where_the_first_is_larger() -> None:
    a, b = draw(3000, -300, 300, seed=1), draw(3000, -300, 300, seed=2)
    large = np.where(np.abs(a) >= np.abs(b), a, b)
    small = np.where(np.abs(a) >= np.abs(b), b, a)
    got = fast_two_sum(large, small)
    assert exactly(got) == [Fraction(x) + Fraction(y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]


@pytest.mark.parametrize("span", [(-1, 1), (-480, 479)])
def test_two_product_is_exact(span: tuple[int, int]) -> None:
    a, b = draw(3000, *span, seed=3), draw(3000, *span, seed=4)
    a[:10] = 0
    got = two_product(a, b)
    assert exactly(got) == [Fraction(x) * Fraction(y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    np.testing.assert_array_equal(got.hi, a * b)


def test_add_keeps_its_bound() -> None:
    x = two_product(np.abs(draw(3000, -30, 30, seed=5)), np.abs(draw(3000, -30, 30, seed=6)))
    y = two_product(np.abs(draw(3000, -30, 30, seed=7)), np.abs(draw(3000, -30, 30, seed=8)))
    for got, first, second in zip(exactly(add(x, y)), exactly(x), exactly(y), strict=True):
        assert abs(got - (first + second)) <= 3 * U * U * (first + second)


@pytest.mark.parametrize("width", [1, 2, 3, 5, 64, 100, 1023])
def test_a_sum_keeps_its_bound(width: int) -> None:
    terms = np.abs(draw(5 * width, -40, 40, seed=width)).reshape(5, width)
    got = sum_last_axis(two_product(terms, terms))
    assert got.hi.shape == (5, 1)
    levels = ceil(log2(width)) if width > 1 else 0
    for total, row in zip(exactly(got), terms.tolist(), strict=True):
        exact = sum(Fraction(v) ** 2 for v in row)
        assert abs(total - exact) <= 3 * U * U * levels * exact * 2  # the bounds of the levels add up, to first order


# --- one rounding -----------------------------------------------------------------------------------------------------


def sums_near_ties(word: str) -> tuple[DoubleDouble, list[Fraction]]:
    """Values and midpoints of a format, each with a little more, a little less, or exactly."""
    fmt = FORMATS[word]
    rng = np.random.default_rng(fmt.bits)
    whole = rng.integers(1 << fmt.precision, 1 << (fmt.precision + 1), size=1500)  # one bit more than the format has
    low, high = fmt.min_exponent - fmt.precision - 3, fmt.max_exponent - fmt.precision + 2
    hi = np.ldexp(whole.astype(np.float64), rng.integers(low, high, size=1500)) * rng.choice([-1.0, 1.0], size=1500)
    little = np.spacing(np.abs(hi)) * rng.choice([0.0, 0.5, -0.25, 2.0**-60, -(2.0**-60)], size=1500)
    x = DoubleDouble(*two_sum(hi, little))
    return x, exactly(x)


@pytest.mark.parametrize("word", BELOW_64_BITS)
def test_hi_and_lo_are_rounded_as_one_number(word: str) -> None:
    x, exact = sums_near_ties(word)
    got = round_once(x, word)
    assert word_of(got) == word
    np.testing.assert_array_equal(got.astype(np.float64), [nearest(q, word) for q in exact])


@pytest.mark.parametrize("word", ["float32", "float16", "bfloat16"])
def test_rounding_hi_alone_is_not_enough(word: str) -> None:
    """The twin: without lo, ties that are none are broken the wrong way in a good part of these."""
    x, exact = sums_near_ties(word)
    alone = round_to(x.hi, word).astype(np.float64)
    assert (alone != np.array([nearest(q, word) for q in exact])).sum() > 50


def test_float64_is_hi_itself() -> None:
    x = two_sum(draw(100, -5, 5), draw(100, -60, -50))
    assert round_once(x, "float64") is x.hi


# --- exact sums -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", FORMATS)
def test_an_exact_sum_has_the_shape_and_dtype_asked_for(word: str) -> None:
    terms = round_to(draw(2 * 3 * 50, -6, 6).reshape(2, 3, 50), word)
    got = exact_sum(terms, word)
    assert got.shape == (2, 3, 1)
    assert word_of(got) == word
    want = [nearest(sum(map(Fraction, row)), word) for row in terms.astype(float).reshape(6, 50).tolist()]
    np.testing.assert_array_equal(got.astype(np.float64).ravel(), want)


def test_an_exact_sum_of_what_is_not_finite_is_what_additions_give() -> None:
    rows = np.array([[np.inf, 1.0], [np.nan, 1.0], [np.inf, -np.inf], [1e308, 1e308], [-1e308, -1e308]])
    np.testing.assert_array_equal(exact_sum(rows, "float64")[:, 0], [np.inf, np.nan, np.nan, np.inf, -np.inf])
    narrow = rows[:3].astype(np.float32)
    np.testing.assert_array_equal(exact_sum(narrow, "float32")[:, 0], [np.inf, np.nan, np.nan])
    assert exact_sum(np.zeros((0, 4)), "float64").shape == (0, 1)


# --- 1/√ --------------------------------------------------------------------------------------------------------------


def test_rsqrt_is_correctly_rounded_from_the_smallest_to_the_largest() -> None:
    rng = np.random.default_rng(9)
    drawn = np.ldexp(rng.random(30_000) + 1, rng.integers(-1074, 1024, size=30_000))
    near_powers = 4.0 ** np.arange(-500, 500)
    odd = np.nextafter(near_powers, np.inf), np.nextafter(near_powers, 0)
    values = np.concatenate([drawn, near_powers, *odd, [5e-324, 1.7976931348623157e308]])
    with gmpy2.context(precision=53):
        want = [float(gmpy2.rec_sqrt(gmpy2.mpfr(v))) for v in values.tolist()]
    np.testing.assert_array_equal(rsqrt(values), want)
    assert (1 / np.sqrt(values) != np.array(want)).mean() > 0.1  # the twin: two roundings are not one


def test_rsqrt_at_the_edges() -> None:
    got = rsqrt(np.array([0.0, -0.0, np.inf, -1.0, np.nan, 4.0]))
    np.testing.assert_array_equal(got, [np.inf, -np.inf, 0.0, np.nan, np.nan, 0.5])
