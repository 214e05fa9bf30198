"""The bounds of each tier, against exact rationals, and what would happen without them."""

from fractions import Fraction
from typing import Any

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpfr, mpq

from rmsaudit.arrays import bits, dtype_of
from rmsaudit.formats import FORMATS
from rmsaudit.oracle import Operands, answer, float64_tier, formula, positions, row_factor
from rmsaudit.oracle import double_double_tier as tier2
from rmsaudit.oracle.row_factor import Interval, Row
from rmsaudit.oracle.scaled import Scaled, add, bracket, constant, exact, multiply
from rmsaudit.semantics.eps import PLACEMENTS
from rmsaudit.semantics.resolve import resolve

KINDS = ("ordinary", "whole", "10^±30", "10^±300", "near-cancelling")


def numbers(kind: str, shape: tuple[int, ...], seed: int) -> Any:
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal(shape)
    match kind:
        case "whole":
            return rng.integers(-9, 10, shape).astype(np.float64)
        case "10^±30":
            return normal * 10.0 ** rng.integers(-30, 30, shape)
        case "10^±300":
            return normal * 10.0 ** rng.integers(-300, 300, shape)
        case "near-cancelling":
            return 1.0 + normal * 2.0 ** rng.integers(-60, 0, shape)
    return normal


def fraction(x: Scaled, index: tuple[int, ...]) -> tuple[Fraction, Fraction]:
    """One number and its radius."""
    hi, lo, radius, exponent = (np.broadcast_to(p, x.hi.shape)[index] for p in (x.hi, x.lo, x.radius, x.exponent))
    unit = Fraction(2) ** int(exponent)
    return (Fraction(float(hi)) + Fraction(float(lo))) * unit, Fraction(float(radius)) * unit


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("terms", [2, 3])
def test_sums_and_products_stay_within_their_radius(kind: str, terms: int) -> None:
    first, second, third = (numbers(kind, (1, 200), seed) for seed in (1, 2, 3))
    second = np.where(np.arange(200) % 2, second, -first)  # every other sum cancels
    for operation, by_hand in ((add, Fraction.__add__), (multiply, Fraction.__mul__)):
        result = operation(exact(first), exact(second))
        if terms == 3:
            result = add(operation(result, constant(Fraction(1, 3))), exact(third))
        for i in range(200):
            x, y, z = (Fraction(float(values[0, i])) for values in (first, second, third))
            true = by_hand(x, y) if terms == 2 else by_hand(by_hand(x, y), Fraction(1, 3)) + z
            value, radius = fraction(result, (0, i))
            assert abs(value - true) <= radius
            assert terms == 3 or not result.is_exact or value == true


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [1, 2, 7, 100])
def test_statistics_stay_within_their_radius(kind: str, width: int) -> None:
    x = numbers(kind, (4, width), width)
    factor = tier2.factors(formula(resolve({"width": width, "gain_offset": 0.1})), numbers(kind, (1, width), 9))
    for values in (exact(x), multiply(exact(x), factor)):
        common = tier2.over_common_exponent(values)
        total, deviations = tier2.sum_of_squares(common), tier2.times_count_minus_sum(common)
        for row in range(4):
            true = [fraction(values, (row, i)) for i in range(width)]
            slack = max(radius for _, radius in true) * width  # of the values themselves, which `true` does not have
            unit = Fraction(2) ** int(common.exponent[row, 0])
            mean = sum(value for value, _ in true)
            for i in range(width):
                ours = sum(Fraction(float(np.broadcast_to(p, x.shape)[row, i])) for p in (deviations.hi, deviations.lo))
                radius = Fraction(float(np.broadcast_to(deviations.radius, x.shape)[row, i])) * unit
                assert abs(ours * unit - (width * true[i][0] - mean)) <= radius + slack * 2
            ours = (Fraction(float(total.hi[row, 0])) + Fraction(float(total.lo[row, 0]))) * unit**2
            squares = sum(value**2 for value, _ in true)
            assert abs(ours - squares) <= Fraction(float(total.radius[row, 0])) * unit**2


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("scale", [-600, -130, 0, 500])
def test_the_factor_of_a_row_is_enclosed(placement: str, scale: int) -> None:
    """Against 600 bits of gmpy2, for a row of 12 elements, Σ = total · 4^scale."""
    total = mpq(7, 3)
    for post_scale in (1.0, -0.1, "sqrt_width"):
        asked = formula(
            resolve({"width": 12, "eps_placement": placement, "post_scale": post_scale, "statistic_width": 0.5})
        )
        units = total * 2**256
        low = int(units.numerator // units.denominator)
        row = Row(12, scale, Interval(low, low + 1), None, 5)
        enclosed = row_factor.enclose(asked.guarding(6), asked.post_scale, row)
        assert enclosed is not None
        with gmpy2.context(precision=600):
            true = _factor(placement, total * mpq(4) ** scale, post_scale) / 5
            ours = (mpfr(enclosed.hi) + mpfr(enclosed.lo)) * mpfr(2) ** enclosed.exponent
            assert abs(ours - true) <= mpfr(enclosed.radius) * mpfr(2) ** enclosed.exponent
        assert enclosed.radius < 2.0**-100


def _factor(placement: str, total: Any, post_scale: float | str) -> Any:
    """post_scale over the divisor, for k = 6, eps = 1e-6, size 12."""
    eps = mpq(1, 10**6)
    scale = gmpy2.sqrt(mpfr(12)) if isinstance(post_scale, str) else mpfr(mpq(repr(post_scale)))
    under = {
        "inside_sqrt": total / 6 + eps,
        "inside_sum": (total + eps) / 6,
        "floor_rms": max(total / 6, eps**2),
        "floor_norm": max(total, eps**2) / 6,
        "floor_sum": max(total, eps**2) / 6,
    }.get(placement, total / 6)
    return scale / (gmpy2.sqrt(mpfr(under)) + (mpfr(eps) if placement == "outside_sqrt" else 0))


def test_a_factor_that_is_too_uncertain_is_none() -> None:
    asked = formula(resolve({"width": 4, "eps_placement": "none"}))
    nothing = Row(4, 0, Interval(-5, 5), None, 1)
    assert row_factor.enclose(asked.guarding(4), asked.post_scale, nothing) is None
    vague = Row(4, 0, Interval(2**200, 2**201), None, 1)
    assert row_factor.enclose(asked.guarding(4), asked.post_scale, vague) is None


@pytest.mark.parametrize("word", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_positions_are_the_bit_patterns(word: str) -> None:
    """All finite patterns, and the midpoint above each."""
    fmt = FORMATS[word]
    last = int(bits(np.array([fmt.max], dtype=dtype_of(word)))[0]) + 1
    assert positions.last(fmt) == last
    patterns = np.arange(last, dtype=bits(np.zeros(1, dtype_of(word))).dtype)
    values = patterns.view(dtype_of(word)).astype(np.float64)
    decoded = [positions.value_at(position, fmt) for position in range(last)]
    np.testing.assert_array_equal(values, [mantissa * 2.0**exponent for mantissa, exponent in decoded])
    middle = [positions.midpoint_above(position, fmt) for position in range(last - 1)]
    np.testing.assert_array_equal((values[1:] + values[:-1]) / 2, [m * 2.0**e for m, e in middle])


@pytest.mark.parametrize("word", FORMATS)
def test_a_fraction_rounds_to_the_nearest_position(word: str) -> None:
    """Decimals, each against gmpy2 at the format's own precision and exponents."""
    fmt = FORMATS[word]
    lowest = fmt.min_exponent - fmt.precision + 1
    for text in (
        "0",
        "0.1",
        "1e-3",
        "448",
        "464",
        "465",
        "65519.99",
        "65520",
        "3.4e38",
        "1e-44",
        "1e-310",
        "5",
        "1e300",
    ):
        with gmpy2.context(
            precision=fmt.precision,
            emin=lowest + 1,
            emax=fmt.max_exponent + 1,
            subnormalize=True,
            round=gmpy2.RoundToNearest,
        ):
            nearest = mpfr(mpq(text))
        position = positions.of_fraction(Fraction(text), fmt)
        if position == positions.last(fmt):
            assert not gmpy2.is_finite(nearest) or float(nearest) > fmt.max
        else:
            mantissa, exponent = positions.value_at(position, fmt)
            assert mpq(nearest) == mantissa * mpq(2) ** exponent


@pytest.mark.parametrize("word", FORMATS)
def test_a_bracket_contains_the_rounding_and_is_narrow(word: str) -> None:
    """Of numbers with ties among them; both ends are right or one step apart."""
    fmt = FORMATS[word]
    rng = np.random.default_rng(fmt.bits)
    low = positions.last(fmt) // 3
    chosen = [*rng.integers(0, 40, 40).tolist(), *rng.integers(low, positions.last(fmt), 40).tolist()]
    for position in chosen:
        mantissa, exponent = positions.midpoint_above(position, fmt)
        middle = mantissa * Fraction(2) ** exponent
        for true in (middle, middle * (1 + Fraction(1, 2**70)), middle * (1 - Fraction(1, 2**70))):
            x = constant(true)
            lower, upper = (int(bits(end)[0, 0]) for end in bracket(x, word))
            nearest = positions.of_fraction(true, fmt)
            assert lower <= nearest <= upper
            assert (lower == upper) == (true != middle)


def test_without_its_bound_tier_1_would_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of the tests that find nothing. c · g · (1 / c) is not always g in float64; a g on a midpoint tells."""
    odd = 2**24 + 2 * np.random.default_rng(0).integers(0, 2**23, 96) + 1  # of 25 bits: half-way between two float32
    to_even = (odd + np.where(odd % 4 == 3, 1, -1)) * 2.0**-24
    spec = resolve({"width": 96, "gain_dtype": "float64", "eps_placement": "none"})
    operands = Operands(x=np.repeat(np.arange(3.0, 99.0, 2.0)[:, None], 96, axis=1), gain=odd * 2.0**-24)
    proven = answer(formula(spec), operands, "float32")
    assert proven.tiers.float64 == 0
    assert (proven.values == to_even).all()
    monkeypatch.setattr(float64_tier, "_ends", lambda factor, _spread: (factor, factor))
    unproven = answer(formula(spec), operands, "float32")
    assert unproven.tiers.float64 == unproven.values.size
    assert (unproven.values != to_even).any()


def test_tier_1_leaves_alone_what_its_bound_does_not_cover() -> None:
    x = np.array([[1e-300, 1e-300]])
    for declared, dtype in (({"eps_placement": "none"}, "float32"), ({"eps": 1.0}, "float64")):
        spec = resolve({"width": 2, "input_dtype": "float64", **declared})
        assert answer(formula(spec), Operands(x=x, gain=np.ones(2)), dtype).tiers.float64 == 0
