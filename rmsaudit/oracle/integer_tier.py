"""Tier 3: whole numbers of Python, for what double-double left open. Exact, so it decides ties, which more bits never
do.

An output is y = A√P / (√R + e) + b with A, P, R, e, b rational. To round it is to compare it with a midpoint t:

    y < t   <=>   A√P < M(√R + e),   M = t − b.

Where A and M are of one sign (otherwise the answer is plain), squaring twice leaves only whole numbers:

    √a < √β + √c   <=>   d = a − β − c < 0, or d² < 4βc        a = A²P,  β = M²R,  c = M²e²,

all three over one common denominator, which drops out. What belongs to the row (P, R, e², that denominator) is worked
out once a row; an element costs a few products. Powers of two are kept apart as shifts, and nothing is ever reduced.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm
from operator import mul

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.formats import Format
from rmsaudit.oracle import positions
from rmsaudit.oracle.formulas import Formula
from rmsaudit.semantics.scope import statistic_size


@dataclass(frozen=True)
class Fixed:
    """The numbers mantissa · 2^exponent / denominator, exactly."""

    mantissas: Sequence[int]
    exponent: int
    denominator: int = 1

    def unit(self) -> Fraction:
        return Fraction(2) ** self.exponent / self.denominator


def from_floats(values: Array) -> Fixed:
    """Finite float64 values [n] over their smallest common power of two."""
    fractions, exponents = np.frexp(values)
    mantissas = np.ldexp(fractions, 53).astype(np.int64)
    used = mantissas != 0
    if not used.any():
        return Fixed([0] * len(values), 0)
    common = int(np.bitwise_or.reduce(mantissas))
    trailing = (common & -common).bit_length() - 1
    mantissas >>= trailing
    lowest = int(exponents[used].min())
    shifts = np.where(used, exponents - lowest, 0)
    return Fixed([m << s for m, s in zip(mantissas.tolist(), shifts.tolist(), strict=True)], lowest - 53 + trailing)


def from_fraction(value: Fraction, count: int) -> Fixed:
    """The same rational number, `count` times."""
    return Fixed([value.numerator] * count, 0, value.denominator)


def plus(x: Fixed, y: Fixed) -> Fixed:
    """x + y, element by element."""
    exponent = min(x.exponent, y.exponent)
    by_x, by_y = y.denominator << (x.exponent - exponent), x.denominator << (y.exponent - exponent)
    sums = [p * by_x + q * by_y for p, q in zip(x.mantissas, y.mantissas, strict=True)]
    return Fixed(sums, exponent, x.denominator * y.denominator)


def times(x: Fixed, y: Fixed) -> Fixed:
    """x · y, element by element."""
    products = list(map(mul, x.mantissas, y.mantissas))
    return Fixed(products, x.exponent + y.exponent, x.denominator * y.denominator)


def limited(x: Fixed, limit: Fraction) -> Fixed:
    """x limited to ± limit."""
    exponent = min(x.exponent, 0)
    edge = limit.numerator * x.denominator << -exponent
    factor = limit.denominator << (x.exponent - exponent)
    return Fixed([min(max(m * factor, -edge), edge) for m in x.mantissas], exponent, x.denominator * limit.denominator)


def numerators(formula: Formula, x: Array, gain: Array | None, residual: Array | None) -> Fixed:
    """What is squared and normalised, before the mean is subtracted. All are [n], finite, float64."""
    result = from_floats(x)
    if formula.input_clamp is not None:
        result = limited(result, formula.input_clamp)
    if formula.gain_first and gain is not None:
        factor = from_floats(gain)
        if formula.gain_offset:
            factor = plus(factor, from_fraction(formula.gain_offset, len(gain)))
        result = times(result, factor)
    if residual is not None:
        result = plus(result, from_floats(residual))
    return result


class ExactRow:
    """One row in whole numbers: its statistic, and the rounding of any of its outputs.

    x, gain (None unless it is multiplied before the statistic), residual (None unless added): [n], finite, float64.
    """

    def __init__(self, formula: Formula, x: Array, gain: Array | None, residual: Array | None) -> None:
        self.formula = formula
        self.size = len(x)
        self.entering = statistic_size(self.size, formula)
        self.values = numerators(formula, x, gain, residual)
        self._negates = formula.post_scale is not None and formula.post_scale < 0

    @cached_property
    def sum(self) -> int:
        return sum(self.values.mantissas)

    @cached_property
    def total(self) -> Fraction:
        """Σ of the squares that enter the statistic, about the mean where the formula says so.

        Σ(v − s/n)² over k of n is (n²·Σv² − 2ns·Σv + ks²) / n², with s the sum over n; about their own mean, n = k.
        """
        entering = self.values.mantissas[: self.entering]
        squares = sum(map(mul, entering, entering))
        unit: Fraction = self.values.unit() ** 2
        if self.formula.statistic == "variance":
            return Fraction(self.entering * squares - sum(entering) ** 2, self.entering) * unit
        if not self.formula.center:
            return Fraction(squares) * unit
        n, s = self.size, self.sum
        return Fraction(n * n * squares - 2 * n * s * sum(entering) + self.entering * s * s, n * n) * unit

    def numerator(self, index: int) -> int:
        """What the row's divisor divides: the value, or n·value − sum where the row is centred."""
        value = self.values.mantissas[index]
        return self.size * value - self.sum if self.formula.center else value

    @cached_property
    def _scales(self) -> tuple[int, int, int]:
        """A² of a product of 1, R and e² (1, β and c in the notation above) over their common denominator."""
        guarding = self.formula.guarding(self.entering)
        largest = Fraction(1)
        if self.formula.prescale:
            largest = max(map(abs, self.values.mantissas)) * self.values.unit()
        regular = max(self.total + guarding.added * largest**2, guarding.floor * largest**2) / guarding.over
        beside = (guarding.beside * largest) ** 2
        unit = self.values.unit() / (self.size if self.formula.center else 1)
        if self.formula.gain_last:
            unit /= self.formula.gain_offset.denominator
        scale = self.formula.post_scale
        square = unit**2 * (self.size if scale is None else scale**2)
        common = lcm(square.denominator, regular.denominator, beside.denominator)
        return int(square * common), int(regular * common), int(beside * common)

    def comparison(self, index: int, gain: float | None, bias: float) -> Callable[[int, int], int]:
        """A function of m and e that gives the sign of y − m · 2^e, for the output y at `index`.

        gain: what multiplies the normalised value, before its offset is added; None if nothing does.
        """
        square, regular, beside = self._scales
        factor, factor_exponent = (1, 0) if gain is None else self._factor(gain)
        product = self.numerator(index) * factor
        if self._negates:
            product = -product
        sign = _sign(product)
        alpha = product * product * square
        bias_mantissa, bias_exponent = _mantissa_and_exponent(bias)

        def side(mantissa: int, exponent: int) -> int:
            if bias_mantissa:
                common = min(exponent, bias_exponent)
                mantissa = (mantissa << (exponent - common)) - (bias_mantissa << (bias_exponent - common))
                exponent = common
            if sign != (sign_of_other := _sign(mantissa)) or not sign:
                return _sign(sign - sign_of_other)
            squared, shift = mantissa * mantissa, 2 * (factor_exponent - exponent)
            if shift < 0:
                return sign * _compare_roots(alpha, (squared << -shift) * regular, (squared << -shift) * beside)
            return sign * _compare_roots(alpha << shift, squared * regular, squared * beside)

        return side

    def _factor(self, gain: float) -> tuple[int, int]:
        """gain + offset times the offset's denominator, as m · 2^e."""
        mantissa, exponent = _mantissa_and_exponent(gain)
        offset = self.formula.gain_offset
        if not offset:
            return mantissa, exponent
        return mantissa * offset.denominator + (offset.numerator << -exponent), exponent


def rounded(fmt: Format, side: Callable[[int, int], int], span: tuple[int, int]) -> tuple[int, int]:
    """The sign of the output that `side` compares, and the position within `span` that its magnitude rounds to."""
    sign = side(0, 0)

    def side_of_midpoint(position: int) -> int:
        mantissa, exponent = positions.midpoint_above(position, fmt)
        return sign * side(sign * mantissa, exponent)

    return sign, positions.nearest(*span, side_of_midpoint) if sign else 0


def _mantissa_and_exponent(value: float) -> tuple[int, int]:
    """m and e <= 0 with value = m · 2^e."""
    mantissa, denominator = value.as_integer_ratio()
    return mantissa, 1 - denominator.bit_length()


def _compare_roots(a: int, beta: int, c: int) -> int:
    """The sign of √a − √β − √c, for a, β, c >= 0."""
    difference = a - beta - c
    if difference < 0 or not c:
        return _sign(difference)
    return _sign(difference * difference - 4 * beta * c)


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)
