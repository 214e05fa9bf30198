"""The sum of squares of every row, in float64 and, for the few rows where that is not enough, exactly."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from rmsaudit.activations.law import sum_error
from rmsaudit.arrays import Array
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.scope import statistic_size, unfold

BLOCK_ELEMENTS = 1 << 16  # 512 KiB in float64: stays in the cache
LEAST, MOST = 1e-290, 1e300  # sums in between are as exact as `sum_error` says; only float64 goes beyond


@dataclass(frozen=True, eq=False, kw_only=True)
class Sums:
    """Sums of squares of `parts` (rows, or groups of a row that are normalised apart).

    totals: float64, of those that are finite and not all zeros, in order; off by `sum_error` of itself at most. Beyond
    LEAST and MOST it is that limit, and `is_sure` is false. entering[usual, size]: the elements behind them. zero,
    infinite, nan: how many parts are all zeros, or hold what is not finite (one with a NaN is only counted as that).
    """

    totals: Array
    entering: Array
    zero: int
    infinite: int
    nan: int

    @property
    def is_sure(self) -> Array:
        """Where the bound on the error of the total holds."""
        sure: Array = (self.totals > LEAST) & (self.totals < MOST)
        return sure

    def exact(self, at: int) -> Fraction:
        """The exact total of one of them."""
        ratios = [value.as_integer_ratio() for value in self.entering[at].astype(np.float64).tolist()]
        common = max(denominator for _, denominator in ratios)  # powers of two
        return Fraction(sum((numerator * (common // denominator)) ** 2 for numerator, denominator in ratios), common**2)

    def below(self, limit: Fraction) -> int:
        """How many of the totals are less than `limit`, exactly."""
        near = float(limit)
        slack = 2 * sum_error(self.entering.shape[-1]) * near
        certain = self.is_sure & (np.abs(self.totals - near) > slack)
        surely = int(np.count_nonzero(certain & (self.totals < near)))
        return surely + self.count(np.flatnonzero(~certain), lambda total: total < limit)

    def count(self, at: Array, holds: Callable[[Fraction], bool]) -> int:
        """For how many of the totals `at` something holds, exactly. Of rows that are copies only one is asked."""
        answers: dict[bytes, bool] = {}
        found = 0
        for each in at.tolist():
            row = self.entering[each].tobytes()
            if row not in answers:
                answers[row] = holds(self.exact(each))
            found += answers[row]
        return found


def sums_of(rows: Array, spec: NormSpec) -> Sums:
    """The sums of rows[rows, width] as `spec` takes them; in blocks that stay in the cache."""
    unfolded = unfold(rows, spec)
    entering = unfolded[..., : statistic_size(unfolded.shape[-1], spec)]
    entering = entering.reshape(-1, entering.shape[-1])
    totals = np.empty(len(entering))
    step = max(1, BLOCK_ELEMENTS // entering.shape[-1])
    with np.errstate(all="ignore"):
        for start in range(0, len(entering), step):
            block = entering[start : start + step].astype(np.float64)
            np.einsum("ij,ij->i", block, block, out=totals[start : start + step])
    usual = (totals > LEAST) & (totals < MOST)
    if usual.all():
        return Sums(totals=totals, entering=entering, zero=0, infinite=0, nan=0)
    return _sorted_out(totals, entering, np.flatnonzero(~usual))


def _sorted_out(totals: Array, entering: Array, suspects: Array) -> Sums:
    """As `sums_of`, where some parts need a second look: at their elements."""
    looked_at = entering[suspects].astype(np.float64)
    nan, zero = np.isnan(looked_at).any(axis=-1), ~looked_at.any(axis=-1)
    infinite = np.isinf(looked_at).any(axis=-1) & ~nan
    usual = np.ones(len(totals), dtype=bool)
    usual[suspects] = ~(nan | zero | infinite)
    return Sums(
        totals=np.clip(totals[usual], LEAST, MOST),
        entering=entering[usual],
        zero=int(np.count_nonzero(zero)),
        infinite=int(np.count_nonzero(infinite)),
        nan=int(np.count_nonzero(nan)),
    )
