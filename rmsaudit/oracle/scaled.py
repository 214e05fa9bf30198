"""Double-double numbers with an exponent and a radius of their own: tier 2 computes with these.

The exponent keeps every product and sum far from overflow and underflow, whatever the inputs; the radius is a proven
bound on what rounding did to the number, cancellation included. u = 2^-53 throughout.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from rmsaudit import double_double as dd
from rmsaudit.arrays import Array
from rmsaudit.double_double import DoubleDouble

ZERO = np.zeros(())
U2 = 2.0**-106  # u²
FAR_BELOW = -5000  # the exponent of a zero: below that of any product of float64
_APART = 400  # of two numbers whose exponents differ by more, the smaller is an error term
_SLACK = 1.0 + 2.0**-40  # covers the roundings of the radii themselves, a few u each


@dataclass(frozen=True, eq=False)
class Scaled:
    """Real numbers within radius · 2^exponent of (hi + lo) · 2^exponent.

    hi is 0 or between 2^-8 and 1 by magnitude, and |lo| <= u |hi|. A `lo` without axes is 0; so is such a radius.
    """

    hi: Array
    lo: Array
    radius: Array
    exponent: Array

    def at(self, index: tuple[Any, ...]) -> "Scaled":
        """The numbers at an index of numpy's."""
        parts = (self.hi, self.lo, self.radius, self.exponent)
        return Scaled(*(part[index] if part.ndim else part for part in parts))

    def broadcast_to(self, shape: tuple[int, ...]) -> "Scaled":
        parts = (self.hi, self.lo, self.radius, self.exponent)
        return Scaled(*(np.broadcast_to(part, shape) if part.ndim else part for part in parts))

    @property
    def is_exact(self) -> bool:
        return self.radius.ndim == 0

    def is_zero(self) -> Array:
        """Where the number is 0 for certain."""
        return np.asarray((self.hi == 0) & (self.radius == 0))

    def is_certainly_nonzero(self) -> Array:
        return np.asarray(np.abs(self.hi) * (1 - 2.0**-50) > self.radius)

    def as_float64(self) -> Array:
        """The nearest float64, or one of its neighbours."""
        return np.asarray(np.ldexp(self.hi + self.lo, self.exponent))


def exact(values: Array) -> Scaled:
    """Finite float64 values, as they are."""
    hi, exponent = np.frexp(values)
    return Scaled(hi, ZERO, ZERO, np.where(hi == 0, FAR_BELOW, exponent))


def constant(value: Fraction) -> Scaled:
    """A rational number, [1, 1]; exact where two float64 can hold it."""
    if not value:
        return exact(np.zeros((1, 1)))
    exponent = value.numerator.bit_length() - value.denominator.bit_length() + 1
    mantissa = value / Fraction(2) ** exponent  # in (1/4, 1)
    hi = float(mantissa)
    rest = mantissa - Fraction(hi)
    lo = float(rest)
    radius = ZERO if rest == Fraction(lo) else np.full((1, 1), U2)  # |rest − lo| <= u |rest| <= u² / 2
    return Scaled(np.full((1, 1), hi), np.full((1, 1), lo) if lo else ZERO, radius, np.full((1, 1), exponent))


def normalised(hi: Array, lo: Array, radius: Array, exponent: Array) -> Scaled:
    """The same numbers with |hi| in [1/2, 1), where hi was any float64 and the radius below 1."""
    mantissa, shift = np.frexp(hi)
    lo = np.ldexp(lo, -shift) if lo.ndim else lo
    radius = np.ldexp(radius, -shift) if radius.ndim else radius
    return Scaled(mantissa, lo, radius, np.where((hi == 0) & (radius == 0), FAR_BELOW, exponent + shift))


def add(x: Scaled, y: Scaled) -> Scaled:
    """x + y. Exact for two exact single floats; otherwise within 4u² of the sum (`dd.add`: 3u² + 12u³), and radii."""
    exponent = np.maximum(x.exponent, y.exponent)
    x, y = _moved_to(exponent, x), _moved_to(exponent, y)
    radius = x.radius + y.radius
    if x.lo.ndim == 0 and y.lo.ndim == 0:
        total = dd.two_sum(x.hi, y.hi)
    else:
        total = dd.add(DoubleDouble(x.hi, x.lo), DoubleDouble(y.hi, y.lo))
        radius = radius * _SLACK + 4 * U2 * np.abs(total.hi)
    return normalised(total.hi, total.lo, radius, exponent)


def _moved_to(exponent: Array, x: Scaled) -> Scaled:
    """x over a common, larger exponent: exact, but for numbers so far below that they become part of the radius.

    Those are moved no further than 2^-400, which makes them wrong by less than 2^-399. The least lo that an earlier
    sum can have left is 2^-106 · 2^-400, so nothing underflows.
    """
    shift = x.exponent - exponent
    far = (shift < -_APART) & (x.hi != 0)
    shift = np.maximum(shift, -_APART)
    radius = x.radius
    if radius.ndim:
        radius = np.ldexp(radius, shift)
    if far.any():
        radius = radius + np.where(far, 2.0 ** (1 - _APART), 0.0)
    return Scaled(np.ldexp(x.hi, shift), np.ldexp(x.lo, shift) if x.lo.ndim else x.lo, radius, exponent)


def multiply(x: Scaled, y: Scaled) -> Scaled:
    """x · y. Exact for two exact single floats, otherwise within 9u² of the product, and radii.

    With P = |hi · hi'|: the product of the highs is exact, p + e with |e| <= uP. What is lost: lo · lo' <= u²P; the
    roundings of hi · lo' and of lo · hi', u · uP each; of their sum, u · 2uP; of its sum with e, u · 3uP. Together
    8u²P(1 + 4u).
    """
    product = dd.two_product(x.hi, y.hi)
    exponent = x.exponent + y.exponent
    if x.lo.ndim == 0 and y.lo.ndim == 0:
        return Scaled(product.hi, product.lo, _radius_of_product(x, y, ZERO), exponent)
    cross = x.lo * y.hi if y.lo.ndim == 0 else x.hi * y.lo
    if x.lo.ndim and y.lo.ndim:
        cross = cross + x.lo * y.hi
    hi, lo = dd.fast_two_sum(product.hi, product.lo + cross)
    return Scaled(hi, lo, _radius_of_product(x, y, 9 * U2 * np.abs(hi)), exponent)


def _radius_of_product(x: Scaled, y: Scaled, rounding: Array) -> Array:
    """|xy − x̂ŷ| <= |x̂|r' + |ŷ|r + rr', where |x̂| <= |hi|(1 + u)."""
    if x.is_exact and y.is_exact:
        return rounding
    spread: Array = np.abs(x.hi) * y.radius + (np.abs(y.hi) + y.radius) * x.radius
    return spread * _SLACK + rounding


def bracket(x: Scaled, word: str) -> tuple[Array, Array]:
    """The two roundings, each once, to the format `word` that no rounding of the true x lies outside of.

    Rounding is monotone, so the ends x − margin and x + margin bracket it. The margin exceeds the radius by 2^-40 of
    it and 2u²|hi|, more than the rounding of lo ± margin, at most u(u|hi| + margin). Where the radius exceeds |x|, the
    limits on exponents below may move an end outward, which is harmless: the two differ in sign anyway.
    """
    margin = x.radius * _SLACK + 2 * U2 * np.abs(x.hi)
    nearest = _nearest_float64 if word == "float64" else _nearest_narrow
    return nearest(x.hi, x.lo - margin, x.exponent, word), nearest(x.hi, x.lo + margin, x.exponent, word)


def _nearest_narrow(hi: Array, lo: Array, exponent: Array, word: str) -> Array:
    """(hi + lo) · 2^exponent rounded once to a format of at most 51 bits.

    Beyond 2^±600 every such format over- or underflows (only the sign is left), so exponents may stop there.
    """
    shift = np.clip(exponent, -600, 600)
    hi, lo = dd.two_sum(hi, lo)
    return dd.round_once(DoubleDouble(np.ldexp(hi, shift), np.ldexp(lo, shift)), word)


def _nearest_float64(hi: Array, lo: Array, exponent: Array, _word: str) -> Array:
    """(hi + lo) · 2^exponent rounded once to float64, subnormal results and overflow included.

    In the normal range hi + lo rounds to its own leading float64, and 2^exponent is exact; past it, ldexp gives
    infinity: IEEE 754's overflow too is that of the result rounded without a limit of exponent.
    """
    leading = hi + lo
    _, top = np.frexp(leading)
    result: Array = np.ldexp(leading, exponent)
    subnormal = (top + exponent < -1021) & (leading != 0)
    if subnormal.any():
        at = np.nonzero(subnormal)
        result[at] = _nearest_subnormal(*(np.broadcast_to(part, result.shape)[at] for part in (hi, lo, exponent)))
    return result


def _nearest_subnormal(hi: Array, lo: Array, exponent: Array) -> Array:
    """The multiple of 2^-1074 nearest to (hi + lo) · 2^exponent, which is below 2^-1022.

    In units of 2^-1074 the number is z + t < 2^52. s = fl(z + t) is on the side of every half-way point that z + t is
    on, as those are float64 values; where s lies on one, the exact remainder of the sum says on which side z + t is,
    if any.
    """
    shift = np.maximum(exponent + 1074, -200)  # all that is smaller rounds to zero; its sign stays
    total, rest = dd.two_sum(np.ldexp(hi, shift), np.ldexp(lo, shift))
    whole = np.rint(total)
    apparent_tie = (np.abs(total - whole) == 0.5) & (rest != 0)
    whole = np.where(apparent_tie, total + np.copysign(0.5, rest), whole)
    return np.ldexp(np.copysign(whole, total), -1074)


def with_certain_signs(x: Scaled, exactly: Callable[[int, int], Fraction]) -> Scaled:
    """x[rows, columns], where every number that its radius does not tell from 0 is worked out by `exactly`."""
    if x.is_exact:
        return x
    unsure = ~(x.is_zero() | x.is_certainly_nonzero())
    if not unsure.any():
        return x
    parts = [np.array(np.broadcast_to(part, x.hi.shape)) for part in (x.hi, x.lo, x.radius, x.exponent)]
    for row, column in zip(*np.nonzero(unsure), strict=True):
        one = constant(exactly(int(row), int(column)))
        for part, value in zip(parts, (one.hi, one.lo, one.radius, one.exponent), strict=True):
            part[row, column] = value.item()
    return Scaled(*parts)
