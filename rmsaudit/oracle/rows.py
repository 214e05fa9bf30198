"""Some rows under one formula, from their operands to what their divisor is made of, in double-double."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import overload

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.oracle import double_double_tier as tier2
from rmsaudit.oracle.double_double_tier import Common
from rmsaudit.oracle.formulas import Formula
from rmsaudit.oracle.integer_tier import ExactRow
from rmsaudit.oracle.scaled import Scaled, with_certain_signs
from rmsaudit.semantics.scope import statistic_size

_LARGEST = float(np.finfo(np.float64).max)
_CERTAIN = 2.0**40  # a sum of squares about a mean is used as it is where it is this many times its radius


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows:
    """x[rows, size]; the others broadcast against it and are None where the formula has no use for them.

    All are float64 and hold what is stored in the operands' own dtypes: the gain is without its offset.
    """

    x: Array
    gain: Array | None
    bias: Array | None
    residual: Array | None

    def finite(self, formula: Formula) -> "Rows":
        """The same with 0 for what is not finite (the largest float64 for an infinite x that a clamp will limit)."""
        x = self.x if formula.input_clamp is None else np.clip(self.x, -_LARGEST, _LARGEST)
        return Rows(x=_finite(x), gain=_finite(self.gain), bias=_finite(self.bias), residual=_finite(self.residual))

    def at(self, row: int, columns: slice) -> "Rows":
        """Elements of one row, [1, columns] each."""
        parts = (self.x, self.gain, self.bias, self.residual)
        x, gain, bias, residual = (
            None if part is None else np.broadcast_to(part, self.x.shape)[row : row + 1, columns] for part in parts
        )
        assert x is not None
        return Rows(x=x, gain=gain, bias=bias, residual=residual)


@overload
def _finite(values: None) -> None: ...
@overload
def _finite(values: Array) -> Array: ...
def _finite(values: Array | None) -> Array | None:
    return None if values is None else np.where(np.isfinite(values), values, 0.0)


class Prepared:
    """Rows under a formula. Each property is a stage, worked out once, over what is finite; rules see to the rest."""

    def __init__(self, formula: Formula, rows: Rows) -> None:
        self.formula = formula
        self.rows = rows
        self.finite = rows.finite(formula)
        self.shape = rows.x.shape
        self.size = int(rows.x.shape[-1])
        self.entering = statistic_size(self.size, formula)
        self.is_about_mean = formula.center or formula.statistic == "variance"
        self._exact: dict[int, ExactRow] = {}

    def exact(self, row: int) -> ExactRow:
        """One row in whole numbers, kept for its other elements."""
        if row not in self._exact:
            one = self.finite.at(row, slice(None))
            gain = one.gain[0] if self.formula.gain_first and one.gain is not None else None
            residual = None if one.residual is None else one.residual[0]
            self._exact[row] = ExactRow(self.formula, one.x[0], gain, residual)
        return self._exact[row]

    @cached_property
    def factor(self) -> Scaled | None:
        """gain + offset, its sign certain."""
        gain = self.finite.gain
        if gain is None:
            return None

        def exactly(row: int, column: int) -> Fraction:
            return Fraction(float(gain[row, column])) + self.formula.gain_offset

        return with_certain_signs(tier2.factors(self.formula, gain), exactly)

    @cached_property
    def values(self) -> Scaled:
        """The numerators before the mean is subtracted, their signs certain."""

        def exactly(row: int, column: int) -> Fraction:
            values = self.exact(row).values
            return values.mantissas[column] * values.unit()

        raw = tier2.numerators(self.formula, self.finite.x, self.factor, self.finite.residual)
        return with_certain_signs(raw, exactly)

    @cached_property
    def common(self) -> Common:
        """What the statistic needs of the values: all under a mean or a largest magnitude, else those that enter."""
        if self.formula.center or self.formula.prescale or not self.entering:
            return tier2.over_common_exponent(self.values)
        return tier2.over_common_exponent(self._entering_values)

    @property
    def _entering_values(self) -> Scaled:
        return self.values.at(np.s_[:, : self.entering])

    @cached_property
    def _deviations(self) -> Common:
        return tier2.times_count_minus_sum(self.common)

    @cached_property
    def numerators(self) -> Scaled:
        """What the divisor divides: the values, or size · value − Σ values where rows are centred."""
        return tier2.as_scaled(self._deviations) if self.formula.center else self.values

    @property
    def multiple(self) -> int:
        """What `numerators` are too large by."""
        return self.size if self.formula.center else 1

    @cached_property
    def total(self) -> tuple[Common, int]:
        """Σ of squares, and what it is too large by: k² (n²) where it is of k·x − Σx."""
        if not self.entering:
            nothing = np.zeros((self.shape[0], 1))
            return Common(nothing, nothing, nothing, 2 * self.common.exponent), 1
        entering = self.common.leading(self.entering)
        if self.formula.statistic == "variance":
            return tier2.sum_of_squares(tier2.times_count_minus_sum(entering)), self.entering**2
        if self.formula.center:
            return tier2.sum_of_squares(self._deviations.leading(self.entering)), self.size**2
        return tier2.sum_of_squares(entering), 1

    @cached_property
    def is_constant(self) -> Array:
        """[rows, 1]: whether all that the mean is taken of are seen to be one number."""
        values = self.values if self.formula.center else self._entering_values
        same = np.full((self.shape[0], 1), values.is_exact)
        for part in (values.hi, values.lo, np.where(values.hi == 0, 0, values.exponent)):
            if part.ndim:
                same &= (part == part[:, :1]).all(axis=-1, keepdims=True)
        return same

    @cached_property
    def total_is_zero(self) -> Array:
        """[rows, 1], exactly: about a mean, whole numbers say so where double-double cannot."""
        if not self.entering or not self.is_about_mean:
            return np.asarray(self._entering_values.is_zero().all(axis=-1, keepdims=True))
        zero = self.is_constant.copy()
        for row in np.nonzero(~zero & ~self.total_is_certain)[0]:
            zero[row] = self.exact(int(row)).total == 0
        return zero

    @cached_property
    def total_is_certain(self) -> Array:
        """[rows, 1]: whether the total is known well enough, which cancellation can prevent about a mean only."""
        if not self.is_about_mean:
            return np.ones((self.shape[0], 1), dtype=bool)
        total, _ = self.total
        return np.asarray(total.hi > _CERTAIN * total.radius)
