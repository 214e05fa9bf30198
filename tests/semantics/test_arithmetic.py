"""Every operation rounds once: against MPFR, against exact integers, and exhaustively where that is quick."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import gmpy2
import numpy as np
import pytest

from rmsaudit.arrays import Array, bits, bits_of, dtype_of, round_to, word_of
from rmsaudit.formats import FORMATS
from rmsaudit.semantics.arithmetic import Arithmetic

Nearest = Callable[[Any, str], float]
SomeValues = Callable[[str, int], Array]

WORDS = tuple(FORMATS)
FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
EXACT: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
}
KEEP = Arithmetic()
FLUSH = Arithmetic(subnormals="flush")
CHOP = Arithmetic(rounding="toward_zero")


@pytest.fixture(autouse=True)
def _ieee() -> Any:
    with np.errstate(all="ignore"):
        yield


def every_pattern(word: str) -> Array:
    patterns = np.arange(1 << FORMATS[word].bits, dtype=np.uint64).astype(bits_of(word))
    return patterns.view(dtype_of(word))


def every_finite(word: str) -> Array:
    values = every_pattern(word)
    return values[np.isfinite(values)]


def assert_same_values(got: Array, want: list[float]) -> None:
    np.testing.assert_array_equal(got.astype(np.float64), np.array(want, dtype=np.float64))


# --- one operation, one rounding --------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", EXACT)
@pytest.mark.parametrize("word", WORDS)
def test_an_operation_rounds_once(word: str, operation: str, nearest: Nearest, some_values: SomeValues) -> None:
    values = some_values(word, 4000)
    a, b = values[::2], values[1::2]
    a, b = a[b != 0], b[b != 0]
    got = getattr(KEEP, operation)(a, b, word)
    assert word_of(got) == word
    exact = EXACT[operation]
    want = [nearest(exact(Fraction(float(x)), Fraction(float(y))), word) for x, y in zip(a, b, strict=True)]
    assert_same_values(got, want)


@pytest.mark.parametrize("operation", EXACT)
@pytest.mark.parametrize("word", FLOAT8)
def test_an_operation_on_every_pair_of_float8(word: str, operation: str, nearest: Nearest) -> None:
    values = every_finite(word)
    a, b = (side.ravel() for side in np.meshgrid(values, values[values != 0]))
    got = getattr(KEEP, operation)(a, b, word).astype(np.float64)
    # float64 holds every sum and product of two float8 exactly; a quotient of 4-bit integers that is no midpoint of the
    # format stays far further from one than float64 rounds.
    wide = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[operation]
    distinct, back = np.unique(wide(a.astype(np.float64), b.astype(np.float64)), return_inverse=True)
    want = np.array([nearest(v, word) for v in distinct.tolist()])[back]
    np.testing.assert_array_equal(got, want)


def test_two_bfloat16_below_the_smallest_normal_round_once(nearest: Nearest) -> None:
    """float32 has bfloat16's exponents, so here its own rounding could get in the way; it does not."""
    rng = np.random.default_rng(7)
    patterns = rng.integers(1, 1 << 15, size=(2, 400_000)).astype(np.uint16)
    a, b = patterns.view(dtype_of("bfloat16"))
    for operation, wide in (("mul", np.multiply), ("div", np.divide)):
        size = np.abs(wide(a.astype(np.float64), b.astype(np.float64)))
        small = (size < 2.0**-126) & (size > 2.0**-135)
        x, y = a[small][:3000], b[small][:3000]
        assert x.size == 3000
        exact = EXACT[operation]
        want = [nearest(exact(Fraction(float(p)), Fraction(float(q))), "bfloat16") for p, q in zip(x, y, strict=True)]
        assert_same_values(getattr(KEEP, operation)(x, y, "bfloat16"), want)


@pytest.mark.parametrize("word", WORDS)
def test_sqrt_rounds_once(word: str, nearest: Nearest, some_values: SomeValues) -> None:
    values = np.abs(some_values(word, 3000))
    with gmpy2.context(precision=200):  # twice the precision and two bits more: no root of 53 bits is nearer to a tie
        want = [nearest(gmpy2.sqrt(gmpy2.mpfr(v)), word) for v in values.astype(float).tolist()]
    assert_same_values(KEEP.sqrt(values, word), want)


@pytest.mark.parametrize("word", WORDS)
def test_the_larger_one(word: str, some_values: SomeValues) -> None:
    values = some_values(word, 400)
    a, b = values[::2], values[1::2]
    a, b = a[: b.size], b[: a.size]
    assert_same_values(KEEP.maximum(a, b, word), [max(float(x), float(y)) for x, y in zip(a, b, strict=True)])
    nan = np.array([np.nan], dtype=dtype_of(word))
    assert np.isnan(KEEP.maximum(nan, a[:1], word)).all()
    assert np.isnan(KEEP.maximum(a[:1], nan, word)).all()


def test_operands_of_another_dtype_are_converted_first() -> None:
    """float32 operands, product in float16: float32's product, then float16's rounding, as frameworks do it."""
    a = np.float32([1 + 2.0**-12])
    b = np.float32([1 + 2.0**-12])
    # exactly 1 + 2^-11 + 2^-24: float32 drops the last bit, which leaves a tie, and the tie goes to even
    assert KEEP.mul(a, b, "float16")[0] == 1.0


def test_operands_are_left_alone() -> None:
    a, b = np.float16([1.5, 2.5]), np.float16([3.0, 4.0])
    before = a.copy(), b.copy()
    for operation in EXACT:
        getattr(KEEP, operation)(a, b, "float16")
        getattr(KEEP, operation)(a, b, "float32")
    np.testing.assert_array_equal(a, before[0])
    np.testing.assert_array_equal(b, before[1])


@pytest.mark.parametrize(
    ("first", "second"), [((6, 1), (1, 2)), ((1, 2), (6, 1)), ((6, 2), (1, 2)), ((), (3,)), ((3,), ())]
)
def test_any_two_shapes_that_broadcast(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    """The widened copy of the first operand takes the result only where it is as large as the result."""
    rng = np.random.default_rng(0)
    a = rng.integers(1, 9, size=first).astype(np.float16)
    b = rng.integers(1, 9, size=second).astype(np.float16)
    got = KEEP.mul(a, b, "float32")
    np.testing.assert_array_equal(got, a.astype(np.float64) * b.astype(np.float64))


# --- 1/√ --------------------------------------------------------------------------------------------------------------


def is_nearest_reciprocal_root(a: Array, y: Array) -> Array:
    """Elementwise, for float32 a strictly between 1 and 4: is y the float32 nearest to 1/√a?

    That is (y − h)² a < 1 < (y + h)² a with h = 2^-25, half an ulp of y, in exact integers: a = A · 2^-s with A < 2^24,
    y ± h = m · 2^-25 with m < 2^25, so m² A is compared with 2^(50 + s). They are never equal: m is odd and above 1.
    """
    fraction, exponent = np.frexp(a.astype(np.float64))
    integer = np.ldexp(fraction, 24).astype(np.int64)
    doubled = np.ldexp(y.astype(np.float64), 25).astype(np.int64)
    shift = 74 - exponent.astype(np.int64)
    return _square_times_is_below(doubled - 1, integer, shift) & ~_square_times_is_below(doubled + 1, integer, shift)


def _square_times_is_below(m: Array, integer: Array, shift: Array) -> Array:
    """m² · integer < 2^shift, where m² has 50 bits and the product 74: in two halves, each within int64."""
    high, low = np.divmod(m * m, 1 << 26)
    return np.asarray(high * integer + (low * integer >> 26) < (1 << (shift - 26)))


@pytest.mark.parametrize("binade", [1.0, 2.0], ids=["from 1 to 2", "from 2 to 4"])
def test_rsqrt_of_float32_is_correctly_rounded_for_every_argument(binade: float) -> None:
    """Two binades hold every case: a factor of 4 in the argument is a factor of 2 in the result, and both are exact."""
    first = int(np.float32(binade).view(np.uint32))
    for start in range(first, first + (1 << 23), 1 << 18):  # in blocks that fit the cache
        a = np.arange(start, start + (1 << 18), dtype=np.uint32).view(np.float32)
        y = KEEP.rsqrt(a, "float32")
        assert (is_nearest_reciprocal_root(a, y) | (a == 1)).all()
    assert KEEP.rsqrt(np.float32([1.0]), "float32") == 1


def test_a_reciprocal_root_that_is_one_ulp_off_is_noticed() -> None:
    """The twin: 1/√ in two roundings is another number for many arguments, and the check above says for which."""
    a = np.linspace(1, 4, 100_003, dtype=np.float32)[1:-1]
    once, twice = KEEP.rsqrt(a, "float32"), np.float32(1) / np.sqrt(a)
    np.testing.assert_array_equal(is_nearest_reciprocal_root(a, twice), once == twice)
    assert 0.1 < (once != twice).mean() < 0.5


@pytest.mark.parametrize("word", ["float16", "bfloat16", *FLOAT8])
def test_rsqrt_of_every_narrow_value(word: str, nearest: Nearest) -> None:
    values = every_finite(word)
    values = values[values > 0]
    with gmpy2.context(precision=200):
        want = [nearest(gmpy2.rec_sqrt(gmpy2.mpfr(v)), word) for v in values.astype(float).tolist()]
    assert_same_values(KEEP.rsqrt(values, word), want)


def test_rsqrt_of_float64(some_values: SomeValues) -> None:
    values = np.abs(some_values("float64", 20_000))
    values = np.concatenate([values, 4.0 ** np.arange(-530, 511), np.nextafter(4.0 ** np.arange(-500, 501), 0)])
    with gmpy2.context(precision=53):
        want = [float(gmpy2.rec_sqrt(gmpy2.mpfr(v))) for v in values.tolist()]
    assert_same_values(KEEP.rsqrt(values, "float64"), want)


@pytest.mark.parametrize("word", ["float64", "float32", "float16", "bfloat16", "float8_e5m2"])
def test_rsqrt_at_the_edges(word: str) -> None:
    got = KEEP.rsqrt(np.array([0.0, -0.0, np.inf, -1.0, np.nan]).astype(dtype_of(word)), word)
    np.testing.assert_array_equal(got.astype(np.float64), [np.inf, -np.inf, 0.0, np.nan, np.nan])


# --- casts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", WORDS)
@pytest.mark.parametrize("source", WORDS)
def test_a_cast_rounds_once(source: str, target: str, nearest: Nearest, some_values: SomeValues) -> None:
    values = some_values(source, 1500)
    got = KEEP.cast(values, target)
    assert word_of(got) == target
    assert_same_values(got, [nearest(v, target) for v in values.astype(float).tolist()])


@pytest.mark.parametrize("target", WORDS)
@pytest.mark.parametrize("source", WORDS)
def test_a_cast_toward_zero_never_passes_the_value(source: str, target: str, some_values: SomeValues) -> None:
    values = some_values(source, 3000)
    got = CHOP.cast(values, target)
    wide, chopped = values.astype(np.float64), got.astype(np.float64)
    assert np.isfinite(chopped).all()
    assert (np.abs(chopped) <= np.abs(wide)).all()
    assert (np.signbit(chopped) == np.signbit(wide)).all()
    outward = (bits(got).astype(np.uint64) + 1).astype(bits_of(target)).view(got.dtype)  # one step away from zero
    beyond = np.abs(outward.astype(np.float64))
    assert (np.isnan(beyond) | (beyond > np.abs(wide))).all()


@pytest.mark.parametrize("target", WORDS)
def test_a_cast_toward_zero_keeps_what_is_not_finite(target: str) -> None:
    got = CHOP.cast(np.array([np.inf, -np.inf, np.nan]), target).astype(np.float64)
    no_infinity = not FORMATS[target].has_infinity
    np.testing.assert_array_equal(got, [np.nan] * 3 if no_infinity else [np.inf, -np.inf, np.nan])


def test_toward_zero_is_about_casts_only() -> None:
    third = np.float32([1.0]), np.float32([3.0])
    assert CHOP.div(*third, "float32") == KEEP.div(*third, "float32")
    assert CHOP.cast(np.float32([1 + 2.0**-8 + 2.0**-9]), "bfloat16") == 1.0
    assert KEEP.cast(np.float32([1 + 2.0**-8 + 2.0**-9]), "bfloat16") == np.float32(1 + 2.0**-7)


# --- constants, limits, subnormals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("value", [1e-5, 1e-6, 1.5625e-7, 0.1, 1 / 3, 300.0, 1 + 2.0**-8 + 2.0**-40])
def test_a_constant_rounds_once(word: str, value: float, nearest: Nearest) -> None:
    assert float(KEEP.constant(value, word)) == nearest(value, word) or word == "float8_e4m3fn"
    assert float(KEEP.constant(value)) == value


@pytest.mark.parametrize("word", WORDS)
def test_subnormals_become_zeros_of_their_sign(word: str) -> None:
    fmt = FORMATS[word]
    dtype = dtype_of(word)
    edge = np.array([fmt.smallest_normal, fmt.smallest_normal - fmt.smallest_subnormal, fmt.smallest_subnormal, 0.0])
    values = np.concatenate([edge, -edge, [np.nan, 1.0]]).astype(dtype)
    got = FLUSH.cast(values, word).astype(np.float64)
    np.testing.assert_array_equal(got, [fmt.smallest_normal, 0, 0, 0, -fmt.smallest_normal, 0, 0, 0, np.nan, 1.0])
    np.testing.assert_array_equal(np.signbit(got[:8]), [False] * 4 + [True] * 4)


@pytest.mark.parametrize("word", WORDS)
def test_results_and_constants_are_flushed_as_well(word: str) -> None:
    fmt = FORMATS[word]
    small = np.array([fmt.smallest_normal]).astype(dtype_of(word))
    half = np.array([0.5]).astype(dtype_of(word))
    assert FLUSH.mul(small, half, word) == 0
    assert KEEP.mul(small, half, word) > 0
    assert FLUSH.constant(fmt.smallest_subnormal, word) == 0
    assert KEEP.constant(fmt.smallest_subnormal, word) > 0
    assert FLUSH.sum(np.array([[fmt.smallest_subnormal]]).astype(dtype_of(word)), "pairwise", word) == 0


@pytest.mark.parametrize("word", WORDS)
def test_clamp_limits_both_signs_and_keeps_nan(word: str) -> None:
    values = np.array([-8.0, -1.0, 0.0, 1.0, 8.0, np.nan]).astype(dtype_of(word))
    assert_same_values(KEEP.clamp(values, 2.0), [-2, -1, 0, 1, 2, np.nan])


@pytest.mark.parametrize("word", WORDS)
def test_a_limit_beyond_the_format_is_its_largest_value(word: str) -> None:
    fmt = FORMATS[word]
    values = np.array([-fmt.max, 1.0, fmt.max]).astype(dtype_of(word))
    assert_same_values(KEEP.clamp(values, 1e300 if word != "float64" else fmt.max), [-fmt.max, 1.0, fmt.max])
    if fmt.has_infinity:
        infinite = np.array([-np.inf, np.inf]).astype(dtype_of(word))
        assert_same_values(KEEP.clamp(infinite, fmt.max), [-fmt.max, fmt.max])


@pytest.mark.parametrize("word", WORDS)
def test_largest_magnitude_and_zero_to_one(word: str) -> None:
    rows = np.array([[1.0, -3.0, 2.0], [0.0, 0.0, -0.0]]).astype(dtype_of(word))
    largest = KEEP.largest_magnitude(rows)
    assert word_of(largest) == word
    assert_same_values(largest, [[3.0], [0.0]])  # type: ignore[list-item]
    assert_same_values(KEEP.zero_to_one(largest), [[3.0], [1.0]])  # type: ignore[list-item]


def test_a_sum_rounds_its_terms_to_the_accumulator_first() -> None:
    terms = round_to(np.array([[1 + 2.0**-8, 1.0]]), "float32")
    assert KEEP.sum(terms, "sequential", "float32") == np.float32(2 + 2.0**-8)
    assert KEEP.sum(terms, "sequential", "bfloat16") == 2.0
