"""What can be said of stored gains in a line: their range, their means, and how many are odd."""

from dataclasses import dataclass
from math import inf, sqrt

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.gains import ALREADY_SHIFTED


@dataclass(frozen=True, kw_only=True)
class GainStatistics:
    """Of the finite ones among `count` gains as they are stored, in float64.

    total and squares: the sum of them, and of their squares. zeros: how many are 0, of either sign; negatives: below
    0; nonfinite: infinite or NaN.
    """

    count: int
    smallest: float
    largest: float
    total: float
    squares: float
    zeros: int
    negatives: int
    nonfinite: int

    @property
    def mean(self) -> float:
        """0 where no gain is finite."""
        return self.total / max(1, self.count - self.nonfinite)

    @property
    def rms(self) -> float:
        """The root of the mean square; 0 where no gain is finite."""
        return sqrt(self.squares / max(1, self.count - self.nonfinite))

    def merge(self, other: "GainStatistics") -> "GainStatistics":
        """Of both together."""
        return GainStatistics(
            count=self.count + other.count,
            smallest=min(self.smallest, other.smallest),
            largest=max(self.largest, other.largest),
            total=self.total + other.total,
            squares=self.squares + other.squares,
            zeros=self.zeros + other.zeros,
            negatives=self.negatives + other.negatives,
            nonfinite=self.nonfinite + other.nonfinite,
        )


def statistics(gain: Array) -> GainStatistics:
    """Of gains of any dtype and shape. smallest is inf and largest is -inf where none is finite."""
    wide = gain.astype(np.float64).ravel()
    finite = wide[np.isfinite(wide)]
    with np.errstate(over="ignore"):  # squares of float64 gains beyond 1e154
        squares = float(np.sum(finite * finite))
    return GainStatistics(
        count=wide.size,
        smallest=float(np.min(finite, initial=inf)),
        largest=float(np.max(finite, initial=-inf)),
        total=float(np.sum(finite)),
        squares=squares,
        zeros=int(np.count_nonzero(finite == 0)),
        negatives=int(np.count_nonzero(finite < 0)),
        nonfinite=wide.size - finite.size,
    )


def doubt_about(gain: GainStatistics, offset: float) -> str | None:
    """What is odd about stored gains that 1 is added to (offset 1), or was added to before (offset 0); None if nothing.

    Published gains stored around 0 average about 0.2 and fall below 0 in many columns; with 1 added, about 1.2, and
    hardly any does.
    """
    often_below_0 = gain.negatives > gain.count / 10
    if offset == 1 and ALREADY_SHIFTED < gain.mean < 2 - ALREADY_SHIFTED:
        return "as if 1 had been added before"
    if offset == 0 and abs(gain.mean) < ALREADY_SHIFTED and often_below_0:
        return "as if 1 had not been added"
    return None
