"""Which real numbers a rounded value may have come from."""

from typing import Literal

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.formats import Format
from rmsaudit.inversion.interval import Interval, not_negative

Rounding = Literal["nearest_even", "toward_zero"]

_EXPONENT = np.uint64(0x7FF0_0000_0000_0000)  # of a float64


def preimage(magnitudes: Array, fmt: Format, *, rounding: Rounding = "nearest_even", flushes: bool = False) -> Interval:
    """The magnitudes that round to `magnitudes` (float64, not negative, values of `fmt`); ends included.

    To nearest: half the gap to the neighbour on either side, exact in float64; the gap below a power of two is half the
    gap above it. For float64 itself, whose midpoints are no float64, the neighbours. Toward zero: from the value up to
    the next. Infinity reaches down to where overflow begins; NaN stays NaN. flushes: below the smallest normal value
    nothing is known but that.
    """
    above, below = _gaps(np.ascontiguousarray(magnitudes, dtype=np.float64), fmt)
    if rounding == "toward_zero":
        lo, hi, edge = magnitudes, magnitudes + above, fmt.max
    else:
        share = 1.0 if fmt.name == "float64" else 0.5
        with np.errstate(invalid="ignore", over="ignore"):
            lo, hi, edge = magnitudes - share * below, magnitudes + share * above, _overflow(fmt)
    infinite = np.isinf(magnitudes)
    lo, hi = np.where(infinite, edge, lo), np.where(infinite, np.inf, hi)
    if flushes:
        hidden = magnitudes < fmt.smallest_normal
        lo, hi = np.where(hidden, 0.0, lo), np.where(hidden, np.maximum(hi, fmt.smallest_normal), hi)
    return not_negative(Interval(lo, hi))


def _overflow(fmt: Format) -> float:
    """The smallest magnitude that rounds to infinity, or a little less: float64's is not a float64."""
    return fmt.max if fmt.name == "float64" else fmt.max + fmt.ulp(fmt.max) / 2


def _gaps(magnitudes: Array, fmt: Format) -> tuple[Array, Array]:
    """The distance to the next value of `fmt` and to the one before, in float64."""
    binade = (magnitudes.view(np.uint64) & _EXPONENT).view(np.float64)  # the power of two at or below each, 0 for 0
    above = np.maximum(binade, fmt.smallest_normal) * fmt.machine_epsilon
    begins_binade = (magnitudes == binade) & (binade > fmt.smallest_normal)
    return above, np.where(begins_binade, above / 2, above)
