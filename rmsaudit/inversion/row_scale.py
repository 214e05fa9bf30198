"""The one factor of a row, read from its outputs: each output confines it, and a row's elements together pin it down.

Let y = round(x · factor · r) with one unknown r for the whole row. An output of few bits says little about r, but the
elements of a row say it at different places: 256 elements of bfloat16 (8 bits) leave r an interval of about 2^-14.

What is returned is a proof. Every end is rounded outward, so a row that does have one factor within the allowance has
it inside its interval; and an empty interval proves that it has none.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.formats import Format
from rmsaudit.inversion.interval import Interval, divide, exactly, give_or_take, meet, multiply, subtract, widen
from rmsaudit.inversion.preimage import Rounding, preimage


@dataclass(frozen=True, eq=False, kw_only=True)
class Allowance:
    """What may have happened to x · factor · r before its last rounding, and what that rounding was.

    relative: a factor from 1 − relative to 1/(1 − relative); n roundings of unit roundoff u stay within n·u. absolute:
    then at most this much more or less; for what becomes subnormal on the way. Both may be arrays that broadcast
    against [rows, width]. flushes: subnormal outputs may stand for 0, and 0 for them.
    """

    relative: float | Array = 0.0
    absolute: float | Array = 0.0
    rounding: Rounding = "nearest_even"
    flushes: bool = False


class Contradiction(NamedTuple):
    """A row without one factor. columns: those that exclude the factor which most of the others share.

    lo, hi: what these others allow, an interval of the row's factor.
    """

    row: int
    columns: tuple[int, ...]
    lo: float
    hi: float


@dataclass(frozen=True, eq=False)
class RowScales:
    """scale: an interval for the factor of each row, [rows]; empty where there is no such factor. elements: the same
    from each element alone, [rows, width]."""

    scale: Interval
    elements: Interval

    @property
    def contradicted(self) -> Array:
        """Rows without one factor, as indices."""
        return np.flatnonzero(self.scale.is_empty())

    def contradiction(self, row: int) -> Contradiction:
        """Which columns of a contradicted row do not go with the rest."""
        lo, hi = self.elements.at(row)
        common = _best_supported(lo, hi)
        against = ~((lo <= common) & (common <= hi))
        return Contradiction(
            row=row,
            columns=tuple(int(column) for column in np.flatnonzero(against)),
            lo=float(lo[~against].max(initial=0.0)),
            hi=float(hi[~against].min(initial=np.inf)),
        )


def row_scales(x: Array, y: Array, *, factor: Array, fmt: Format, allowance: Allowance) -> RowScales:
    """An interval for r in each row of y = round(x · factor · r), for x, y[rows, width] and a factor that broadcasts.

    fmt: the format that the outputs were rounded to last, which need not be the one they are stored in. Inputs that are
    not finite say nothing; an output that is NaN contradicts, as does one that is not 0 where x · factor is.
    """
    with np.errstate(all="ignore"):
        operand, multiplier, output = (values.astype(np.float64) for values in (x, factor, y))
        rounded = preimage(np.abs(output), fmt, rounding=allowance.rounding, flushes=allowance.flushes)
        product = _product(np.abs(operand), np.abs(multiplier), _exact_in_float64(x, factor))
        opposite = (np.signbit(operand) ^ np.signbit(multiplier) ^ np.signbit(output)) & (output != 0)
        values = _before_rounding(rounded, allowance, opposite)
        elements = _judged(divide(values, product), values, operand=operand, multiplier=multiplier)
    return RowScales(meet(elements), elements)


def _exact_in_float64(x: Array, factor: Array) -> bool:
    """Whether every product fits 53 bits and the exponents of float64: neither operand is stored in 64 bits."""
    return x.dtype.itemsize < 8 and factor.dtype.itemsize < 8


def _product(operand: Array, multiplier: Array, exact: bool) -> Interval:
    return exactly(operand * multiplier) if exact else multiply(exactly(operand), exactly(multiplier))


def _before_rounding(rounded: Interval, allowance: Allowance, opposite: Array) -> Interval:
    """|x · factor · r|, from what rounds to |y| and the allowance; empty where the sign excludes every value.

    An output of the other sign can only come from within the absolute allowance around zero.
    """
    absolute = np.asarray(allowance.absolute, dtype=np.float64)
    same_sign, other_sign = give_or_take(rounded, absolute), subtract(exactly(absolute), rounded).hi
    lo = np.where(opposite, 0.0, np.maximum(same_sign.lo, 0.0))
    hi = np.where(opposite, np.maximum(other_sign, 0.0), same_sign.hi)
    widened = widen(Interval(lo, hi), allowance.relative)
    impossible = (opposite & (other_sign < 0)) | np.isnan(rounded.hi)
    return Interval(np.where(impossible, np.inf, widened.lo), np.where(impossible, -1.0, widened.hi))


def _judged(scale: Interval, values: Interval, *, operand: Array, multiplier: Array) -> Interval:
    """The quotients, except where there is none: 0 · r is 0 whatever r is; an input that is not finite says nothing."""
    zero = (operand == 0) | (multiplier == 0)
    empty = values.is_empty() | (zero & (values.lo > 0))
    free = (zero & ~empty) | ~np.isfinite(operand)
    lo = np.where(free, 0.0, np.where(empty, np.inf, scale.lo))
    return Interval(lo, np.where(free, np.inf, np.where(empty, -1.0, scale.hi)))


def _best_supported(lo: Array, hi: Array) -> float:
    """A value that lies in as many of the intervals as any value does."""
    valid = lo <= hi
    if not valid.any():
        return 0.0
    ends = np.concatenate([lo[valid], hi[valid]])
    steps = np.concatenate([np.ones(valid.sum()), -np.ones(valid.sum())])
    order = np.lexsort((-steps, ends))  # where one interval begins and another ends, both hold
    return float(ends[order][np.cumsum(steps[order]).argmax()])
