"""What IEEE 754's own rules decide: outputs that are NaN, infinite or zero (or a bias alone) without any arithmetic.

The formula is run on classes of numbers: NaN, ±inf, ±0, and ±1 for every other number. That is the real formula's limit, in
unlimited range: a large finite number is never infinite. It does not depend on the order of the products or on whether the
root divides or its inverse multiplies, so one table serves every spec of a formula:

    v, a numerator          NaN, inf         0                                   otherwise
    any NaN in the group    where the statistic, the mean or max_abs sees it, the whole group is NaN
    inf in the statistic    divisor inf: that element NaN, all others ±0 (for a mean or a variance: all NaN)
    inf outside of it       divisor as the others make it: that element ±inf (max_abs: that one NaN, all others ±0 / √eps)
    divisor 0               v = 0 gives NaN, otherwise ±inf (it is 0 where Σ is and no eps acts; max_abs of zeros is 0/0 too)
    then · factor · scale   0 · inf is NaN; the sign is the product of the signs, zeros included
    then + bias             inf − inf is NaN; ±0 + bias is the bias, and −0 only for −0 + −0

eps alone never changes a class but that of a zero divisor, and its placement does not matter: with Σ = 0 every placement
leaves a positive divisor, with Σ = inf or NaN every placement leaves that.
"""

from typing import NamedTuple

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.oracle.formula import Formula


class Ruled(NamedTuple):
    """decided[rows, size]: where a rule decides; values: what it decides, in float64, not yet rounded."""

    decided: Array
    values: Array


def class_of(values: Array) -> Array:
    """NaN, ±inf and ±0 as they are, ±1 for the rest."""
    ordinary = np.isfinite(values) & (values != 0)
    return np.where(ordinary, np.copysign(1.0, values), values)
