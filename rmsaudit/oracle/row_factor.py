"""The factor of a row, post_scale / (√(max(Σ + added, floor) / count) + beside), enclosed in whole numbers.

All quantities here are pairs of integers, a lower and an upper bound in units of 2^-256, after the row was scaled by a power
of two. Floor division, integer square root and one unit of outward slack make every step a proof by itself.
"""

from fractions import Fraction
from math import isqrt, ldexp
from typing import NamedTuple

from rmsaudit.oracle.formula import Formula

_UNIT = 256  # binary places; a mean square is rarely below 2^-100 of the largest square, and 106 bits are wanted of it
_WANTED = 160  # significant bits of the quotient


class Interval(NamedTuple):
    """low <= the number · 2^256 <= high."""

    low: int
    high: int


class Factor(NamedTuple):
    """A number within radius · 2^exponent of (hi + lo) · 2^exponent, with |hi| in [1/2, 1]."""

    hi: float
    lo: float
    radius: float
    exponent: int


def interval_of(hi: float, lo: float, radius: float) -> Interval:
    """hi + lo ± radius. int() cuts off less than a unit of each."""
    middle, reach = _units(hi) + _units(lo), _units(radius) + 3
    return Interval(middle - reach, middle + reach)


def interval_of_fraction(value: Fraction) -> Interval:
    low = _floor(value, 1, _UNIT)
    return Interval(low, low + 1)


def _units(value: float) -> int:
    return int(ldexp(value, _UNIT))


def _floor(value: Fraction, factor: int, shift: int) -> int:
    """floor(value · factor · 2^shift)."""
    numerator, denominator = value.numerator * factor, value.denominator
    if shift >= 0:
        return (numerator << shift) // denominator
    return numerator // (denominator << -shift)


class RowScale(NamedTuple):
    """The power of two by which a row was divided, and the largest magnitude of the row so scaled (for max_abs)."""

    exponent: int
    largest: Interval | None


def enclose(formula: Formula, sizes: tuple[int, int], total: Interval, scale: RowScale) -> Factor | None:
    """The factor of a row whose Σ of squares, over 4^exponent, is `total`; None where the divisor may be 0.

    sizes: the number of elements that enter the statistic, and that of the whole row.
    """
    guarding = formula.guarding(sizes[0])
    added, floor, beside = (
        _relative(guarding.added, 2, scale),
        _relative(guarding.floor, 2, scale),
        _relative(guarding.beside, 1, scale),
    )
    low = max(total.low + added.low, floor.low, 0) // guarding.count
    high = -(-max(total.high + added.high, floor.high, 0) // guarding.count)
    divisor = Interval(isqrt(low << _UNIT) + beside.low, isqrt(high << _UNIT) + 1 + beside.high)
    return _quotient(formula.post_scale, sizes[1], divisor, scale.exponent)


def _relative(value: Fraction, power: int, scale: RowScale) -> Interval:
    """value · m^power, over 2^(power · exponent), where m is 1 or the row's largest magnitude."""
    if not value:
        return Interval(0, 0)
    if scale.largest is None:
        low = _floor(value, 1, _UNIT - power * scale.exponent)
        return Interval(low, low + 1)
    shift = _UNIT - power * _UNIT
    return Interval(
        _floor(value, max(scale.largest.low, 0) ** power, shift), _floor(value, scale.largest.high**power, shift) + 1
    )


def _quotient(post_scale: Fraction | None, size: int, divisor: Interval, exponent: int) -> Factor | None:
    """post_scale (None: √size) over the divisor, whose own unit is 2^(exponent − 256)."""
    if divisor.low <= 0:
        return None
    if post_scale is None:
        root = isqrt(size << (2 * _UNIT))
        numerator, denominator, sign = Interval(root, root + 1), 1, 1
    else:
        scaled = abs(post_scale.numerator) << _UNIT
        numerator, denominator = Interval(scaled, scaled), post_scale.denominator
        sign = 1 if post_scale > 0 else -1
    shift = max(0, _WANTED + (divisor.high * denominator).bit_length() - numerator.low.bit_length())
    low = (numerator.low << shift) // (divisor.high * denominator)
    high = (numerator.high << shift) // (divisor.low * denominator) + 1
    return _as_double_double(sign, low, high, -shift - exponent)


def _as_double_double(sign: int, low: int, high: int, exponent: int) -> Factor:
    """The middle of low … high as a sum of two floats; what rounding lo loses is at most 2^-106 of it."""
    middle = (low + high) // 2
    bits = middle.bit_length()
    hi = float(middle)
    lo = float(middle - int(hi))
    radius = ldexp(float(high - low + 2), -bits) * (1 + 2.0**-50) + 2.0**-106
    return Factor(sign * ldexp(hi, -bits), sign * ldexp(lo, -bits), radius, exponent + bits)
