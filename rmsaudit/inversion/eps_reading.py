"""eps and where it acts, read from the factors of rows whose mean squares are known.

With D = 1/r the divisor of a row, ms its exact mean square over n elements and Σ = n · ms its sum:

    inside_sqrt    D² = ms + eps          eps = D² − ms
    inside_sum     D² = (Σ + eps)/n       eps = n · D² − Σ
    outside_sqrt   D  = √ms + eps         eps = D − √ms
    floor_rms      D  = max(√ms, eps)     eps = D where D > √ms, else eps <= D
    floor_norm     D  = max(√Σ, eps)/√n   eps = √n · D where D > √ms, else eps <= √n · D
    floor_sum      as floor_norm: √max(Σ, eps²) = max(√Σ, eps)
    none           D  = √ms

so every row gives each placement an interval of eps, and a placement stands while the intervals of all rows have a
value in common. Rows of different scale tell the placements apart; those on the mean and those on the sum differ only
between rows of different n.

What a side computes for the statistic, eps, root and inverse is rounded, so D is first widened by a slack. The rungs of
the ladder are slacks that a statistic of the named precision cannot exceed, and the first one that leaves a placement
standing names the precision. The interval of eps is a proof under one condition: that the side's own D is within the
slack of the formula's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import NamedTuple, get_args

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.formats import FORMATS
from rmsaudit.inversion.decimals import digits_known
from rmsaudit.inversion.interval import (
    Interval,
    divide,
    exactly,
    give_or_take,
    join,
    meet,
    multiply,
    not_negative,
    root,
    subtract,
    widen,
)
from rmsaudit.semantics.eps import Placement

_PLACEMENTS: tuple[Placement, ...] = get_args(Placement)
ON_THE_MEAN = tuple(placement for placement in _PLACEMENTS if "sum" not in placement and "norm" not in placement)
"""The placements where the sum itself is the statistic: those on the sum are the same there."""


# --- how far a side may be from the formula --------------------------------------------------------------------------


class Rung(NamedTuple):
    """How far a side's divisor may be from the formula's.

    slack: relative, at which placements are tried. given: the one at which the answer is then given. absolute: what the
    mean square, the divisor and eps may be off besides, where they become subnormal. precision: of the statistic, in
    words. reach: the dtype whose overflow a row must stay away from, and its underflow too unless `absolute` allows
    for it. resolution: rows that know their factors no better than this cannot tell a statistic of this precision from
    a coarser one, so the rung is not for them.
    """

    slack: float
    given: float
    precision: str
    reach: str = "float32"
    absolute: float = 0.0
    resolution: float = inf


# 8 units of roundoff u. Where the sum of squares is exact, float32 takes half a u each for eps, the sum with it and the
# mean, one each for the root, its inverse and a rounded constant: at most 5 u (with eps beside the root as well). The
# rest is for an inverse that is not correctly rounded. In 16 bits the squares are rounded too, and root and inverse
# perhaps twice: at most 7 u. In between nothing proves how much is enough, and four times what was found is allowed.
UNSEEN = "unknown"
DOUBLE = Rung(2.0**-50, 2.0**-50, "float64", resolution=2.0**-45)
SINGLE = (
    Rung(2.0**-21, 2.0**-21, "float32"),
    Rung(2.0**-19, 2.0**-17, "somewhat less than float32"),
    Rung(2.0**-17, 2.0**-15, "somewhat less than float32"),
    Rung(2.0**-15, 2.0**-13, "much less than float32"),
    Rung(2.0**-13, 2.0**-11, "much less than float32"),
)
BRAIN = Rung(2.0**-5, 2.0**-5, "bfloat16")
HALF = Rung(2.0**-8, 2.0**-8, "float16", reach="float16", absolute=2.0**-23)  # 4 roundings to a multiple of 2^-24


def ladder_for(input_dtype: str, grid: str) -> tuple[Rung, ...]:
    """The rungs worth trying, finest first, for a box with such inputs and outputs that lie on `grid`.

    float64 only for outputs that have its bits. bfloat16 not for a float16 box, whose underflow it does not allow for.
    Rows must resolve a sixth of the roundoff of the 16 bits that the box may compute in (an eighth of bfloat16's), or
    all they say may be rounding.
    """
    double = (DOUBLE,) if grid == "float64" else ()
    if "float16" in (input_dtype, grid):
        return (*double, *(rung._replace(resolution=2.0**-13.5) for rung in SINGLE), HALF)
    return (*double, *(rung._replace(resolution=2.0**-11) for rung in SINGLE), BRAIN, HALF)


# --- what is known, and what follows ---------------------------------------------------------------------------------


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
        """The rows at `index`."""
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

    def knee(self, count: float) -> float:
        """The rms at which eps weighs as much as a row whose sum of squares is divided by `count`."""
        eps = sqrt(self.lo * min(self.hi, 4 * self.lo)) if self.lo > 0 else self.hi
        match self.placement:
            case "inside_sqrt" | "none":
                return sqrt(eps)
            case "inside_sum":
                return sqrt(eps / count)
            case "floor_norm" | "floor_sum":
                return eps / sqrt(count)
        return eps

    def contains(self, eps: float) -> bool:
        return self.lo <= eps <= self.hi


class Excluded(NamedTuple):
    """A placement that fell, and two rows that no common eps explains: one asks for more than the other allows."""

    placement: Placement
    asks: int
    at_least: float
    allows: int
    at_most: float


@dataclass(frozen=True)
class EpsReading:
    """What the rows say of eps. rung: the one that explains them; None: no rung does. Its precision is UNSEEN where the
    rows could not tell it from a finer one.

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
        """What eps is at `placement`, or None where that does not stand."""
        return next((placed for placed in self.standing if placed.placement == placement), None)


def read_eps(rows: Rows, ladder: Sequence[Rung]) -> EpsReading:
    """The placements that explain every row of `rows`, at the first rung of `ladder` that leaves any."""
    with np.errstate(all="ignore"):
        return _read_eps(rows, ladder)


def _read_eps(rows: Rows, ladder: Sequence[Rung]) -> EpsReading:
    resolution, might_be_finer = _resolution(rows), False
    for rung in ladder:
        usable = rows.at(np.flatnonzero(_usable(rows, rung)))
        if not len(usable.count) or not _stands(usable, rung):
            continue
        if resolution > rung.resolution:
            might_be_finer = True
            continue
        named = rung._replace(precision=UNSEEN) if might_be_finer else rung
        return _sorted_out(named, _judge(usable, rung.given, rung.absolute))
    return _sorted_out(None, _judge(rows, ladder[-1].slack, ladder[-1].absolute))


def _stands(rows: Rows, rung: Rung) -> bool:
    return any(isinstance(found, Placed) for found in _judge(rows, rung.slack, rung.absolute))


def _sorted_out(rung: Rung | None, judged: Iterator[Placed | Excluded]) -> EpsReading:
    found = list(judged)
    return EpsReading(
        rung,
        tuple(placement for placement in found if isinstance(placement, Placed)),
        tuple(placement for placement in found if isinstance(placement, Excluded)),
    )


def _resolution(rows: Rows) -> float:
    """The relative half width of the factors, of the better quarter of the rows."""
    lo, hi = rows.scale
    bounded = np.isfinite(hi) & (hi > 0)
    half = (hi[bounded] - lo[bounded]) / (hi[bounded] + lo[bounded])
    return float(np.quantile(half, 0.25)) if len(half) else inf


def _usable(rows: Rows, rung: Rung) -> Array:
    """Rows whose squares and their sum neither overflow in `reach` nor, unless that is allowed for, underflow there."""
    fmt = FORMATS[rung.reach]
    kept: Array = rows.squares.hi <= fmt.max
    return kept if rung.absolute else kept & (rows.smallest**2 >= fmt.smallest_normal)


def _judge(rows: Rows, slack: float, absolute: float) -> Iterator[Placed | Excluded]:
    """Each placement, standing or fallen, for divisors within `slack` and mean squares within `absolute`."""
    divisor = widen(divide(exactly(np.ones(len(rows.count))), rows.scale), slack)
    if absolute:
        divisor = not_negative(give_or_take(divisor, np.asarray(absolute)))
    on_the_sum = bool((rows.count == 1).all())
    for placement in ON_THE_MEAN if on_the_sum else _PLACEMENTS:
        implied = implied_eps(placement, divisor, rows, absolute)
        common = meet(implied)
        lo, hi = max(float(common.lo) - absolute, 0.0), float(common.hi) + absolute
        if lo <= hi and not (placement == "none" and lo > 0):
            yield Placed(placement, lo, hi)
        else:
            yield Excluded(placement, int(implied.lo.argmax()), lo, int(implied.hi.argmin()), hi)


def implied_eps(placement: str, divisor: Interval, rows: Rows, absolute: float = 0.0) -> Interval:
    """The interval of eps that each row implies under `placement`; its lower end is <= 0 where no eps would do.

    absolute: what the mean square that the side computed may be off. Only under a root it is kept from being negative:
    what eps was added to may have been rounded to less than eps.
    """
    count = exactly(rows.count)
    squares, ms = rows.squares, rows.mean_squares()
    if absolute:
        squares = give_or_take(squares, absolute * rows.count)
        ms = give_or_take(ms, np.asarray(absolute))
    match placement:
        case "inside_sqrt" | "none":
            return subtract(multiply(divisor, divisor), ms)
        case "inside_sum":
            return subtract(multiply(multiply(divisor, divisor), count), squares)
        case "outside_sqrt":
            return subtract(divisor, root(not_negative(ms)))
        case "floor_rms":
            return _floor(divisor, root(not_negative(ms)))
        case "floor_norm" | "floor_sum":
            return _floor(multiply(divisor, root(count)), root(not_negative(squares)))
    raise ValueError(f"no eps placement {placement!r}")


def _floor(divisor: Interval, plain: Interval) -> Interval:
    """eps of divisor = max(plain, eps): the divisor where it is larger; at most the divisor where it need not be."""
    lo = np.where(divisor.lo > plain.hi, divisor.lo, 0.0)
    return Interval(lo, np.where(divisor.hi < plain.lo, -np.inf, divisor.hi))


def equivalences(standing: Sequence[Placed]) -> tuple[str, ...]:
    """Why several placements stand that no input of these could tell apart, or that none at all can."""
    words = {placed.placement for placed in standing}
    says = []
    if {"floor_norm", "floor_sum"} <= words:
        says.append("max(√Σ, eps) and √max(Σ, eps²) are the same number")
    if "floor_rms" in words:
        says.append("max(√ms, eps) and √max(ms, eps²) are the same number: eps here is the root of a floor of ms")
    if "none" in words:
        says.append("no eps at all is the same, on these rows, as any that is small enough")
    return tuple(says)
