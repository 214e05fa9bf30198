"""Tier 2: double-double with a proven radius, for float64 results and for what tier 1 left open.

Statistics and outputs are vectors of numbers; the factor of a row, where eps, roots and divisions are, is enclosed in
whole numbers instead (`row_factor`). u = 2^-53. Sums go by halving in `double_double.add` (AccurateDWPlusDW), each of
which is within 3u² + 12u³ of its result for operands of any signs (Joldes, Muller, Popescu 2017, theorem 3.1); 3.01u²
stands for it.
"""

from dataclasses import dataclass
from math import ceil, log2

import numpy as np

from rmsaudit import double_double as dd
from rmsaudit.arrays import Array
from rmsaudit.double_double import DoubleDouble
from rmsaudit.oracle.formulas import Formula
from rmsaudit.oracle.scaled import FAR_BELOW, U2, ZERO, Scaled, add, constant, exact, multiply, normalised

_DROPPED = -480  # numbers 2^480 times smaller than the row's largest would underflow when squared
_ADD = 3.01 * U2
_UP = 1.0 + 2.0**-20  # covers the roundings of radii that were summed over up to 2^30 elements


def factors(formula: Formula, gain: Array) -> Scaled:
    """gain + offset, of a finite gain."""
    stored = exact(gain)
    return add(stored, constant(formula.gain_offset)) if formula.gain_offset else stored


def numerators(formula: Formula, x: Array, factor: Scaled | None, residual: Array | None) -> Scaled:
    """What is squared and normalised, before the mean is subtracted; the operands are finite."""
    values = _limited(formula, x)
    if formula.gain_first and factor is not None:
        values = multiply(values, factor)
    return values if residual is None else add(values, exact(residual))


def _limited(formula: Formula, x: Array) -> Scaled:
    limit = formula.input_clamp
    if limit is None:
        return exact(x)
    edge = float(limit)
    if edge > limit:
        edge = float(np.nextafter(edge, 0.0))  # no float64 lies between this one and the limit
    beyond = np.abs(x) > edge
    within, at_limit = exact(np.where(beyond, 0.0, x)), constant(limit)
    sign = np.where(beyond, np.copysign(1.0, x), 0.0)
    return Scaled(
        within.hi + sign * at_limit.hi,  # one of the two is 0
        sign * at_limit.lo if at_limit.lo.ndim else ZERO,
        np.abs(sign) * at_limit.radius if at_limit.radius.ndim else ZERO,
        np.where(beyond, at_limit.exponent, within.exponent),
    )


@dataclass(frozen=True, eq=False)
class Common:
    """Rows over one exponent each: within radius · 2^exponent of (hi + lo) · 2^exponent; exponent: [rows, 1]."""

    hi: Array
    lo: Array
    radius: Array
    exponent: Array

    def leading(self, count: int) -> "Common":
        """The first elements of each row."""
        lo, radius = (part[:, :count] if part.ndim else part for part in (self.lo, self.radius))
        return Common(self.hi[:, :count], lo, radius, self.exponent)


def over_common_exponent(x: Scaled) -> Common:
    """x over the largest exponent of each row.

    Numbers 2^480 times smaller become 0, so that squares cannot underflow; a sum of n of them loses at most n ·
    2^-480, a sum of squares n · 2^-960.
    """
    top = np.max(np.where(x.hi == 0, FAR_BELOW, x.exponent), axis=-1, keepdims=True)
    top = np.where(top == FAR_BELOW, 0, top)
    shift = x.exponent - top
    kept = shift > _DROPPED
    shift = np.where(kept, shift, 0)
    hi = np.where(kept, np.ldexp(x.hi, shift), 0.0)
    lo = np.where(kept, np.ldexp(x.lo, shift), 0.0) if x.lo.ndim else ZERO
    radius = np.where(kept, np.ldexp(x.radius, shift), 0.0) if x.radius.ndim else ZERO
    return Common(hi, lo, radius, top)


def largest_magnitude(x: Common) -> Common:
    """max |x| of each row, [rows, 1].

    hi is hi + lo rounded, so of two numbers the larger has the larger hi, or then the larger lo.
    """
    hi, lo = np.abs(x.hi), x.lo * np.copysign(1.0, x.hi)
    top = np.max(hi, axis=-1, keepdims=True)
    rest = np.max(np.where(hi == top, lo, -np.inf), axis=-1, keepdims=True)
    radius = np.max(np.broadcast_to(x.radius, hi.shape), axis=-1, keepdims=True)
    return Common(top, rest, radius, x.exponent)


def times_count_minus_sum(x: Common) -> Common:
    """n·x − Σx over each row of n: n times the deviation from the mean, which no division has to round.

    Radius. Σx: each of the ceil(log2 n) levels adds 3.01u² of its partial sums, which together are at most Σ|x|. n·x:
    exact, or within 4u² where lo is not 0 (n·lo, and its sum with the residual of n·hi). Their difference: 3.01u² of
    itself. What was dropped: n · 2^-480 in each of the two.
    """
    count = x.hi.shape[-1]
    total = dd.sum_last_axis(DoubleDouble(x.hi, np.broadcast_to(x.lo, x.hi.shape)))
    scaled = dd.two_product(np.full((1, 1), float(count)), x.hi)
    if x.lo.ndim:
        scaled = dd.fast_two_sum(scaled.hi, scaled.lo + count * x.lo)
    result = dd.add(scaled, DoubleDouble(-total.hi, -total.lo))
    magnitudes = np.sum(np.abs(x.hi), axis=-1, keepdims=True)
    radius = _ADD * (_levels(count) * _UP * magnitudes + np.abs(result.hi)) + 2 * count * 2.0**_DROPPED
    if x.lo.ndim:
        radius = radius + 4.01 * U2 * np.abs(scaled.hi)
    if x.radius.ndim:
        radius = radius + np.sum(x.radius, axis=-1, keepdims=True) + count * x.radius
    return Common(result.hi, result.lo, radius * _UP, x.exponent)


def sum_of_squares(x: Common) -> Common:
    """Σ x² of each row, [rows, 1]; its exponent is twice that of x.

    Radius. Each square is exact, or within 7u² where lo is not 0 (lo² <= u², and the roundings of 2·hi·lo, u · u, and
    of its sum with the residual, u · 3u). Each of the ceil(log2 n) levels adds 3.01u² of what is a sum of
    non-negative numbers.
    """
    hi = np.where(np.abs(x.hi) < 2.0**_DROPPED, 0.0, x.hi)
    squares = dd.two_product(hi, hi)
    if x.lo.ndim:
        squares = dd.fast_two_sum(squares.hi, squares.lo + 2 * hi * x.lo)
    total = dd.sum_last_axis(squares)
    count = x.hi.shape[-1]
    radius = (_ADD * _levels(count) + 7.01 * U2) * total.hi + 2 * count * 2.0 ** (2 * _DROPPED)
    if x.radius.ndim:
        spread = (2.01 * np.abs(x.hi) + x.radius) * x.radius
        radius = radius + np.sum(spread, axis=-1, keepdims=True) * _UP
    return Common(total.hi, total.lo, radius * _UP, 2 * x.exponent)


def _levels(count: int) -> int:
    return ceil(log2(count)) if count > 1 else 1


def as_scaled(x: Common) -> Scaled:
    """The same numbers, each with an exponent of its own."""
    return normalised(x.hi, x.lo, np.broadcast_to(x.radius, x.hi.shape), x.exponent)


def outputs(numerator: Scaled, factor: Scaled | None, row_factor: Scaled, bias: Array | None) -> Scaled:
    """numerator · factor · row_factor + bias, element by element."""
    product = multiply(numerator if factor is None else multiply(numerator, factor), row_factor)
    if bias is None:
        return product
    return add(product, exact(bias))
