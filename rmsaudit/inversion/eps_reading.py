"""eps and where it acts, read from the factors of rows whose mean squares are known.

With D = 1/r the divisor of a row, ms its exact mean square over n elements and Σ = n · ms its sum:

    inside_sqrt    D² = ms + eps          eps = D² − ms
    inside_sum     D² = (Σ + eps)/n       eps = n · (D² − ms)
    outside_sqrt   D  = √ms + eps         eps = D − √ms
    floor_rms      D  = max(√ms, eps)     eps = D where D > √ms, else eps <= D
    floor_norm     D  = max(√Σ, eps)/√n   eps = √n · D where D > √ms, else eps <= √n · D
    floor_sum      as floor_norm: max(Σ, eps²) = max(√Σ, eps)²
    none           D  = √ms

so every row gives each hypothesis an interval of eps, and a hypothesis stands while the intervals of all rows have a
value in common. Rows of different scale tell the placements apart; those on the mean and those on the sum differ only
between rows of different n.

What a side computes for the statistic, eps, root and inverse is rounded, so D is first widened by a slack, relative. The
rungs of the ladder are slacks that a statistic of the named precision cannot exceed, and the first one that leaves a
placement standing names the precision. The interval of eps is a proof under one condition: that the side's own D is
within the slack of the formula's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.formats import FORMATS
from rmsaudit.inversion.decimals import digits_known
from rmsaudit.inversion.interval import Interval, divide, exactly, join, meet, multiply, root, subtract, widen
from rmsaudit.semantics.eps import PLACEMENTS, Placement


class Rung(NamedTuple):
    """slack: of D, relative, at which placements are tried; given: the one at which the answer is then given.

    precision: of the statistic, in words. reach: the dtype in which squares and their sum must be normal numbers for
    the slack to hold. resolution: rows that know their factors no better than this cannot tell a statistic of this
    precision from a coarser one, so the rung is not for them.

    Where the sum of squares is exact, float32 (u = 2^-24) takes half a u each for eps, the sum with it and the mean, one
    each for the root, its inverse and a rounded constant, at most 5 u; the rest of the 8 u is for an inverse that is
    not correctly rounded. float64 likewise. In 16 bits the squares are rounded as well: 5.5 u. In between, where
    nothing proves how much is enough, the answer allows four times what was found.
    """

    slack: float
    given: float
    precision: str
    reach: str
    resolution: float


LADDER = (
    Rung(2.0**-21, 2.0**-21, "float32", "float32", 2.0**-12),
    Rung(2.0**-19, 2.0**-17, "somewhat less than float32", "float32", 2.0**-12),
    Rung(2.0**-17, 2.0**-15, "somewhat less than float32", "float32", 2.0**-12),
    Rung(2.0**-15, 2.0**-13, "much less than float32", "float32", 2.0**-12),
    Rung(2.0**-13, 2.0**-11, "much less than float32", "float32", 2.0**-12),
    Rung(2.0**-8.5, 2.0**-8.5, "about float16", "float32", 2.0**-9),
    Rung(2.0**-5.5, 2.0**-5.5, "about bfloat16", "float32", inf),
    Rung(2.0**-8.5, 2.0**-8.5, "float16", "float16", inf),
)
DOUBLE = Rung(2.0**-50, 2.0**-50, "float64", "float32", 2.0**-45)


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows:
    """What is known of some rows, each field [rows].

    scale: the factor r of each row. squares: its exact Σ x². count: n, what the sum is divided by to give the mean
    square; 1 where the sum itself is the statistic. smallest: the smallest magnitude that is not 0.
    """

    scale: Interval
    squares: Interval
    count: Array
    smallest: Array

    def mean_squares(self) -> Interval:
        return divide(self.squares, exactly(self.count))

    def at(self, index: Array) -> "Rows":
        return Rows(
            scale=self.scale.at(index),
            squares=self.squares.at(index),
            count=self.count[index],
            smallest=self.smallest[index],
        )


def together(parts: Sequence[Rows]) -> Rows:
    """The rows of several calls as one."""
    return Rows(
        scale=join([part.scale for part in parts]),
        squares=join([part.squares for part in parts]),
        count=np.concatenate([part.count for part in parts]),
        smallest=np.concatenate([part.smallest for part in parts]),
    )


@dataclass(frozen=True)
class Placed:
    """A placement that stands, and what eps is there: lo <= eps <= hi. lo is 0 where no eps at all would do as well."""

    placement: Placement
    lo: float
    hi: float

    @property
    def digits(self) -> float:
        """Decimal digits known of eps; see `decimals.digits_known`."""
        return digits_known(self.lo, self.hi)

    def contains(self, eps: float) -> bool:
        return self.lo <= eps <= self.hi


class Excluded(NamedTuple):
    """A placement that fell, and two rows that no common eps explains: the one asks for more than the other allows."""

    placement: Placement
    asks: int
    at_least: float
    allows: int
    at_most: float


@dataclass(frozen=True)
class EpsReading:
    """What the rows say of eps. rung: the one that explains them; None: no rung does.

    standing, excluded: the placements, at the slack that `rung` is given at.
    """

    rung: Rung | None
    standing: tuple[Placed, ...]
    excluded: tuple[Excluded, ...]

    @property
    def acts(self) -> bool:
        """Whether there must be an eps: no row without one."""
        return bool(self.standing) and all(placed.lo > 0 for placed in self.standing)

    def placed(self, placement: str) -> Placed | None:
        return next((placed for placed in self.standing if placed.placement == placement), None)


def read_eps(rows: Rows, ladder: Sequence[Rung] = LADDER) -> EpsReading:
    """The placements that explain every row of `rows`, at the first rung of `ladder` that leaves any."""
    resolution = _resolution(rows)
    for rung in ladder:
        if resolution > rung.resolution:
            continue
        usable = rows.at(np.flatnonzero(_usable(rows, rung)))
        if len(usable.count) and any(placed for placed, _ in _judge(usable, rung.slack)):
            return _given(rung, usable, rung.given)
    return _given(None, rows, ladder[-1].slack)


def _given(rung: Rung | None, rows: Rows, slack: float) -> EpsReading:
    judged = list(_judge(rows, slack))
    return EpsReading(
        rung=rung,
        standing=tuple(placed for placed, _ in judged if placed),
        excluded=tuple(excluded for _, excluded in judged if excluded),
    )


def _resolution(rows: Rows) -> float:
    """The relative half width of the factors, of the better quarter of the rows."""
    lo, hi = rows.scale
    bounded = np.isfinite(hi) & (hi > 0)
    half = (hi[bounded] - lo[bounded]) / (hi[bounded] + lo[bounded])
    return float(np.quantile(half, 0.25)) if len(half) else inf


def _usable(rows: Rows, rung: Rung) -> Array:
    """Rows whose squares and their sum keep every bit of `reach`: none is subnormal there, and nothing overflows."""
    fmt = FORMATS[rung.reach]
    inside: Array = (rows.smallest**2 >= fmt.smallest_normal) & (rows.squares.hi <= fmt.max)
    return inside


def _judge(rows: Rows, slack: float) -> Iterator[tuple[Placed | None, Excluded | None]]:
    divisor = widen(divide(exactly(np.ones(len(rows.count))), rows.scale), slack)
    for placement in PLACEMENTS:
        implied = implied_eps(placement, divisor, rows)
        common = meet(implied)
        lo, hi = max(float(common.lo), 0.0), float(common.hi)
        if lo <= hi and not (placement == "none" and lo > 0):
            yield Placed(placement, lo, hi), None
        else:
            asks, allows = int(implied.lo.argmax()), int(implied.hi.argmin())
            yield None, Excluded(placement, asks, lo, allows, hi)


def implied_eps(placement: str, divisor: Interval, rows: Rows) -> Interval:
    """The interval of eps that each row implies under `placement`; its lower end is <= 0 where no eps would do."""
    ms, count = rows.mean_squares(), exactly(rows.count)
    match placement:
        case "inside_sqrt" | "none":
            return subtract(multiply(divisor, divisor), ms)
        case "inside_sum":
            return subtract(multiply(multiply(divisor, divisor), count), rows.squares)
        case "outside_sqrt":
            return subtract(divisor, root(ms))
        case "floor_rms":
            return _floor(divisor, root(ms))
        case "floor_norm" | "floor_sum":
            return _floor(multiply(divisor, root(count)), root(rows.squares))
    raise ValueError(f"no eps placement {placement!r}")


def _floor(divisor: Interval, plain: Interval) -> Interval:
    """eps of divisor = max(plain, eps): the divisor itself where it is larger; at most the divisor where it may not be."""
    lo = np.where(divisor.lo > plain.hi, divisor.lo, 0.0)
    return Interval(lo, np.where(divisor.hi < plain.lo, -np.inf, divisor.hi))
