"""Which real numbers a rounded value may have come from."""

from typing import Literal

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.formats import Format
from rmsaudit.inversion.interval import Interval

Rounding = Literal["nearest_even", "toward_zero"]


def preimage(magnitudes: Array, fmt: Format, *, rounding: Rounding = "nearest_even", flushes: bool = False) -> Interval:
    """The magnitudes that round to `magnitudes` (float64, not negative, values of `fmt`); ends included.

    To nearest: half the gap to the neighbour on either side, exact in float64; the gap below a power of two is half the
    gap above it. For float64 itself, whose midpoints are no float64, the neighbours. Toward zero: from the value up to
    the next. Infinity reaches down to where overflow begins; NaN comes out as NaN. flushes: below the smallest normal
    value nothing is known but that.
    """
    above, below = _gaps(magnitudes, fmt)
    if rounding == "toward_zero":
        lo, hi = magnitudes, magnitudes + above
    elif fmt.name == "float64":
        lo, hi = magnitudes - below, magnitudes + above
    else:
        lo, hi = magnitudes - below / 2, magnitudes + above / 2
    largest = np.asarray(fmt.max)
    edge = largest if rounding == "toward_zero" else largest + _gaps(largest, fmt)[0] / 2
    infinite = np.isinf(magnitudes)
    lo, hi = np.where(infinite, edge, lo), np.where(infinite, np.inf, hi)
    if flushes:
        hidden = magnitudes < fmt.smallest_normal
        lo, hi = np.where(hidden, 0.0, lo), np.where(hidden, np.maximum(hi, fmt.smallest_normal), hi)
    return Interval(np.maximum(lo, 0.0), hi)


def _gaps(magnitudes: Array, fmt: Format) -> tuple[Array, Array]:
    """The distance to the next value of `fmt` and to the one before, in float64."""
    finite = np.where(np.isfinite(magnitudes), magnitudes, 1.0)
    mantissa, exponent = np.frexp(finite)  # finite = m * 2^exponent, m in [1/2, 1)
    above = np.ldexp(1.0, np.maximum(exponent - 1, fmt.min_exponent) - fmt.precision + 1)
    begins_binade = (mantissa == 0.5) & (exponent - 1 > fmt.min_exponent)
    return above, np.where(begins_binade, above / 2, above)
