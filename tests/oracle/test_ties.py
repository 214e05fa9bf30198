"""Outputs built to lie exactly on a midpoint, or next to one: the right neighbour is known beforehand."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from rmsaudit.arrays import bits, dtype_of
from rmsaudit.formats import FORMATS
from rmsaudit.oracle import Answer, Operands, answer, formula
from rmsaudit.semantics.resolve import resolve

NARROW = ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
# Rows of one number c whose divisor D is a power of two, so that y = gain · c / D exactly.
EXACT_DIVISORS = {
    "no eps": ({"eps_placement": "none"}, 3.0, 3),
    "rms 2 of c = 1 and eps = 3": ({"eps": 3.0, "eps_placement": "inside_sqrt"}, 1.0, 2),
    "1 + eps": ({"eps": 1.0, "eps_placement": "outside_sqrt"}, 1.0, 2),
    "floor of the rms": ({"eps": 4.0, "eps_placement": "floor_rms"}, 1.0, 4),
    "floor of the sum": ({"eps": 16.0, "eps_placement": "floor_sum", "width": 64}, 1.0, 2),
    "sqrt_width over the norm": (
        {"statistic": "sum_square", "post_scale": "sqrt_width", "eps_placement": "none"},
        5.0,
        5,
    ),
    "1/√64 of the norm": ({"statistic": "sum_square", "eps_placement": "none", "width": 64}, 1.0, 8),
    "eps of max_abs": ({"eps": 3.0, "prescale": "max_abs"}, 7.0, 14),
}


def ask(x: Any, gain: Any, dtype: str, **declared: Any) -> Answer:
    spec = resolve({"input_dtype": "float64", "gain_dtype": "float64", "eps_dtype": "float64", **declared})
    return answer(formula(spec), Operands(x=x, gain=gain, bias=gain), dtype)


def midpoints(word: str, count: int) -> tuple[Any, Any]:
    """Midpoints of a format between random neighbours, as float64, and the even neighbour of each."""
    rng = np.random.default_rng(FORMATS[word].bits)
    top = int(bits(np.array([FORMATS[word].max], dtype=dtype_of(word)))[0])
    below = rng.integers(0, top, count).astype(bits(np.zeros(1, dtype_of(word))).dtype)
    low, high = (pattern.view(dtype_of(word)).astype(np.float64) for pattern in (below, below + below.dtype.type(1)))
    return low / 2 + high / 2, np.where(below % 2 == 0, low, high)  # exact: one bit more than the format has


@pytest.mark.parametrize("word", NARROW)
@pytest.mark.parametrize("name", EXACT_DIVISORS)
def test_ties_go_to_even(name: str, word: str) -> None:
    declared, constant, divisor = EXACT_DIVISORS[name]
    declared = {"width": 64, **declared}
    middle, even = midpoints(word, declared["width"])
    signs = np.random.default_rng(1).choice([-1.0, 1.0], len(middle))
    scale = float(Fraction(divisor) / Fraction(constant))
    assert Fraction(scale) * Fraction(constant) == divisor  # the test's own division is exact
    answered = ask(np.full((2, len(middle)), constant), signs * middle * scale, word, **declared)
    np.testing.assert_array_equal(answered.values.astype(np.float64), np.tile(signs * even, (2, 1)))
    assert answered.tiers.integers == answered.values.size


@pytest.mark.parametrize("word", NARROW)
@pytest.mark.parametrize("outward", [True, False])
def test_next_to_a_tie(word: str, outward: bool) -> None:
    """The next float64 after a midpoint rounds away from it."""
    middle, _ = midpoints(word, 64)
    gain = np.nextafter(middle, np.inf if outward else 0.0)
    answered = ask(np.full((1, 64), 3.0), gain, word, width=64, eps_placement="none")
    low, high = _neighbours(middle, word)
    np.testing.assert_array_equal(answered.values.astype(np.float64)[0], high if outward else low)


def _neighbours(middle: Any, word: str) -> tuple[Any, Any]:
    ulps = np.array([FORMATS[word].ulp(m) for m in middle])
    return middle - ulps / 2, middle + ulps / 2


def test_a_bias_makes_the_tie() -> None:
    """1 + 2^-53 and 1 + 2^-52 + 2^-53 in float64: down, and up; next to them, the other way."""
    bias = np.array([2.0**-53, 2.0**-52 + 2.0**-53, 2.0**-53 * (1 + 2.0**-52), -(2.0**-54), -(2.0**-54) * 1.5])
    spec = resolve(
        {"width": 5, "input_dtype": "float64", "gain_dtype": "float64", "eps_placement": "none", "bias": True}
    )
    answered = answer(formula(spec), Operands(x=np.full((1, 5), 7.0), gain=np.ones(5), bias=bias), "float64")
    one, ulp = 1.0, 2.0**-52
    assert answered.values[0].tolist() == [one, one + 2 * ulp, one + ulp, one, one - ulp / 2]
    assert answered.tiers.integers == 4  # the three ties, and what lies 2^-105 from one


def test_a_gain_offset_makes_the_tie() -> None:
    """1 + 2^-53 is no float64, but it is the factor; in bfloat16 1 + 2^-8 is a midpoint, and 2^-60 decides it."""
    gain = np.array([2.0**-53, 2.0**-8, 2.0**-8 + 2.0**-60, 3 * 2.0**-8])
    for word, wanted in (("float64", [1.0, None, None, None]), ("bfloat16", [1.0, 1.0, 1 + 2.0**-7, 1 + 2.0**-6])):
        answered = ask(np.full((1, 4), 3.0), gain, word, width=4, eps_placement="none", gain_offset=1.0)
        for got, want in zip(answered.values.astype(np.float64)[0].tolist(), wanted, strict=True):
            assert want is None or got == want


def test_ties_among_subnormal_float64() -> None:
    """y = g / 2 for odd multiples g of the smallest float64: half an ulp, which goes to the even neighbour."""
    smallest = 5e-324
    gain = np.array([1, 3, 5, 7, -1, -3, 2, 2**52 - 1]) * smallest
    answered = ask(np.ones((1, 8)), gain, "float64", width=8, eps=1.0, eps_placement="outside_sqrt")
    assert (answered.values[0] / smallest).tolist() == [0, 2, 2, 4, 0, -2, 1, 2**51]
    assert np.signbit(answered.values[0]).tolist() == [False, False, False, False, True, True, False, False]
    assert answered.tiers.integers == 7


def test_ties_at_the_limit_of_overflow() -> None:
    """Half-way above the largest value: infinity where its pattern is even, 448 in float8_e4m3fn, whose next is NaN."""
    for word, limit, at_limit in (
        ("float16", 65520.0, np.inf),
        ("bfloat16", FORMATS["bfloat16"].max + 2.0**119, np.inf),
        ("float8_e5m2", 61440.0, np.inf),
        ("float8_e4m3fn", 464.0, 448.0),
    ):
        below, above = np.nextafter(limit, 0), np.nextafter(limit, np.inf)
        gain = np.array([limit, below, above])
        values = ask(np.full((1, 3), 3.0), gain, word, width=3, eps_placement="none").values.astype(np.float64)[0]
        beyond = np.inf if FORMATS[word].has_infinity else np.nan
        np.testing.assert_array_equal(values, [at_limit, FORMATS[word].max, beyond])


def test_structured_near_ties(independent: Any) -> None:
    """x near 1e-39 under eps = 1e-6: the root is 1e-3 to 70 digits, and 1000 · g · x is a midpoint for g · x = 3 · 2^k.

    375 is half-way between two bfloat16; y is smaller by 2^-217 of it, which double-double cannot see.
    """
    rng = np.random.default_rng(5)
    x, gain = rng.integers(1, 5, (2, 64)), rng.integers(1, 5, 64)
    operands = {"x": (x * 2.0**-130).astype(np.float32), "gain": gain.astype(np.float32)}
    spec = resolve({"width": 64, "gain_dtype": "float32"})
    answered = answer(formula(spec), Operands(**operands), "bfloat16")
    product = x * gain
    near_tie = np.isin(product, (3, 6, 12))
    just_below = product / 3 * 374 * 8 * 2.0**-130
    np.testing.assert_array_equal(answered.values.astype(np.float64)[near_tie], just_below[near_tie])
    assert answered.tiers.integers == np.count_nonzero(near_tie)
    operands = {**operands, "bias": operands["gain"], "residual": operands["x"]}
    np.testing.assert_array_equal(answered.values.astype(np.float64), independent(spec, operands, "bfloat16"))
