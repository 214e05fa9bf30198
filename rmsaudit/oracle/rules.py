"""What IEEE 754's own rules decide: outputs that are NaN, infinite or zero (or a bias alone) without any arithmetic.

The formula is run on classes of numbers: NaN, ±inf, ±0, and ±1 for every other number. That is the real formula's
limit, in unlimited range: a large finite number is never infinite. It does not depend on the order of the products or
on whether the root divides or its inverse multiplies, so one table serves every spec of a formula. With v a
numerator:

    NaN in the statistic, under the mean or max_abs   the whole group is NaN
    inf under the mean, or in a variance              the whole group is NaN (inf − inf)
    inf in the statistic                              the divisor is inf: that element NaN, every finite one ±0
    inf under max_abs                                 that element NaN, every finite one ±0 before the statistic
    NaN or inf elsewhere (partial statistic)          that element NaN or ±inf, the others as if it were not there
    divisor 0 (Σ is 0 and no eps acts)                v = 0 gives NaN, any other v gives ±inf
    all of a group 0 under max_abs                    0/0: the whole group is NaN
    then · factor · post_scale                        0 · inf is NaN; the signs multiply, those of zeros included
    then + bias                                       inf − inf is NaN; ±0 + bias is the bias, −0 only for −0 + −0

The placement of eps changes no class: on Σ = 0 each of them leaves a positive divisor, on Σ = inf or NaN none changes
it. A statistic over no element at all is 0 as a sum and NaN (0/0) as a mean.
"""

from typing import NamedTuple

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.oracle.formulas import Formula
from rmsaudit.oracle.rows import Prepared


class Ruled(NamedTuple):
    """decided[rows, size]: where a rule decides; values: what it decides, in float64 and not yet rounded."""

    decided: Array
    values: Array


def ruled(rows: Prepared) -> Ruled:
    """What follows from classes alone."""
    formula = rows.formula
    values, factor = value_classes(rows), factor_classes(rows) if formula.gain_last else None
    classes = _prescaled(formula, values)
    level = _is_level(rows) if formula.center else None
    if level is not None:
        classes = _centred(classes, level)
    divisors = _divisors(formula, classes[:, : rows.entering], rows.total_is_zero)
    if level is not None:
        unknown = _is_unsigned(formula, classes, divisors, factor) & ~level
        classes = _with_signs(rows, classes, unknown, values)
    return _decide(formula, classes / divisors, factor, rows.rows.bias)


def class_of(values: Array) -> Array:
    """NaN, ±inf and ±0 as they are, ±1 for every other number."""
    ordinary = np.isfinite(values) & (values != 0)
    return np.where(ordinary, np.copysign(1.0, values), values)


def value_classes(rows: Prepared) -> Array:
    """Of the numerators before the mean: x, clamped, times the factor if it comes first, plus the residual.

    An exact zero is −0 only as −0 + −0, which adding the classes gives; x − x is +0.
    """
    x = rows.rows.x
    if rows.formula.input_clamp is not None:
        x = np.where(np.isnan(x), x, rows.finite.x * float(rows.formula.input_clamp > 0))
    classes = class_of(x)
    factor = factor_classes(rows)
    if rows.formula.gain_first and factor is not None:
        classes = classes * factor
    if rows.rows.residual is None:
        return classes
    residual = class_of(rows.rows.residual)
    ordinary = np.isfinite(classes) & np.isfinite(residual) & ~((classes == 0) & (residual == 0))
    exact = np.where(rows.values.is_zero(), 0.0, np.copysign(1.0, rows.values.hi))
    return np.where(ordinary, exact, classes + residual)


def factor_classes(rows: Prepared) -> Array | None:
    """Of gain + offset; a sum of 0 is +0, and a gain of 0 that nothing is added to keeps its sign."""
    if rows.factor is None or rows.rows.gain is None:
        return None
    gain = class_of(rows.rows.gain)
    if not rows.formula.gain_offset:
        return gain
    exact = np.where(rows.factor.is_zero(), 0.0, np.copysign(1.0, rows.factor.hi))
    return np.where(np.isfinite(gain), exact, gain)


def _prescaled(formula: Formula, classes: Array) -> Array:
    if not formula.prescale:
        return classes
    return np.asarray(classes / np.max(np.abs(classes), axis=-1, keepdims=True))


def _is_level(rows: Prepared) -> Array:
    """[rows, 1]: whether nothing is left of the row once its mean is subtracted."""
    whole = rows.formula.statistic != "variance" and rows.entering == rows.size
    return rows.is_constant | rows.total_is_zero if whole else rows.is_constant


def _centred(classes: Array, level: Array) -> Array:
    """The classes after the mean is subtracted.

    In a level row x − x is +0; but a mean of zeros is +0 unless all of them are −0, and −0 − 0 is −0. In other rows
    what is left of a finite number counts as ordinary; its sign is not known here.
    """
    spoiled = ~np.isfinite(classes).all(axis=-1, keepdims=True)
    negative_zero = (classes == 0) & np.signbit(classes)
    zero = np.where(negative_zero & ~negative_zero.all(axis=-1, keepdims=True), -0.0, 0.0)
    return np.where(spoiled, np.nan, np.where(level, zero, 1.0))


def _divisors(formula: Formula, entering: Array, total_is_zero: Array) -> Array:
    """[rows, 1]; entering: classes of what enters the statistic."""
    if entering.shape[-1] == 0 and formula.statistic != "sum_square":
        return np.full(total_is_zero.shape, np.nan)
    total = np.max(np.abs(entering), axis=-1, keepdims=True, initial=0.0)
    if formula.statistic == "variance":
        total = np.where(np.isinf(total), np.nan, total)
    total = np.where(np.isfinite(total) & total_is_zero, 0.0, total)
    return total if formula.guard == "none" else np.where(total == 0, 1.0, total)


def _is_unsigned(formula: Formula, classes: Array, divisors: Array, factor: Array | None) -> Array:
    """Where the sign of an infinite or zero result hangs on the sign of x − mean."""
    hangs = (divisors == 0) | (formula.post_scale == 0)
    if factor is not None:
        hangs = hangs | (factor == 0) | np.isinf(factor)
    return np.asarray(np.isfinite(classes) & hangs)


def _with_signs(rows: Prepared, classes: Array, where: Array, values: Array) -> Array:
    """Centred classes with the true signs of x − mean at some places, exactly."""
    if not where.any():
        return classes
    certain = rows.numerators.is_certainly_nonzero()
    signed = np.where(where & certain, np.copysign(1.0, rows.numerators.hi), classes)
    for row, column in zip(*np.nonzero(where & ~certain), strict=True):
        deviation = rows.exact(int(row)).numerator(int(column))
        zero = values[row, column] if values[row, column] == 0 else 0.0
        signed[row, column] = np.sign(deviation) if deviation else zero
    return signed


def _decide(formula: Formula, quotient: Array, factor: Array | None, bias: Array | None) -> Ruled:
    """quotient: the class of numerator / divisor; bias: its values."""
    product = quotient if factor is None else quotient * factor
    if formula.post_scale is not None:
        product = product * float(np.sign(float(formula.post_scale)))
    ordinary = np.abs(product) == 1
    if bias is None:
        return Ruled(~ordinary, product)
    return Ruled(~(ordinary & np.isfinite(bias)), np.where(ordinary, bias, product + bias))
