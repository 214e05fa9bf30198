"""The factor of a row, post_scale / (√(max(Σ + added, floor) / over) + beside), enclosed in whole numbers.

All quantities here are pairs of integers, a lower and an upper bound in units of 2^-256, after the row was divided by
a power of two. Floor division, integer square root and a unit of outward slack make every step a proof by itself, for
any eps at any scale.
"""

from fractions import Fraction
from math import isqrt, ldexp
from typing import NamedTuple

from rmsaudit.oracle.formulas import Guarding

_UNIT = 256  # binary places: 106 bits are left of a sum of squares as small as 2^-150 of the largest square
_WANTED = 160  # significant bits of the quotient
_USEFUL = 20  # a factor with fewer bits would decide nothing


class Interval(NamedTuple):
    """low <= the number · 2^256 <= high."""

    low: int
    high: int


class Row(NamedTuple):
    """A row that was divided by 2^exponent.

    total: Σ of the squares that enter the statistic. largest: the largest magnitude, where the formula divides by it.
    multiple: what its numerators are too large by.
    """

    size: int
    exponent: int
    total: Interval
    largest: Interval | None
    multiple: int


class Factor(NamedTuple):
    """A number within radius · 2^exponent of (hi + lo) · 2^exponent, with |hi| in [1/2, 1]."""

    hi: float
    lo: float
    radius: float
    exponent: int


def interval_of(hi: float, lo: float, radius: float) -> Interval:
    """Of hi + lo ± radius: int() cuts off less than a unit of each."""
    middle, reach = _units(hi) + _units(lo), _units(radius) + 3
    return Interval(middle - reach, middle + reach)


def interval_of_fraction(value: Fraction) -> Interval:
    """The two units around an exact number."""
    low = _floor(value, 1, _UNIT)
    return Interval(low, low + 1)


def divided(interval: Interval, by: int) -> Interval:
    """Of the number over a positive integer."""
    return Interval(interval.low // by, -(-interval.high // by))


def _units(value: float) -> int:
    return int(ldexp(value, _UNIT))


def _floor(value: Fraction, factor: int, shift: int) -> int:
    """floor(value · factor · 2^shift)."""
    numerator, denominator = value.numerator * factor, value.denominator
    if shift >= 0:
        return (numerator << shift) // denominator
    return numerator // (denominator << -shift)


def enclose(guarding: Guarding, post_scale: Fraction | None, row: Row) -> Factor | None:
    """The factor of a row (post_scale None: √size), over `multiple`; None where it is too uncertain to be of use."""
    added, floor = _relative(guarding.added, 2, row), _relative(guarding.floor, 2, row)
    beside = _relative(guarding.beside, 1, row)
    low = max(row.total.low + added.low, floor.low, 0) // guarding.over
    high = -(-max(row.total.high + added.high, floor.high, 0) // guarding.over)
    divisor = Interval(isqrt(low << _UNIT) + beside.low, isqrt(high << _UNIT) + 1 + beside.high)
    return _quotient(post_scale, divisor, row)


def _relative(value: Fraction, power: int, row: Row) -> Interval:
    """value · m^power, over 2^(power · exponent), where m is 1 or the row's largest magnitude."""
    if not value:
        return _NOTHING
    if row.largest is None:
        low = _floor(value, 1, _UNIT - power * row.exponent)
        return Interval(low, low + 1)
    shift = _UNIT - power * _UNIT
    low, high = (_floor(value, max(edge, 0) ** power, shift) for edge in row.largest)
    return Interval(low, high + 1)


_NOTHING = Interval(0, 0)


def _quotient(post_scale: Fraction | None, divisor: Interval, row: Row) -> Factor | None:
    """post_scale over the divisor, whose own unit is 2^(exponent − 256)."""
    if divisor.low <= 0:
        return None
    if post_scale is None:
        root = isqrt(row.size << (2 * _UNIT))
        numerator, denominator, sign = Interval(root, root + 1), row.multiple, 1
    else:
        scaled = abs(post_scale.numerator) << _UNIT
        numerator, denominator = Interval(scaled, scaled), post_scale.denominator * row.multiple
        sign = 1 if post_scale > 0 else -1
    shift = max(0, _WANTED + (divisor.high * denominator).bit_length() - numerator.low.bit_length())
    low = (numerator.low << shift) // (divisor.high * denominator)
    high = (numerator.high << shift) // (divisor.low * denominator) + 1
    if high - low > low >> _USEFUL:
        return None
    return _as_double_double(sign, low, high, -shift - row.exponent)


def _as_double_double(sign: int, low: int, high: int, exponent: int) -> Factor:
    """The middle of low … high as a sum of two floats; rounding the second loses at most 2^-106 of the first."""
    middle = (low + high) // 2
    bits = middle.bit_length()
    hi = float(middle)
    lo = float(middle - int(hi))
    radius = ldexp(float(high - low + 2), -bits) * (1 + 2.0**-50) + 2.0**-106
    return Factor(sign * ldexp(hi, -bits), sign * ldexp(lo, -bits), radius, exponent + bits)
