"""What tier 1 left open or could not take on: rules, then double-double, then whole numbers."""

from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rmsaudit.arrays import Array, bits, bits_of, dtype_of, ordered, round_to, word_of
from rmsaudit.formats import FORMATS, Format
from rmsaudit.oracle import double_double_tier as tier2
from rmsaudit.oracle import integer_tier as tier3
from rmsaudit.oracle import output_clamp, positions, row_factor, rules
from rmsaudit.oracle.double_double_tier import Common
from rmsaudit.oracle.formulas import Formula
from rmsaudit.oracle.integer_tier import ExactRow, Fixed
from rmsaudit.oracle.row_factor import Interval, Row
from rmsaudit.oracle.rows import Rows
from rmsaudit.oracle.rules import Ruled
from rmsaudit.oracle.scaled import Scaled, bracket, with_certain_signs
from rmsaudit.oracle.tiers import Tiers
from rmsaudit.semantics.scope import statistic_size

_CERTAIN = 2.0**40  # a sum of squares is used as it is where it is this many times its radius


class Settled(NamedTuple):
    """values[rows, size] in the output dtype and approx in float64, right where they were wanted; who decided how many."""

    values: Array
    approx: Array
    tiers: Tiers


class Brackets(NamedTuple):
    """[rows, size] each, and meaningful where they were asked for; the true rounding is neither below nor above them."""

    lower: Array
    upper: Array
    approx: Array


def settle(formula: Formula, rows: Rows, wanted: Array, word: str) -> Settled:
    """The outputs of the formula at `wanted`[rows, size], each rounded once to the dtype `word`."""
    work = _Leftovers(formula, rows)
    by_rule = wanted & work.ruled.decided
    asked = wanted & ~work.ruled.decided
    edge = output_clamp.edge_of(formula, word)
    values, approx = _by_rule(work.ruled, by_rule, word, edge)
    brackets = work.brackets(asked, word)
    values = np.where(asked, output_clamp.limited(brackets.lower, edge), values)
    approx = np.where(asked, brackets.approx, approx)
    open_ = asked & ((bits(brackets.lower) != bits(brackets.upper)) | ~work.has_factor)
    for row, column in zip(*np.nonzero(open_), strict=True):
        decided = work.exactly(int(row), int(column), brackets)
        values[row, column] = output_clamp.limited(decided, edge)[0]
    integers = int(np.count_nonzero(open_))
    tiers = Tiers(
        by_rule=int(np.count_nonzero(by_rule)),
        double_double=int(np.count_nonzero(asked)) - integers,
        integers=integers,
    )
    return Settled(values, approx, tiers)


def _by_rule(ruled: Ruled, where: Array, word: str, edge: int | None) -> tuple[Array, Array]:
    """Values and their float64; a NaN stays NaN under a clamp, an infinity does not."""
    approx = np.where(where, ruled.values, 0.0)
    values = np.zeros(where.shape, dtype=dtype_of(word))
    at = np.nonzero(where)
    if not len(at[0]):
        return values, approx
    rounded = round_to(approx[at], word)
    values[at] = np.where(np.isnan(approx[at]), rounded, output_clamp.limited(rounded, edge))
    return values, approx


class _Leftovers:
    """Rows under one formula. Each property is a stage, worked out once; what is finite goes on, rules take the rest."""

    def __init__(self, formula: Formula, rows: Rows) -> None:
        self.formula = formula
        self.rows = rows
        self.finite = rows.finite(formula)
        self.shape = rows.x.shape
        self.size = rows.x.shape[-1]
        self.entering = statistic_size(self.size, formula)
        self._exact: dict[int, ExactRow] = {}

    # --- operands

    @cached_property
    def factor(self) -> Scaled | None:
        """gain + offset, its sign certain."""
        gain = self.finite.gain
        if gain is None:
            return None
        stored = np.atleast_2d(gain)

        def exactly(row: int, column: int) -> Fraction:
            return Fraction(float(stored[row, column])) + self.formula.gain_offset

        return with_certain_signs(tier2.factors(self.formula, stored), exactly)

    @cached_property
    def values(self) -> Scaled:
        """The numerators before the mean is subtracted, their signs certain."""

        def exactly(row: int, column: int) -> Fraction:
            one = self.exact(row).values
            return one.mantissas[column] * one.unit()

        raw = tier2.numerators(self.formula, self.finite.x, self.factor, self.finite.residual)
        return with_certain_signs(raw, exactly)

    def exact(self, row: int) -> ExactRow:
        if row not in self._exact:
            one = self.finite.at(row, slice(None))
            gain = one.gain[0] if self.formula.gain_first and one.gain is not None else None
            residual = None if one.residual is None else one.residual[0]
            self._exact[row] = ExactRow(self.formula, one.x[0], gain, residual)
        return self._exact[row]

    # --- the statistic

    @cached_property
    def common(self) -> Common:
        """What the statistic needs of the values: all of them under a mean or a largest magnitude, else those that enter."""
        whole = self.formula.center or self.formula.prescale or not self.entering
        return tier2.over_common_exponent(self.values if whole else self.values.at(np.s_[:, : self.entering]))

    @cached_property
    def deviations(self) -> Common:
        """n·x − Σx over whole rows."""
        return tier2.times_count_minus_sum(self.common)

    @cached_property
    def numerators(self) -> Scaled:
        """What the divisor divides, times n where rows are centred."""
        return tier2.as_scaled(self.deviations) if self.formula.center else self.values

    @cached_property
    def total(self) -> tuple[Common, int]:
        """Σ of squares, and by what it is too large: k² (or n²) where it is of k·x − Σx."""
        if not self.entering:
            nothing = np.zeros((self.shape[0], 1))
            return Common(nothing, nothing, nothing, 2 * self.common.exponent), 1
        entering = self.common.leading(self.entering)
        if self.formula.statistic == "variance":
            return tier2.sum_of_squares(tier2.times_count_minus_sum(entering)), self.entering**2
        if self.formula.center:
            return tier2.sum_of_squares(self.deviations.leading(self.entering)), self.size**2
        return tier2.sum_of_squares(entering), 1

    @cached_property
    def is_constant(self) -> Array:
        """[rows, 1]: whether all that the mean is taken of are seen to be one number."""
        values = self.values if self.formula.center else self.values.at(np.s_[:, : self.entering])
        parts = (values.hi, values.lo, np.where(values.hi == 0, 0, values.exponent))
        same = np.ones((self.shape[0], 1), dtype=bool) if values.is_exact else np.zeros((self.shape[0], 1), dtype=bool)
        for part in parts:
            if part.ndim:
                same = same & (part == part[:, :1]).all(axis=-1, keepdims=True)
        return same

    @cached_property
    def total_is_zero(self) -> Array:
        """[rows, 1], exactly: about a mean, whole numbers say so where double-double cannot."""
        if not self.entering or not (self.formula.center or self.formula.statistic == "variance"):
            return self.values.at(np.s_[:, : self.entering]).is_zero().all(axis=-1, keepdims=True)
        zero = self.is_constant.copy()
        for row in np.nonzero(~zero & ~self.total_is_certain)[0]:
            zero[row] = self.exact(int(row)).total == 0
        return zero

    @cached_property
    def total_is_certain(self) -> Array:
        total, _ = self.total
        return total.hi > _CERTAIN * total.radius

    # --- rules

    @cached_property
    def ruled(self) -> Ruled:
        formula, total_is_zero = self.formula, self.total_is_zero
        classes = rules.prescaled(formula, self.value_classes)
        level = self.is_constant if formula.center else np.zeros((1, 1), dtype=bool)
        if formula.center and self.entering == self.size:
            level = level | total_is_zero
        classes = rules.centred(formula, classes, level)
        divisors = rules.divisor(formula, classes[:, : self.entering], total_is_zero)
        factor = self.factor_classes if formula.gain_last else None
        if formula.center:
            classes = self._with_signs(classes, level, divisors, factor)
        return rules.decide(formula, classes, divisors, factor, self.rows.bias)

    @cached_property
    def value_classes(self) -> Array:
        x = self.rows.x
        if self.formula.input_clamp is not None:
            x = np.where(np.isnan(x), x, self.finite.x * float(self.formula.input_clamp > 0))
        classes = rules.class_of(x)
        if self.formula.gain_first and self.factor_classes is not None:
            classes = classes * self.factor_classes
        if self.rows.residual is None:
            return classes
        total = np.where(self.values.is_zero(), 0.0, np.copysign(1.0, self.values.hi))
        return rules.sum_of_classes(classes, rules.class_of(self.rows.residual), total)

    @cached_property
    def factor_classes(self) -> Array | None:
        """Of gain + offset; a zero sum is +0, and a zero gain that nothing is added to keeps its sign."""
        if self.factor is None or self.rows.gain is None:
            return None
        gain = rules.class_of(self.rows.gain)
        if not self.formula.gain_offset:
            return gain
        total = np.where(self.factor.is_zero(), 0.0, np.copysign(1.0, self.factor.hi))
        return np.where(np.isfinite(gain), total, gain)

    def _with_signs(self, classes: Array, level: Array, divisors: Array, factor: Array | None) -> Array:
        """Centred classes with the true signs of x − mean, where the sign of an infinite or zero result hangs on them."""
        needed = np.isfinite(classes) & ~level & ((divisors == 0) | (self.formula.post_scale == 0))
        if factor is not None:
            needed |= np.isfinite(classes) & ~level & ((factor == 0) | np.isinf(factor))
        if not needed.any():
            return classes
        certain = self.numerators.is_certainly_nonzero()
        signed = np.where(needed & certain, np.copysign(1.0, self.numerators.hi), classes)
        for row, column in zip(*np.nonzero(needed & ~certain), strict=True):
            deviation = self.exact(int(row)).numerator(int(column))
            value = self.value_classes[row, column]
            signed[row, column] = np.sign(deviation) if deviation else (value if value == 0 else 0.0)
        return signed

    # --- tier 2

    def brackets(self, asked: Array, word: str) -> Brackets:
        """Of the outputs asked for; where these are few, only they are worked out."""
        numerators, factor, bias = self.numerators, self.factor if self.formula.gain_last else None, self.finite.bias
        row_factor = self.row_factors
        if 2 * np.count_nonzero(asked) > asked.size:
            result = tier2.outputs(numerators, factor, row_factor, bias)
            return Brackets(*bracket(result, word), result.as_float64())
        at = np.nonzero(asked)
        if factor is not None:
            factor = factor.broadcast_to(self.shape).at(at)
        if bias is not None:
            bias = np.broadcast_to(bias, self.shape)[at]
        row_factor = row_factor.broadcast_to(self.shape).at(at)
        result = tier2.outputs(numerators.broadcast_to(self.shape).at(at), factor, row_factor, bias)
        return Brackets(*(self._placed(part, at) for part in (*bracket(result, word), result.as_float64())))

    def _placed(self, values: Array, at: tuple[Array, ...]) -> Array:
        whole = np.zeros(self.shape, dtype=values.dtype)
        whole[at] = values
        return whole

    @cached_property
    def _row_factors(self) -> list[row_factor.Factor | None]:
        open_rows = ~self.ruled.decided.all(axis=-1)
        largest = tier2.largest_magnitude(self.common) if self.formula.prescale else None
        return [self._row_factor(row, largest) if open_rows[row] else None for row in range(self.shape[0])]

    def _row_factor(self, row: int, largest: Common | None) -> row_factor.Factor | None:
        exponent = int(self.common.exponent[row, 0])
        question = Row(
            entering=self.entering,
            size=self.size,
            exponent=exponent,
            total=self._interval_of_total(row, exponent),
            largest=None if largest is None else _interval(largest, row),
            multiple=self.size if self.formula.center else 1,
        )
        return row_factor.enclose(self.formula, question)

    def _interval_of_total(self, row: int, exponent: int) -> Interval:
        about_mean = self.formula.center or self.formula.statistic == "variance"
        if self.total_is_zero[row, 0]:
            return Interval(0, 0)
        if about_mean and not self.total_is_certain[row, 0]:
            return row_factor.interval_of_fraction(self.exact(row).total / Fraction(4) ** exponent)
        total, multiple = self.total
        return row_factor.divided(_interval(total, row), multiple)

    @cached_property
    def has_factor(self) -> Array:
        return np.array([[factor is not None] for factor in self._row_factors])

    @cached_property
    def row_factors(self) -> Scaled:
        """[rows, 1]; where there is none, 1 holds its place."""
        placeholder = row_factor.Factor(1.0, 0.0, 0.0, 0)
        hi, lo, radius, exponent = zip(*(factor or placeholder for factor in self._row_factors), strict=True)
        return Scaled(*(np.array(part)[:, None] for part in (hi, lo, radius, exponent)))

    # --- tier 3

    def exactly(self, row: int, column: int, brackets: Brackets) -> Array:
        """One output, as an array of one value of the brackets' dtype."""
        word = word_of(brackets.lower)
        fmt = FORMATS[word]
        one = self.finite.at(row, slice(column, column + 1))
        factor = Fixed([1], 0)
        if self.formula.gain_last and one.gain is not None:
            factor = tier3.factors(self.formula, one.gain[0])
        bias = 0.0 if one.bias is None else float(one.bias[0, 0])
        side = self.exact(row).comparison(column, factor, bias)
        sign, position = tier3.rounded(fmt, side, self._span(row, column, brackets, fmt))
        negative = sign < 0 or (sign == 0 and self._is_negative_zero(row, column, one))
        return np.array([position | negative << (fmt.bits - 1)], dtype=bits_of(word)).view(brackets.lower.dtype)

    def _span(self, row: int, column: int, brackets: Brackets, fmt: Format) -> tuple[int, int]:
        """The positions of the magnitudes that tier 2 left possible."""
        if not self.has_factor[row, 0]:
            return 0, positions.last(fmt)
        low, high = (int(ordered(part[row, column : column + 1])[0]) for part in (brackets.lower, brackets.upper))
        if low >= 0:
            return low, high
        return (-high, -low) if high <= 0 else (0, max(-low, high))

    def _is_negative_zero(self, row: int, column: int, one: Rows) -> bool:
        """The sign of an output that is exactly 0 where no rule saw it: x − mean is +0, but for −0 − 0; p − p is +0."""
        if self.exact(row).numerator(column) != 0:
            return False
        value = self.value_classes[row, column]
        negative = bool(value == 0 and np.signbit(value))
        if self.formula.gain_last and self.factor_classes is not None:
            negative ^= bool(np.signbit(np.broadcast_to(self.factor_classes, self.shape)[row, column]))
        if self.formula.post_scale is not None:
            negative ^= self.formula.post_scale < 0
        return negative and (one.bias is None or bool(np.signbit(one.bias[0, 0])))


def _interval(x: Common, row: int) -> Interval:
    hi, lo, radius = (float(np.broadcast_to(part, x.hi.shape)[row, 0]) for part in (x.hi, x.lo, x.radius))
    return row_factor.interval_of(hi, lo, radius)
