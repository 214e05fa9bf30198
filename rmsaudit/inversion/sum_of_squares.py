"""The exact sum of squares of each row, enclosed between neighbouring float64."""

import numpy as np

from rmsaudit import double_double
from rmsaudit.arrays import Array
from rmsaudit.double_double import DoubleDouble
from rmsaudit.inversion.interval import Interval, down, up

_NEGLIGIBLE = -400  # of a row scaled to 1: squares below 2^-800 are covered by the outward steps


def sum_of_squares(x: Array) -> Interval:
    """Σ x² over the last axis of finite x[rows, width]: [rows]. Beyond float64 the upper end is infinite, the lower its
    largest value; likewise toward zero.

    Each row is scaled by a power of two, squared and added up in double-double, whose 3u² a level (u = 2^-53) is far
    below the step that either end is moved outward.
    """
    values = x.astype(np.float64)
    _, exponent = np.frexp(np.abs(values).max(axis=-1, initial=0.0, keepdims=True))
    scaled = np.ldexp(values, -exponent)
    scaled = np.where(np.abs(scaled) < 2.0**_NEGLIGIBLE, 0.0, scaled)
    if values.shape[-1] == 0:
        return Interval(np.zeros(values.shape[:-1]), np.zeros(values.shape[:-1]))
    if x.dtype.itemsize < 8:
        squares = DoubleDouble(scaled * scaled, np.zeros_like(scaled))
    else:
        squares = double_double.two_product(scaled, scaled)
    total = double_double.sum_last_axis(squares).hi[..., 0]
    zero = total == 0
    with np.errstate(over="ignore", under="ignore"):
        back = 2 * exponent[..., 0]
        lo, hi = down(np.ldexp(down(total), back)), up(np.ldexp(up(total), back))
    return Interval(np.where(zero, 0.0, np.maximum(lo, 0.0)), np.where(zero, 0.0, hi))
