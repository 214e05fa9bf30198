"""What IEEE 754's own rules decide: outputs that are NaN, infinite or zero (or a bias alone) without any arithmetic.

The formula is run on classes of numbers: NaN, ±inf, ±0, and ±1 for every other number. That is the real formula's limit, in
unlimited range: a large finite number is never infinite. It does not depend on the order of the products or on whether the
root divides or its inverse multiplies, so one table serves every spec of a formula. With v a numerator:

    NaN in the statistic, under the mean or under max_abs    the whole group is NaN
    inf under the mean, or in a variance                     the whole group is NaN (inf − inf)
    inf in the statistic                                     the divisor is inf: that element NaN, every finite one ±0
    inf under max_abs                                        that element NaN, every finite one ±0 before the statistic
    NaN or inf outside of them (partial statistic)           that element NaN or ±inf, the others as if it were not there
    divisor 0 (Σ is 0 and no eps acts)                       v = 0 gives NaN, any other v gives ±inf
    all of a group 0 under max_abs                           0/0: the whole group is NaN
    then · factor · scale                                    0 · inf is NaN; the signs multiply, those of zeros included
    then + bias                                              inf − inf is NaN; ±0 + bias is the bias, −0 only for −0 + −0

The placement of eps changes no class: on Σ = 0 all of them leave a positive divisor, on Σ = inf or NaN none changes it.
A statistic over no element at all is 0 as a sum and NaN (0/0) as a mean.
"""

from typing import NamedTuple

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.oracle.formulas import Formula


class Ruled(NamedTuple):
    """decided[rows, size]: where a rule decides; values: what it decides, in float64 and not yet rounded."""

    decided: Array
    values: Array


def class_of(values: Array) -> Array:
    """NaN, ±inf and ±0 as they are, ±1 for every other number."""
    ordinary = np.isfinite(values) & (values != 0)
    return np.where(ordinary, np.copysign(1.0, values), values)


def sum_of_classes(x: Array, y: Array, total: Array) -> Array:
    """The class of a sum, from those of its terms and, where both are finite, that of the exact sum `total`.

    An exact zero is −0 only as −0 + −0, which adding the classes gives; x − x is +0.
    """
    both_zero = (x == 0) & (y == 0)
    return np.where(np.isfinite(x) & np.isfinite(y) & ~both_zero, total, x + y)


def prescaled(formula: Formula, numerators: Array) -> Array:
    """The numerators' classes after division by the largest magnitude of their row, where the formula divides by it."""
    if not formula.prescale:
        return numerators
    return numerators / np.max(np.abs(numerators), axis=-1, keepdims=True)


def centred(formula: Formula, numerators: Array, is_constant: Array) -> Array:
    """The classes after the mean is subtracted; is_constant[rows, 1]: whether all of the row are one number.

    In other rows, what is left of a finite number counts as ordinary, and its sign is not known here. In constant ones x − x
    is +0; but a mean of zeros is +0 unless all are −0, and −0 − 0 is −0.
    """
    if not formula.center:
        return numerators
    spoiled = ~np.isfinite(numerators).all(axis=-1, keepdims=True)
    negative_zero = (numerators == 0) & np.signbit(numerators)
    zero = np.where(negative_zero & ~negative_zero.all(axis=-1, keepdims=True), -0.0, 0.0)
    return np.where(spoiled, np.nan, np.where(is_constant, zero, 1.0))


def divisor(formula: Formula, entering: Array, total_is_zero: Array) -> Array:
    """The class of the divisor, [rows, 1]; entering: classes of what enters the statistic."""
    if entering.shape[-1] == 0 and formula.statistic != "sum_square":
        return np.full(total_is_zero.shape, np.nan)
    total = np.max(np.abs(entering), axis=-1, keepdims=True, initial=0.0)
    if formula.statistic == "variance":
        total = np.where(np.isinf(total), np.nan, total)
    total = np.where(np.isfinite(total) & total_is_zero, 0.0, total)
    return total if formula.guard == "none" else np.where(total == 0, 1.0, total)


def decide(formula: Formula, numerators: Array, divisors: Array, factor: Array | None, bias: Array | None) -> Ruled:
    """What follows from the classes alone. numerators, factor: classes; bias: its values."""
    product = numerators / divisors
    if factor is not None:
        product = product * factor
    if formula.post_scale is not None:
        product = product * float(class_of(np.array(float(formula.post_scale))))
    ordinary = np.abs(product) == 1
    if bias is None:
        return Ruled(~ordinary, product)
    return Ruled(~(ordinary & np.isfinite(bias)), np.where(ordinary, bias, product + bias))
