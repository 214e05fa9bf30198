"""How the mean squares of a site's rows are distributed, and how many rows eps attenuates by more than a limit."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import floor, inf, log2
from typing import Self

import numpy as np

from rmsaudit.activations.law import Law
from rmsaudit.activations.sums import Sums

MAX_LOSS = Fraction(1, 100)  # with eps inside the root, that is q/eps below 9801/199 = 49.25
FINE = 7  # binary digits of a bin's mantissa: a bin is a 128th of its octave, or less than 1 % of its q
RESOLUTION = 2.0 ** -(FINE + 1)  # a quantile is off by so much of itself at most
_SHIFT = 52 - FINE


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """The mean squares q of many rows (of their groups, where these are normalised apart). Merges exactly.

    law: what eps does to them. bins: how many q have the same exponent and first FINE digits; the key is these bits of
    the float64. smallest, largest: of q. zero, infinite, nan: parts that are all zeros, or hold what is not finite;
    they are in no other number. below: how many lose more than max_loss to eps (A < 1 − max_loss), exactly.
    """

    law: Law
    max_loss: Fraction = MAX_LOSS
    bins: Mapping[int, int] = field(default_factory=dict)
    smallest: float = inf
    largest: float = 0.0
    below: int = 0
    zero: int = 0
    infinite: int = 0
    nan: int = 0

    @classmethod
    def of(cls, sums: Sums, law: Law, max_loss: Fraction = MAX_LOSS) -> Self:
        """That of one block."""
        squares = sums.totals / law.size
        keys, counts = np.unique(squares.view(np.int64) >> _SHIFT, return_counts=True)
        return cls(
            law=law,
            max_loss=max_loss,
            bins=dict(zip(keys.tolist(), counts.tolist(), strict=True)),
            smallest=float(squares.min(initial=inf)),
            largest=float(squares.max(initial=0.0)),
            below=sums.below(law.limit(max_loss)),
            zero=sums.zero,
            infinite=sums.infinite,
            nan=sums.nan,
        )

    def merge(self, other: Self) -> Self:
        """That of both together. Raises ValueError where they were taken under different laws."""
        if (self.law, self.max_loss) != (other.law, other.max_loss):
            raise ValueError("distributions under different eps do not merge")
        return replace(
            self,
            bins=dict(sorted((Counter(self.bins) + Counter(other.bins)).items())),
            smallest=min(self.smallest, other.smallest),
            largest=max(self.largest, other.largest),
            below=self.below + other.below,
            zero=self.zero + other.zero,
            infinite=self.infinite + other.infinite,
            nan=self.nan + other.nan,
        )

    @cached_property
    def rows(self) -> int:
        """How many have a q: finite, and not all zeros."""
        return sum(self.bins.values())

    @property
    def unusual(self) -> int:
        return self.zero + self.infinite + self.nan

    @property
    def below_share(self) -> float:
        """Of `rows`; 0 where there is none."""
        return self.below / self.rows if self.rows else 0.0

    @property
    def smallest_ratio(self) -> float:
        """The smallest q over eps, or over what eps amounts to on the scale of q (`Law.knee`)."""
        return self._ratio(self.smallest)

    @property
    def largest_ratio(self) -> float:
        return self._ratio(self.largest)

    @property
    def largest_loss(self) -> float:
        """The largest 1 − A: that of the smallest q, because A rises with q."""
        if not self.rows:
            return 0.0
        return float(self.law.loss_of(np.asarray([self.smallest * self.law.size]))[0])

    def quantile(self, share: float) -> float:
        """The q that at least `share` of the rows do not exceed, by nearest rank, within RESOLUTION of itself. NaN
        where there are no rows."""
        if not self.rows:
            return np.nan
        reached = np.cumsum(list(self.bins.values()))
        key = list(self.bins)[int(np.searchsorted(reached, share * self.rows))]
        return min(max(_middle(key), self.smallest), self.largest)

    def quantile_ratio(self, share: float) -> float:
        """As `quantile`, over eps."""
        return self._ratio(self.quantile(share))

    @property
    def limit(self) -> float:
        """The q below which a row loses more than max_loss; 0 where there is no eps."""
        return float(self.law.limit(self.max_loss) / self.law.size)

    def octaves(self, of: float) -> dict[int, int]:
        """How many rows have each floor(log2(q / of)); a bin belongs to where its middle lies."""
        counts: Counter[int] = Counter()
        for key, count in self.bins.items():
            counts[floor(log2(_middle(key) / of))] += count
        return dict(counts)

    def _ratio(self, square: float) -> float:
        return square / self.law.knee if self.law.knee else inf


def _middle(key: int) -> float:
    """The q in the middle of a bin."""
    return float(np.asarray((key << _SHIFT) + (1 << (_SHIFT - 1)), np.int64).view(np.float64))
